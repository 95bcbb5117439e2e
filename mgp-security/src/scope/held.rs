//! The scopes that a call holds.

use std::sync::Arc;

use super::refused::SessionEnded;

/// The scopes that a call holds; an extension of its context. A call without it needs no scopes.
#[derive(Clone, Debug)]
pub(crate) enum HeldScopes {
    /// These scopes; one that ends with `*` matches all that begin like it.
    Some(Arc<[String]>),
    /// The session ended, so the call holds nothing.
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
    /// Returns the scopes of a list that are not held.
    ///
    /// # Errors
    /// [`SessionEnded`].
    pub(crate) fn missing(&self, required: &[String]) -> Result<Vec<String>, SessionEnded> {
        match self {
            Self::Some(held) => {
                Ok(required.iter().filter(|scope| !covers(held, scope)).cloned().collect())
            }
            Self::Ended(ended) => Err(*ended),
        }
    }
}
