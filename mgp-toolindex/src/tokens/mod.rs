//! How many tokens a definition costs (MGP §16.8).
//!
//! Applies to: both.

/// A bound that the exact count never exceeds: a token has at least one byte.
pub(crate) fn bound(definition: &str) -> u32 {
    u32::try_from(definition.len()).unwrap_or(u32::MAX >> 1)
}
