//! Nonces that servers require in the proof of the next request (RFC 9449 §8, §9).

use mgp_types::sync::Mutex;

/// The maximum number of servers whose nonces are kept; the oldest is dropped first.
const MAX_SERVERS: usize = 16;
const MAX_NONCE_BYTES: usize = 1024;

/// The last nonce of each server. An authorization server and a protected server with the same origin have
/// separate nonces.
#[derive(Debug, Default)]
pub(in crate::auth) struct Nonces(Mutex<Vec<(String, String)>>);

impl Nonces {
    /// Stores a nonce that the server has sent; ignores an invalid nonce.
    pub(in crate::auth) fn store(&self, server: &str, nonce: &str) {
        if nonce.is_empty() || nonce.len() > MAX_NONCE_BYTES || !nonce.bytes().all(is_nonce) {
            return;
        }
        let mut known = self.0.lock();
        known.retain(|(of, _)| of != server);
        known.push((server.to_owned(), nonce.to_owned()));
        let excess = known.len().saturating_sub(MAX_SERVERS);
        known.drain(..excess);
    }

    /// Returns the nonce for the next proof to a server.
    pub(in crate::auth) fn of(&self, server: &str) -> Option<String> {
        let known = self.0.lock();
        known.iter().find(|(of, _)| of == server).map(|(_, nonce)| nonce.clone())
    }
}

/// Returns whether a byte is a `NQCHAR` (RFC 9449 §8.1).
fn is_nonce(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_last_nonce_and_few_are_kept() {
        let nonces = Nonces::default();
        nonces.store("a", "one");
        nonces.store("b", "two");
        nonces.store("a", "three");
        for broken in ["", "x\"y", "x y", "x\\y", "é", &"x".repeat(MAX_NONCE_BYTES + 1)] {
            nonces.store("a", broken);
        }
        assert_eq!(nonces.of("a").as_deref(), Some("three"));
        assert_eq!(nonces.of("b").as_deref(), Some("two"));
        assert_eq!(nonces.of("c"), None);
        (0..MAX_SERVERS).for_each(|n| nonces.store(&n.to_string(), "x"));
        assert_eq!((nonces.of("a"), nonces.of("0").as_deref()), (None, Some("x")));
    }
}
