//! Which addresses are fit for credentials: `https`, or `http` on this machine (OAuth 2.1 §1.5, MCP authorization).
//!
//! Applies to: outbound.

use mgp_types::service::{is_loopback_host, shown_url};
use url::Url;

use super::error::AuthError;

/// How long an address may be.
const LONGEST: usize = 2048;

/// Reads an address that credentials, codes or trust go over.
pub(super) fn secure(what: &'static str, text: &str) -> Result<Url, AuthError> {
    let refuse = |why: &'static str| AuthError::Address { what, url: shown(text), why };
    // Parsers pass over these, or read them in ways of their own; the one that dials may read them otherwise.
    if text.len() > LONGEST || text.contains(|c: char| c == '\\' || c <= ' ' || c.is_control()) {
        return Err(refuse("it is too long, or holds what no URL holds"));
    }
    let url = Url::parse(text).map_err(|_| refuse("it is not an absolute URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => return Err(refuse("it is not on this machine, so it must be `https`")),
        _ => return Err(refuse("it must be `https`")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it holds a user name or password"));
    }
    if url.fragment().is_some() {
        return Err(refuse("it has a fragment"));
    }
    Ok(url)
}

/// Reads an issuer, which has no query either (RFC 8414 §2).
pub(super) fn issuer(text: &str) -> Result<Url, AuthError> {
    let url = secure("the issuer", text)?;
    if url.query().is_some() {
        let why = "an issuer has no query";
        return Err(AuthError::Address { what: "the issuer", url: shown(text), why });
    }
    Ok(url)
}

/// Whether an address can only be this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

/// The scheme, host and port, without a slash at the end.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The path, empty where there is none, without a slash at the end.
pub(super) fn path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

/// The server's own name for itself: no fragment, no slash where there is no path, and no query, which may hold a key that
/// an authorization server or a store has no business with.
pub(super) fn canonical(url: &Url) -> String {
    format!("{}{}", origin(url), if url.path() == "/" { "" } else { url.path() })
}

/// How a protected resource lies to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// It is the server.
    Same,
    /// It is on the same origin, at a path above.
    Above,
    /// It has nothing to do with it.
    None,
}

/// How a protected resource lies to a server.
pub(super) fn cover(resource: &Url, server: &Url) -> Cover {
    if resource.origin() != server.origin() || resource.fragment().is_some() {
        return Cover::None;
    }
    if resource.query().is_some() && resource.query() != server.query() {
        return Cover::None;
    }
    match path(server).strip_prefix(path(resource)) {
        Some("") => Cover::Same,
        Some(rest) if rest.starts_with('/') => Cover::Above,
        _ => Cover::None,
    }
}

/// An address, fit to be shown: short, and without what may be a secret in it.
pub(super) fn shown(url: &str) -> String {
    shorten(&shown_url(url))
}

/// Foreign text, fit to be shown: short, and nothing that moves a cursor.
pub(super) fn shorten(text: &str) -> String {
    let shown = text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_over_tls_or_stay_on_this_machine() {
        #[track_caller]
        fn check(url: &str, fit: bool) {
            assert_eq!(secure("it", url).is_ok(), fit, "{url}");
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
        check(&format!("https://a.example/{}", "x".repeat(LONGEST)), false);
        assert!(issuer("https://a.example?x").is_err());
    }

    #[test]
    fn a_resource_covers_what_is_below_it() {
        #[track_caller]
        fn check(resource: &str, server: &str, expected: Cover) {
            let (resource, server) = (Url::parse(resource).unwrap(), Url::parse(server).unwrap());
            assert_eq!(cover(&resource, &server), expected, "{resource}");
        }
        let server = "https://a.example/mcp/one";
        check("https://a.example/mcp/one", server, Cover::Same);
        check("HTTPS://A.example:443/mcp/one", server, Cover::Same);
        check("https://a.example/mcp/one/", server, Cover::Same);
        check("https://a.example/mcp", server, Cover::Above);
        check("https://a.example", server, Cover::Above);
        check("https://a.example/mc", server, Cover::None);
        check("https://a.example/mcp/one/two", server, Cover::None);
        check("https://evil.example/mcp/one", server, Cover::None);
        check("https://a.example:8443/mcp/one", server, Cover::None);
        check("http://a.example/mcp/one", server, Cover::None);
        check("https://a.example/mcp/one?x=1", server, Cover::None);
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
            let error = secure("it", url).unwrap_err();
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
