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
    is_of_local_host: bool,
}

impl Rejection {
    pub(crate) fn new(validator: Validator, reason: impl Into<String>) -> Self {
        Self {
            validator,
            reason: reason.into(),
            violations: Vec::new(),
            hints: None,
            is_of_local_host: false,
        }
    }

    pub(crate) fn code(violations: Vec<String>, hints: CodeHints) -> Self {
        let hints = Some(Box::new(hints));
        Self { violations, hints, ..Self::new(Validator::CodeSafety, "Code validation failed") }
    }

    /// Records that the call would pass with other [local hosts](crate::GuardedCall::local_hosts).
    pub(crate) fn of_local_host(self) -> Self {
        Self { is_of_local_host: true, ..self }
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

    /// Returns whether `sandbox` or `network_restricted` blocks the call only because of hosts that an operator can
    /// permit as [local hosts](crate::GuardedCall::local_hosts).
    #[must_use]
    pub fn is_of_local_host(&self) -> bool {
        self.is_of_local_host
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
