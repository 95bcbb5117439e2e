//! Proofs for a token endpoint (RFC 9449 §5, §8).

use mgp_types::service::{FetchRequest, FetchResponse};
use url::Url;

use super::key::ProofKey;
use super::nonces::Nonces;
use crate::auth::address;
use crate::auth::error::AuthError;

/// The maximum number of times that a request is repeated because the token endpoint requires a new nonce.
pub(in crate::auth) const MAX_RETRIES: u32 = 2;
/// The error code of a server that requests a nonce.
pub(in crate::auth) const WANTS_NONCE: &str = "use_dpop_nonce";

/// A creator of proofs for requests to a token endpoint.
#[derive(Clone, Copy, Debug)]
pub(in crate::auth) struct Prover<'a> {
    pub(in crate::auth) key: &'a ProofKey,
    pub(in crate::auth) nonces: &'a Nonces,
}

impl Prover<'_> {
    pub(in crate::auth) fn prove(&self, request: FetchRequest) -> Result<FetchRequest, AuthError> {
        let nonce = self.nonces.of(&nonce_name(&request.url)?);
        let proof = self.key.proof(request.method, &request.url, nonce.as_deref(), None)?;
        Ok(request.header("dpop", proof))
    }

    /// Stores the nonce in a response; returns whether the response contained one.
    pub(in crate::auth) fn learn(
        &self,
        endpoint: &str,
        answer: &FetchResponse,
    ) -> Result<bool, AuthError> {
        let mut found = answer.headers.iter().filter(|(name, _)| name == "dpop-nonce");
        let (Some((_, nonce)), None) = (found.next(), found.next()) else { return Ok(false) };
        self.nonces.store(&nonce_name(endpoint)?, nonce);
        Ok(true)
    }
}

/// Returns the name of a token endpoint's nonce in [`Nonces`]. It differs from the protected server's name, even if
/// both have the same origin.
fn nonce_name(endpoint: &str) -> Result<String, AuthError> {
    let url: Url = address::parse_secure("the token endpoint", endpoint)?;
    Ok(format!("token {}", address::origin(&url)))
}
