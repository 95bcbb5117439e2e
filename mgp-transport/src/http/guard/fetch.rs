//! A downloader of documents that connects to public addresses only.
//!
//! The connector resolves a name once, and connects to exactly the addresses that were checked. A name that resolves to
//! a private address a moment later (DNS rebinding) is therefore no risk.

use std::error::Error as StdError;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{HOST, LOCATION};
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use mgp_types::service::{
    BoxFuture, Fetch, FetchError, FetchRequest, FetchResponse, is_loopback_host, shown_url,
};
use tower_service::Service;

use super::address::{ForbiddenAddress, check_address};
use crate::http::client::{
    Connector, Endpoint, HttpClientError, Proxy, Roots, Security, causes, connector,
};

/// The default time limit for fetching one document.
const TIME: Duration = Duration::from_secs(10);
/// The default size limit for one document, in bytes.
const BYTES: usize = 1 << 20;
/// The maximum number of redirects that a download follows.
const REDIRECTS: usize = 5;

/// A downloader of documents over `https` from public addresses.
///
/// Only [`download`](Self::download) follows redirects. By default, fetching a document can take up to 10 s, and a
/// document can have up to 1 MiB. With a [`proxy`](Self::proxy), only addresses that are written in a URL are checked,
/// because the proxy resolves names. Names below `localhost` are always reached on this machine, without the proxy.
///
/// ```
/// use mgp_transport::http::GuardedFetch;
/// use mgp_types::service::{Fetch, FetchError, FetchRequest};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let fetch = GuardedFetch::new().unwrap();
/// let metadata = FetchRequest::get("https://169.254.169.254/latest/meta-data/");
/// assert!(matches!(fetch.fetch(metadata).await, Err(FetchError::Forbidden { .. })));
/// # });
/// ```
#[derive(Clone)]
pub struct GuardedFetch {
    rules: Arc<Rules>,
    time: Duration,
    bytes: usize,
    client: Client<Connector<Guard>, Full<Bytes>>,
}

#[derive(Clone, Debug, Default)]
struct Rules {
    /// If set, all addresses are allowed.
    any: bool,
    /// If set, addresses of this machine are allowed, also over plain `http`.
    loopback: bool,
    /// The hosts that are allowed at any address, also over plain `http`.
    hosts: Vec<String>,
    /// Additional root certificates.
    roots: Roots,
    proxy: Proxy,
}

impl GuardedFetch {
    /// Creates a downloader that reaches only public servers.
    ///
    /// # Errors
    /// Returns [`HttpClientError::Roots`] if the system's certificate authorities cannot be read.
    pub fn new() -> Result<Self, HttpClientError> {
        Self::under(Rules::default())
    }

    /// Creates a downloader for documents whose URLs come from the server at this URL. If the server is on this
    /// machine, documents on this machine are allowed too.
    ///
    /// # Errors
    /// Returns the same errors as [`GuardedFetch::new`], and [`HttpClientError::Url`] if the URL is invalid.
    pub fn for_server(server_url: &str) -> Result<Self, HttpClientError> {
        let loopback = Endpoint::parse(server_url)?.is_loopback();
        Self::under(Rules { loopback, ..Rules::default() })
    }

    /// Creates a downloader for a URL that the operator chose: its host is allowed at any address, e.g. one of a
    /// private network, and also over plain `http`. All other hosts must be public servers.
    ///
    /// # Errors
    /// Returns the same errors as [`GuardedFetch::for_server`].
    pub fn for_chosen(url: &str) -> Result<Self, HttpClientError> {
        let endpoint = Endpoint::parse(url)?;
        let hosts = endpoint.uri().host().map(bare).into_iter().collect();
        Self::under(Rules { hosts, ..Rules::default() })
    }

    /// Allows a host by name, at any address and also over plain `http`, e.g. an authorization server
    /// in the operator's network.
    ///
    /// # Errors
    /// Returns the same errors as [`GuardedFetch::new`].
    pub fn allow_host(self, host: impl Into<String>) -> Result<Self, HttpClientError> {
        self.changed(|rules| rules.hosts.push(bare(&host.into())))
    }

    /// Trusts these certificate authorities in addition to the authorities of the system; the text is PEM with at least
    /// one certificate.
    ///
    /// # Errors
    /// Returns the same errors as [`GuardedFetch::new`], and [`HttpClientError::RootCertificates`] if the text has no
    /// certificate.
    pub fn root_certificates(self, pem: impl AsRef<[u8]>) -> Result<Self, HttpClientError> {
        self.changed(|rules| rules.roots.add(pem.as_ref()))
    }

    /// Sets the proxy for connections. The proxy resolves names, and decides which hosts can be reached.
    ///
    /// # Errors
    /// Returns the same errors as [`GuardedFetch::new`].
    pub fn proxy(self, proxy: Proxy) -> Result<Self, HttpClientError> {
        self.changed(|rules| rules.proxy = proxy)
    }

    fn changed(self, change: impl FnOnce(&mut Rules)) -> Result<Self, HttpClientError> {
        let mut rules = Rules::clone(&self.rules);
        change(&mut rules);
        let mut fetch = Self::under(rules)?;
        (fetch.time, fetch.bytes) = (self.time, self.bytes);
        Ok(fetch)
    }

    /// Sets the limits for the time and the size of a document.
    #[must_use]
    pub fn with_limits(mut self, time: Duration, bytes: usize) -> Self {
        (self.time, self.bytes) = (time, bytes);
        self
    }

    /// Checks a URL by the rules that need no name resolution, without a request.
    ///
    /// # Errors
    /// Returns [`FetchError::Forbidden`] if a rule forbids each request to this URL.
    pub fn check_url(&self, url: &str) -> Result<(), FetchError> {
        self.rules.judge_url(url).map(drop)
    }

    fn under(rules: Rules) -> Result<Self, HttpClientError> {
        let rules = Arc::new(rules);
        let secure = if cfg!(feature = "tls") { Security::Tls } else { Security::None };
        let (resolver, Rules { proxy, roots, .. }) = (Guard(Arc::clone(&rules)), &*rules);
        let connector = connector(resolver, proxy, secure, roots, "a fetcher", TIME)?;
        let client = Client::builder(TokioExecutor::new())
            // Connections are not reused: each document gets a connection whose address was checked for it.
            .pool_max_idle_per_host(0)
            .build(connector);
        Ok(Self { rules, time: TIME, bytes: BYTES, client })
    }

    /// Sends a request and returns the response before its body is read; every HTTP status is returned as a response.
    ///
    /// The time limit applies to the head of the response; the size limit does not apply.
    ///
    /// # Errors
    /// Returns [`FetchError`] if a rule forbids the request, or if it fails or gets no response in time.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not have been sent.
    pub async fn open(&self, request: FetchRequest) -> Result<Response<Incoming>, FetchError> {
        let url = request.url.clone();
        self.within(&url, self.send(request)).await
    }

    /// Downloads a document in parts, within the limits of time and size. Redirects are followed; the same rules apply
    /// to their targets.
    ///
    /// # Errors
    /// Returns [`FetchError`] if a rule forbids one of the addresses, if a limit is exceeded, if the status of the
    /// response is not 200, or if a part cannot be read or written.
    ///
    /// # Cancel safety
    /// If the future is dropped, some parts might have been written.
    pub async fn download(
        &self,
        url: &str,
        write: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), FetchError> {
        self.within(url, self.receive(url, write)).await
    }

    /// Runs a step of a download within the time limit; if it takes longer, returns an error that names the URL.
    async fn within<T>(
        &self,
        url: &str,
        work: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        tokio::time::timeout(self.time, work).await.unwrap_or_else(|_| {
            let why = format!("it took longer than {}", mgp_types::duration_words(self.time));
            Err(FetchError::Failed { url: shown_url(url), why })
        })
    }

    async fn receive(
        &self,
        url: &str,
        mut write: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), FetchError> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS {
            let failed = |why: String| FetchError::Failed { url: shown_url(&url), why };
            let response = self.send(FetchRequest::get(&url)).await?;
            let status = response.status();
            if status.is_redirection()
                && let Some(to) = response.headers().get(LOCATION)
            {
                let to = to.to_str().map_err(|error| failed(error.to_string()))?;
                // A relative redirect fails, because it is not a URL; the usual file servers do not send such
                // redirects.
                url = to.to_owned();
                continue;
            }
            if status != StatusCode::OK {
                return Err(failed(format!("the answer is {status}")));
            }
            let mut body = Limited::new(response.into_body(), self.bytes);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| failed(self.body_failure(&*error)))?;
                if let Some(part) = frame.data_ref() {
                    write(part).map_err(|error| failed(error.to_string()))?;
                }
            }
            return Ok(());
        }
        let why = format!("it redirects more than {REDIRECTS} times");
        Err(FetchError::Failed { url: shown_url(&url), why })
    }

    fn body_failure(&self, error: &(dyn StdError + Send + Sync + 'static)) -> String {
        if error.is::<LengthLimitError>() {
            return format!("it has more than {} bytes", self.bytes);
        }
        causes(error)
    }

    async fn send(&self, request: FetchRequest) -> Result<Response<Incoming>, FetchError> {
        let url = request.url.clone();
        let failed = |why: String| FetchError::Failed { url: shown_url(&url), why };
        let uri = self.rules.judge_url(&url)?;
        // A connector built without TLS would send this request unencrypted, so refuse the request.
        if !cfg!(feature = "tls") && uri.scheme() == Some(&Scheme::HTTPS) {
            let why = "https needs the feature `tls` of mgp-server-sdk or mgp-transport";
            return Err(failed(why.to_owned()));
        }
        let mut sent = Request::new(Full::new(Bytes::from(request.body)));
        *sent.method_mut() = Method::from_bytes(request.method.as_bytes())
            .map_err(|_| failed(format!("`{}` is not a valid method", request.method)))?;
        *sent.uri_mut() = uri;
        for (name, value) in request.headers {
            let name = HeaderName::try_from(&*name);
            let value = HeaderValue::try_from(value);
            match (name, value) {
                (Ok(name), Ok(value)) if name != HOST => {
                    sent.headers_mut().append(name, value);
                }
                _ => return Err(failed("one of its headers cannot be written".to_owned())),
            }
        }
        self.client.request(sent).await.map_err(|error| match blocked(&error) {
            Some(blocked) => {
                FetchError::Forbidden { url: shown_url(&url), why: blocked.to_string() }
            }
            None => failed(causes(&error)),
        })
    }

    async fn get(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let url = request.url.clone();
        let failed = |why: String| FetchError::Failed { url: shown_url(&url), why };
        let response = self.send(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, self.bytes).collect().await;
        let body = body.map_err(|error| failed(self.body_failure(&*error)))?;
        let mut fetched = FetchResponse::new(head.status.as_u16(), body.to_bytes());
        let headers = head.headers.iter();
        fetched.headers = headers
            .map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        Ok(fetched)
    }
}

#[async_trait]
impl Fetch for GuardedFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let url = request.url.clone();
        self.within(&url, self.get(request)).await
    }
}

mgp_types::opaque_debug!(GuardedFetch { rules });

// === The rules ===

impl Rules {
    /// Applies the checks that need no name resolution.
    fn judge_url(&self, url: &str) -> Result<Uri, FetchError> {
        let forbidden = |why: String| FetchError::Forbidden { url: shown_url(url), why };
        let uri: Uri =
            url.parse().map_err(|error| forbidden(format!("it is not a valid URL: {error}")))?;
        let Some(host) = uri.host().filter(|host| !host.is_empty()) else {
            return Err(forbidden("it has no host".to_owned()));
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(forbidden("it contains a user name or a password".to_owned()));
        }
        let is_own = self.hosts.contains(&bare(host)) || (self.loopback && is_loopback_host(host));
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_own => {}
            Some("http") => return Err(forbidden("it is not https".to_owned())),
            _ => return Err(forbidden("it is neither https nor http".to_owned())),
        }
        // If the host is an address, the connector does not call a resolver, so the address is checked here.
        if let Ok(address) = bare(host).parse() {
            self.judge(host, address).map_err(|why| forbidden(why.to_string()))?;
        }
        Ok(uri)
    }

    fn judge(&self, host: &str, address: IpAddr) -> Result<(), ForbiddenAddress> {
        // Such a host counts as this machine before it is resolved, e.g. for credentials over plain `http`. So a
        // resolver must not lead it to another machine (RFC 6761 §6.3).
        if is_loopback_host(host) && !address.to_canonical().is_loopback() {
            return Err(ForbiddenAddress::NotLoopback);
        }
        if self.any || self.hosts.contains(&bare(host)) {
            return Ok(());
        }
        match check_address(address) {
            Err(ForbiddenAddress::Loopback) if self.loopback && is_loopback_host(host) => Ok(()),
            judged => judged,
        }
    }
}

/// Normalizes a host for comparison.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// A resolver that returns only allowed addresses.
#[derive(Clone)]
pub(in crate::http) struct Guard(Arc<Rules>);

impl Guard {
    /// Creates the resolver for the connections to one URL. With `only_public`, returns an error if the host of the URL
    /// is an address that is not public, because the connector calls no resolver for an address.
    pub(in crate::http) fn for_url(url: &Uri, only_public: bool) -> Result<Self, ForbiddenAddress> {
        let rules = Rules { any: !only_public, ..Rules::default() };
        let host = url.host().unwrap_or_default();
        if let Ok(address) = bare(host).parse() {
            rules.judge(host, address)?;
        }
        Ok(Self(Arc::new(rules)))
    }
}

/// The error if all addresses of a name are forbidden.
#[derive(Debug, thiserror::Error)]
#[error("`{host}` resolves to {address}: {why}")]
struct Blocked {
    host: String,
    address: IpAddr,
    why: ForbiddenAddress,
}

impl Service<Name> for Guard {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let rules = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await?;
            rules.sieve(host, found).map(Vec::into_iter).map_err(Into::into)
        })
    }
}

impl Rules {
    /// Returns those addresses of a host that are allowed; fails if all of them are forbidden.
    fn sieve(
        &self,
        host: &str,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Blocked> {
        let (mut allowed, mut blocked) = (Vec::new(), None);
        for address in found {
            match self.judge(host, address.ip()) {
                Ok(()) => allowed.push(address),
                Err(why) => {
                    blocked = Some(Blocked { host: host.to_owned(), address: address.ip(), why });
                }
            }
        }
        match blocked {
            Some(blocked) if allowed.is_empty() => Err(blocked),
            _ => Ok(allowed),
        }
    }
}

fn blocked<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Blocked> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(blocked) = error.downcast_ref() {
            return Some(blocked);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieved(rules: &Rules, host: &str, found: &[&str]) -> Result<Vec<String>, String> {
        let found = found.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0));
        rules
            .sieve(host, found)
            .map(|all| all.into_iter().map(|address| address.ip().to_string()).collect())
            .map_err(|blocked| blocked.to_string())
    }

    #[test]
    fn only_checked_addresses_are_connected_to() {
        let rules = Rules::default();
        let mixed = sieved(&rules, "rebind.example", &["10.0.0.1", "1.1.1.1", "::1"]);
        assert_eq!(mixed.unwrap(), ["1.1.1.1"]);
        let inside = sieved(&rules, "rebind.example", &["169.254.169.254"]).unwrap_err();
        assert!(inside.contains("rebind.example") && inside.contains("local link"), "{inside}");
        // Even if the server is on this machine, a name other than the local names must not resolve to this machine.
        let beside = Rules { loopback: true, ..Rules::default() };
        assert!(sieved(&beside, "rebind.example", &["127.0.0.1"]).is_err());
        assert!(sieved(&beside, "localhost", &["127.0.0.1", "::1"]).is_ok());
        assert!(sieved(&beside, "localhost", &["10.0.0.1"]).is_err());
        let own = Rules { hosts: vec!["idp.internal".to_owned()], ..Rules::default() };
        assert!(sieved(&own, "IDP.internal.", &["10.0.0.1"]).is_ok());
        assert!(sieved(&own, "x.idp.internal", &["10.0.0.1"]).is_err());
    }

    #[test]
    fn the_connections_to_a_public_server_have_no_private_address() {
        let address: Uri = "https://10.0.0.1/mcp".parse().unwrap();
        assert!(Guard::for_url(&address, true).is_err());
        assert!(Guard::for_url(&address, false).is_ok());
        let name: Uri = "https://rebind.example/mcp".parse().unwrap();
        let private = ["127.0.0.1", "10.0.0.1"];
        let guard = Guard::for_url(&name, true).unwrap();
        assert!(sieved(&guard.0, "rebind.example", &private).is_err());
        let guard = Guard::for_url(&name, false).unwrap();
        assert_eq!(sieved(&guard.0, "rebind.example", &private).unwrap(), private);
    }

    /// Regression test: credentials were sent over plain `http` to the machine that a resolver named for such a host.
    #[test]
    fn a_resolver_does_not_lead_names_below_localhost_to_another_machine() {
        let url: Uri = "http://mcp.localhost/mcp".parse().unwrap();
        let guard = Guard::for_url(&url, false).unwrap();
        let loopback = Rules { loopback: true, ..Rules::default() };
        let chosen = Rules { hosts: vec!["mcp.localhost".to_owned()], ..Rules::default() };
        for rules in [&*guard.0, &loopback, &chosen] {
            for host in ["localhost", "mcp.localhost", "MCP.localhost."] {
                let found = sieved(rules, host, &["1.1.1.1", "10.0.0.1"]).unwrap_err();
                assert!(found.contains("on this machine only"), "{host}: {found}");
            }
            let found = sieved(rules, "mcp.localhost", &["1.1.1.1", "127.0.0.1", "::1"]);
            assert_eq!(found.unwrap(), ["127.0.0.1", "::1"]);
        }
    }

    #[track_caller]
    fn refused(rules: &Rules, url: &str, why: &str) {
        let error = rules.judge_url(url).unwrap_err().to_string();
        assert!(error.contains(why), "{url}: {error}");
    }

    #[test]
    fn urls_are_checked_before_names_are_resolved() {
        let rules = Rules::default();
        refused(&rules, "http://example.com/", "not https");
        refused(&rules, "file:///etc/passwd", "");
        refused(&rules, "gopher://example.com/", "neither");
        refused(&rules, "https://user@example.com/", "user name");
        refused(&rules, "https://127.0.0.1/", "this machine");
        refused(&rules, "https://[::1]/", "this machine");
        refused(&rules, "https://[::ffff:10.0.0.1]/", "private");
        refused(&rules, "https://169.254.169.254/", "local link");
        assert!(rules.judge_url("https://example.com/.well-known/x").is_ok());
        let beside = Rules { loopback: true, ..Rules::default() };
        assert!(beside.judge_url("http://127.0.0.1:8000/").is_ok());
        assert!(beside.judge_url("http://localhost/").is_ok());
        refused(&beside, "http://10.0.0.1/", "not https");
        refused(&beside, "https://10.0.0.1/", "private");
    }
}
