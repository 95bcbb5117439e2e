//! What a client shows a server at a URL, and what it learns when that was not enough.
//!
//! Applies to: outbound.

use mgp_types::RpcError;
use mgp_types::service::BoxFuture;

/// Gives requests their credentials, and gets better ones where a server refused.
///
/// What is the same for every request needs no more than [`authorization`](Self::authorization) and
/// [`refused`](Self::refused).
pub trait Credentials: Send + Sync + 'static {
    /// The value of the `Authorization` header; `None` where there is nothing to show yet.
    fn authorization(&self) -> BoxFuture<'_, Result<Option<String>, RpcError>>;

    /// What one request shows; asked anew each time it is sent, so that a proof is made for one sending only.
    fn shown<'a>(&'a self, _request: Target<'a>) -> BoxFuture<'a, Result<Shown, RpcError>> {
        Box::pin(async { Ok(Shown::new(self.authorization().await?)) })
    }

    /// Takes note of what an answer brings for the proofs to come (`DPoP-Nonce`, RFC 9449 §8.2), unless it is a
    /// refusal, which brings it itself.
    fn nonce(&self, _nonce: &str) {}

    /// Takes note of a refusal; after `Ok` the request is sent again, after an error it fails with it.
    ///
    /// Whoever implements it bounds how often it says `Ok`.
    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<(), RpcError>>;
}

/// The request that is to be sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Target<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its absolute URL.
    pub url: &'a str,
}

/// What a request shows of its credentials.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Shown {
    /// The value of `Authorization`, if there is one.
    pub authorization: Option<String>,
    /// Further headers, by lower-case name.
    pub headers: Vec<(&'static str, String)>,
}

/// A refusal: 401, or 403 with a challenge.
#[derive(Clone)]
#[non_exhaustive]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// What was shown: where it is no longer what would be shown now, somebody else renewed it already.
    pub shown: Option<String>,
    /// What it brings for the proofs to come (`DPoP-Nonce`).
    pub nonce: Option<String>,
    /// How often the request was refused, this time included.
    pub times: u32,
}

impl<'a> Target<'a> {
    /// A request of this method to this URL.
    #[must_use]
    pub fn new(method: &'a str, url: &'a str) -> Self {
        Self { method, url }
    }
}

impl Shown {
    /// Shows this value of `Authorization`, and nothing else.
    #[must_use]
    pub fn new(authorization: Option<String>) -> Self {
        Self { authorization, headers: Vec::new() }
    }

    /// Shows another header, whose name is given in lower case.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Refused {
    /// The first refusal of a request, of this status.
    #[must_use]
    pub fn new(status: u16, challenges: Vec<String>, shown: Option<String>) -> Self {
        Self { status, challenges, shown, nonce: None, times: 1 }
    }

    /// Brings something for the proofs to come.
    #[must_use]
    pub fn nonce(mut self, nonce: Option<String>) -> Self {
        self.nonce = nonce;
        self
    }

    /// Counts the refusals of the request, this one included.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }
}

/// The values are secrets.
impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Shown").field("headers", &names).finish_non_exhaustive()
    }
}

/// What was shown is a secret.
impl std::fmt::Debug for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refused")
            .field("status", &self.status)
            .field("challenges", &self.challenges)
            .finish_non_exhaustive()
    }
}
