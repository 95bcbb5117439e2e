//! The document that tells clients where tokens for this server come from (RFC 9728).
//!
//! Applies to: inbound.

use http::Uri;
use mgp_types::service::is_loopback_host;
use serde::Serialize;

/// Where the document lies on every host.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What a server of protected resources says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    resource: String,
    #[serde(skip)]
    place: Place,
    /// The issuers whose tokens are taken.
    pub authorization_servers: Vec<String>,
    /// The scopes a client may want.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes_supported: Vec<String>,
    /// How tokens are sent: `header`.
    pub bearer_methods_supported: Vec<String>,
    /// The name people read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The scopes every token needs; named in challenges, not part of the document.
    #[serde(skip)]
    pub required_scopes: Vec<String>,
}

/// Why a URL cannot be that of a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` cannot be the URL of a resource: {why}")]
pub struct BadResource {
    url: String,
    why: &'static str,
}

impl ResourceMetadata {
    /// What is said of the endpoint at a URL, whose tokens come from an issuer.
    ///
    /// # Errors
    /// [`BadResource`] unless the URL is absolute, `https` (or `http` on loopback), and without query and fragment.
    pub fn new(resource: &str, issuer: &str) -> Result<Self, BadResource> {
        Ok(Self {
            resource: resource.to_owned(),
            place: Place::of(resource)?,
            authorization_servers: vec![issuer.to_owned()],
            scopes_supported: Vec::new(),
            bearer_methods_supported: vec!["header".to_owned()],
            resource_name: None,
            required_scopes: Vec::new(),
        })
    }

    /// The canonical URL of the server's endpoint; what tokens must be made for.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The path of the document on the resource's host.
    #[must_use]
    pub fn document_path(&self) -> String {
        format!("{WELL_KNOWN}{}", self.place.path)
    }

    /// The URL of the document, which challenges name.
    #[must_use]
    pub fn document_url(&self) -> String {
        format!("{}{WELL_KNOWN}{}", self.place.origin, self.place.path)
    }

    /// The same resource with and without the slash of an empty path, which are one URL (RFC 3986 §6.2.3).
    pub(super) fn spellings(&self) -> Vec<String> {
        let Place { origin, path } = &self.place;
        if path.is_empty() {
            return vec![format!("{origin}/"), origin.clone()];
        }
        vec![self.resource.clone()]
    }
}

/// Whether a path is where clients look for the document first without a hint: at the root.
pub(super) fn is_root_document(path: &str) -> bool {
    path == WELL_KNOWN
}

/// The parts of a resource's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    origin: String,
    /// Empty for the root.
    path: String,
}

impl Place {
    fn of(url: &str) -> Result<Self, BadResource> {
        let bad = |why| BadResource { url: url.to_owned(), why };
        if url.contains(['#', '?']) {
            return Err(bad("it has a query or fragment"));
        }
        let uri: Uri = url.parse().map_err(|_| bad("it is no URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(bad("it is not absolute, like `https://example.com/mcp`"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("it names a user"));
        }
        if scheme != "https" && !(scheme == "http" && is_loopback_host(authority.host())) {
            return Err(bad("it must be `https`, or `http` on this machine"));
        }
        let path = if uri.path() == "/" { "" } else { uri.path() };
        Ok(Self { origin: format!("{scheme}://{authority}"), path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resource: &str, expected: Option<&str>) {
        let place = ResourceMetadata::new(resource, "https://issuer.example")
            .map(|metadata| metadata.document_url());
        assert_eq!(place.ok().as_deref(), expected);
    }

    #[test]
    fn the_document_lies_between_origin_and_path() {
        let well_known = |origin: &str, path: &str| {
            format!("{origin}/.well-known/oauth-protected-resource{path}")
        };
        check("https://a.example/mcp", Some(&well_known("https://a.example", "/mcp")));
        check("https://a.example:8443/x/y", Some(&well_known("https://a.example:8443", "/x/y")));
        check("https://a.example", Some(&well_known("https://a.example", "")));
        check("https://a.example/", Some(&well_known("https://a.example", "")));
        check("http://127.0.0.1:8000/mcp", Some(&well_known("http://127.0.0.1:8000", "/mcp")));
        check("http://[::1]:8000/mcp", Some(&well_known("http://[::1]:8000", "/mcp")));
        check("http://127.0.0.2/mcp", Some(&well_known("http://127.0.0.2", "/mcp")));
    }

    #[test]
    fn what_is_no_resource_is_refused() {
        for url in [
            "",
            "/mcp",
            "a.example",
            "http://a.example/mcp",
            "ftp://a.example",
            "https://",
            "https://a.example/mcp?x=1",
            "https://a.example/mcp#x",
            "https://u:p@a.example/mcp",
            "http://127.0.0.1.evil.example/mcp",
        ] {
            check(url, None);
        }
    }

    #[test]
    fn an_empty_path_has_two_spellings() {
        let spellings = |url: &str| ResourceMetadata::new(url, "i").unwrap().spellings();
        assert_eq!(spellings("https://a.example"), ["https://a.example/", "https://a.example"]);
        assert_eq!(spellings("https://a.example/"), ["https://a.example/", "https://a.example"]);
        assert_eq!(spellings("https://a.example/mcp"), ["https://a.example/mcp"]);
    }
}
