//! The document that informs clients which issuer's tokens this server accepts (RFC 9728).

use http::Uri;
use mgp_types::service::{is_loopback_host, shown_url};
use serde::Serialize;

/// The path of the metadata document on every host.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The metadata of a protected resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    resource: String,
    #[serde(skip)]
    url: ResourceUrl,
    /// The issuers whose tokens are accepted.
    pub authorization_servers: Vec<String>,
    /// The scopes that a client can request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes_supported: Vec<String>,
    /// The ways in which clients can send a token; always only `header`.
    pub bearer_methods_supported: Vec<String>,
    /// The name of the resource for display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The scopes that every token needs. They are sent in challenges and are not part of the document.
    #[serde(skip)]
    pub required_scopes: Vec<String>,
}

/// The error for a URL that cannot identify a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` cannot be the URL of a resource: {why}")]
pub struct BadResource {
    url: String,
    why: &'static str,
}

impl ResourceMetadata {
    /// Creates the metadata of the endpoint at the URL `resource`, which accepts tokens of `issuer`.
    ///
    /// # Errors
    /// [`BadResource`] unless the URL is absolute, `https` (or `http` on loopback), and without query and fragment.
    pub fn new(resource: &str, issuer: &str) -> Result<Self, BadResource> {
        Ok(Self {
            resource: resource.to_owned(),
            url: ResourceUrl::parse(resource)?,
            authorization_servers: vec![issuer.to_owned()],
            scopes_supported: Vec::new(),
            bearer_methods_supported: vec!["header".to_owned()],
            resource_name: None,
            required_scopes: Vec::new(),
        })
    }

    /// Returns the canonical URL of the endpoint. Tokens must contain it as their audience.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the path of the document on the host of the resource.
    #[must_use]
    pub fn document_path(&self) -> String {
        format!("{WELL_KNOWN}{}", self.url.path)
    }

    /// Returns the URL of the document, which is sent in challenges.
    #[must_use]
    pub fn document_url(&self) -> String {
        format!("{}{WELL_KNOWN}{}", self.url.origin, self.url.path)
    }

    /// Returns the forms in which the resource's URL can be written: as it was configured, and with the host in lower
    /// case and without a default port, because some clients request tokens for that form. A URL with an empty path has
    /// each of them with and without a final slash (RFC 3986 §6.2.3).
    pub(super) fn spellings(&self) -> Vec<String> {
        let ResourceUrl { origin, path } = &self.url;
        let normal = normal_origin(origin);
        let mut spellings = if path.is_empty() {
            vec![format!("{origin}/"), format!("{normal}/"), origin.clone(), normal]
        } else {
            vec![self.resource.clone(), format!("{normal}{path}")]
        };
        spellings.dedup();
        spellings
    }
}

/// Returns an origin with its host in lower case and without the default port of its scheme.
fn normal_origin(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let port = if origin.starts_with("https:") { ":443" } else { ":80" };
    origin.strip_suffix(port).unwrap_or(&origin).to_owned()
}

/// Returns whether a path is the well-known path alone, without the path of the endpoint at its end. Clients try this
/// path if no challenge contained the URL of the document.
pub(super) fn is_root_document(path: &str) -> bool {
    path == WELL_KNOWN
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceUrl {
    origin: String,
    /// The path of the endpoint; empty for the root.
    path: String,
}

impl ResourceUrl {
    fn parse(url: &str) -> Result<Self, BadResource> {
        let bad = |why| BadResource { url: shown_url(url), why };
        if url.contains(['#', '?']) {
            return Err(bad("it has a query or fragment"));
        }
        let uri: Uri = url.parse().map_err(|_| bad("it is not a valid URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(bad("it is not absolute; write it like `https://example.com/mcp`"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("it contains a user name"));
        }
        if scheme != "https" && !(scheme == "http" && is_loopback_host(authority.host())) {
            return Err(bad("its scheme must be `https`, or `http` on this machine"));
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
        let url = ResourceMetadata::new(resource, "https://issuer.example")
            .map(|metadata| metadata.document_url());
        assert_eq!(url.ok().as_deref(), expected);
    }

    #[test]
    fn the_document_path_is_between_origin_and_path() {
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
    fn an_invalid_resource_url_is_refused() {
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
        let error = ResourceMetadata::new("https://u:s3cret@a.example/mcp", "i").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }

    #[test]
    fn a_host_in_capital_letters_and_a_default_port_have_another_spelling() {
        let spellings = |url: &str| ResourceMetadata::new(url, "i").unwrap().spellings();
        for (url, other) in [
            ("https://A.example/Mcp", "https://a.example/Mcp"),
            ("https://a.example:443/mcp", "https://a.example/mcp"),
            ("http://LOCALHOST:80/mcp", "http://localhost/mcp"),
        ] {
            assert_eq!(spellings(url), [url, other]);
        }
        for url in ["https://a.example:8443/mcp", "http://[::1]:443/mcp", "https://[::443]/mcp"] {
            assert_eq!(spellings(url), [url]);
        }
        let root =
            ["https://A.example/", "https://a.example/", "https://A.example", "https://a.example"];
        assert_eq!(spellings("https://A.example"), root);
    }

    #[test]
    fn an_empty_path_has_two_spellings() {
        let spellings = |url: &str| ResourceMetadata::new(url, "i").unwrap().spellings();
        assert_eq!(spellings("https://a.example"), ["https://a.example/", "https://a.example"]);
        assert_eq!(spellings("https://a.example/"), ["https://a.example/", "https://a.example"]);
        assert_eq!(spellings("https://a.example/mcp"), ["https://a.example/mcp"]);
    }
}
