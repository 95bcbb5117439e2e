//! The acceptance check `sdk.docs`: all public items of the two SDKs are documented, the code of the guides compiles,
//! and tests run every example.

use crate::{
    accept::Verdict,
    run::{Outcome, Program, root},
    tidy::Tree,
};

/// The packages that users depend on directly. Their modules `guides` and `readme` contain the guides as doctests.
const SDKS: &[&str] = &["mgp-server-sdk", "mgp-client-sdk"];

/// Checks the documentation of each SDK, and looks for a test of each example.
pub(in crate::accept) fn docs() -> Outcome<Verdict> {
    let tree = Tree::read(&root())?;
    let (mut examples, mut not_run) = (0, Vec::new());
    for package in SDKS {
        let doc = Program::cargo(&["doc", "--no-deps", "--all-features", "-p", package]);
        doc.env("RUSTDOCFLAGS", "-D warnings").run()?;
        // Uses clippy for `missing_docs`, because the compiler would need other `RUSTFLAGS`, and so a separate build.
        let clippy = ["clippy", "--all-features", "-p", package, "--", "-D", "missing_docs"];
        Program::cargo(&clippy).run()?;
        Program::cargo(&["test", "--doc", "--all-features", "-p", package]).run()?;
        let folder = format!("{package}/examples/");
        let files = tree.rust().iter().filter_map(|source| source.path.strip_prefix(&folder));
        let names = files.map(|file| file.trim_end_matches(".rs").trim_end_matches("/main"));
        for name in names.filter(|name| !name.contains('/')) {
            examples += 1;
            if !is_run(&tree, name) {
                not_run.push(name);
            }
        }
    }
    Ok(Verdict {
        pass: not_run.is_empty(),
        figure: format!("{examples} examples, without a test: [{}]", not_run.join(", ")),
        bound: "each with a test".to_owned(),
    })
}

/// Returns whether the name of an example occurs in a test of any package, or in a program in `xtask/src`, which then
/// starts the example. Tests of the client SDK also start examples of the server SDK.
fn is_run(tree: &Tree, example: &str) -> bool {
    let names = [format!("examples/{example}"), format!("\"{example}\"")];
    let starts = |path: &str| path.contains("/tests/") || path.starts_with("xtask/src/");
    let mut sources = tree.rust().iter().filter(|source| starts(&source.path));
    sources.any(|source| names.iter().any(|name| source.text.contains(name)))
}
