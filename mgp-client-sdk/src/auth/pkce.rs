//! Proof Key for Code Exchange (RFC 7636, method S256).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mgp_types::random_name;
use sha2::{Digest as _, Sha256};

use super::error::AuthError;
use super::secret::Secret;

pub(super) const METHOD: &str = "S256";

#[derive(Debug)]
pub(super) struct Pkce {
    pub(super) verifier: Secret,
    pub(super) challenge: String,
}

impl Pkce {
    /// Creates a verifier with 256 random bits, and its challenge.
    pub(super) fn new() -> Result<Self, AuthError> {
        let verifier = format!("{}{}", random_name()?, random_name()?);
        Ok(Self { challenge: challenge(&verifier), verifier: verifier.into() })
    }
}

pub(super) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn a_verifier_is_long_and_new_each_time() {
        let (one, two) = (Pkce::new().unwrap(), Pkce::new().unwrap());
        assert_ne!(one.verifier, two.verifier);
        assert!((43..=128).contains(&one.verifier.expose().len()));
    }
}
