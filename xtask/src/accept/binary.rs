//! Checks that are test binaries of the workspace: runs them and counts.

use super::Verdict;
use crate::run::{Outcome, Program, Rigour, has};

/// Runs a test binary of mgp-server-sdk.
pub(super) fn run(name: &str) -> Outcome<Verdict> {
    let run = ["test", "--package", "mgp-server-sdk", "--test", name];
    let (success, text) = Program::cargo(&run).tee()?;
    let counts = counts(&text);
    let figure = match counts {
        Some((passed, failed)) => format!("{passed} passed, {failed} failed"),
        None => "no test ran".to_owned(),
    };
    let pass = success && counts.is_some_and(|(passed, failed)| passed > 0 && failed == 0);
    Ok(Verdict { pass, figure, bound: "all passed".to_owned() })
}

/// The kinds of standard input and output, with real parents.
pub(super) fn stdio_kinds(rigour: Rigour) -> Outcome<Verdict> {
    for parent in ["node", "python3"] {
        if !has(parent) {
            rigour.skip(&format!("the {parent} parent"), &format!("{parent} is not installed"))?;
        }
    }
    run("stdio_kinds")
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
