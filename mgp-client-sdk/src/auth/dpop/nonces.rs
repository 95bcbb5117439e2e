//! What servers want to see in the next proof (RFC 9449 §8, §9).
//!
//! Applies to: outbound.

use std::sync::{Mutex, PoisonError};

/// How many servers' nonces are kept; the one not heard of for longest goes first.
const MOST: usize = 16;
/// How long a nonce may be.
const LONGEST: usize = 1024;

/// The last nonce of each server. One that authorises and one that is protected are two, also at one origin.
#[derive(Debug, Default)]
pub(in crate::auth) struct Nonces(Mutex<Vec<(String, String)>>);

impl Nonces {
    /// Takes note of a nonce; what is none is passed over.
    pub(in crate::auth) fn take(&self, server: &str, nonce: &str) {
        if nonce.is_empty() || nonce.len() > LONGEST || !nonce.bytes().all(is_nonce) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(of, _)| of != server);
        known.push((server.to_owned(), nonce.to_owned()));
        let excess = known.len().saturating_sub(MOST);
        known.drain(..excess);
    }

    /// The nonce that a server wants to see now.
    pub(in crate::auth) fn of(&self, server: &str) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(of, _)| of == server).map(|(_, nonce)| nonce.clone())
    }
}

/// RFC 9449 §8.1: `NQCHAR`.
fn is_nonce(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_last_nonce_and_few_are_kept() {
        let nonces = Nonces::default();
        nonces.take("a", "one");
        nonces.take("b", "two");
        nonces.take("a", "three");
        for broken in ["", "x\"y", "x y", "x\\y", "é", &"x".repeat(LONGEST + 1)] {
            nonces.take("a", broken);
        }
        assert_eq!(nonces.of("a").as_deref(), Some("three"));
        assert_eq!(nonces.of("b").as_deref(), Some("two"));
        assert_eq!(nonces.of("c"), None);
        (0..MOST).for_each(|n| nonces.take(&n.to_string(), "x"));
        assert_eq!((nonces.of("a"), nonces.of("0").as_deref()), (None, Some("x")));
    }
}
