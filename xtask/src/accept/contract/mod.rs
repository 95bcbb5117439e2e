//! The acceptance checks `contract.*`: a table of their steps, and the checks that use packages from `PyPI` and npm.

mod apps;
mod lock;
mod openapi;
mod rows;

pub(super) use rows::TESTS;

use super::{
    Options, Step, Verdict,
    binaries::{LIBRARY, Tests},
};
use crate::run::Outcome;

pub(super) const ROWS: &[Step] = &[Step::Tests(TESTS)];

pub(super) const OPENAPI: &[Step] =
    &[Step::Program(openapi::export), Step::Program(openapi::import)];

pub(super) const SEMVER: &[Step] = &[Step::Tests(&[
    Tests::of("mgp-contract", "versions"),
    Tests::of("mgp", "commands").each(&["contract::a_change_demands_its_version"]),
])];

pub(super) const VALIDATE: &[Step] = &[Step::Tests(&[
    Tests::of("mgp-validate", "servers"),
    Tests::of("mgp", "run").each(&["judged::"]),
    Tests::of("mgp", "commands").each(&["validate::"]),
])];

pub(super) const LOCK: &[Step] = &[
    Step::Tests(&[
        Tests::of("mgp", "run").each(&["locked::"]),
        Tests::of("mgp-kernel", LIBRARY).each(&["lock::"]),
    ]),
    Step::Program(lock::lock),
];

pub(super) const SKILLS_APPS: &[Step] = &[
    Step::Tests(&[Tests::of("mgp-kernel", "route").each(&["skills_apps::"])]),
    Step::Program(apps::apps),
];

/// Installs the packages that a check needs. Returns `None` on success. If the packages cannot be installed, reports
/// the check as skipped, and returns the verdict for it.
pub(super) fn installed(
    options: &Options,
    what: &str,
    install: impl FnOnce() -> Outcome,
) -> Outcome<Option<Verdict>> {
    let Err(failure) = install() else { return Ok(None) };
    options.rigour.skip(what, &failure.to_string())?;
    Ok(Some(Verdict {
        pass: true,
        figure: format!("{what} skipped"),
        bound: "its packages".to_owned(),
    }))
}
