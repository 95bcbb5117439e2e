//! Where a server is: its URL, judged once.
//!
//! Applies to: outbound.

use std::fmt;

use http::Uri;
use http::uri::Scheme;
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
    /// Reads a URL: `http` or `https`, a host, no user name; a fragment is left out.
    ///
    /// # Errors
    /// [`HttpClientError::Url`] saying what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, HttpClientError> {
        let wrong = |why: &str| HttpClientError::Url { url: shown_url(url), why: why.to_owned() };
        let form = "it must begin with http:// or https:// and a host";
        let uri: Uri = url.trim().parse().map_err(|why| wrong(&format!("{why}; {form}")))?;
        let Some(origin) = origin_of(&uri) else { return Err(wrong(form)) };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong("credentials do not belong into it: give `.bearer(token)`"));
        }
        Ok(Self { uri, origin })
    }

    /// Scheme, host and port, in one form.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether it is on this machine: `localhost`, a name below it, or an address of the loopback.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.uri.host().is_some_and(is_loopback_host)
    }

    /// Whether what is sent there can be read on the way.
    pub(super) fn is_in_clear(&self) -> bool {
        !self.is_https() && !self.is_loopback()
    }

    pub(super) fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The place a redirect names, if it is on the same origin.
    pub(super) fn beside(&self, location: &str) -> Option<Uri> {
        if location.starts_with('/') && !location.starts_with("//") {
            let mut parts = self.uri.clone().into_parts();
            parts.path_and_query = Some(location.parse().ok()?);
            return Uri::from_parts(parts).ok();
        }
        let uri: Uri = location.parse().ok()?;
        (origin_of(&uri)? == self.origin && !uri.authority()?.as_str().contains('@')).then_some(uri)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.uri.path())
    }
}

/// Without the query, which may hold a key.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
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
    fn urls_that_are_no_endpoint_are_refused() {
        refused("ftp://example.com/", "http://");
        refused("/mcp", "http://");
        refused("example.com", "http://");
        refused("http://", "");
        refused("http://user:secret@example.com/", "bearer");
        refused("http://exa mple/", "");
        refused("", "");
    }

    #[test]
    fn a_password_in_a_url_stood_in_the_error() {
        for url in ["http://me:s3cret@example.com/", "ftp://h/?key=s3cret", "http://me:s3cret@h h/"]
        {
            let error = Endpoint::parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn redirects_stay_on_the_origin() {
        let endpoint = Endpoint::parse("http://example.com/mcp").unwrap();
        let on = |place: &str| endpoint.beside(place).map(|uri| uri.to_string());
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
