//! The command `ci`: runs every check that a change must pass; fast checks run first, so that errors are found early.

use crate::{
    accept, api, conformance,
    flags::Flags,
    publish,
    run::{Failure, Outcome, Program, Rigour, has, now, root, seconds, target},
    schema, site, spec, tidy,
};
use std::{thread, time::Duration};

/// One step: its name, the program it needs, and the function that runs it.
struct Step {
    name: &'static str,
    needs: Option<&'static str>,
    run: fn(Rigour) -> Outcome,
}

/// The steps, in the order in which they run.
const STEPS: &[Step] = &[
    Step { name: "fmt", needs: Some("cargo-fmt"), run: |_| fmt() },
    Step { name: "tidy", needs: None, run: |_| tidy::tidy(&Flags::default()) },
    Step { name: "site", needs: None, run: |_| site::site(&Flags::of(&["--check"])) },
    Step { name: "clippy", needs: Some("cargo-clippy"), run: |_| clippy() },
    Step { name: "build", needs: None, run: |_| build() },
    Step { name: "features", needs: None, run: |_| features() },
    Step { name: "doctest", needs: None, run: |_| doctest() },
    Step { name: "doc", needs: None, run: |_| doc() },
    Step { name: "package", needs: None, run: |_| publish::package() },
    Step { name: "test", needs: None, run: |_| test() },
    Step { name: "schema", needs: None, run: |_| fresh_schema() },
    Step { name: "api", needs: None, run: |_| api::api(&Flags::default()) },
    Step { name: "deny", needs: None, run: publish::deny },
    Step { name: "msrv", needs: None, run: publish::msrv },
    Step { name: "spec", needs: None, run: |_| goldens() },
    Step { name: "accept", needs: None, run: |_| accept::quick() },
    Step { name: "conformance", needs: None, run: official },
];

/// The steps that run one after another beside the tests, which wait for programs and timers a quarter of their time.
///
/// `features` is the first because it has its own build folder: cargo, which starts the tests, needs the usual one for
/// a moment, and locks it.
const BESIDE: &[&str] = &["features", "doctest", "doc", "package"];

/// The name of a step, its outcome, and the time that it took.
type Row = (&'static str, Outcome, Duration);

/// Runs every step, even after a step failed, and prints a table of the results; `--only` selects one step.
pub(crate) fn ci(flags: &Flags) -> Outcome {
    let rigour = Rigour::from_strict(flags.has("--strict"));
    let start = now();
    let only = flags.value("--only");
    let steps = STEPS.iter().filter(|step| only.is_none_or(|only| only == step.name));
    let (beside, others): (Vec<&Step>, Vec<_>) = steps.partition(|it| BESIDE.contains(&it.name));
    let tests = others.iter().position(|step| step.name == "test").unwrap_or(others.len());
    let rows = |steps: &[&Step]| steps.iter().map(|step| row(step, rigour)).collect::<Vec<_>>();
    let mut table = rows(&others[..tests]);
    thread::scope(|scope| {
        let beside = scope.spawn(|| rows(&beside));
        table.extend(rows(&others[tests..]));
        let panicked =
            |_| vec![(BESIDE[0], Err(Failure::new("a thread panicked")), Duration::ZERO)];
        table.extend(beside.join().unwrap_or_else(panicked));
    });
    println!();
    for (name, outcome, took) in &table {
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("{name:10} {word:6} {:>9}", seconds(*took));
    }
    if table.is_empty() {
        let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        return Err(Failure::new(format!("no such step; known: {}", known.join(", "))));
    }
    let failed: Vec<_> = table.iter().filter(|row| row.1.is_err()).map(|row| row.0).collect();
    println!("ci: {} steps in {}", table.len(), seconds(start.elapsed()));
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join(", "))) }
}

/// Runs one step, and returns its row in the table of results.
fn row(step: &Step, rigour: Rigour) -> Row {
    println!("\n== {}", step.name);
    let begin = now();
    let outcome = match step.needs.filter(|tool| !has(tool)) {
        Some(tool) => rigour.skip(step.name, &format!("{tool} is not installed")),
        None => (step.run)(rigour),
    };
    if let Err(failure) = &outcome {
        println!("{} FAILED: {failure}", step.name);
    }
    (step.name, outcome, begin.elapsed())
}

fn fmt() -> Outcome {
    Program::cargo(&["fmt", "--all", "--check"]).run()?;
    for manifest in ["xtask/loadgen/Cargo.toml", "xtask/peers/Cargo.toml"] {
        Program::cargo(&["fmt", "--all", "--check", "--manifest-path", manifest]).run()?;
    }
    Ok(())
}

fn clippy() -> Outcome {
    let all = ["clippy", "--workspace", "--all-targets"];
    Program::cargo(&all).args(&["--", "-D", "warnings"]).run()
}

/// Compiles all tests, and the examples that they start.
fn build() -> Outcome {
    if !has("cargo-nextest") {
        // `cargo test` with the flags of `tests` does not build the examples.
        Program::cargo(&["build", "--workspace", "--examples"]).run()?;
    }
    tests(&["--no-run"]).run()
}

/// Runs all tests.
fn test() -> Outcome {
    tests(&["--no-fail-fast"]).run()
}

/// Returns the command for all tests, with nextest if it is installed.
fn tests(more: &[&str]) -> Program {
    let with_nextest = has("cargo-nextest");
    let runner: &[&str] =
        if with_nextest { &["nextest", "run"] } else { &["test", "--lib", "--bins", "--tests"] };
    // Removes `UPDATE_GOLDEN`, because this command must never rewrite golden files.
    Program::cargo(runner).args(&["--workspace"]).args(more).without("UPDATE_GOLDEN")
}

fn doctest() -> Outcome {
    Program::cargo(&["test", "--doc", "--workspace", "--no-fail-fast"]).run()
}

/// The feature sets with which each package must build.
///
/// Sets that other steps build are not listed here: the tests enable all features, and the step `package` builds the
/// features of `mgp`, e.g. `auth`, `tls` and `javascript`. A feature of `mgp-types` that the sets of another package
/// enable, e.g. `sqlite`, needs no set of its own.
const FEATURES: &[(&str, &[&str])] = &[
    ("mgp-types", &["", "service,schema"]),
    ("mgp-transport", &["", "http"]),
    ("mgp-security", &["", "auth,schemas", "sqlite,validators"]),
    ("mgp-stream", &["", "sqlite"]),
    ("mgp-validators", &["", "python", "typescript"]),
    ("mgp-toolindex", &["", "lexicon", "fastembed,hub"]),
    ("mgp-client-sdk", &["", "http"]),
    ("mgp-server-sdk", &["", "macros", "http"]),
];

/// Checks that packages build with each of their feature sets.
fn features() -> Outcome {
    // Do not use the usual build folder: cargo locks it, and the tests start at the same time.
    let folder = target()?.join("features");
    for (package, sets) in FEATURES {
        for set in *sets {
            // Uses the compiler, not clippy: clippy takes 50 % longer, and finds nothing more in most sets.
            let what =
                ["rustc", "--lib", "--no-default-features", "--profile", "check", "--package"];
            let set = [*package, "--features", *set, "--", "-D", "warnings"];
            Program::cargo(&what).args(&set).quietly("CARGO_TARGET_DIR", &folder).run()?;
        }
    }
    Ok(())
}

/// Builds the documentation of the published packages.
fn doc() -> Outcome {
    let packages = ["doc", "--workspace", "--exclude", "xtask", "--exclude", "mgp-programs"];
    Program::cargo(&packages)
        .args(&["--exclude", "mgp-testkit", "--no-deps", "--all-features"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

fn fresh_schema() -> Outcome {
    let check = Flags::of(&["--check"]);
    schema::schema(&check)
}

/// Runs the official conformance suite of MCP against our server and our client, and against a kernel in front of our
/// server.
fn official(rigour: Rigour) -> Outcome {
    let strict: &[&str] = if rigour == Rigour::Strict { &["--strict"] } else { &[] };
    conformance::conformance(&Flags::of(strict))?;
    conformance::conformance(&Flags::of(&[&["--through-kernel"], strict].concat()))
}

/// Checks our own golden files; the examples of the specification are checked by `accept core.spec`.
fn goldens() -> Outcome {
    spec::folder_of_examples(&root().join("mgp-types/tests/golden")).map(|_| ())
}
