//! The acceptance checks `contract.*`: tests for the requirements about contracts of tools, and checks that use
//! packages from `PyPI` and npm.

mod lock;
mod openapi;
mod rows;

pub(super) use lock::lock;
pub(super) use openapi::{export, import};
pub(super) use rows::TESTS;

use super::{Options, Verdict};
use crate::run::Outcome;

/// Installs the packages that a check needs; returns `None` on success. If they cannot be installed, reports the check
/// as skipped and returns the verdict for a skipped check.
pub(super) fn installed(
    options: &Options,
    what: &str,
    install: impl FnOnce() -> Outcome,
) -> Outcome<Option<Verdict>> {
    let Err(failure) = install() else { return Ok(None) };
    options.skip(what, &failure.to_string()).map(Some)
}
