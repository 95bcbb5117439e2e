//! The acceptance check `sdk.docs`: all public items of the two SDKs are documented, the guides exist and their code
//! compiles, and tests run every example.

use crate::{
    accept::Verdict,
    run::{Context, Failure, Outcome, Program, root},
};
use std::{fs, path::Path};

/// The packages that users depend on directly.
const SDKS: &[&str] = &["mgp-server-sdk", "mgp-client-sdk"];

/// The guides that must exist.
const GUIDES: &[&str] =
    &["docs/first-server.md", "docs/picking-layers.md", "docs/governance.md", "docs/lifecycle.md"];

/// Runs all parts of the check, and reports those that fail.
pub(in crate::accept) fn docs() -> Outcome<Verdict> {
    let mut broken = Vec::new();
    let mut note = |what: &str, outcome: Outcome| {
        if let Err(failure) = outcome {
            broken.push(format!("{what}: {failure}"));
        }
    };
    let strict = "-D warnings -D missing_docs -D rustdoc::broken_intra_doc_links";
    for package in SDKS {
        let doc = Program::cargo(&["doc", "--no-deps", "--all-features", "-p", package]);
        note("doc", doc.env("RUSTDOCFLAGS", strict).run());
        // Uses clippy for `missing_docs`, because the compiler would need other `RUSTFLAGS`, and so a separate build.
        let clippy = ["clippy", "--all-features", "-p", package, "--", "-D", "missing_docs"];
        note("missing docs", Program::cargo(&clippy).run());
        note("doctests", Program::cargo(&["test", "--doc", "--all-features", "-p", package]).run());
        let examples = ["build", "--examples", "-p", package];
        note("examples", Program::cargo(&examples).run());
    }
    for guide in GUIDES {
        note(guide, compiled(guide));
    }
    let mut examples = 0;
    for package in SDKS {
        for example in examples_of(&root().join(package))? {
            examples += 1;
            note(&example, run_by_a_test(package, &example));
        }
    }
    println!("{}", broken.join("\n"));
    let first = broken.first().map_or(String::new(), |first| format!("; {first}"));
    Ok(Verdict {
        pass: broken.is_empty(),
        figure: format!(
            "{} guides, {examples} examples, {} broken{first}",
            GUIDES.len(),
            broken.len()
        ),
        bound: "none broken".to_owned(),
    })
}

/// Checks that a guide has a title and Rust code, and that an SDK includes it in its docs, so that doctests compile it.
fn compiled(guide: &str) -> Outcome {
    let text = fs::read_to_string(root().join(guide)).context(guide)?;
    if !text.starts_with("# ") || !text.contains("```rust") {
        return Err(Failure::new("no title, or no code"));
    }
    let included = format!("include_str!(\"../../{guide}\")");
    let crates = SDKS.iter().map(|package| root().join(package).join("src"));
    for folder in crates {
        if any_file(&folder, &mut |text| text.contains(&included))? {
            return Ok(());
        }
    }
    Err(Failure::new("no crate compiles its code"))
}

/// Returns the names of the examples of a package.
fn examples_of(package: &Path) -> Outcome<Vec<String>> {
    let folder = package.join("examples");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).context(folder.display())? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file() {
            names.push(path.file_stem().context("a name")?.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Checks that a test of the package, or a program in `xtask/src`, contains the name of an example and so starts it.
fn run_by_a_test(package: &str, example: &str) -> Outcome {
    let folder = root().join(package);
    let names = [
        format!("examples/{example}"),
        format!("examples/{example}.rs"),
        format!("example(\"{example}\")"),
        format!("\"{example}\""),
    ];
    let mut named = |text: &str| names.iter().any(|name| text.contains(name.as_str()));
    for place in [folder.join("tests"), root().join("xtask/src")] {
        if any_file(&place, &mut named)? {
            return Ok(());
        }
    }
    Err(Failure::new("no test runs it"))
}

/// Returns whether the text of any Rust file in a folder or its subfolders satisfies a condition.
fn any_file(folder: &Path, wanted: &mut dyn FnMut(&str) -> bool) -> Outcome<bool> {
    for entry in fs::read_dir(folder).context(folder.display())? {
        let path = entry?.path();
        if path.is_dir() {
            if any_file(&path, wanted)? {
                return Ok(true);
            }
        } else if path.extension().is_some_and(|end| end == "rs")
            && wanted(&fs::read_to_string(&path).context(path.display())?)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
