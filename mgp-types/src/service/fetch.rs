//! Download of documents by URL (metadata, keys, tokens), for code that contains no HTTP client.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::shown_url::{shown_origin, shown_url};

/// A downloader of documents; the implementation decides which addresses are allowed.
///
/// An implementation must not follow redirects, must check addresses after name resolution, and must bound
/// time and size.
///
/// Implementations use the attribute `#[async_trait]` of the crate with that name.
#[async_trait]
pub trait Fetch: Send + Sync + 'static {
    /// Sends a request and reads the whole response; every HTTP status is returned as a response, not as an error.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError>;
}

/// A shared downloader; see [`Fetch`].
pub type SharedFetch = Arc<dyn Fetch>;

/// A request to download a document.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchRequest {
    /// The HTTP method: `GET` or `POST`.
    pub method: &'static str,
    /// The absolute URL of the document.
    pub url: String,
    /// The headers to send, each with its name in lower case.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The body to send; empty for `GET`.
    pub body: Vec<u8>,
}

/// The response to a request, read to its end.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The headers in the order received, each with its name in lower case.
    pub headers: Vec<(String, String)>,
    /// The body of the response.
    pub body: Vec<u8>,
}

/// The error of a download that failed or is not allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// A rule of the downloader forbids the request: its scheme, its address, or a redirect.
    #[error("`{}` must not be fetched: {why}", shown_url(url))]
    Forbidden {
        /// The requested URL; the message shows it through [`shown_url`](super::shown_url()).
        url: String,
        /// The rule that forbids the request.
        why: String,
    },
    /// The server was not reached, or the whole response could not be read.
    #[error("`{}` could not be fetched: {why}", shown_url(url))]
    Failed {
        /// The requested URL; the message shows it through [`shown_url`](super::shown_url()).
        url: String,
        /// The reason why the request failed.
        why: String,
    },
}

impl FetchError {
    /// Hides the path of the URL in errors and logs. Used for URLs whose path may be a secret, e.g. URLs of webhooks.
    #[must_use]
    pub fn hiding_path(mut self) -> Self {
        let (Self::Forbidden { url, .. } | Self::Failed { url, .. }) = &mut self;
        *url = shown_origin(url);
        self
    }
}

impl FetchRequest {
    /// Creates a `GET` request.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self { method: "GET", url: url.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Creates a `POST` request with a body.
    #[must_use]
    pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { method: "POST", url: url.into(), headers: Vec::new(), body: body.into() }
    }

    /// Adds a header; its name must be in lower case.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

impl FetchResponse {
    /// Creates a response with a status and a body.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// Returns the value of the first header with this name, which must be in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Omits the headers, the body and the query of the URL, because they may contain secrets.
impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, shown_url(&self.url))
    }
}

/// Omits the body, which may contain a secret.
impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.status, self.body.len())
    }
}
