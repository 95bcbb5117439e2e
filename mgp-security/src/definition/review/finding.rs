//! The findings of a review.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum length of the evidence in a finding, in characters; the rest is cut off.
const EVIDENCE_MAX: usize = 160;

/// The consequence of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// An operator must review the definition before it can be used.
    Flagged,
    /// The tool cannot be approved.
    Refused,
}

/// A flaw in a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The consequence of the finding.
    pub severity: Severity,
    /// The place: a JSON pointer into the definition.
    pub at: String,
    /// The description of the flaw.
    pub what: String,
    /// The text that was found, with invisible characters escaped.
    pub evidence: String,
}

impl Finding {
    pub(in crate::definition) fn new(
        severity: Severity,
        at: &str,
        what: impl Into<String>,
        evidence: &str,
    ) -> Self {
        Self { severity, at: visible(at), what: what.into(), evidence: visible(evidence) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if !self.at.is_empty() {
            write!(f, " at `{}`", self.at)?;
        }
        if !self.evidence.is_empty() {
            write!(f, ": {}", self.evidence)?;
        }
        Ok(())
    }
}

/// Returns a text with invisible characters escaped, cut off if it is long.
pub(in crate::definition) fn visible(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == EVIDENCE_MAX {
            out.push('…');
            break;
        }
        if super::characters::shows(c) {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}
