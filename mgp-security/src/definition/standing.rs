//! Whether a definition may be used, and why not.
//!
//! Applies to: both.

/// How a definition stands.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Standing {
    /// Nobody has listed it yet, or its server no longer does.
    #[default]
    Unseen,
    /// It is as it was when it was first seen, or as an operator approved it.
    Pinned,
}
