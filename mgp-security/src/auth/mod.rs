//! Authentication of HTTP callers: API keys, and access tokens of an OAuth issuer (MCP authorization; MGP §3, §5).
//!
//! An [`AuthLayer`] stands around an HTTP service.
//! It reads one `Authorization: Bearer` header, never the query, and asks its [`ApiKeys`] about what begins with
//! `mgp_` and its [`TokenVerifier`] about the rest.
//! Who calls is written into the extensions of the request, as a [`Principal`](mgp_types::service::Principal) and an
//! [`Authenticated`]; the header itself ends here, so that a token can be passed on to nobody.
//!
//! | what came | status | `error` of the challenge | code |
//! |---|---|---|---|
//! | no bearer token | 401 | none | 1002 |
//! | two headers, or text no token has | 400 | `invalid_request` | 1002 |
//! | a key or token that is not good | 401 | `invalid_token` | 1002 |
//! | one that was good | 401 | `invalid_token` | 1003 |
//! | a token without a scope all requests need | 403 | `insufficient_scope` | 1000 |
//! | keys of the issuer out of reach, or a broken store | 503 | no challenge | 5002 |
//!
//! Where tokens are taken, the document of RFC 9728 is served under `/.well-known/oauth-protected-resource`, with
//! and without the path of the resource, and challenges name it.
//!
//! The permissions of a key and the scopes of a token are carried in [`Authenticated`] for layers further in.
//! Nothing enforces them yet but [`ResourceServer::require_scope`].
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use mgp_security::auth::{ApiKeys, AuthLayer, KeyGrant};
//! use mgp_types::service::Principal;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let keys = ApiKeys::new();
//! let key = keys.issue(KeyGrant::new("acme", "nightly-build")).await.unwrap();
//!
//! let whoami = service_fn(|request: Request<()>| async move {
//!     let caller = request.extensions().get::<Principal>().unwrap();
//!     Ok::<_, std::convert::Infallible>(Response::new(Bytes::from(caller.subject().to_string())))
//! });
//! let guarded = AuthLayer::new().keys(keys).layer(whoami);
//!
//! let bearer = format!("Bearer {}", key.reveal());
//! let request = Request::post("/mcp").header("authorization", bearer).body(()).unwrap();
//! let answer = guarded.clone().oneshot(request).await.unwrap();
//! assert_eq!(answer.body(), "nightly-build");
//!
//! let answer = guarded.oneshot(Request::post("/mcp").body(()).unwrap()).await.unwrap();
//! assert_eq!(answer.status(), 401);
//! # });
//! ```
//!
//! Applies to: inbound.

mod answer;
mod authenticated;
mod bearer;
mod future;
mod key;
mod layer;
mod metadata;
mod refused;
#[cfg(test)]
mod tests;
mod token;

pub use authenticated::{Authenticated, Credential};
pub use future::ResponseFuture;
pub use key::{
    ApiKeys, FileKeys, KeyError, KeyGrant, KeyRecord, KeyStore, MAX_KEYS, MemoryKeys, NewKey,
    StoreError,
};
pub use layer::{Auth, AuthLayer};
pub use metadata::{BadResource, ResourceMetadata};
pub use refused::AuthRefused;
pub use token::{BadJwks, JwkSet, ResourceServer, SignatureAlgorithm, TokenVerifier};
