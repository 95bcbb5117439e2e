//! The pool of connections: TCP, TLS where it is built in, one bound on the time to open one.
//!
//! Applies to: outbound.

use std::error::Error as StdError;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mgp_types::service::BoxFuture;
use tower_service::Service;

use super::config::HttpClientConfig;
use super::endpoint::Endpoint;
use super::error::HttpClientError;
use super::trust::Roots;

/// The connector, over a resolver of names.
#[cfg(feature = "tls")]
pub(in crate::http) type Connector<R> = hyper_rustls::HttpsConnector<HttpConnector<R>>;
/// The connector, over a resolver of names.
#[cfg(not(feature = "tls"))]
pub(in crate::http) type Connector<R> = HttpConnector<R>;

/// A pool of connections.
pub(super) type Pool = Client<Timed<Connector<GaiResolver>>, Full<Bytes>>;

type BoxError = Box<dyn StdError + Send + Sync>;

/// How long a silent connection may be dead without being noticed.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// What hyper's buffer must hold at least.
const LEAST_BUFFER: usize = 8 << 10;

/// A pool for an endpoint.
pub(super) fn pool(
    endpoint: &Endpoint,
    config: &HttpClientConfig,
) -> Result<Pool, HttpClientError> {
    let secure = if endpoint.is_https() { Security::Tls } else { Security::None };
    let connector = connector(GaiResolver::new(), secure, &config.roots, &endpoint.to_string())?;
    let connector = Timed { connector, bound: config.connect_timeout };
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        // Only where not one byte of the request was written, so that no server can have seen it.
        .retry_canceled_requests(true)
        .pool_idle_timeout(config.idle_timeout)
        .pool_max_idle_per_host(config.idle_connections)
        .http1_max_buf_size(config.header_bytes.max(LEAST_BUFFER))
        .build(connector);
    Ok(client)
}

/// Whether certificates will be needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Security {
    Tls,
    None,
}

/// A connector over a resolver.
pub(in crate::http) fn connector<R>(
    resolver: R,
    secure: Security,
    roots: &Roots,
    place: &str,
) -> Result<Connector<R>, HttpClientError> {
    let mut plain = HttpConnector::new_with_resolver(resolver);
    plain.enforce_http(false);
    plain.set_nodelay(true);
    plain.set_keepalive(Some(KEEPALIVE));
    over_tls(plain, secure, roots, place)
}

#[cfg(feature = "tls")]
fn over_tls<R>(
    plain: HttpConnector<R>,
    secure: Security,
    roots: &Roots,
    _place: &str,
) -> Result<Connector<R>, HttpClientError> {
    use hyper_rustls::HttpsConnectorBuilder;
    use rustls::{ClientConfig, RootCertStore};

    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpClientError::Roots(std::io::Error::other(error)))?;
    let trusted = match secure {
        Security::Tls => roots.store()?,
        // Reading the system's authorities takes longer than many a client lives.
        Security::None => RootCertStore::empty(),
    };
    let tls = builder.with_root_certificates(trusted).with_no_client_auth();
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(plain))
}

#[cfg(not(feature = "tls"))]
fn over_tls<R>(
    plain: HttpConnector<R>,
    secure: Security,
    _roots: &Roots,
    place: &str,
) -> Result<Connector<R>, HttpClientError> {
    match secure {
        Security::Tls => Err(HttpClientError::NoTls(place.to_owned())),
        Security::None => Ok(plain),
    }
}

/// Bounds the time to open a connection, the handshake of TLS included.
#[derive(Clone, Debug)]
pub(super) struct Timed<C> {
    connector: C,
    bound: Duration,
}

impl<C> Service<Uri> for Timed<C>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (opening, bound) = (self.connector.call(uri), self.bound);
        Box::pin(async move {
            match tokio::time::timeout(bound, opening).await {
                Ok(opened) => opened.map_err(Into::into),
                Err(_) => Err(format!("no connection within {bound:?}").into()),
            }
        })
    }
}

/// An error and what is below it, each thing said once.
pub(in crate::http) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut words = Vec::<String>::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let said = error.to_string();
        if !said.is_empty() && !words.iter().any(|before| before.contains(&said)) {
            words.push(said);
        }
        next = error.source();
    }
    words.join(": ")
}

#[cfg(all(test, not(feature = "tls")))]
mod tests {
    use super::*;

    #[test]
    fn https_without_tls_says_what_to_build() {
        let endpoint = Endpoint::parse("https://example.com/mcp").unwrap();
        let error = pool(&endpoint, &HttpClientConfig::default()).map(|_| ()).unwrap_err();
        assert!(matches!(error, HttpClientError::NoTls(_)));
        assert!(error.to_string().contains("the feature `tls`"), "{error}");
    }
}
