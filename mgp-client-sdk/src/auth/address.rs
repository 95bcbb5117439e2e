//! Checks that credentials are sent only to secure addresses: `https`, or `http` on this machine (OAuth 2.1 §1.5, MCP
//! authorization).

use mgp_types::service::{is_loopback_host, shown_url};
use url::Url;

use super::error::AuthError;

const MAX_URL_BYTES: usize = 2048;

/// Parses an address that receives credentials, codes or metadata requests; refuses an address that is not secure.
pub(super) fn parse_secure(what: &'static str, text: &str) -> Result<Url, AuthError> {
    let refuse = |why: &'static str| AuthError::Address { what, url: display_url(text), why };
    // Refuse these characters, because other URL parsers drop them or interpret them differently. A request through
    // such a parser could reach a different host.
    if text.len() > MAX_URL_BYTES
        || text.contains(|c: char| c == '\\' || c <= ' ' || c.is_control())
    {
        return Err(refuse(
            "it is longer than 2048 bytes, or contains a space, `\\` or a control character",
        ));
    }
    let url = Url::parse(text).map_err(|_| refuse("it is not an absolute URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => return Err(refuse("it is not on this machine, so it must be `https`")),
        _ => return Err(refuse("it must be `https`")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it contains a user name or password"));
    }
    if url.fragment().is_some() {
        return Err(refuse("it has a fragment"));
    }
    Ok(url)
}

/// Parses an issuer URL, which must not have a query (RFC 8414 §2).
pub(super) fn issuer(text: &str) -> Result<Url, AuthError> {
    let url = parse_secure("the issuer", text)?;
    if url.query().is_some() {
        let why = "an issuer has no query";
        return Err(AuthError::Address { what: "the issuer", url: display_url(text), why });
    }
    Ok(url)
}

/// Returns whether `listed`, from the metadata of a server, is the issuer that the user trusts. Ignores a slash after
/// the host, because many servers list an issuer with this slash although its own metadata has none.
pub(super) fn is_trusted_issuer(listed: &str, trusted: &str) -> bool {
    let is_host = || Url::parse(trusted).is_ok_and(|url| origin(&url) == trusted);
    listed == trusted || (listed.strip_suffix('/') == Some(trusted) && is_host())
}

/// Returns whether an address can refer only to this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

/// Returns the origin of a URL: its scheme, host and port, without a trailing slash.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns the path of a URL without a trailing slash.
pub(super) fn path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

/// Returns the canonical form of a server's URL: no fragment, no slash if there is no path, and no query. A query might
/// contain an API key, which must neither be stored nor be sent to an authorization server.
pub(super) fn canonical(url: &Url) -> String {
    format!("{}{}", origin(url), if url.path() == "/" { "" } else { url.path() })
}

/// The relation of a protected resource to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceMatch {
    /// The resource is the server.
    Same,
    /// The resource is at a parent path of the same origin.
    Parent,
    /// The resource is unrelated to the server.
    None,
}

/// Returns the relation of a protected resource to a server.
pub(super) fn resource_match(resource: &Url, server: &Url) -> ResourceMatch {
    if resource.origin() != server.origin() || resource.fragment().is_some() {
        return ResourceMatch::None;
    }
    if resource.query().is_some() && resource.query() != server.query() {
        return ResourceMatch::None;
    }
    match path(server).strip_prefix(path(resource)) {
        Some("") => ResourceMatch::Same,
        Some(rest) if rest.starts_with('/') => ResourceMatch::Parent,
        _ => ResourceMatch::None,
    }
}

/// Returns an address as it is shown in messages: shortened, and without parts that may be secret.
pub(super) fn display_url(url: &str) -> String {
    clip_text(&shown_url(url))
}

/// Shortens a text that was received from a server.
pub(super) fn clip_text(text: &str) -> String {
    mgp_types::clip(text, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_over_tls_or_stay_on_this_machine() {
        #[track_caller]
        fn check(url: &str, fit: bool) {
            assert_eq!(parse_secure("it", url).is_ok(), fit, "{url}");
        }
        check("https://a.example/x", true);
        check("http://127.0.0.1:80/x", true);
        check("http://[::1]/x", true);
        check("http://localhost:1234", true);
        check("http://a.example/x", false);
        check("http://localhost.a.example/x", false);
        check("ftp://a.example/x", false);
        check("javascript:alert(1)", false);
        check("/x", false);
        check("https://user@a.example/", false);
        check("https://a.example/#x", false);
        check("https://a.example\\@evil.example/", false);
        check("https://a.exa\nmple/", false);
        check(" https://a.example/", false);
        check(&format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES)), false);
        assert!(issuer("https://a.example?x").is_err());
    }

    #[test]
    fn a_resource_covers_what_is_below_it() {
        #[track_caller]
        fn check(resource: &str, server: &str, expected: ResourceMatch) {
            let (resource, server) = (Url::parse(resource).unwrap(), Url::parse(server).unwrap());
            assert_eq!(resource_match(&resource, &server), expected, "{resource}");
        }
        let server = "https://a.example/mcp/one";
        check("https://a.example/mcp/one", server, ResourceMatch::Same);
        check("HTTPS://A.example:443/mcp/one", server, ResourceMatch::Same);
        check("https://a.example/mcp/one/", server, ResourceMatch::Same);
        check("https://a.example/mcp", server, ResourceMatch::Parent);
        check("https://a.example", server, ResourceMatch::Parent);
        check("https://a.example/mc", server, ResourceMatch::None);
        check("https://a.example/mcp/one/two", server, ResourceMatch::None);
        check("https://evil.example/mcp/one", server, ResourceMatch::None);
        check("https://a.example:8443/mcp/one", server, ResourceMatch::None);
        check("http://a.example/mcp/one", server, ResourceMatch::None);
        check("https://a.example/mcp/one?x=1", server, ResourceMatch::None);
    }

    #[test]
    fn an_address_that_is_refused_does_not_tell_its_secrets() {
        for url in [
            "https://me:s3cret@a.example/mcp",
            "http://a.example/mcp?key=s3cret",
            "https://me:s3/cret@a.example/mcp?s3cret",
            "ftp://s3cret@a.example",
            "https://a.example/#s3cret",
        ] {
            let error = parse_secure("it", url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3"), "{error}");
        }
    }

    #[test]
    fn a_server_names_itself_without_a_needless_slash() {
        let named = |url| canonical(&Url::parse(url).unwrap());
        assert_eq!(named("https://A.example"), "https://a.example");
        assert_eq!(named("https://a.example/mcp/"), "https://a.example/mcp/");
        assert_eq!(named("https://a.example:8443/mcp?key=k#x"), "https://a.example:8443/mcp");
    }
}
