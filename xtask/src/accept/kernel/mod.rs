//! The checks of the kernel and of the program `mgp`.

mod chaos;
mod interop;

use super::{Verdict, binary};
use crate::run::{Outcome, Program};

pub(super) use chaos::chaos;
pub(super) use interop::interop;

/// Two hosts, one child, equal ids and tokens: of each pair of eras, and streams beside HTTP.
pub(super) fn tenants() -> Outcome<Verdict> {
    stories(&[("mgp-kernel", "route", "tenants")])
}

/// What goes wrong in the first ten minutes is told in one line with the fix.
pub(super) fn first_ten_minutes() -> Outcome<Verdict> {
    stories(&[("mgp", "run", "first::"), ("mgp", "commands", "begin::")])
}

/// Both flows of tool discovery, by a model that sees only its list; what is not made, and what an operator let in.
pub(super) fn flows() -> Outcome<Verdict> {
    binary::run(&[("mgp", "flow")])
}

/// What is refused, as its callers, its operator and the log see it; and an agent that tries everything.
pub(super) fn refusals() -> Outcome<Verdict> {
    binary::run(&[("mgp", "refusals"), ("mgp-kernel", "admin")])
}

/// Runs the tests of the kernel whose names contain a word, from binaries of the client's package.
fn stories(wanted: &[(&'static str, &'static str, &str)]) -> Outcome<Verdict> {
    examples()?;
    let (mut passed, mut failed) = (0, 0);
    for (package, name, word) in wanted {
        let (ok, bad) = binary::filtered((package, name), word)?;
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
