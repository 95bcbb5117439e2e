//! Access tokens: [`ResourceServer`] verifies the JWTs of one issuer; implement [`TokenVerifier`] to verify other
//! tokens.

mod algorithm;
mod claims;
mod jwks;
mod jws;
mod members;
mod resource_server;
mod signature_cache;
mod source;
#[cfg(test)]
mod tests;

pub use algorithm::SignatureAlgorithm;
pub use jwks::{BadJwks, JwkSet};
pub use resource_server::ResourceServer;

use async_trait::async_trait;

use super::authenticated::Authenticated;
use super::metadata::ResourceMetadata;
use super::refused::AuthRefused;

/// A verifier of access tokens. [`ResourceServer`] verifies JWTs; an implementation of your own could query the issuer
/// (RFC 7662).
///
/// An implementation must accept only tokens issued for this resource, and must never send a token to another server.
///
/// An implementation needs the attribute `#[async_trait]` of the crate `async-trait`.
#[async_trait]
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token, and returns the caller that it authenticates. A token from the header of a request is a
    /// `b64token` of at most 16 KiB; a token from [`AuthLayer::check`](super::AuthLayer::check) can be any text.
    async fn verify(&self, token: &str) -> Result<Authenticated, AuthRefused>;

    /// Returns the metadata of the resource, which is published and used in challenges.
    fn metadata(&self) -> ResourceMetadata;
}
