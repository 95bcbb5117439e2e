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

/// Creates a connector with a name resolver; the resolver is not used for hosts that are reached through the proxy. The
/// caller must end an attempt to connect after `bound`.
pub(in crate::http) fn connector<R>(
    resolver: R,
    proxy: &Proxy,
    secure: Security,
    roots: &Roots,
    place: &str,
    bound: Duration,
) -> Result<Connector<R>, HttpClientError> {
    let mut plain = HttpConnector::new_with_resolver(resolver);
    configure(&mut plain, bound);
    over_tls(ProxyConnector::new(plain, proxy.clone()), secure, roots, place)
}

/// Sets the options of a connector whose caller ends an attempt to connect after `bound`.
pub(super) fn configure<R>(plain: &mut HttpConnector<R>, bound: Duration) {
    plain.enforce_http(false);
    // Each address of a host gets a part of this time, so that one that does not answer leaves time for the others. The
    // time is longer than `bound`, so that a single address gets all of it.
    plain.set_connect_timeout(Some(bound.saturating_add(bound / 4)));
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::future::{Ready, poll_fn, ready};
    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::task::{Context as Task, Poll};

    use hyper_util::client::legacy::connect::dns::Name;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;
    use tower_service::Service;

    use super::*;

    const SILENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

    /// A resolver that returns the addresses of two listeners.
    #[derive(Clone)]
    struct TwoAddresses;

    impl Service<Name> for TwoAddresses {
        type Response = std::array::IntoIter<SocketAddr, 2>;
        type Error = io::Error;
        type Future = Ready<io::Result<Self::Response>>;

        fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            let found = [SILENT, Ipv4Addr::LOCALHOST].map(|ip| SocketAddr::from((ip, 0)));
            ready(Ok(found.into_iter()))
        }
    }

    /// Regression test: an address that did not answer used up the time for all addresses of its host.
    #[tokio::test]
    async fn a_host_is_reached_although_its_first_address_does_not_answer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind((SILENT, port).into()).unwrap();
        let _silent = silent.listen(1).unwrap();
        // Once its queue is full, the listener does not answer any more.
        let mut queue = Vec::new();
        let step = Duration::from_millis(200);
        while queue.len() < 100
            && let Ok(queued) = timeout(step, TcpStream::connect((SILENT, port))).await
        {
            queue.push(queued.unwrap());
        }
        let (bound, proxy, roots) = (Duration::from_secs(2), Proxy::none(), Roots::default());
        let connector = connector(TwoAddresses, &proxy, Security::None, &roots, "", bound);
        let mut connector = connector.unwrap();
        poll_fn(|task| connector.poll_ready(task)).await.unwrap();
        let to = format!("http://host.test:{port}/").parse().unwrap();
        let connected = timeout(bound, connector.call(to)).await;
        assert!(connected.is_ok_and(|connected| connected.is_ok()));
    }
}
