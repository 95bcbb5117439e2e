//! Access tokens: JWTs of one issuer, checked by a resource server, or whatever else verifies them.
//!
//! Applies to: inbound.

mod algorithm;
mod claims;
mod jwks;
mod jws;
mod members;
mod seen;
mod server;
mod source;
#[cfg(test)]
mod tests;

pub use algorithm::SignatureAlgorithm;
pub use jwks::{BadJwks, JwkSet};
pub use server::ResourceServer;

use mgp_types::service::BoxFuture;

use super::authenticated::Authenticated;
use super::metadata::ResourceMetadata;
use super::refused::AuthRefused;

/// Verifies access tokens; [`ResourceServer`] does so for JWTs, another one may ask the issuer (RFC 7662).
///
/// An implementation takes only tokens made for this resource, and never passes one on.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Says who shows a token; the text is a `b64token` of at most 16 KiB, and nothing else is known of it.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Authenticated, AuthRefused>>;

    /// What is published of the resource, and named in challenges.
    fn metadata(&self) -> ResourceMetadata;
}
