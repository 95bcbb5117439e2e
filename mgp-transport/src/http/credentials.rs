//! Credentials that a client presents to a server at a URL, and the server's refusals.

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::service::BoxFuture;

/// Source of a client's credentials, which replaces them when a server refuses them.
///
/// Credentials that are the same for every request need only [`authorization`](Self::authorization) and
/// [`refused`](Self::handle_refusal).
///
/// Implement it with `#[async_trait]` of the crate of that name.
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// Returns the value of the `Authorization` header; `None` if there are no credentials yet.
    async fn authorization(&self) -> Result<Option<String>, RpcError>;

    /// Returns the credentials of one request; called each time it is sent, so that a proof serves one sending only.
    // Not `async`: it is called for each request, and a future written by hand holds no more than it needs.
    fn for_request<'a>(
        &'a self,
        _request: RequestTarget<'a>,
    ) -> BoxFuture<'a, Result<RequestCredentials, RpcError>> {
        Box::pin(async { Ok(RequestCredentials::new(self.authorization().await?)) })
    }

    /// Receives the nonce of an answer for later proofs (`DPoP-Nonce`, RFC 9449 §8.2). Refusals carry theirs in
    /// [`CredentialRefusal::nonce`] instead.
    fn handle_nonce(&self, _nonce: &str) {}

    /// Handles a refusal; after `Ok` the request is sent again, after an error it fails with it.
    ///
    /// Implementations must bound how often they return `Ok`.
    async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError>;
}

/// The request that is about to be sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestTarget<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Absolute URL.
    pub url: &'a str,
}

/// Credentials of one request.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestCredentials {
    /// Value of `Authorization`, if any.
    pub authorization: Option<String>,
    /// Further headers, by lower-case name.
    pub headers: Vec<(&'static str, String)>,
}

/// A refusal: 401, or 403 with a challenge.
#[derive(Clone)]
#[non_exhaustive]
pub struct CredentialRefusal {
    /// Status code.
    pub status: u16,
    /// Values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// The credentials the request had; if they differ from the current ones, another request renewed them already.
    pub shown: Option<String>,
    /// Nonce for later proofs (`DPoP-Nonce`).
    pub nonce: Option<String>,
    /// Number of refusals of the request, this one included.
    pub attempts: u32,
}

impl<'a> RequestTarget<'a> {
    /// Creates a target of this method and URL.
    #[must_use]
    pub fn new(method: &'a str, url: &'a str) -> Self {
        Self { method, url }
    }
}

impl RequestCredentials {
    /// Creates credentials with this value of `Authorization` and no further header.
    #[must_use]
    pub fn new(authorization: Option<String>) -> Self {
        Self { authorization, headers: Vec::new() }
    }

    /// Adds a header; the name must be in lower case.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl CredentialRefusal {
    /// Creates the first refusal of a request.
    #[must_use]
    pub fn new(status: u16, challenges: Vec<String>, shown: Option<String>) -> Self {
        Self { status, challenges, shown, nonce: None, attempts: 1 }
    }

    /// Sets the nonce for later proofs.
    #[must_use]
    pub fn nonce(mut self, nonce: Option<String>) -> Self {
        self.nonce = nonce;
        self
    }

    /// Sets the number of refusals of the request, this one included.
    #[must_use]
    pub fn attempts(mut self, times: u32) -> Self {
        self.attempts = times;
        self
    }
}

// The values are secrets.
mgp_types::opaque_debug!(RequestCredentials);

// The credentials that were shown are secrets.
mgp_types::opaque_debug!(CredentialRefusal { status, challenges });
