//! Checks the host and origin of requests, and sets headers that keep foreign content out.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use mgp_types::service::is_loopback_host;

use super::Shared;
use super::sessions::{Sessions, random};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The check of a browser's request. The host name, the origin and the session of the request decide whether it may
/// reach the console.
pub(super) struct Gate {
    names: Names,
    /// The first segment of every path. A cookie for this path is not sent to other paths of the host.
    base: String,
    /// The name of the cookie that contains a session. Each console uses a different name, because browsers send a
    /// cookie to all ports of a host: consoles with the same name would end each other's sessions.
    cookie: String,
    pub(super) sessions: Sessions,
}

/// The names that browsers may use to reach the pages; a foreign name that resolves to this machine is refused.
enum Names {
    /// The console is served at this port of 127.0.0.1.
    Local(u16),
    /// The host names given to `mgp serve --http`, and the public URL in the current configuration.
    Served { hosts: Vec<String>, url: PublicUrl, is_tls: bool },
}

/// A function that returns the public URL of the pages, if the current configuration names one.
type PublicUrl = Box<dyn Fn() -> Option<String> + Send + Sync>;

impl Gate {
    /// Creates the gate of a console at a port of this machine.
    pub(super) fn local(address: SocketAddr) -> Result<Self, getrandom::Error> {
        let base = format!("/{}", &random()?[..16]);
        Self::new(Names::Local(address.port()), base)
    }

    /// Creates the gate of a console that `mgp serve --http` serves below a path.
    pub(super) fn served(
        base: &str,
        hosts: Vec<String>,
        url: impl Fn() -> Option<String> + Send + Sync + 'static,
        is_tls: bool,
    ) -> Result<Self, getrandom::Error> {
        let names = Names::Served { hosts, url: Box::new(url), is_tls };
        Self::new(names, base.to_owned())
    }

    fn new(names: Names, base: String) -> Result<Self, getrandom::Error> {
        let cookie = format!("mgp_console_{}", &random()?[..8]);
        Ok(Self { names, base, cookie, sessions: Sessions::default() })
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Returns whether the pages are served over TLS by this process.
    pub(super) fn is_tls(&self) -> bool {
        matches!(self.names, Names::Served { is_tls: true, .. })
    }

    fn is_own_host(&self, host: &str) -> bool {
        match &self.names {
            Names::Local(port) => {
                host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}")
            }
            Names::Served { hosts, url, .. } => {
                let name = name_of(host);
                is_loopback_host(name)
                    || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
                    || url().is_some_and(|url| authority(&url).eq_ignore_ascii_case(host))
            }
        }
    }

    /// Returns whether the origin that a request names is the origin of the console itself.
    fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        let Some((scheme, own)) = origin.split_once("://") else { return false };
        match &self.names {
            Names::Local(_) => scheme == "http" && self.is_own_host(own),
            Names::Served { url, .. } => {
                let is_web = ["http", "https"].contains(&scheme);
                // A TLS proxy in front of the console may have replaced the host name, so the public URL counts too.
                let is_public = |url: &str| {
                    url.split_once("://").is_some_and(|(of_url, _)| of_url == scheme)
                        && authority(url).eq_ignore_ascii_case(own)
                };
                is_web && own.eq_ignore_ascii_case(host) || url().as_deref().is_some_and(is_public)
            }
        }
    }
}

/// Returns the host and port of a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// Returns a host without its port.
fn name_of(host: &str) -> &str {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    }
}

pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Refuses requests that name another host, or that another site makes.
pub(super) async fn check_origin(State(console): Shared, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return (StatusCode::BAD_REQUEST, "the header `Host` occurs twice\n").into_response();
    }
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let site = header(headers, "sec-fetch-site");
    // Permit links from other sites to a page, because a person may follow them; refuse any other request by another
    // site.
    let is_navigation = header(headers, "sec-fetch-mode") == Some("navigate")
        && header(headers, "sec-fetch-dest") == Some("document");
    let is_own_site = match site {
        None | Some("same-origin" | "none") => true,
        Some(_) => is_read && is_navigation,
    };
    // Without the header `Host`, use the host in the address of the request, where HTTP/2 has it.
    let in_address = request.uri().authority().map(axum::http::uri::Authority::as_str);
    let host = header(headers, "host").or(in_address).unwrap_or_default();
    let is_own_origin = match header(headers, "origin") {
        Some(origin) => console.gate.is_own_origin(origin, host),
        None => is_read,
    };
    let is_own_host = console.gate.is_own_host(host);
    if is_own_host && is_own_origin && is_own_site {
        return next.run(request).await;
    }
    tracing::warn!(is_own_host, is_own_origin, site, "denied a request to the console");
    (StatusCode::FORBIDDEN, "this page answers only to its own address\n").into_response()
}

/// Sets the headers that keep foreign content out of the pages, and the pages out of caches and frames.
pub(super) async fn set_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_host_or_origin_is_this_page() {
        let gate = Gate::local(SocketAddr::from(([127, 0, 0, 1], 4000))).unwrap();
        for (host, is_own) in [
            ("127.0.0.1:4000", true),
            ("localhost:4000", true),
            ("evil.example:4000", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(gate.is_own_host(host), is_own, "{host}");
        }
        assert!(gate.is_own_origin("http://localhost:4000", ""));
        assert!(
            !gate.is_own_origin("null", "") && !gate.is_own_origin("http://localhost:4001", "")
        );

        let url = || Some("https://mgp.example/console".to_owned());
        let gate = Gate::served("/console", vec!["box.lan".to_owned()], url, false).unwrap();
        for (host, is_own) in [
            ("127.0.0.1:8900", true),
            ("[::1]:8900", true),
            ("BOX.lan:8900", true),
            ("mgp.example", true),
            ("evil.example", false),
            ("box.lan.evil.example:8900", false),
            ("", false),
            (":8900", false),
        ] {
            assert_eq!(gate.is_own_host(host), is_own, "{host}");
        }
        for (origin, is_own) in [
            ("http://box.lan:8900", true),
            ("https://mgp.example", true),
            ("http://mgp.example", false),
            ("https://mgp.example:8443", false),
            ("http://box.lan", false),
            ("null", false),
            ("ftp://box.lan:8900", false),
        ] {
            assert_eq!(gate.is_own_origin(origin, "box.lan:8900"), is_own, "{origin}");
        }
    }
}
