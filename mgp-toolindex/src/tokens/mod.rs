//! How many tokens a definition costs a model: exactly, or never more than that (MGP §16.8).
//!
//! What is counted is the text a model reads of a tool: [`lean`].
//! Counts are those of `o200k`; other encodings differ by some percent, which is what reserves are for.
//!
//! - [`TokenCounter`] counts exactly (feature `tokens`). Its tables take 50 MB, so it is made for a batch, on a
//!   thread of its own, and dropped after it.
//! - [`tokens_at_most`] needs no tables and is never too low. It stands where nothing was counted yet, and where a
//!   text is made for one answer.
//!
//! Applies to: both.

mod bound;
mod counter;
mod known;
pub(crate) mod lean;
mod words;

pub use self::bound::tokens_at_most;
pub use self::counter::{Exactness, TokenCounter};
pub(crate) use self::lean::lean_of;

/// The longest definition whose bound is worked out closely, in bytes.
const LONGEST: usize = 256 << 10;

/// Counts the tokens of a definition from above.
pub(crate) fn bound(definition: &str) -> u32 {
    // Nobody tells such a definition whole: it is not worth a closer look, and a token has a byte at least.
    if definition.len() > LONGEST {
        return u32::try_from(definition.len()).unwrap_or(u32::MAX);
    }
    tokens_at_most(&lean::lean(definition))
}
