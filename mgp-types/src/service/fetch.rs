//! Fetching a document by URL, for whoever may not own an HTTP client: metadata, keys, tokens.

use std::fmt;
use std::sync::Arc;

use super::BoxFuture;
use super::shown_url::shown_url;

/// Fetches documents; what may be reached is the implementation's to guard.
///
/// An implementation follows no redirects, refuses addresses its rules forbid after the name was resolved, and bounds
/// time and size.
pub trait Fetch: Send + Sync + 'static {
    /// Sends a request and reads the whole answer, whatever its status.
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'_, Result<Fetched, FetchError>>;
}

/// A shared [`Fetch`].
pub type Fetcher = Arc<dyn Fetch>;

/// A request for a document.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The absolute URL.
    pub url: String,
    /// Headers, by lower-case name.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for `GET`.
    pub body: Vec<u8>,
}

/// An answer, read to its end.
#[derive(Clone)]
#[non_exhaustive]
pub struct Fetched {
    /// The status code.
    pub status: u16,
    /// Headers, by lower-case name, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a document was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The rules of the fetcher forbid it: scheme, address, redirect.
    #[error("`{}` may not be fetched: {why}", shown_url(url))]
    Forbidden {
        /// What was asked for, as far as it may be shown: see [`shown_url`](super::shown_url()).
        url: String,
        /// The rule.
        why: String,
    },
    /// The server was not reached, or its answer did not arrive whole.
    #[error("`{}` could not be fetched: {why}", shown_url(url))]
    Failed {
        /// What was asked for, as far as it may be shown: see [`shown_url`](super::shown_url()).
        url: String,
        /// What failed.
        why: String,
    },
}

impl FetchRequest {
    /// A `GET`.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self { method: "GET", url: url.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// A `POST` of a body.
    #[must_use]
    pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { method: "POST", url: url.into(), headers: Vec::new(), body: body.into() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Fetched {
    /// An answer of this status and body.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// The first header of a name, which is given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Headers, body and query may be secrets.
impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, shown_url(&self.url))
    }
}

/// The body may be a secret.
impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.status, self.body.len())
    }
}
