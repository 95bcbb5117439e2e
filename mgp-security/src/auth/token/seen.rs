//! Signatures that were verified a moment ago: a client sends the same token with every request.
//!
//! Only that the signature is good is remembered. What the token says, and until when, is read every time.
//!
//! Applies to: inbound.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::jwks::JwkSet;

/// No more tokens are remembered; at the bound all are forgotten, which costs each one more verification.
const MAX_SEEN: usize = 4096;

/// The hashes of tokens some keys have verified.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Remembered>>);

#[derive(Default)]
struct Remembered {
    /// Other keys may not know the tokens.
    keys: Option<Arc<JwkSet>>,
    tokens: HashSet<TokenHash>,
}

/// SHA-256 of a token, header and signature included.
pub(super) type TokenHash = [u8; 32];

pub(super) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

impl Seen {
    /// Whether these keys have verified a token.
    pub(super) fn knows(&self, token: &TokenHash, keys: &Arc<JwkSet>) -> bool {
        let seen = self.seen();
        seen.are(keys) && seen.tokens.contains(token)
    }

    /// Remembers that these keys have verified a token.
    pub(super) fn remember(&self, token: TokenHash, keys: &Arc<JwkSet>) {
        let mut seen = self.seen();
        if !seen.are(keys) || seen.tokens.len() >= MAX_SEEN {
            seen.keys = Some(Arc::clone(keys));
            seen.tokens.clear();
        }
        seen.tokens.insert(token);
    }

    fn seen(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn are(&self, keys: &Arc<JwkSet>) -> bool {
        self.keys.as_ref().is_some_and(|known| Arc::ptr_eq(known, keys))
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.seen().tokens.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_ends_with_the_keys() {
        let (keys, newer) = (Arc::default(), Arc::default());
        let seen = Seen::default();
        for n in 0..MAX_SEEN {
            seen.remember(hash(&n.to_string()), &keys);
        }
        assert!(seen.knows(&hash("0"), &keys));
        assert!(!seen.knows(&hash("0"), &newer));
        assert!(!seen.knows(&hash("x"), &keys));
        seen.remember(hash("x"), &keys);
        assert_eq!(format!("{seen:?}"), "1 tokens");
        seen.remember(hash("y"), &newer);
        assert!(!seen.knows(&hash("x"), &newer) && seen.knows(&hash("y"), &newer));
    }
}
