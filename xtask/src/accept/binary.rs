//! Checks that are test binaries of the workspace: runs them and counts.

use super::Verdict;
use crate::run::{Outcome, Program, Rigour, has};

/// A test binary: package and name.
pub(in crate::accept) type Binary = (&'static str, &'static str);

/// Runs test binaries of the workspace.
pub(super) fn run(binaries: &[Binary]) -> Outcome<Verdict> {
    run_with(binaries, &[])
}

/// Runs test binaries of the workspace, told something in their environment.
pub(super) fn run_with(binaries: &[Binary], environment: &[(&str, &str)]) -> Outcome<Verdict> {
    let (mut all_succeeded, mut passed, mut failed) = (true, 0, 0);
    for (package, name) in binaries {
        // Tests start examples of their package.
        Program::cargo(&["build", "--package", package, "--examples"]).run()?;
        let program = Program::cargo(&["test", "--package", package, "--test", name]);
        let program =
            environment.iter().fold(program, |program, (key, value)| program.env(key, value));
        let (success, text) = program.tee()?;
        let (ok, bad) = counts(&text).unwrap_or_default();
        // A binary without a test proves nothing.
        all_succeeded &= success && ok > 0;
        passed += ok;
        failed += bad;
    }
    let pass = all_succeeded && failed == 0;
    let figure = format!("{passed} passed, {failed} failed");
    Ok(Verdict { pass, figure, bound: "all passed".to_owned() })
}

/// Runs the tests of a binary whose names contain a word; counts what passed and failed.
pub(in crate::accept) fn filtered((package, name): Binary, word: &str) -> Outcome<(usize, usize)> {
    let arguments = ["test", "--package", package, "--test", name, "--", word];
    let (success, text) = Program::cargo(&arguments).tee()?;
    let (passed, failed) = counts(&text).unwrap_or_default();
    // One that ended without its closing line has failed.
    Ok((passed, if success { failed } else { failed.max(1) }))
}

/// The kinds of standard input and output, with real parents.
pub(super) fn stdio_kinds(rigour: Rigour) -> Outcome<Verdict> {
    for parent in ["node", "python3"] {
        if !has(parent) {
            rigour.skip(&format!("the {parent} parent"), &format!("{parent} is not installed"))?;
        }
    }
    run(&[("mgp-server-sdk", "stdio_kinds"), ("mgp-transport", "stdio_kinds_raw")])
}

/// Passed and failed tests, from the closing lines of the runner.
fn counts(text: &str) -> Option<(usize, usize)> {
    let before = |line: &str, word: &str| {
        let start = line.split(word).next()?;
        start.split_whitespace().last()?.parse::<usize>().ok()
    };
    let lines = text.lines().filter(|line| line.starts_with("test result:"));
    let counts =
        lines.filter_map(|line| Some((before(line, " passed")?, before(line, " failed")?)));
    counts.reduce(|one, other| (one.0 + other.0, one.1 + other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_are_counted() {
        let text = "test a ... ok\n\ntest result: ok. 7 passed; 0 failed; 0 ignored\n";
        assert_eq!(counts(text), Some((7, 0)));
        let text = "test result: FAILED. 3 passed; 2 failed; 0 ignored\n";
        assert_eq!(counts(&text.repeat(2)), Some((6, 4)));
        assert_eq!(counts("nothing"), None);
    }
}
