//! The checks of governance: permissions, tool security, access, audit.

mod cost;
mod kills;
mod tamper;
mod tooldef;
mod writer;

use super::{Verdict, binary};
use crate::run::{Context, Outcome, Program, target};
use std::path::PathBuf;

pub(super) use cost::cost;
pub(super) use tooldef::tooldef;

/// Random worlds, laws of precedence, and an agent that tries to widen its rights.
pub(super) fn world() -> Outcome<Verdict> {
    binary::run(&[("mgp-security", "access_worlds"), ("mgp-security", "access_attack")])
}

/// Servers that lie about their tools.
pub(super) fn lies() -> Outcome<Verdict> {
    binary::run(&[("mgp-security", "lies")])
}

/// One layer alone, on either side.
pub(super) fn alone() -> Outcome<Verdict> {
    binary::run(&[("mgp-client-sdk", "alone"), ("mgp-server-sdk", "alone")])
}

/// The log under tampering and kills, then calls that are given up.
pub(super) fn audit() -> Outcome<Verdict> {
    let program = example("auditlog")?;
    let tampered = tamper::all(&program)?;
    let killed = kills::all(&program)?;
    let cancelled = binary::run(&[("mgp-security", "audit_cancel")])?;
    Ok(tampered.and(killed).and(cancelled))
}

/// Builds an example of the security crate as users would, and returns its path.
fn example(name: &str) -> Outcome<PathBuf> {
    let build = ["build", "--quiet", "--release", "-p", "mgp-security", "--all-features"];
    Program::cargo(&build).args(&["--example", name]).run()?;
    let path = target()?.join("release/examples").join(name);
    path.exists().then_some(path).context(name)
}
