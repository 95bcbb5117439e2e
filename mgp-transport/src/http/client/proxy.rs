//! Proxies for outgoing connections; each connection to the target is a tunnel through the proxy (CONNECT).

use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use mgp_types::service::{is_loopback_host, shown_url};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::error::HttpClientError;
use super::fair_socket::FairSocket;

/// The proxy for outgoing connections; addresses of this machine are reached directly.
///
/// ```
/// use mgp_transport::http::Proxy;
///
/// let proxy = Proxy::at("http://proxy.example:3128").unwrap().except(["intranet.example"]);
/// assert!(Proxy::at("socks5://proxy.example").is_err());
/// # drop(proxy);
/// ```
#[derive(Clone, Default)]
pub struct Proxy {
    matcher: Option<Arc<Matcher>>,
    excluded: Vec<Excluded>,
}

/// Hosts that are reached directly.
#[derive(Clone)]
struct Excluded {
    /// Matches all hosts except these.
    others: Arc<Matcher>,
    /// The only port at which they are reached directly; `None` for all ports.
    port: Option<u16>,
}

impl Excluded {
    fn new(hosts: String, port: Option<u16>) -> Self {
        let others = Matcher::builder().all("http://proxy.invalid").no(hosts).build();
        Self { others: Arc::new(others), port }
    }

    fn has(&self, to: &Uri) -> bool {
        let default = || if to.scheme_str() == Some("http") { 80 } else { 443 };
        self.port.is_none_or(|port| port == to.port_u16().unwrap_or_else(default))
            && self.others.intercept(to).is_none()
    }
}

impl Proxy {
    /// Returns the setting for direct connections, without a proxy.
    #[must_use]
    pub const fn none() -> Self {
        Self { matcher: None, excluded: Vec::new() }
    }

    /// Returns the proxy that the environment variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` name,
    /// in upper or lower case.
    #[must_use]
    pub fn from_env() -> Self {
        let proxy = Self { matcher: Some(Arc::new(Matcher::from_env())), ..Self::none() };
        let direct = ["NO_PROXY", "no_proxy"].iter().find_map(|name| std::env::var(name).ok());
        proxy.except(direct.as_deref())
    }

    /// Returns the proxy at a URL, which can contain a user name and password.
    ///
    /// # Errors
    /// Returns [`HttpClientError::Url`] unless it is an `http://` URL.
    pub fn at(url: &str) -> Result<Self, HttpClientError> {
        let uri: Option<Uri> = url.parse().ok();
        if uri.and_then(|uri| uri.host().map(drop)).is_none() || !url.starts_with("http://") {
            return Err(HttpClientError::Url {
                url: shown_url(url),
                why: "a proxy is given as http://HOST:PORT".to_owned(),
            });
        }
        let matcher = Matcher::builder().all(url).build();
        Ok(Self { matcher: Some(Arc::new(matcher)), ..Self::none() })
    }

    /// Also excludes hosts, domains (`.example.com`) and networks, which are then reached directly.
    ///
    /// Each text may list several, separated by commas, like the variable `NO_PROXY`. As other programs do for that
    /// variable, `*.example.com` is read as `.example.com`, and `host.example:8443` excludes one port of a host.
    #[must_use]
    pub fn except<'a>(mut self, direct: impl IntoIterator<Item = &'a str>) -> Self {
        let mut at_all_ports = Vec::new();
        for entry in direct.into_iter().flat_map(|list| list.split(',')).map(str::trim) {
            match entry.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
                // An IPv6 address also contains colons, so one with a port is written in brackets.
                Some((host, Ok(port))) if !host.contains(':') || host.ends_with(']') => {
                    let host = host.trim_matches(['[', ']']);
                    self.excluded
                        .push(Excluded::new(without_asterisk(host).to_owned(), Some(port)));
                }
                _ => at_all_ports.push(without_asterisk(entry)),
            }
        }
        if !at_all_ports.is_empty() {
            self.excluded.push(Excluded::new(at_all_ports.join(","), None));
        }
        self
    }

    /// Returns whether an address is reached through the proxy.
    pub(in crate::http) fn is_used_for(&self, to: &Uri) -> bool {
        let is_remote = to.host().is_some_and(|host| !is_loopback_host(host));
        is_remote
            && self.matcher.as_ref().is_some_and(|matcher| matcher.intercept(to).is_some())
            && !self.excluded.iter().any(|excluded| excluded.has(to))
    }

    /// Returns the connector that opens a tunnel to an address, and the URL of the proxy for display; `None` if the
    /// address is reached directly.
    fn tunnel(
        &self,
        to: &Uri,
        connector: &HttpConnector,
    ) -> Option<Result<(Tunnel<HttpConnector>, String), BoxError>> {
        if !self.is_used_for(to) {
            return None;
        }
        let proxy = self.matcher.as_ref()?.intercept(to)?;
        let scheme = proxy.uri().scheme_str().unwrap_or_default();
        if scheme != "http" {
            let why = format!(
                "HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names a proxy with `{scheme}://`, which is not supported: \
                 name a proxy with `http://`, or add the host to NO_PROXY"
            );
            return Some(Err(why.into()));
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), connector.clone());
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        Some(Ok((tunnel, shown_url(&proxy.uri().to_string()))))
    }
}

// Omits the URL, which can contain a password.
mgp_types::opaque_debug!(Proxy);

/// Returns the domain `.example.com` for the pattern `*.example.com`; other texts are returned as they are.
fn without_asterisk(host: &str) -> &str {
    host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host)
}

/// Adds the port to a plain `http` address, because a tunnel would otherwise be opened to port 443.
fn with_port(to: Uri) -> Uri {
    let Some(host) = to.host().filter(|_| to.scheme_str() == Some("http") && to.port().is_none())
    else {
        return to;
    };
    let address = Uri::builder().scheme("http").authority(format!("{host}:80")).path_and_query("/");
    address.build().unwrap_or(to)
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The maximum time in which a proxy opens a tunnel: less than the default time in which a connection is opened, so that
/// the error names the proxy.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(8);

/// A connector that opens a tunnel if a proxy is used for the address.
#[derive(Clone)]
pub(in crate::http) struct ProxyConnector<R> {
    direct: HttpConnector<R>,
    to_proxy: HttpConnector,
    proxy: Proxy,
}

impl<R> ProxyConnector<R> {
    pub(super) fn new(direct: HttpConnector<R>, proxy: Proxy) -> Self {
        let mut to_proxy = HttpConnector::new_with_resolver(GaiResolver::new());
        super::connector::configure(&mut to_proxy, TUNNEL_TIMEOUT);
        Self { direct, to_proxy, proxy }
    }
}

impl<R> Service<Uri> for ProxyConnector<R>
where
    HttpConnector<R>:
        Service<Uri, Response = TokioIo<TcpStream>, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = TokioIo<FairSocket<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), Self::Error>> {
        self.direct.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        match self.proxy.tunnel(&to, &self.to_proxy) {
            None => {
                let connecting = self.direct.call(to);
                Box::pin(async move { connecting.await.map(fair).map_err(Into::into) })
            }
            Some(Err(error)) => Box::pin(std::future::ready(Err(error))),
            Some(Ok((mut tunnel, proxy))) => {
                let connecting = tunnel.call(with_port(to));
                Box::pin(async move {
                    match timeout(TUNNEL_TIMEOUT, connecting).await {
                        Ok(Ok(connected)) => Ok(fair(connected)),
                        Ok(Err(error)) => Err(failure(&proxy, &super::causes(&error)).into()),
                        Err(_) => Err(failure(&proxy, "it does not answer").into()),
                    }
                })
            }
        }
    }
}

/// Returns the text about a proxy that opened no tunnel, with the remedy. `causes` are those of hyper.
fn failure(proxy: &str, causes: &str) -> String {
    let causes = causes.trim_start_matches("tunnel error: ");
    let why = match causes.trim_start_matches("failed to create underlying connection: ") {
        "proxy authorization required" => "it requires a valid user name and password (HTTP 407)",
        "unsuccessful" => "it refuses the address, or cannot reach it",
        why => why,
    };
    format!(
        "the proxy {proxy} opened no connection: {why}; correct its URL in HTTPS_PROXY, HTTP_PROXY, ALL_PROXY \
         or `kernel.proxy`, e.g. http://USER:PASSWORD@HOST:PORT, or add the host of the server to NO_PROXY or `kernel.no_proxy`"
    )
}

fn fair(io: TokioIo<TcpStream>) -> TokioIo<FairSocket<TcpStream>> {
    TokioIo::new(FairSocket::new(io.into_inner()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_excluded_hosts_are_reached_directly() {
        let proxy = Proxy::at("http://me:pw@proxy.example:3128").unwrap();
        let proxy = proxy.except([".inner.example", "10.0.0.0/8"]);
        let proxy = proxy.except(["*.corp.example , one.example:8443,[fd00::1]:8443"]);
        assert!(!format!("{proxy:?}").contains("pw"));
        for (to, is_used) in [
            ("https://mcp.example/mcp", true),
            ("http://mcp.example/mcp", true),
            ("https://a.inner.example/mcp", false),
            ("https://10.1.2.3/mcp", false),
            ("https://a.corp.example/mcp", false),
            ("https://acorp.example/mcp", true),
            ("https://one.example/mcp", true),
            ("https://one.example:8443/mcp", false),
            ("https://[fd00::1]:8443/mcp", false),
            ("https://[fd00::1]/mcp", true),
            ("https://two.example:8443/mcp", true),
            ("http://127.0.0.1:8000/mcp", false),
            ("http://localhost:8000/mcp", false),
        ] {
            assert_eq!(proxy.is_used_for(&to.parse().unwrap()), is_used, "{to}");
        }
        let port = |to: &'static str| with_port(Uri::from_static(to)).port_u16();
        assert_eq!((port("http://a.example/x"), port("http://a.example:8/x")), (Some(80), Some(8)));
    }

    #[test]
    fn a_proxy_of_another_kind_is_refused_with_the_remedy() {
        let matcher = Matcher::builder().all("socks5://proxy.example:1080").build();
        let proxy = Proxy { matcher: Some(Arc::new(matcher)), ..Proxy::none() };
        let to = Uri::from_static("https://mcp.example/mcp");
        let refused = proxy.tunnel(&to, &HttpConnector::new()).unwrap().err().unwrap().to_string();
        assert!(refused.contains("`socks5://`") && refused.contains("NO_PROXY"), "{refused}");
    }
}
