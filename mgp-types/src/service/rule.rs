//! The rule behind a decision, in words (MGP §5, §6).

use std::borrow::Cow;
use std::error::Error as _;

use crate::wire::RpcError;

/// Names the rule that decided, for the audit log; it never crosses the wire.
///
/// A refusal keeps it among its sources, and [`Rule::of`] finds it again.
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
    /// Names a rule.
    #[must_use]
    pub fn new(words: impl Into<Cow<'static, str>>) -> Self {
        Self(words.into())
    }

    /// Its words.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The rule an error names among its sources.
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
