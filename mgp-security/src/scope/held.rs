//! The scopes that a call has.

use std::sync::Arc;

use super::refused::SessionEnded;

/// The scopes that a call has, as an extension of its context, or an error if its session is unknown or has ended. A
/// scope that ends with `*` includes all scopes with the same beginning. A call without this extension needs no scopes.
#[derive(Clone, Debug)]
pub(crate) struct HeldScopes(pub(crate) Result<Arc<[String]>, SessionEnded>);

pub(crate) fn covers(patterns: &[String], scope: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => scope.starts_with(start),
        None => pattern == scope,
    })
}
