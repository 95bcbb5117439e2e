//! The acceptance check `sdk.docs`: all public items of the two SDKs are documented, the guides exist and their code
//! compiles, and tests run every example.

use crate::{
    accept::Verdict,
    run::{Context, Failure, Outcome, Program, root},
    tidy::Tree,
};
use std::{fs, path::Path};

/// The packages that users depend on directly.
const SDKS: &[&str] = &["mgp-server-sdk", "mgp-client-sdk"];

/// The guides that must exist.
const GUIDES: &[&str] =
    &["docs/first-server.md", "docs/picking-layers.md", "docs/governance.md", "docs/lifecycle.md"];

/// Runs all parts of the check, and reports those that fail.
pub(in crate::accept) fn docs() -> Outcome<Verdict> {
    let tree = Tree::read(&root())?;
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
        note(guide, compiled(&tree, guide));
    }
    let mut examples = 0;
    for package in SDKS {
        for example in examples_of(&root().join(package))? {
            examples += 1;
            note(&example, run_by_a_test(&tree, package, &example));
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
fn compiled(tree: &Tree, guide: &str) -> Outcome {
    let text = fs::read_to_string(root().join(guide)).context(guide)?;
    if !text.starts_with("# ") || !text.contains("```rust") {
        return Err(Failure::new("no title, or no code"));
    }
    let included = format!("include_str!(\"../../{guide}\")");
    let is_included =
        SDKS.iter().any(|package| contains(tree, &format!("{package}/src/"), &[&included]));
    if is_included { Ok(()) } else { Err(Failure::new("no crate compiles its code")) }
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
fn run_by_a_test(tree: &Tree, package: &str, example: &str) -> Outcome {
    let names = [
        format!("examples/{example}"),
        format!("example(\"{example}\")"),
        format!("\"{example}\""),
    ];
    let names = names.each_ref().map(String::as_str);
    let is_run = [format!("{package}/tests/"), "xtask/src/".to_owned()]
        .iter()
        .any(|folder| contains(tree, folder, &names));
    if is_run { Ok(()) } else { Err(Failure::new("no test runs it")) }
}

/// Returns whether any Rust file below a folder contains one of the texts.
fn contains(tree: &Tree, folder: &str, texts: &[&str]) -> bool {
    let mut files = tree.rust().iter().filter(|source| source.path.starts_with(folder));
    files.any(|source| texts.iter().any(|text| source.text.contains(text)))
}
