//! The rule that led to a decision (MGP §5, §6).

use std::borrow::Cow;
use std::error::Error as _;

use crate::wire::RpcError;

/// A description of the rule that led to the decision about a call. It is written to the audit log, and not sent to the
/// caller.
///
/// The error of a refusal contains the rule in its chain of sources, where [`Rule::of`] finds it.
///
/// ```
/// use mgp_types::service::Rule;
/// use mgp_types::{ErrorCode, RpcError};
///
/// let refused = RpcError::new(ErrorCode::ACCESS_DENIED, "no access to `rm`")
///     .because(Rule::new("server_grant deny for `ada` on `files`"));
/// assert_eq!(Rule::of(&refused).unwrap().as_str(), "server_grant deny for `ada` on `files`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rule(Cow<'static, str>);

impl Rule {
    /// Creates a rule from its description.
    #[must_use]
    pub fn new(words: impl Into<Cow<'static, str>>) -> Self {
        Self(words.into())
    }

    /// Returns the description of the rule.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first rule in an error's chain of sources, if any.
    #[must_use]
    pub fn of(error: &RpcError) -> Option<&Self> {
        let mut source = error.source();
        while let Some(error) = source {
            if let Some(rule) = error.downcast_ref() {
                return Some(rule);
            }
            source = error.source();
        }
        None
    }
}
