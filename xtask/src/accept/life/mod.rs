//! The checks of the life of servers: health, drain, supervision, retry.

mod drain;
mod kills;
mod ping;

use super::{Verdict, binary};
use crate::run::Outcome;

pub(super) use drain::drain;
pub(super) use kills::kills;
pub(super) use ping::ping;

/// One test a rule, with a clock of its own, and laws that hold for whatever happens.
pub(super) fn rules() -> Outcome<Verdict> {
    binary::run(&[("mgp-lifecycle", "supervise_rules")])
}
