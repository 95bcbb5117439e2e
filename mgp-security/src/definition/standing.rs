//! Whether a definition may be used, and why not.

use std::sync::Arc;

use mgp_types::Hash;

use super::diff::Difference;
use super::review::Finding;

/// How a definition stands.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Standing {
    /// Nobody has listed it yet, or its server no longer does.
    #[default]
    Unseen,
    /// It is as it was when it was first seen, or as an operator approved it.
    Pinned,
    /// It is not as it was, and waits for an operator.
    Changed(Arc<Held>),
    /// It was never approved, and says something that an operator must look at first.
    Flagged(Arc<Held>),
    /// Nobody can approve it.
    Refused(Arc<[Finding]>),
}

/// A definition that waits for an operator.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Held {
    /// The fingerprint of what waits: an approval must name it.
    pub fingerprint: Hash,
    /// The fingerprint of what is pinned; none where nothing is.
    pub pinned: Option<Hash>,
    /// What changed.
    pub differences: Vec<Difference>,
    /// What the review found.
    pub findings: Vec<Finding>,
    /// Who rejected it, where somebody did.
    pub rejected_by: Option<String>,
}

impl Standing {
    /// Whether calls of the tool may go on.
    #[must_use]
    pub fn is_callable(&self) -> bool {
        matches!(self, Self::Unseen | Self::Pinned)
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Pinned => "pinned",
            Self::Changed(_) => "changed",
            Self::Flagged(_) => "flagged",
            Self::Refused(_) => "refused",
        }
    }
}
