//! The checks of the life of servers: health, drain, supervision, retry.

mod drain;
mod kills;
mod ping;
mod retry;

use super::{Verdict, binary};
use crate::run::{Outcome, Program};

pub(super) use drain::drain;
pub(super) use kills::kills;
pub(super) use ping::ping;
pub(super) use retry::retry;

/// One test a rule, with a clock of its own, and laws that hold for whatever happens.
pub(super) fn rules() -> Outcome<Verdict> {
    binary::run(&[("mgp-lifecycle", "supervise_rules")])
}

/// The programs that show each layer alone, on a client and on a server.
pub(super) fn alone() -> Outcome<Verdict> {
    for package in ["mgp-client-sdk", "mgp-server-sdk"] {
        Program::cargo(&["build", "--package", package, "--examples"]).run()?;
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, word) in [("alone", "life::"), ("limits", "alone"), ("supervised", "alone")] {
        let (ok, bad) = binary::filtered(("mgp-client-sdk", name), word)?;
        // A layer that nothing shows alone is none.
        (passed, failed) = (passed + ok, failed + if ok == 0 { bad.max(1) } else { bad });
    }
    let figure = format!("{passed} passed, {failed} failed");
    Ok(Verdict { pass: failed == 0, figure, bound: "all passed".to_owned() })
}
