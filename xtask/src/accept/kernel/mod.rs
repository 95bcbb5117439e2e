//! The checks of the kernel and of the program `mgp`.

mod chaos;

use super::{Verdict, binary};
use crate::run::{Outcome, Program};

pub(super) use chaos::chaos;

/// Two hosts, one child, equal ids and tokens: of each pair of eras, and streams beside HTTP.
pub(super) fn tenants() -> Outcome<Verdict> {
    stories(&[("kernel_route", "tenants")])
}

/// What goes wrong in the first ten minutes is told in one line with the fix.
pub(super) fn first_ten_minutes() -> Outcome<Verdict> {
    stories(&[("kernel_run", "first::"), ("cli", "begin::")])
}

/// Runs the tests of the kernel whose names contain a word, from binaries of the client's package.
fn stories(wanted: &[(&'static str, &str)]) -> Outcome<Verdict> {
    examples()?;
    let (mut passed, mut failed) = (0, 0);
    for (name, word) in wanted {
        let (ok, bad) = binary::filtered(("mgp-client-sdk", name), word)?;
        // A story that was not found is none that passed.
        (passed, failed) = (passed + ok, failed + if ok == 0 { bad.max(1) } else { bad });
    }
    let figure = format!("{passed} passed, {failed} failed");
    Ok(Verdict { pass: failed == 0, figure, bound: "all passed".to_owned() })
}

/// Builds the servers that the stories start.
fn examples() -> Outcome {
    Program::cargo(&["build", "--package", "mgp-server-sdk", "--examples"]).run()
}
