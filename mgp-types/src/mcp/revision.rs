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

    /// Returns whether this crate implements this revision.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.is_known()
    }

    /// Returns the era of the revision. An unknown revision counts as legacy, because the answer to `initialize`
    /// replaces it by a known revision.
    #[must_use]
    pub fn era(&self) -> Era {
        if *self == Self::MODERN { Era::Modern } else { Era::Legacy }
    }

    /// Returns the revision that a server answers to `initialize`: the requested revision if it is a known legacy
    /// revision, else the newest legacy revision.
    #[must_use]
    pub fn negotiate(asked: &Self) -> Self {
        if Self::LEGACY.contains(asked) { asked.clone() } else { Self::LATEST_LEGACY }
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
    fn initialize_never_negotiates_the_modern_revision() {
        assert_eq!(Revision::negotiate(&Revision::MODERN), Revision::LATEST_LEGACY);
        assert_eq!(Revision::negotiate(&"1999-01-01".into()), Revision::LATEST_LEGACY);
        assert_eq!(Revision::negotiate(&"2024-11-05".into()), Revision::V2024_11_05);
        assert!(Revision::SUPPORTED.is_sorted());
        assert_eq!(Revision::MODERN.era(), Era::Modern);
    }
}
