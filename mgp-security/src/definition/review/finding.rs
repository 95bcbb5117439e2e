//! The findings of a review.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::rule::Rule;

/// The maximum length of the evidence in a finding, in characters. Longer evidence is cut.
pub(in crate::definition) const EVIDENCE_MAX: usize = 160;

/// The consequence of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// The finding is only a detail, for operators who examine the tool closely.
    Noted,
    /// The tool can be used, and operators see the finding with it.
    Flagged,
    /// An operator must approve the definition before it can be used.
    Held,
    /// The definition cannot be used, and an operator cannot approve it.
    Refused,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Noted => "noted",
            Self::Flagged => "flagged",
            Self::Held => "held",
            Self::Refused => "refused",
        })
    }
}

/// A flaw in a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The consequence of the finding.
    pub severity: Severity,
    /// The id of the rule, e.g. `text.override`.
    #[serde(default)]
    pub rule: String,
    /// The location of the flaw, as a JSON pointer into the definition.
    pub at: String,
    /// The range of bytes in the text at that location; `None` if the finding is about the whole text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range<usize>>,
    /// The description of the flaw.
    pub what: String,
    /// The text that was found, with invisible characters escaped.
    pub evidence: String,
}

impl Finding {
    /// Creates a finding with the rule's description.
    pub(in crate::definition) fn new(rule: Rule, at: &str, evidence: &str) -> Self {
        Self::about(rule, at, rule.what(), evidence)
    }

    /// Creates a finding with the description `what` instead of the rule's.
    pub(in crate::definition) fn about(
        rule: Rule,
        at: &str,
        what: impl Into<String>,
        evidence: &str,
    ) -> Self {
        Self {
            severity: rule.severity(),
            rule: rule.id().to_owned(),
            at: visible(at),
            range: None,
            what: what.into(),
            evidence: visible(evidence),
        }
    }

    /// Returns whether the finding prevents the use of the tool until an operator approves it, or forever.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.severity >= Severity::Held
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
