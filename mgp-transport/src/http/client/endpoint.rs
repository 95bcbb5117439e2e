//! The URL of a server, validated once.

use std::fmt;

use bytes::Bytes;
use http::uri::{Parts, Scheme};
use http::{HeaderValue, Uri};
use mgp_types::service::{is_loopback_host, shown_url};

use super::error::HttpClientError;

/// The URL of an MCP endpoint.
///
/// ```
/// use mgp_transport::http::Endpoint;
///
/// let endpoint = Endpoint::parse("HTTPS://Example.com/mcp").unwrap();
/// assert_eq!(endpoint.origin(), "https://example.com:443");
/// assert!(Endpoint::parse("example.com/mcp").is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    uri: Uri,
    origin: String,
}

impl Endpoint {
    /// Parses a URL: `http` or `https`, a host, no user name; a fragment is ignored.
    ///
    /// # Errors
    /// Returns [`HttpClientError::Url`] with the reason.
    pub fn parse(url: &str) -> Result<Self, HttpClientError> {
        let wrong = |why: &str| HttpClientError::Url { url: shown_url(url), why: why.to_owned() };
        let form = "it must begin with http:// or https:// and a host";
        let uri: Uri = url.trim().parse().map_err(|why| wrong(&format!("{why}; {form}")))?;
        let Some(origin) = origin_of(&uri) else { return Err(wrong(form)) };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong(
                "it must not contain a user name; send the credentials in the header `Authorization`",
            ));
        }
        Ok(Self { uri, origin })
    }

    /// Returns scheme, host and port in normal form.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns whether the endpoint is on this machine: `localhost`, a name that ends in
    /// `.localhost`, or a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.uri.host().is_some_and(is_loopback_host)
    }

    /// Returns whether requests are sent over the network unencrypted: with plain `http` to another machine.
    pub(super) fn is_in_clear(&self) -> bool {
        !self.is_https() && !self.is_loopback()
    }

    pub(super) fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    pub(in crate::http) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the target URI of a redirect, if it has the origin of this endpoint.
    pub(super) fn on_same_origin(&self, location: &str) -> Option<Uri> {
        if location.starts_with('/') && !location.starts_with("//") {
            let mut parts = self.uri.clone().into_parts();
            parts.path_and_query = Some(location.parse().ok()?);
            return Uri::from_parts(parts).ok();
        }
        let uri: Uri = location.parse().ok()?;
        (origin_of(&uri)? == self.origin && !uri.authority()?.as_str().contains('@')).then_some(uri)
    }

    /// Returns the endpoint at an address that the server sent, absolute or relative; `None` if the address is not on
    /// the same origin.
    pub(super) fn resolve(&self, address: &str) -> Option<Self> {
        let address = address.trim();
        // A relative address can contain an absolute one in its query.
        let is_absolute = address
            .split_once("://")
            .is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let uri = if is_absolute || address.starts_with('/') {
            self.on_same_origin(address)?
        } else {
            let path = self.uri.path();
            let folder = match address.strip_prefix('?') {
                Some(_) => path,
                None => &path[..=path.rfind('/')?],
            };
            self.on_same_origin(&format!("{folder}{address}"))?
        };
        Some(Self { uri, origin: self.origin.clone() })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.uri.path())
    }
}

/// Omits the query, which can contain a secret key.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The destination of a request, in the forms that requests contain; created once for many requests.
pub(super) struct Destination {
    /// The whole URL, for `DPoP` proofs.
    pub(super) url: String,
    /// Path and query, for the request line.
    pub(super) path: Uri,
    pub(super) host: HeaderValue,
}

impl Destination {
    /// Creates the destination of an absolute URI.
    pub(super) fn new(uri: &Uri) -> Self {
        let mut parts = Parts::default();
        parts.path_and_query = uri.path_and_query().cloned();
        let usual = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
        let host = uri.host().unwrap_or_default();
        let host = match uri.port_u16().filter(|port| *port != usual) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Self {
            url: uri.to_string(),
            path: Uri::from_parts(parts).unwrap_or_default(),
            host: HeaderValue::from_maybe_shared(Bytes::from(host))
                .expect("a host is a valid header value"),
        }
    }
}

fn origin_of(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme()?;
    let port = if *scheme == Scheme::HTTPS {
        443
    } else if *scheme == Scheme::HTTP {
        80
    } else {
        return None;
    };
    let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
    Some(format!("{scheme}://{host}:{}", uri.port_u16().unwrap_or(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(url: &str, why: &str) {
        let error = Endpoint::parse(url).unwrap_err().to_string();
        assert!(error.contains(why), "{url}: {error}");
    }

    #[test]
    fn urls_that_are_not_endpoints_are_refused() {
        refused("ftp://example.com/", "http://");
        refused("/mcp", "http://");
        refused("example.com", "http://");
        refused("http://", "");
        refused("http://user:secret@example.com/", "in the header `Authorization`");
        refused("http://exa mple/", "");
        refused("", "");
    }

    #[test]
    fn a_password_in_a_url_is_not_shown_in_the_error() {
        for url in ["http://me:s3cret@example.com/", "ftp://h/?key=s3cret", "http://me:s3cret@h h/"]
        {
            let error = Endpoint::parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_request_names_its_path_and_host() {
        let check = |url: &str, path: &str, host: &str| {
            let destination = Destination::new(&url.parse().unwrap());
            assert_eq!(
                (destination.path.to_string().as_str(), destination.host.to_str().unwrap()),
                (path, host)
            );
        };
        check("http://example.com", "/", "example.com");
        check("http://example.com?a=b", "/?a=b", "example.com");
        check("http://Example.com:80/mcp?a=b", "/mcp?a=b", "Example.com");
        check("http://example.com:443/", "/", "example.com:443");
        check("https://example.com:443/x/", "/x/", "example.com");
        check("https://example.com:80/x", "/x", "example.com:80");
        check("http://[::1]:8000/mcp", "/mcp", "[::1]:8000");
        check("http://[::1]/mcp", "/mcp", "[::1]");
        check("http://example.com:/mcp", "/mcp", "example.com");
    }

    #[test]
    fn an_address_for_messages_is_on_the_origin_of_the_stream() {
        let endpoint = Endpoint::parse("http://example.com/a/sse").unwrap();
        let at = |place: &str| endpoint.resolve(place).map(|there| there.uri.to_string());
        for (address, expected) in [
            ("/messages?s=1", "http://example.com/messages?s=1"),
            ("http://example.com/m", "http://example.com/m"),
            ("messages/?s=1", "http://example.com/a/messages/?s=1"),
            ("?s=1", "http://example.com/a/sse?s=1"),
            ("m?from=http://x/", "http://example.com/a/m?from=http://x/"),
        ] {
            assert_eq!(at(address).as_deref(), Some(expected));
        }
        for away in ["http://evil.example/m", "//evil.example/m", "https://example.com/m"] {
            assert_eq!(at(away), None, "{away}");
        }
    }

    #[test]
    fn redirects_stay_on_the_origin() {
        let endpoint = Endpoint::parse("http://example.com/mcp").unwrap();
        let on = |place: &str| endpoint.on_same_origin(place).map(|uri| uri.to_string());
        assert_eq!(on("/mcp/").as_deref(), Some("http://example.com/mcp/"));
        assert_eq!(on("http://EXAMPLE.com:80/x").as_deref(), Some("http://EXAMPLE.com:80/x"));
        for away in [
            "https://example.com/mcp",
            "//evil.example/mcp",
            "http://evil.example/",
            "http://example.com:81/",
            "http://a@example.com/",
            "x",
        ] {
            assert_eq!(on(away), None, "{away}");
        }
    }
}
