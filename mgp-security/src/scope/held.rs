//! The scopes that a call has.

use std::sync::Arc;

use super::refused::SessionEnded;

/// The scopes that a call has, as an extension of its context. A call without this extension needs no scopes.
#[derive(Clone, Debug)]
pub(crate) enum HeldScopes {
    /// The call has these scopes. A scope that ends with `*` includes all scopes with the same beginning.
    Some(Arc<[String]>),
    /// The session is unknown or has ended, so the call has no scopes.
    Ended(SessionEnded),
}

/// Returns whether one of the patterns covers a scope.
pub(super) fn covers(patterns: &[String], scope: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => scope.starts_with(start),
        None => pattern == scope,
    })
}

impl HeldScopes {
    /// Returns the required scopes that the call does not have.
    ///
    /// # Errors
    /// [`SessionEnded`] if the session ended.
    pub(crate) fn missing(&self, required: &[String]) -> Result<Vec<String>, SessionEnded> {
        match self {
            Self::Some(held) => {
                Ok(required.iter().filter(|scope| !covers(held, scope)).cloned().collect())
            }
            Self::Ended(ended) => Err(*ended),
        }
    }
}
