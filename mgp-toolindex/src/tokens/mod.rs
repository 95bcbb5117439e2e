//! Counts or estimates the tokens that a definition needs in a model's context (MGP §16.8).
//!
//! The counted text is the result of [`lean`], and the encoding is `o200k`. Other encodings differ by some percent,
//! which the reserves of a budget cover.
//!
//! - [`TokenCounter`] counts exactly (feature `tokens`). Its tables take 50 MB, so it is created for a batch, on its
//!   own thread, and dropped afterwards.
//! - [`max_tokens_of`] needs no tables and is never too low. It is used until a definition is counted, and for texts
//!   that are generated for one answer.

mod counter;
mod estimate;
pub(crate) mod lean;
mod o200k;
mod words;

pub use self::counter::{Exactness, TokenCounter};
pub use self::estimate::max_tokens_of;
pub(crate) use self::lean::lean_of;

/// The maximum length, in bytes, of a definition that gets a close estimate.
const MAX_ESTIMATED_BYTES: usize = 256 << 10;

/// Returns an upper bound of the tokens of a tool's definition; a model receives only three members of the definition.
#[must_use]
pub fn max_tokens_of_definition(definition: &str) -> u32 {
    // A definition of this length is never sent to a model as a whole, so a rough bound is sufficient: every token has
    // at least one byte.
    if definition.len() > MAX_ESTIMATED_BYTES {
        return u32::try_from(definition.len()).unwrap_or(u32::MAX);
    }
    max_tokens_of(&lean::lean(definition))
}
