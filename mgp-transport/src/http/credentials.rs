//! The credentials that a client presents to a server at a URL, and the refusals of a server.

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::service::BoxFuture;

/// A source of a client's credentials. It can obtain new credentials when a server refuses the current credentials.
///
/// Credentials that are the same for every request need only [`authorization`](Self::authorization) and
/// [`handle_refusal`](Self::handle_refusal).
///
/// Implement this trait with the `#[async_trait]` macro of the `async-trait` crate.
///
/// ```
/// use async_trait::async_trait;
/// use mgp_transport::http::{CredentialRefusal, Credentials};
/// use mgp_types::sync::Mutex;
/// use mgp_types::{ErrorCode, RpcError};
///
/// /// A token that another program renews in a file.
/// struct TokenFile(Mutex<String>);
///
/// #[async_trait]
/// impl Credentials for TokenFile {
///     async fn authorization(&self) -> Result<Option<String>, RpcError> {
///         Ok(Some(format!("Bearer {}", *self.0.lock())))
///     }
///
///     async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError> {
///         if refusal.attempts > 1 {
///             return Err(RpcError::new(ErrorCode::AUTH_EXPIRED, "the server refused the token"));
///         }
///         let token = std::fs::read_to_string("token");
///         let token = token.map_err(|error| RpcError::internal("cannot read the token").because(error))?;
///         *self.0.lock() = token.trim().to_owned();
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// Returns the value of the `Authorization` header; `None` to send the request without this header.
    async fn authorization(&self) -> Result<Option<String>, RpcError>;

    /// Returns the credentials for one request. Called each time the request is sent, so that each `DPoP` proof is used
    /// only once. The method is not `async`, because it is called for every request, and a hand-written future is
    /// smaller.
    fn for_request<'a>(
        &'a self,
        _request: RequestTarget<'a>,
    ) -> BoxFuture<'a, Result<RequestCredentials, RpcError>> {
        Box::pin(async { Ok(RequestCredentials::new(self.authorization().await?)) })
    }

    /// Stores the nonce that the server supplied in an answer, for later proofs (`DPoP-Nonce`, RFC 9449 §8.2). A nonce
    /// in a refusal is passed as [`CredentialRefusal::nonce`] instead. Does nothing by default.
    fn handle_nonce(&self, _nonce: &str) {}

    /// Reacts to a refusal, e.g. by renewing the credentials. If this returns `Ok`, the client sends the request again;
    /// if it returns an error, the request fails with that error.
    ///
    /// An implementation must not return `Ok` without limit, see [`CredentialRefusal::attempts`].
    async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError>;
}

/// The method and URL of a request that is about to be sent, e.g. for a `DPoP` proof.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestTarget<'a> {
    /// The HTTP method of the request.
    pub method: &'a str,
    /// The absolute URL of the request.
    pub url: &'a str,
}

/// The credentials for one request.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestCredentials {
    /// The value of the header `Authorization`, if any.
    pub authorization: Option<String>,
    /// The further headers that the credentials need, by lower-case name.
    pub headers: Vec<(&'static str, String)>,
}

/// A refusal of credentials: status 401, or status 403 with a challenge.
#[derive(Clone)]
#[non_exhaustive]
pub struct CredentialRefusal {
    /// The status code of the refusal.
    pub status: u16,
    /// The values of the header `WWW-Authenticate` of the refusal.
    pub challenges: Vec<String>,
    /// The value of `Authorization` in the refused request. If it differs from the current value, another request has
    /// already caused a renewal.
    pub shown: Option<String>,
    /// The nonce for later proofs of possession (the header `DPoP-Nonce`).
    pub nonce: Option<String>,
    /// The number of times that the request was refused, including this one.
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
    /// Creates a refusal of a request that was refused once (`attempts` is 1), without a nonce.
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

// Debug output omits the values, because they are secrets.
mgp_types::opaque_debug!(RequestCredentials);

// Debug output omits the credentials, because they are secrets.
mgp_types::opaque_debug!(CredentialRefusal { status, challenges });
