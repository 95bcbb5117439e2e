//! Proofs for a token endpoint (RFC 9449 §5, §8).
//!
//! Applies to: outbound.

use mgp_types::service::{FetchRequest, Fetched};
use url::Url;

use super::key::ProofKey;
use super::nonces::Nonces;
use crate::auth::address;
use crate::auth::error::AuthError;

/// How often a token endpoint may name another nonce before it is given up.
pub(in crate::auth) const RETRIES: u32 = 2;
/// What a server says that wants to see a nonce.
pub(in crate::auth) const WANTS_NONCE: &str = "use_dpop_nonce";

/// Proves the requests to a token endpoint.
#[derive(Clone, Copy, Debug)]
pub(in crate::auth) struct Prover<'a> {
    pub(in crate::auth) key: &'a ProofKey,
    pub(in crate::auth) nonces: &'a Nonces,
}

impl Prover<'_> {
    /// Adds the proof to a request.
    pub(in crate::auth) fn prove(&self, request: FetchRequest) -> Result<FetchRequest, AuthError> {
        let nonce = self.nonces.of(&place(&request.url)?);
        let proof = self.key.proof(request.method, &request.url, nonce.as_deref(), None)?;
        Ok(request.header("dpop", proof))
    }

    /// Takes note of the nonce of an answer; says whether there was one.
    pub(in crate::auth) fn learn(
        &self,
        endpoint: &str,
        answer: &Fetched,
    ) -> Result<bool, AuthError> {
        let mut found = answer.headers.iter().filter(|(name, _)| name == "dpop-nonce");
        let (Some((_, nonce)), None) = (found.next(), found.next()) else { return Ok(false) };
        self.nonces.take(&place(endpoint)?, nonce);
        Ok(true)
    }
}

/// The server of a token endpoint, apart from a protected one at the same origin.
fn place(endpoint: &str) -> Result<String, AuthError> {
    let url: Url = address::secure("the token endpoint", endpoint)?;
    Ok(format!("token {}", address::origin(&url)))
}
