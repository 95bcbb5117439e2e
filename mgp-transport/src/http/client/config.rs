//! The settings of a client at a URL, and the bounds of everything a server could make grow.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use mgp_types::service::BoxFuture;
use mgp_types::{ErrorCode, RpcError};

use super::eras::EraCache;
use super::trust::Roots;
use crate::http::{Credentials, Refused};

/// How a client uses HTTP; proxies of the environment are not used.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpClientConfig {
    /// How long a connection may take to open, TLS included. 10 s.
    pub connect_timeout: Duration,
    /// How long a message that is no request may take: notifications, answers to the server, the end of a session. 30 s.
    pub message_timeout: Duration,
    /// The longest head of a response; above it the request fails. 64 KiB, 8 KiB at least.
    pub header_bytes: usize,
    /// The longest JSON answer; a longer one fails its call. 16 MiB.
    pub response_bytes: usize,
    /// The longest event of a stream; a longer one fails the call of the stream, on the stream of no call it is left out. 16 MiB.
    pub event_bytes: usize,
    /// Requests at once, each on a connection of its own; further ones wait. 256.
    pub requests: usize,
    /// Requests of the server that run at once; further ones are answered 3001. 256.
    pub server_requests: usize,
    /// Connections kept for later, those whose response is still read among them. 32.
    pub idle_connections: usize,
    /// How long they are kept. 55 s, below the minute after which many servers hang up.
    pub idle_timeout: Duration,
    /// How long to wait before a stream that was cut is taken up again, where the server does not say. 1 s.
    pub retry: Duration,
    /// The longest such wait a server may ask for. 60 s.
    pub max_retry: Duration,
    /// How often in a row a stream is taken up again without anything new. 10.
    pub reconnects: u32,
    /// How often one request is sent again with other credentials. 3.
    pub refusals: u32,
    /// Headers of every request, for servers with keys of their own; those of the protocol win.
    ///
    /// As they may be keys, they are held to `https` like [`credentials`](Self::credentials); only `User-Agent` and
    /// `Accept-Language` are not.
    pub headers: HeaderMap,
    /// What is shown in `Authorization`.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// Whether credentials and headers of one's own may go over plain `http` to another machine. No.
    pub credentials_in_clear: bool,
    /// Whom TLS trusts besides the system's authorities.
    pub(in crate::http) roots: Roots,
    /// Which servers are of which era; shared by the whole process unless replaced.
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
            reconnects: 10,
            refusals: 3,
            headers: HeaderMap::new(),
            credentials: None,
            credentials_in_clear: false,
            roots: Roots::default(),
            eras: EraCache::shared(),
        }
    }
}

impl HttpClientConfig {
    /// Trusts these certificate authorities besides the system's: PEM, one certificate or many; may be called again.
    ///
    /// What cannot be read is an error of the connection that is made with it.
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

/// Headers may be secrets.
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

/// A token that is known from the start and is not renewed.
pub struct Bearer(String);

impl Bearer {
    /// Shows this token.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(format!("Bearer {}", token.into()))
    }
}

/// The token is a secret.
impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")
    }
}

impl Credentials for Bearer {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<String>, RpcError>> {
        Box::pin(std::future::ready(Ok(Some(self.0.clone()))))
    }

    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<(), RpcError>> {
        let (code, what) = match refusal.status {
            401 => (ErrorCode::AUTH_EXPIRED, "the server refused the token"),
            _ => (ErrorCode::PERMISSION_DENIED, "the token does not allow this"),
        };
        let challenge = refusal.challenges.join("; ");
        let said = if challenge.is_empty() { String::new() } else { format!(": {challenge}") };
        let message = format!("{what} (HTTP {}){said}; give another one", refusal.status);
        Box::pin(std::future::ready(Err(RpcError::new(code, message))))
    }
}
