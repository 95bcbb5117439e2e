//! Parts that are made one, so that there are few (MGP §16.4).
//!
//! Four parts of about one size are made one, and one of which a quarter is gone is made anew.
//! So there are about three of each size, sizes four apart: some ten parts for a hundred thousand tools.
//!
//! Applies to: inbound.

use super::part::{Body, Format, Part};
use crate::error::IndexError;

/// So many parts of one size are made one.
const MANY: usize = 4;

/// Smaller parts are of one size.
const SMALLEST: u32 = 2_000;

/// Up to so many times as large as the smallest are parts of one size.
const SPREAD: u32 = 4;

/// One of so many documents gone is few enough.
const GONE: u32 = 4;

/// Parts that are due to be made one.
pub(crate) struct Merge {
    pub(super) format: Format,
    pub(super) parts: Vec<Part>,
}

/// What became of them.
pub(crate) struct Merged {
    /// As they were.
    pub(super) parts: Vec<Part>,
    /// Nothing where all was gone.
    pub(super) body: Option<Body>,
}

impl Merge {
    /// Makes one of them; this takes a second for a hundred thousand tools, and may run on any thread.
    pub(crate) fn run(self) -> Result<Merged, IndexError> {
        let body = self.format.merge(&self.parts)?;
        Ok(Merged { parts: self.parts, body })
    }
}

/// The parts that are due next, the smallest first; none if there are few enough.
pub(super) fn due(parts: &[Part]) -> Vec<Part> {
    let mut sorted: Vec<&Part> = parts.iter().collect();
    sorted.sort_by_key(|part| std::cmp::Reverse(part.documents()));
    let mut levels: Vec<(u32, Vec<&Part>)> = Vec::new();
    for part in sorted {
        let size = part.left().max(SMALLEST);
        match levels.last_mut() {
            Some((largest, level)) if size.saturating_mul(SPREAD) >= *largest => level.push(part),
            _ => levels.push((size, vec![part])),
        }
    }
    let is_due = |level: &Vec<&Part>| {
        let mostly = |part: &&Part| {
            u64::from(part.documents() - part.left()) * u64::from(GONE)
                > u64::from(part.documents())
        };
        level.len() >= MANY || level.iter().any(mostly)
    };
    let due = levels.into_iter().map(|(_, level)| level).rfind(is_due);
    due.unwrap_or_default().into_iter().cloned().collect()
}
