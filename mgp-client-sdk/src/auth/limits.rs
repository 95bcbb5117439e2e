//! Limits on step-ups and on refusals of new tokens (MCP authorization, step-up flow).

use std::collections::HashMap;

use super::error::AuthError;
use super::scope::Scopes;
use super::secret::Secret;
use super::store::Tokens;

/// The maximum number of sets of scopes whose step-ups are counted. A step-up to a further set is refused.
const MAX_SCOPE_SETS: usize = 64;
/// The time, in seconds, without a step-up to a set of scopes, after which its count begins again.
const STEP_UP_WINDOW_SECS: u64 = 3600;
/// The age, in seconds, below which a token is considered new.
const NEW_TOKEN_SECS: u64 = 60;

/// The counts of step-ups for each set of scopes, and of new tokens that the server refused.
#[derive(Debug)]
pub(super) struct Limits {
    limit: u32,
    step_ups: HashMap<String, (u32, u64)>,
    refused: u32,
    /// The token that was counted last. Further refusals of the same token are not counted.
    last: Option<Secret>,
}

impl Limits {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, step_ups: HashMap::new(), refused: 0, last: None }
    }

    /// Counts a step-up; fails if there were too many to the same scopes, or to too many sets of scopes.
    pub(super) fn step_up(&mut self, scopes: &Scopes, now: u64) -> Result<(), AuthError> {
        self.step_ups.retain(|_, (_, at)| now.saturating_sub(*at) < STEP_UP_WINDOW_SECS);
        let refuse = || AuthError::TooManyStepUps { scopes: scopes.clone(), limit: self.limit };
        let key = scopes.key();
        let (count, _) = self.step_ups.get(&key).copied().unwrap_or_default();
        if count >= self.limit || (count == 0 && self.step_ups.len() >= MAX_SCOPE_SETS) {
            return Err(refuse());
        }
        self.step_ups.insert(key, (count + 1, now));
        Ok(())
    }

    /// Counts a token that the server refused. Returns the number of consecutive tokens that the server refused right
    /// after they were issued, and fails if that number exceeds the limit. The limit for tokens that were issued as
    /// expired is one.
    pub(super) fn refused(&mut self, tokens: &Tokens, now: u64) -> Result<u32, AuthError> {
        if self.last.as_ref() == Some(&tokens.access) {
            return Ok(self.refused);
        }
        self.last = Some(tokens.access.clone());
        self.refused = if now.saturating_sub(tokens.issued_at) < NEW_TOKEN_SECS {
            self.refused + 1
        } else {
            0
        };
        // Such a token is never sent, so the server refuses each request whatever tokens it accepts.
        let never_valid = tokens.expires_at.is_some_and(|at| at <= tokens.issued_at);
        let limit = if never_valid { self.limit.min(1) } else { self.limit };
        if self.refused > limit {
            self.refused = 0;
            return Err(if never_valid {
                AuthError::NeverValid
            } else {
                AuthError::TooManyRefusals { limit }
            });
        }
        Ok(self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::store::TokenKind;

    #[test]
    fn the_same_scopes_may_be_asked_for_a_few_times_an_hour() {
        let mut limits = Limits::new(3);
        let (one, other) = (Scopes::parse("a b"), Scopes::parse("c"));
        (0..3).for_each(|now| limits.step_up(&one, now).unwrap());
        let error = limits.step_up(&Scopes::parse("b a"), 3).unwrap_err();
        assert!(matches!(error, AuthError::TooManyStepUps { limit: 3, .. }));
        limits.step_up(&other, 4).unwrap();
        limits.step_up(&one, 2 + STEP_UP_WINDOW_SECS).unwrap();
    }

    #[test]
    fn a_server_that_never_has_enough_is_refused() {
        let mut limits = Limits::new(3);
        let scope = |n: usize| Scopes::parse(&n.to_string());
        (0..MAX_SCOPE_SETS).for_each(|n| limits.step_up(&scope(n), 0).unwrap());
        assert!(limits.step_up(&scope(MAX_SCOPE_SETS), 0).is_err());
        limits.step_up(&scope(0), 0).unwrap();
    }

    #[test]
    fn only_new_tokens_count_as_refused() {
        let token = |access: &str, issued_at| Tokens {
            access: access.into(),
            kind: TokenKind::Bearer,
            refresh: None,
            issued_at,
            expires_at: None,
            scopes: Scopes::default(),
        };
        let mut limits = Limits::new(2);
        assert_eq!(limits.refused(&token("a", 100), 101).unwrap(), 1);
        assert_eq!(limits.refused(&token("b", 100), 100 + NEW_TOKEN_SECS).unwrap(), 0);
        assert_eq!(limits.refused(&token("c", 200), 201).unwrap(), 1);
        assert_eq!(limits.refused(&token("c", 200), 201).unwrap(), 1);
        assert_eq!(limits.refused(&token("d", 200), 201).unwrap(), 2);
        let error = limits.refused(&token("e", 200), 201).unwrap_err();
        assert!(matches!(error, AuthError::TooManyRefusals { limit: 2 }));
        let expired = |access: &str| Tokens { expires_at: Some(300), ..token(access, 300) };
        assert_eq!(limits.refused(&expired("f"), 300).unwrap(), 1);
        let error = limits.refused(&expired("g"), 300).unwrap_err();
        assert!(matches!(error, AuthError::NeverValid), "{error}");
    }
}
