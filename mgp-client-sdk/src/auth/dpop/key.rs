//! The key to which tokens are bound, and its proofs (RFC 9449 §4.2).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mgp_types::{RpcError, random_name};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::auth::error::AuthError;
use crate::auth::now;
use crate::auth::secret::Secret;

/// The signature algorithm of proofs (RFC 7518).
pub(in crate::auth) const ALGORITHM: &str = "ES256";
/// The maximum number of attempts to generate a key; one attempt in 2³² fails.
const MAX_DRAWS: u32 = 8;

/// A private key on P-256 to which tokens are bound.
///
/// `Debug` shows only the thumbprint. Serialising writes the private key itself, for token stores.
#[derive(Clone, PartialEq, Eq)]
pub struct ProofKey {
    key: SigningKey,
    jwk: Jwk,
}

/// The public key; its members are in the order of RFC 7638 §3.2.
#[derive(Clone, PartialEq, Eq, Serialize)]
struct Jwk {
    crv: &'static str,
    kty: &'static str,
    x: String,
    y: String,
}

#[derive(Serialize)]
struct Head<'a> {
    typ: &'static str,
    alg: &'static str,
    jwk: &'a Jwk,
}

#[derive(Serialize)]
struct Claims<'a> {
    jti: String,
    htm: &'a str,
    htu: String,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

impl ProofKey {
    /// Creates a random key.
    pub(in crate::auth) fn new() -> Result<Self, AuthError> {
        for _ in 0..MAX_DRAWS {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).map_err(|_| no_randomness())?;
            if let Some(key) = Self::of(&bytes) {
                return Ok(key);
            }
        }
        Err(no_randomness().into())
    }

    /// Returns the public key's thumbprint (`jkt`, RFC 7638).
    #[must_use]
    pub fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(json(&self.jwk)))
    }

    /// Creates a proof that the sender of a request holds the key. With `token`, the proof also covers the token
    /// that is bound to the key.
    pub(in crate::auth) fn proof(
        &self,
        method: &str,
        url: &str,
        nonce: Option<&str>,
        token: Option<&Secret>,
    ) -> Result<String, AuthError> {
        let hash = |token: &Secret| URL_SAFE_NO_PAD.encode(Sha256::digest(token.expose()));
        let claims = Claims {
            jti: random_name()?,
            htm: method,
            htu: plain(url)?,
            iat: now(),
            ath: token.map(hash),
            nonce,
        };
        let head = Head { typ: "dpop+jwt", alg: ALGORITHM, jwk: &self.jwk };
        let encode = |part: Vec<u8>| URL_SAFE_NO_PAD.encode(part);
        let signed = format!("{}.{}", encode(json(&head)), encode(json(&claims)));
        let signature: Signature = self.key.sign(signed.as_bytes());
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes())))
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let key = SigningKey::from_slice(bytes).ok()?;
        let point = key.verifying_key().to_encoded_point(false);
        let (x, y) = (URL_SAFE_NO_PAD.encode(point.x()?), URL_SAFE_NO_PAD.encode(point.y()?));
        Some(Self { key, jwk: Jwk { crv: "P-256", kty: "EC", x, y } })
    }
}

/// Serialises the private key, in base64url.
impl Serialize for ProofKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&URL_SAFE_NO_PAD.encode(self.key.to_bytes()))
    }
}

impl<'de> Deserialize<'de> for ProofKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Secret::deserialize(from)?;
        let bytes = URL_SAFE_NO_PAD.decode(text.expose()).ok();
        bytes.and_then(|bytes| Self::of(&bytes)).ok_or_else(|| D::Error::custom("no key on P-256"))
    }
}

impl fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofKey").field("thumbprint", &self.thumbprint()).finish_non_exhaustive()
    }
}

fn no_randomness() -> RpcError {
    RpcError::internal("the system has no randomness")
}

fn json(what: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(what).expect("text and numbers are always JSON")
}

/// Returns a URL without query and fragment, which is the form that a proof contains (`htu`).
fn plain(url: &str) -> Result<String, AuthError> {
    let refuse = |_| AuthError::Address {
        what: "the request's URL",
        url: crate::auth::address::display_url(url),
        why: "it is not an absolute URL",
    };
    let mut url = Url::parse(url).map_err(refuse)?;
    url.set_query(None);
    url.set_fragment(None);
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thumbprint_is_that_of_rfc_9449() {
        // The key in the examples of RFC 9449 §4.1, and the thumbprint in the tokens of §6.1.
        let jwk = Jwk {
            crv: "P-256",
            kty: "EC",
            x: "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs".to_owned(),
            y: "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA".to_owned(),
        };
        let key = ProofKey { jwk, ..ProofKey::new().unwrap() };
        assert_eq!(key.thumbprint(), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    }

    #[test]
    fn a_key_survives_being_kept_and_is_not_printed() {
        let key = ProofKey::new().unwrap();
        let kept = serde_json::to_string(&key).unwrap();
        let again: ProofKey = serde_json::from_str(&kept).unwrap();
        assert_eq!(again, key);
        assert_eq!(again.thumbprint(), key.thumbprint());
        assert_ne!(ProofKey::new().unwrap(), key);
        assert!(!format!("{key:?}").contains(kept.trim_matches('"')), "{key:?}");
        let zeros = format!("\"{}\"", URL_SAFE_NO_PAD.encode([0; 32]));
        for broken in ["\"\"", "\"s3cret\"", "\"AAAA\"", &zeros, "7"] {
            let error = serde_json::from_str::<ProofKey>(broken).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn addresses_are_proved_in_one_form() {
        for (url, expected) in [
            ("HTTPS://A.example:443/mcp?key=s3cret#x", "https://a.example/mcp"),
            ("http://127.0.0.1:80", "http://127.0.0.1/"),
            ("http://[::1]:8080/a%20b/", "http://[::1]:8080/a%20b/"),
        ] {
            assert_eq!(plain(url).unwrap(), expected);
        }
        assert!(plain("/mcp").is_err());
    }
}
