//! The checks of the tool index that are programs: quality, laws, tokens (MGP §16).
//!
//! The labelled sets lie beside the repository, or in the folder `--data`.
//! A check whose sets are missing is reported and skipped.

mod data;
mod eval;
mod history;
mod laws;
mod names;
mod quality;
mod score;
mod table;
mod tokens;

use super::Verdict;

pub(super) use laws::laws;
pub(super) use quality::quality;
pub(super) use tokens::tokens;

/// Returns the verdict on a check whose sets are missing: reported, and not a failure.
fn skipped(check: &str) -> Verdict {
    let why = "the labelled sets are neither beside the repository nor in --data DIR";
    println!("!! SKIPPED {check}: {why}");
    Verdict { pass: true, figure: "SKIPPED".to_owned(), bound: why.to_owned() }
}
