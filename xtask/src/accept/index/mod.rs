//! The acceptance checks of the tool index that are more than test binaries: quality, laws, learning, languages, joined
//! requests and tokens (MGP §16).
//!
//! The labelled sets are in the folder `--data`, or in `../shared` beside the repository. A check whose sets are
//! missing is reported as skipped.

mod data;
mod eval;
mod history;
mod languages;
mod laws;
mod learns;
mod names;
mod quality;
mod score;
mod spread;
mod table;
mod tokens;

use super::{Options, Verdict};
use crate::run::Outcome;

pub(super) use languages::{languages, speed};
pub(super) use laws::laws;
pub(super) use learns::learns;
pub(super) use quality::quality;
pub(super) use spread::spread;
pub(super) use tokens::tokens;

/// Reports that a check is skipped because its sets are missing.
fn skipped(options: &Options, check: &str) -> Outcome<Verdict> {
    options.skip(check, "the labelled sets are neither beside the repository nor in --data DIR")
}
