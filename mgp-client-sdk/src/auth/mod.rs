//! Authorization by OAuth 2.1 for servers at a URL (MCP authorization of 2026-07-28 and older revisions).
//!
//! - [`OAuth`] provides a client's credentials: after a refusal it discovers the authorization server, registers, lets
//!   a person log in, sends the token, renews it, and requests more scopes if the server needs them.
//! - [`Browser`] opens logins; [`LoopbackBrowser`] is an implementation for programs on a person's machine.
//! - [`TokenStore`] stores tokens by server and issuer; [`FileTokens`] is a file that only its owner can read. The
//!   tokens are obtained and refreshed in `acquire.rs`.
//! - [`DpopMode`] controls whether tokens are bound to a key, so that a stolen one is useless (RFC 9449).
//! - [`ClientCredentials`] and [`AssertionSource`] are for clients that act without a person.
//!
//! The client refuses addresses that are neither `https` nor on this machine, metadata of another server or issuer,
//! logins by redirect at authorization servers without PKCE S256, bearer tokens if the server requires bound tokens,
//! and responses with another state or issuer. It never uses one issuer's credentials at another issuer.

mod acquire;
mod address;
mod assertion;
mod authorize;
mod browser;
mod challenge;
mod config;
mod credentials;
mod device;
mod discovery;
mod dpop;
mod error;
mod jwt;
mod limits;
mod metadata;
mod oauth;
mod pkce;
mod register;
mod revoke;
mod scope;
mod secret;
mod shared_store;
mod store;
mod token;

use std::time::{SystemTime, UNIX_EPOCH};

pub use assertion::{AssertionSource, EnterpriseIdp};
pub use browser::{Browser, DeviceCode, LoopbackBrowser};
pub use config::ClientCredentials;
pub use dpop::{DpopMode, ProofKey};
pub use error::AuthError;
pub use jwt::{SigningAlgorithm, SigningKey};
pub use oauth::OAuth;
pub use scope::Scopes;
pub use secret::Secret;
pub use store::{
    FileTokens, MemoryTokens, Registration, RegistrationKind, RenewalLock, TokenEntry, TokenKind,
    TokenStore, TokenStoreError, Tokens,
};

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
