//! Signed client assertions (RFC 7523 §2.2, `private_key_jwt`).

use std::str::FromStr;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use mgp_types::random_name;
use serde::Serialize;

use super::error::AuthError;
use super::now;
use super::secret::Secret;

/// The lifetime of an assertion, in seconds. An issuer whose clock is ahead of ours by more than this time refuses the
/// assertion.
const ASSERTION_TTL_SECS: u64 = 120;

/// The private key that authenticates a client.
#[derive(Clone)]
pub struct SigningKey {
    algorithm: SigningAlgorithm,
    key: EncodingKey,
    id: Option<String>,
}

/// The signature algorithm of a [`SigningKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// RSA PKCS #1 v1.5 with SHA-256.
    Rs256,
    /// Ed25519.
    EdDsa,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    jti: String,
    iat: u64,
    exp: u64,
}

impl SigningKey {
    /// Creates a key from PEM (PKCS #8).
    ///
    /// # Errors
    /// [`AuthError::Key`] if `pem` is not a private key for this algorithm.
    pub fn from_pem(algorithm: SigningAlgorithm, pem: &[u8]) -> Result<Self, AuthError> {
        let key = match algorithm {
            SigningAlgorithm::Es256 => EncodingKey::from_ec_pem(pem),
            SigningAlgorithm::Rs256 => EncodingKey::from_rsa_pem(pem),
            SigningAlgorithm::EdDsa => EncodingKey::from_ed_pem(pem),
        };
        let key = Self { algorithm, key: key.map_err(AuthError::Key)?, id: None };
        // Sign once now, so that an unusable key is refused here instead of at the first login.
        key.statement("", "").map(|_| key)
    }

    /// Sets the key id (`kid`). An authorization server that knows several keys of this client needs the id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    pub(super) fn statement(&self, client_id: &str, issuer: &str) -> Result<Secret, AuthError> {
        let mut header = Header::new(match self.algorithm {
            SigningAlgorithm::Es256 => Algorithm::ES256,
            SigningAlgorithm::Rs256 => Algorithm::RS256,
            SigningAlgorithm::EdDsa => Algorithm::EdDSA,
        });
        header.kid.clone_from(&self.id);
        let iat = now();
        let (jti, exp) = (random_name()?, iat + ASSERTION_TTL_SECS);
        let claims = Claims { iss: client_id, sub: client_id, aud: issuer, jti, iat, exp };
        encode(&header, &claims, &self.key).map(Secret::new).map_err(AuthError::Key)
    }
}

impl FromStr for SigningAlgorithm {
    type Err = AuthError;

    fn from_str(name: &str) -> Result<Self, AuthError> {
        match name {
            "ES256" => Ok(Self::Es256),
            "RS256" => Ok(Self::Rs256),
            "EdDSA" => Ok(Self::EdDsa),
            _ => Err(AuthError::Key(ErrorKind::InvalidAlgorithmName.into())),
        }
    }
}

mgp_types::opaque_debug!(SigningKey { algorithm, id });
