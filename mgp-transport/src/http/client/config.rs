//! The settings and limits of a client at a URL.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use mgp_types::{ErrorCode, RpcError};

use super::certificates::Roots;
use super::era_cache::EraCache;
use super::proxy::Proxy;
use crate::http::{CredentialRefusal, Credentials};

/// Settings of an HTTP client.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpClientConfig {
    /// Time for opening a connection, TLS included. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time for a message that is not a request: a notification, an answer to the server, the end of a session.
    /// Default: 30 s.
    pub message_timeout: Duration,
    /// Maximum length of a response head; a longer one fails the request. Default: 64 KiB, at least 8 KiB.
    pub header_bytes: usize,
    /// Maximum length of a JSON answer; a longer one fails its call. Default: 16 MiB.
    pub response_bytes: usize,
    /// Maximum length of an event in a stream. A longer one fails the call that the stream answers; on the session's
    /// own stream it is skipped. Default: 16 MiB.
    pub event_bytes: usize,
    /// Requests at once, each on its own connection; further ones wait. Default: 256.
    pub requests: usize,
    /// Requests of the server that run at once; further ones are answered with code 3001. Default: 256.
    pub server_requests: usize,
    /// Idle connections that are kept, including those whose response is still being read. Default: 32.
    pub idle_connections: usize,
    /// Time for which an idle connection is kept. Default: 55 s, because many servers close theirs after a minute.
    pub idle_timeout: Duration,
    /// Time before the client resumes an interrupted stream, unless the server sends another value. Default: 1 s.
    pub retry: Duration,
    /// Upper limit of the time that a server may ask the client to wait before resuming. Default: 60 s.
    pub max_retry: Duration,
    /// Attempts in a row to resume a stream without a new event. Default: 10.
    pub max_reconnects: u32,
    /// Times one request is sent again with other credentials. Default: 3.
    pub max_refusals: u32,
    /// Additional headers of every request, e.g. keys; those of the protocol take precedence.
    ///
    /// As they may be secrets, they require `https` like [`credentials`](Self::credentials), except for `User-Agent` and
    /// `Accept-Language`.
    pub headers: HeaderMap,
    /// Source of the `Authorization` header.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// If set, credentials and additional headers may be sent over plain `http` to another machine. Default: `false`.
    pub credentials_in_clear: bool,
    /// Proxy of new connections. Default: none, whatever the environment has.
    pub proxy: Proxy,
    /// Additional root certificates.
    pub(in crate::http) roots: Roots,
    /// Cache of the servers' eras. Default: one shared by the process.
    pub eras: EraCache,
}

impl Default for HttpClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            message_timeout: Duration::from_secs(30),
            header_bytes: 64 << 10,
            response_bytes: 16 << 20,
            event_bytes: 16 << 20,
            requests: 256,
            server_requests: 256,
            idle_connections: 32,
            idle_timeout: Duration::from_secs(55),
            retry: Duration::from_secs(1),
            max_retry: Duration::from_mins(1),
            max_reconnects: 10,
            max_refusals: 3,
            headers: HeaderMap::new(),
            credentials: None,
            credentials_in_clear: false,
            proxy: Proxy::none(),
            roots: Roots::default(),
            eras: EraCache::shared(),
        }
    }
}

impl HttpClientConfig {
    /// Adds certificate authorities, in PEM format, that are trusted besides the system's; several calls accumulate.
    ///
    /// The text is parsed when a connection is created, which fails if it is invalid.
    ///
    /// ```
    /// use mgp_transport::http::HttpClientConfig;
    ///
    /// # let pem = b"";
    /// let mut config = HttpClientConfig::default();
    /// config.root_certificates(pem);
    /// ```
    pub fn root_certificates(&mut self, pem: impl AsRef<[u8]>) -> &mut Self {
        self.roots.add(pem.as_ref());
        self
    }
}

/// Shows only the number of headers, because their values may be secrets.
impl fmt::Debug for HttpClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClientConfig")
            .field("connect_timeout", &self.connect_timeout)
            .field("response_bytes", &self.response_bytes)
            .field("event_bytes", &self.event_bytes)
            .field("requests", &self.requests)
            .field("headers", &self.headers.len())
            .field("roots", &self.roots)
            .field("has_credentials", &self.credentials.is_some())
            .finish_non_exhaustive()
    }
}

/// Fixed bearer token, which is not renewed.
pub struct Bearer(String);

impl Bearer {
    /// Creates credentials from a token.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(format!("Bearer {}", token.into()))
    }
}

mgp_types::opaque_debug!(Bearer);

#[async_trait]
impl Credentials for Bearer {
    async fn authorization(&self) -> Result<Option<String>, RpcError> {
        Ok(Some(self.0.clone()))
    }

    async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError> {
        let (code, what) = match refusal.status {
            401 => (ErrorCode::AUTH_EXPIRED, "the server refused the token"),
            _ => (ErrorCode::PERMISSION_DENIED, "the token does not allow this"),
        };
        let challenge = refusal.challenges.join("; ");
        let detail = if challenge.is_empty() { String::new() } else { format!(": {challenge}") };
        let message = format!("{what} (HTTP {}){detail}; use another one", refusal.status);
        Err(RpcError::new(code, message))
    }
}
