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
use super::refusal_text::server_text;
use crate::http::{CredentialRefusal, Credentials};

/// Settings of an HTTP client.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpClientConfig {
    /// The maximum time for opening a connection, including TLS. If a host has several addresses, each of them gets a
    /// part of this time. Default: 10 s.
    pub connect_timeout: Duration,
    /// The maximum time for sending a message that is not a request: a notification, or an answer to the server. Also
    /// the maximum time for replacing a lost session while no call waits for the new session, and for opening the event
    /// stream of HTTP+SSE. Default: 30 s.
    pub message_timeout: Duration,
    /// The maximum length of the head of a response. A head that is incomplete after this many bytes, or that has more
    /// than 100 headers, fails the request. Default: 64 KiB, at least 8 KiB.
    pub header_bytes: usize,
    /// The maximum length of an answer in JSON; a longer answer fails its call. Default: 16 MiB.
    pub response_bytes: usize,
    /// The maximum length of an event in a stream. A longer event fails the call that the stream answers; on the
    /// session's GET stream, the event is skipped. Default: 16 MiB.
    pub event_bytes: usize,
    /// The maximum number of requests at the same time, each on its own connection; further requests wait.
    /// Subscriptions do not count. One principal can have at most eight times the number of requests that are still
    /// free, so that it cannot block the requests of others. Default: 256.
    pub requests: usize,
    /// The maximum number of the server's requests that run at the same time. For the calls of one principal, the
    /// server can have at most eight times the number of requests that are still free. Further requests are answered
    /// with code 3001 (resource exhausted). Default: 256.
    pub server_requests: usize,
    /// The maximum number of connections that are kept for later requests, including connections whose response is
    /// still being read. Default: 32.
    pub idle_connections: usize,
    /// The time for which an idle connection is kept, unless its server closes it earlier. The server announces an
    /// earlier close in `Keep-Alive`, or is expected to close a connection after the same idle time as an earlier
    /// connection. Default: 55 s, because many servers close their connections after a minute.
    pub idle_timeout: Duration,
    /// The time before the client resumes an interrupted stream, unless the server sends another value. Default: 1 s.
    pub retry: Duration,
    /// The maximum time that a server can make the client wait before it resumes a stream. Default: 60 s.
    pub max_retry: Duration,
    /// The maximum number of consecutive failed attempts to resume the stream of a request. If the server accepts this
    /// many attempts without sending an event, the client waits at least [`retry`](Self::retry) before each further
    /// attempt. After this many failures of the session's GET stream, the client tries to open that stream only every
    /// [`max_retry`](Self::max_retry). Default: 10.
    pub max_reconnects: u32,
    /// The maximum number of times that one request is sent again with other credentials. Default: 3.
    pub max_refusals: u32,
    /// Additional headers of every request, e.g. API keys; headers that the protocol defines take precedence.
    ///
    /// Because they can be secrets, they are not sent over plain `http` to another machine, like
    /// [`credentials`](Self::credentials); `User-Agent` and `Accept-Language` are exempt.
    pub headers: HeaderMap,
    /// The source of the `Authorization` header.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// If set, credentials and additional headers are also sent over plain `http` to another machine. Default: `false`.
    pub credentials_in_clear: bool,
    /// If set, connections are opened to public addresses only, so that a URL of an untrusted party does not lead into
    /// a private network. With a [`proxy`](Self::proxy), only an address that is written in the URL is checked, because
    /// the proxy resolves names. Default: `false`.
    pub only_public: bool,
    /// The proxy for new connections. Default: none, even if environment variables name a proxy.
    pub proxy: Proxy,
    /// Additional root certificates.
    pub(in crate::http) roots: Roots,
    /// The cache of the servers' protocol eras. Default: one cache for the whole process.
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
            only_public: false,
            proxy: Proxy::none(),
            roots: Roots::default(),
            eras: EraCache::shared(),
        }
    }
}

impl HttpClientConfig {
    /// Adds certificate authorities, in PEM format, to the authorities of the system. Further calls add further
    /// authorities.
    ///
    /// The text is parsed when a connection is created; creating it fails if the text is invalid.
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

/// Shows only the number of headers, because their values can be secrets.
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

/// A fixed bearer token, which is never renewed.
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
        let challenge = server_text(&refusal.challenges.join("; "), self.0.split_whitespace());
        let detail = if challenge.is_empty() { String::new() } else { format!(": {challenge}") };
        let message = format!("{what} (HTTP {}){detail}; use another one", refusal.status);
        Err(RpcError::new(code, message))
    }
}
