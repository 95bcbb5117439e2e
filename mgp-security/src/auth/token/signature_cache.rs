//! A cache of the tokens whose signatures are known to be valid. A client sends the same token with every request, so
//! most signatures need not be verified again.
//!
//! Only the validity of the signature is cached. The claims, including the expiry, are checked for every request.

use std::collections::HashSet;
use std::sync::Arc;

use mgp_types::sync::Mutex;
use sha2::{Digest, Sha256};

use super::jwks::JwkSet;

/// The maximum number of cached tokens. At this limit the cache is cleared, and the signature of each token is verified
/// once more.
const MAX_TOKENS: usize = 4096;

/// The tokens whose signatures were verified with one key set; a handle that is cheap to clone.
#[derive(Clone, Default)]
pub(super) struct SignatureCache(Arc<Mutex<SignatureSet>>);

#[derive(Default)]
struct SignatureSet {
    /// The key set with which the signatures were verified; `None` if the cache is empty. The cached tokens do not
    /// count for any other key set.
    keys: Option<Arc<JwkSet>>,
    tokens: HashSet<TokenHash>,
}

/// SHA-256 of a token, including header and signature.
pub(super) type TokenHash = [u8; 32];

pub(super) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

impl SignatureCache {
    /// Returns whether the signature of a token was verified with this key set.
    pub(super) fn contains(&self, token: &TokenHash, keys: &Arc<JwkSet>) -> bool {
        let verified = self.0.lock();
        verified.is_of(keys) && verified.tokens.contains(token)
    }

    /// Notes that the signature of a token was verified with this key set. Forgets tokens of another key set.
    pub(super) fn remember(&self, token: TokenHash, keys: &Arc<JwkSet>) {
        let mut verified = self.0.lock();
        if !verified.is_of(keys) || verified.tokens.len() >= MAX_TOKENS {
            verified.keys = Some(Arc::clone(keys));
            verified.tokens.clear();
        }
        verified.tokens.insert(token);
    }
}

impl SignatureSet {
    fn is_of(&self, keys: &Arc<JwkSet>) -> bool {
        self.keys.as_ref().is_some_and(|known| Arc::ptr_eq(known, keys))
    }
}

mgp_types::opaque_debug!(SignatureCache);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_and_cleared_with_the_keys() {
        let (keys, newer) = (Arc::default(), Arc::default());
        let verified = SignatureCache::default();
        for n in 0..MAX_TOKENS {
            verified.remember(hash(&n.to_string()), &keys);
        }
        assert!(verified.contains(&hash("0"), &keys));
        assert!(!verified.contains(&hash("0"), &newer));
        assert!(!verified.contains(&hash("x"), &keys));
        verified.remember(hash("x"), &keys);
        assert_eq!(verified.0.lock().tokens.len(), 1);
        verified.remember(hash("y"), &newer);
        assert!(!verified.contains(&hash("x"), &newer) && verified.contains(&hash("y"), &newer));
    }
}
