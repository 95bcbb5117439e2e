//! The checks of the index of tools: quality, laws, speed, tokens, toughness (MGP §16).
//!
//! The labelled sets lie beside the repository, or where `--data` says.
//! Half of what they need is there for anybody; what a check cannot find it says, and passes over.

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

/// The verdict on a check whose material is not here: said loudly, and no failure.
fn passed_over(check: &str) -> Verdict {
    let why = "the labelled sets are neither beside the repository nor in --data DIR";
    println!("!! SKIPPED {check}: {why}");
    Verdict { pass: true, figure: "SKIPPED".to_owned(), bound: why.to_owned() }
}
