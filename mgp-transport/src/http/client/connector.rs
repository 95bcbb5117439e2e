//! The connector, which opens connections: it resolves names, and uses TCP and, if it is built in, TLS.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;

use super::certificates::Roots;
use super::error::HttpClientError;
use super::proxy::{Proxy, ProxyConnector};

/// A connector with a name resolver, for builds with TLS.
#[cfg(feature = "tls")]
pub(in crate::http) type Connector<R> = hyper_rustls::HttpsConnector<ProxyConnector<R>>;
/// A connector with a name resolver, for builds without TLS.
#[cfg(not(feature = "tls"))]
pub(in crate::http) type Connector<R> = ProxyConnector<R>;

/// The idle time after which the operating system checks whether the other end of a connection still exists.
const KEEPALIVE_INTERVAL: Duration = Duration::from_mins(1);

/// The use of TLS by a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Security {
    Tls,
    None,
}

/// Creates a connector with a name resolver; the resolver is not used for hosts that are reached through the proxy.
pub(in crate::http) fn connector<R>(
    resolver: R,
    proxy: &Proxy,
    secure: Security,
    roots: &Roots,
    place: &str,
) -> Result<Connector<R>, HttpClientError> {
    let mut plain = HttpConnector::new_with_resolver(resolver);
    configure(&mut plain);
    over_tls(ProxyConnector::new(plain, proxy.clone()), secure, roots, place)
}

pub(super) fn configure<R>(plain: &mut HttpConnector<R>) {
    plain.enforce_http(false);
    plain.set_nodelay(true);
    plain.set_keepalive(Some(KEEPALIVE_INTERVAL));
}

#[cfg(feature = "tls")]
fn over_tls<R>(
    plain: ProxyConnector<R>,
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
        // Without TLS, do not read the system's certificate authorities: that takes longer than many short-lived
        // clients run.
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
    plain: ProxyConnector<R>,
    secure: Security,
    _roots: &Roots,
    place: &str,
) -> Result<Connector<R>, HttpClientError> {
    match secure {
        Security::Tls => Err(HttpClientError::NoTls(place.to_owned())),
        Security::None => Ok(plain),
    }
}
