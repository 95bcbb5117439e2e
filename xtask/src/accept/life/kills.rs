//! `life.kills`: real children under supervision, killed at any moment, and those with bad manners.

use crate::{
    accept::{Verdict, binary},
    run::{Outcome, Program},
};

/// How often a child is killed.
const KILLS: &str = "1000";

/// Kills a child again and again, and sees how children that misbehave end.
pub(in crate::accept) fn kills() -> Outcome<Verdict> {
    // The child is the server that users start from.
    let echo = ["build", "--package", "mgp-server-sdk", "--example", "echo"];
    Program::cargo(&echo).run()?;
    binary::run_with(&[("mgp-client-sdk", "supervised")], &[("KILLS", KILLS)])
}
