//! Authentication of HTTP callers: API keys, and access tokens of an OAuth issuer (MCP authorization; MGP §3, §5).
//!
//! An [`AuthLayer`] wraps an HTTP service.
//! It reads one `Authorization: Bearer` header, never the query. Credentials with the prefix `mgp_` are checked by
//! its [`ApiKeys`], all others by its [`TokenVerifier`].
//! The layer adds the caller to the extensions of the request, as a [`Principal`](mgp_types::service::Principal) and an
//! [`Authenticated`], and removes the header, so that a token cannot be passed on.
//!
//! | credentials | status | `error` of the challenge | code |
//! |---|---|---|---|
//! | no bearer token | 401 | none | 1002 |
//! | two headers, or characters that are not allowed in a token | 400 | `invalid_request` | 1002 |
//! | a key or token that is not valid | 401 | `invalid_token` | 1002 |
//! | an expired key or token | 401 | `invalid_token` | 1003 |
//! | a token without a scope that all requests need | 403 | `insufficient_scope` | 1000 |
//! | keys of the issuer unreachable, or a broken store | 503 | no challenge | 5002 |
//!
//! With a token verifier, the layer serves the document of RFC 9728 under `/.well-known/oauth-protected-resource`,
//! with and without the path of the resource, and challenges contain its URL.
//!
//! The permissions of a key and the scopes of a token are in [`Authenticated`], where inner layers can read them. This
//! layer enforces only [`ResourceServer::require_scope`]; [`AccessLayer`](crate::AccessLayer) enforces the permissions
//! that [`ApiKeys`] lists.
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
    ApiKeys, FileKeys, KeyError, KeyGrant, KeyRecord, KeyStore, KeyStoreError, MAX_KEYS,
    MemoryKeys, NewKey,
};
pub use layer::{Auth, AuthLayer};
pub use metadata::{BadResource, ResourceMetadata};
pub use refused::AuthRefused;
pub use token::{BadJwks, JwkSet, ResourceServer, SignatureAlgorithm, TokenVerifier};
