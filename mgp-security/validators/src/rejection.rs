//! The reason and the answer to the caller if a validator blocks a call (MGP §7.4).

use mgp_types::mgp::{CodeHints, CodeRejection, RejectionStatus, Validator};
use std::fmt;

/// The reason why a validator blocks a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    validator: Validator,
    reason: String,
    violations: Vec<String>,
    hints: Option<Box<CodeHints>>,
}

impl Rejection {
    pub(crate) fn new(validator: Validator, reason: impl Into<String>) -> Self {
        Self { validator, reason: reason.into(), violations: Vec::new(), hints: None }
    }

    pub(crate) fn code(violations: Vec<String>, hints: CodeHints) -> Self {
        let reason = "Code validation failed".to_owned();
        Self { validator: Validator::CodeSafety, reason, violations, hints: Some(Box::new(hints)) }
    }

    /// Returns the validator that blocks the call.
    #[must_use]
    pub fn validator(&self) -> &Validator {
        &self.validator
    }

    /// Returns the reason in one sentence.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the violated rules of code, e.g. `Blocked import: 'socket'`.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Returns the body of the answer to the caller (§7.4).
    #[must_use]
    pub fn body(&self) -> CodeRejection {
        let mut body = CodeRejection::new(RejectionStatus::Rejected, self.reason.clone());
        body.violations = self.violations.clone().into();
        body.hints = self.hints.as_deref().cloned();
        body
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        for (at, violation) in self.violations.iter().enumerate() {
            write!(f, "{} {violation}", if at == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}
