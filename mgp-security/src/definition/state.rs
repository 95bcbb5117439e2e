//! The state of a definition: whether its tool can be called, and the reason if not.

use std::sync::Arc;

use mgp_types::{Payload, Sha256Hash};

use super::diff::Difference;
use super::refused::{CROWDED, is_only};
use super::review::Finding;

/// The state of a definition.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum DefinitionState {
    /// The server does not list the tool now, or its definition is not pinned yet.
    #[default]
    Unseen,
    /// The definition can be used: it was the first definition of the tool that the server listed, or an operator
    /// approved it.
    Pinned,
    /// The definition differs from the pinned one, and waits for an operator.
    Changed(Arc<HeldDefinition>),
    /// The definition was never approved and has findings, so it waits for an operator.
    Flagged(Arc<HeldDefinition>),
    /// The definition has such flaws that an operator cannot approve it.
    Refused(Arc<[Finding]>),
}

/// A definition that waits for an operator, or that an operator rejected.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeldDefinition {
    /// The fingerprint of the waiting definition, which an operator's approval must contain.
    pub fingerprint: Sha256Hash,
    /// The fingerprint of the pinned definition, if any.
    pub pinned: Option<Sha256Hash>,
    /// The definition itself, as JSON. It is the server's unreviewed text, which only people should read.
    pub definition: Payload,
    /// The differences from the pinned definition; if there are many, only the first differences.
    pub differences: Vec<Difference>,
    /// The number of differences that are not listed.
    pub differences_left_out: usize,
    /// The findings of the review. If the tool has a pinned definition, only the findings that the pinned definition
    /// does not have.
    pub findings: Vec<Finding>,
    /// The operator who rejected this definition, if one did.
    pub rejected_by: Option<String>,
}

impl DefinitionState {
    /// Returns whether the tool can be called.
    #[must_use]
    pub fn is_callable(&self) -> bool {
        matches!(self, Self::Unseen | Self::Pinned)
    }

    /// Returns whether the tool is refused only because its server has listed too many tools, or too many bytes.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        matches!(self, Self::Refused(found) if is_only(found, CROWDED))
    }

    /// Returns the name of the state, e.g. for logs.
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
