//! Authorisation by OAuth 2.1 for servers at a URL (MCP authorization, 2026-07-28 and what older revisions need).
//!
//! - [`OAuth`] is the credentials of a client: it learns from a refusal who authorises for the server, registers, has a
//!   person log in, shows the token, renews it, and asks for more scopes where the server wants them.
//! - [`Browser`] is how a person gets to the login; [`LoopbackBrowser`] is one for programs on their machine.
//! - [`TokenStore`] is where tokens are kept, by server and issuer; [`FileTokens`] is one only its owner can read.
//! - [`Dpop`] is when tokens are bound to a key, so that who steals one cannot use it (RFC 9449).
//! - [`ClientCredentials`] and [`Assertions`] are for clients without a person.
//!
//! What is refused: addresses that are neither `https` nor on this machine, metadata for another server, an issuer that
//! differs by a letter, authorization servers without PKCE S256, bearer tokens where the server requires bound ones, answers with another state or issuer, and credentials
//! of one issuer at another.
//!
//! Applies to: outbound.

mod address;
mod assertion;
mod authorize;
mod browser;
mod challenge;
mod clock;
mod discovery;
mod dpop;
mod error;
mod jwt;
mod limits;
mod login;
mod loopback;
mod metadata;
mod oauth;
mod pkce;
mod plan;
mod register;
mod scope;
mod secret;
mod session;
mod shared;
mod store;
mod token;

pub use assertion::{Assertions, EnterpriseIdp};
pub use browser::Browser;
pub use dpop::{Dpop, ProofKey};
pub use error::AuthError;
pub use jwt::{SigningAlgorithm, SigningKey};
pub use loopback::LoopbackBrowser;
pub use oauth::OAuth;
pub use plan::ClientCredentials;
pub use scope::Scopes;
pub use secret::Secret;
pub use store::{
    FileTokens, MemoryTokens, Registration, RegistrationKind, StoreError, Stored, TokenKind,
    TokenStore, TokenTurn, Tokens,
};
