//! Revisions of MCP, ordered by date (MGP §1.4).

use std::cmp::Ordering;

use crate::record::open_enum;

open_enum! {
    /// A protocol revision, named by its date. Unknown values are preserved; revisions are ordered as text, i.e. by
    /// date.
    pub enum Revision {
        /// The first revision.
        V2024_11_05 = "2024-11-05",
        /// Streamable HTTP, batches, tool annotations, audio.
        V2025_03_26 = "2025-03-26",
        /// Batches removed; structured output, elicitation, resource links.
        V2025_06_18 = "2025-06-18",
        /// Icons, URL elicitation, sampling with tools, tasks.
        V2025_11_25 = "2025-11-25",
        /// Removes `initialize` and sessions: each request is self-contained.
        V2026_07_28 = "2026-07-28",
    }
}

impl Revision {
    /// The newest revision that `initialize` can negotiate.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest revision without `initialize`.
    pub const MODERN: Self = Self::V2026_07_28;

    /// The revisions with `initialize`, oldest first.
    pub const LEGACY: &'static [Self] =
        &[Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];
    /// The revisions that this crate implements, oldest first.
    pub const SUPPORTED: &'static [Self] = Self::KNOWN;

    /// Returns the era of the revision. An unknown revision counts as legacy, because the answer to `initialize`
    /// replaces it by a known revision.
    #[must_use]
    pub fn era(&self) -> Era {
        if *self == Self::MODERN { Era::Modern } else { Era::Legacy }
    }
}

/// The two generations of MCP revisions. The documentation also calls the peers and sessions of the older revisions
/// *legacy*, and the peers and requests of the newer revisions *modern*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// The revisions up to 2025-11-25: `initialize`, then a session.
    Legacy,
    /// The revisions from 2026-07-28 on: self-contained requests, without `initialize` and without a session.
    Modern,
}

impl PartialOrd for Revision {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Revision {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_revisions_are_sorted_and_only_the_newest_is_modern() {
        assert!(Revision::SUPPORTED.is_sorted());
        assert!(Revision::LEGACY.iter().all(|revision| revision.era() == Era::Legacy));
        assert_eq!(Revision::MODERN.era(), Era::Modern);
    }
}
