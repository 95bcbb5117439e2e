//! Sealing: encryption of state that a peer stores but can neither read nor change (request state, confirmations,
//! cursors).
//!
//! A sealed text contains its expiry time. It is bound to a purpose and to names that the caller chooses (e.g.
//! principal, method, target), and can be opened only with the same purpose and names.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chacha20poly1305::aead::{Aead, KeyInit, Payload as Sealing};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};

use crate::hex::{from_hex, to_hex};
use crate::wire::RpcError;

const NONCE_LEN: usize = 24;
const HEAD_LEN: usize = 1 + 8 + NONCE_LEN;

/// The version of the format, the first byte of a sealed text.
const VERSION: u8 = 0;

/// A sealer, which encrypts and authenticates state for storage by a peer.
///
/// ```
/// use std::time::Duration;
/// use mgp_types::Sealer;
///
/// let sealer = Sealer::random().unwrap();
/// let sealed = sealer.seal("cursor", &["alice"], Duration::from_secs(60), b"page 2").unwrap();
/// assert_eq!(sealer.open("cursor", &["alice"], &sealed).unwrap(), b"page 2");
/// assert!(sealer.open("cursor", &["bob"], &sealed).is_err());
/// ```
#[derive(Clone)]
pub struct Sealer(Arc<XChaCha20Poly1305>);

/// The error for a sealed text that cannot be opened: it was changed, has expired, or was sealed with another key, for
/// another purpose or for other names.
///
/// The error does not contain the reason, so that an attacker cannot learn from failed attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sealed state is not valid")]
pub struct UnsealError;

impl From<UnsealError> for RpcError {
    fn from(error: UnsealError) -> Self {
        Self::invalid_params(error)
    }
}

impl Sealer {
    /// Creates a sealer with a random key, whose sealed texts only this process can open.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the operating system provides no randomness.
    pub fn random() -> Result<Self, RpcError> {
        random::<32>().map(Self::with_key)
    }

    /// Creates a sealer with a given key; processes with the same key can open each other's sealed texts.
    #[must_use]
    pub fn with_key(key: [u8; 32]) -> Self {
        Self(Arc::new(XChaCha20Poly1305::new(&Key::from(key))))
    }

    /// Seals bytes for a purpose and for names; the sealed text expires after `ttl`.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the operating system provides no randomness.
    pub fn seal(
        &self,
        purpose: &str,
        bound_to: &[&str],
        ttl: Duration,
        bytes: &[u8],
    ) -> Result<String, RpcError> {
        let nonce = random::<NONCE_LEN>()?;
        let expires = now().saturating_add(ttl.as_secs());
        let mut head = Vec::with_capacity(HEAD_LEN);
        head.push(VERSION);
        head.extend_from_slice(&expires.to_be_bytes());
        head.extend_from_slice(&nonce);
        let aad = binding(&head, purpose, bound_to);
        let sealed = self
            .0
            .encrypt(&XNonce::from(nonce), Sealing { msg: bytes, aad: &aad })
            .map_err(|_| RpcError::internal("sealing failed"))?;
        head.extend_from_slice(&sealed);
        Ok(to_hex(&head))
    }

    /// Opens a sealed text, and returns the bytes that were sealed.
    ///
    /// # Errors
    /// Returns [`UnsealError`] if the text was changed, has expired, or was sealed with another key, for another
    /// purpose or for other names.
    pub fn open(
        &self,
        purpose: &str,
        bound_to: &[&str],
        sealed: &str,
    ) -> Result<Vec<u8>, UnsealError> {
        let bytes = from_hex(sealed).ok_or(UnsealError)?;
        let (head, body) = bytes.split_at_checked(HEAD_LEN).ok_or(UnsealError)?;
        let expires: [u8; 8] = head[1..9].try_into().map_err(|_| UnsealError)?;
        let nonce: [u8; NONCE_LEN] = head[9..].try_into().map_err(|_| UnsealError)?;
        let aad = binding(head, purpose, bound_to);
        let opened = self
            .0
            .decrypt(&XNonce::from(nonce), Sealing { msg: body, aad: &aad })
            .map_err(|_| UnsealError)?;
        if u64::from_be_bytes(expires) < now() {
            return Err(UnsealError);
        }
        Ok(opened)
    }
}

crate::opaque_debug!(Sealer);

/// Returns the data to which a sealed text is bound: they are authenticated, but not encrypted. Each part is preceded
/// by its length, so that different purposes and names never give the same data.
fn binding(head: &[u8], purpose: &str, bound_to: &[&str]) -> Vec<u8> {
    let mut out = head.to_vec();
    for part in std::iter::once(&purpose).chain(bound_to) {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part.as_bytes());
    }
    out
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn random<const N: usize>() -> Result<[u8; N], RpcError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| RpcError::internal("the system has no randomness"))?;
    Ok(bytes)
}

/// Returns an unguessable name: 128 random bits, in hexadecimal.
///
/// # Errors
/// Returns −32603 (internal error) if the operating system provides no randomness.
pub fn random_name() -> Result<String, RpcError> {
    random::<16>().map(|bytes| to_hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn any_changed_character_is_refused() {
        let sealer = Sealer::random().unwrap();
        let sealed = sealer.seal("state", &["a"], MINUTE, b"secret").unwrap();
        assert!(!sealed.contains("secret"));
        for index in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[index] = if changed[index] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(sealer.open("state", &["a"], &changed), Err(UnsealError), "{index}");
        }
        assert_eq!(sealer.open("state", &["a"], &sealed.to_uppercase()), Err(UnsealError));
    }

    #[test]
    fn purpose_names_expiry_and_key_bind() {
        let sealer = Sealer::random().unwrap();
        let sealed = sealer.seal("state", &["ab", "c"], MINUTE, b"x").unwrap();
        assert!(sealer.open("state", &["ab", "c"], &sealed).is_ok());
        assert_eq!(sealer.open("other", &["ab", "c"], &sealed), Err(UnsealError));
        assert_eq!(sealer.open("state", &["a", "bc"], &sealed), Err(UnsealError));
        assert_eq!(
            Sealer::random().unwrap().open("state", &["ab", "c"], &sealed),
            Err(UnsealError)
        );
        for text in ["", "0", "zz", &"00".repeat(100), "é"] {
            assert_eq!(sealer.open("state", &[], text), Err(UnsealError), "{text}");
        }
    }
}
