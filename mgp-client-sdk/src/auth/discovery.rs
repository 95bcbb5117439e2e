//! Discovery of a server's authorization server (MCP authorization server discovery; RFC 9728, RFC 8414, `OpenID`
//! Connect Discovery).
//!
//! A server of revision 2025-03-26 publishes no metadata: its authorization server is at the same origin.

use mgp_types::service::{FetchError, FetchRequest, FetchResponse, SharedFetch};
use serde::de::DeserializeOwned;
use url::Url;

use super::address::{self, ResourceMatch, clip_text};
use super::dpop::ProofSupport;
use super::error::AuthError;
use super::metadata::{AuthServer, Resource};
use super::scope::Scopes;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// The maximum number of redirects that a request for a document follows.
const MAX_REDIRECTS: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct Discovered {
    /// The resource for which tokens are requested: exactly the text in the server's metadata, or the canonical URL of
    /// a server without metadata.
    pub(super) resource: String,
    /// The URL of the server's metadata, if a challenge named it.
    pub(super) metadata: Option<String>,
    /// The scopes that the server lists.
    pub(super) scopes: Option<Scopes>,
    /// `true` if the server accepts only tokens that are bound to a key.
    pub(super) requires_dpop: bool,
    pub(super) proofs: ProofSupport,
    pub(super) server: AuthServer,
}

/// The rules for the choice among several authorization servers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choice<'a> {
    /// The only issuer that may be used: the user configured it, or configured credentials that belong to it. `None` if
    /// any listed issuer may be used.
    pub(super) only: Option<&'a str>,
    /// The issuer to use if the server lists it.
    pub(super) preferred: Option<&'a str>,
}

/// Finds the authorization server that issues the tokens for a server.
pub(super) async fn discover(
    fetcher: &SharedFetch,
    server: &Url,
    metadata: Option<&str>,
    choice: Choice<'_>,
) -> Result<Discovered, AuthError> {
    let Some(resource) = resource(fetcher, server, metadata).await? else {
        return without_metadata(fetcher, server, choice).await;
    };
    let issuer = choose(&resource, server, choice)?;
    let found = auth_server(fetcher, &issuer).await?;
    check_endpoints(&found, server)?;
    Ok(Discovered {
        server: found,
        metadata: metadata.map(str::to_owned),
        scopes: resource.scopes(),
        requires_dpop: resource.requires_dpop(),
        proofs: resource.proofs(),
        resource: resource.resource,
    })
}

/// Fetches the server's own metadata; returns `None` if it publishes none.
async fn resource(
    fetcher: &SharedFetch,
    server: &Url,
    metadata: Option<&str>,
) -> Result<Option<Resource>, AuthError> {
    const WHAT: &str = "the metadata of the server";
    let found = if let Some(url) = metadata {
        address::parse_secure(WHAT, url)?;
        Some((document(WHAT, url, &fetch(fetcher, url).await?)?, url.to_owned()))
    } else {
        let origin = address::origin(server);
        let mut candidates = vec![format!("{origin}{RESOURCE}{}", address::path(server))];
        candidates.push(format!("{origin}{RESOURCE}"));
        candidates.dedup();
        first(fetcher, WHAT, candidates).await?
    };
    let Some((found, place)): Option<(Resource, _)> = found else { return Ok(None) };
    if !may_name_resource(&found.resource, &place, server) {
        return Err(AuthError::ResourceMismatch {
            resource: address::display_url(&found.resource),
            server: address::canonical(server),
        });
    }
    Ok(Some(found))
}

/// Returns whether a metadata document found at `place` may name `resource` as the protected resource of the
/// server.
///
/// RFC 9728 §3.3 requires the server's own URL. Many hosts publish one document for all servers below a URL. Such a
/// document is accepted only at the locations that the host's operator controls (RFC 9728 §3.1). Otherwise one tenant
/// could obtain tokens for the servers of other tenants.
fn may_name_resource(resource: &str, place: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    match address::resource_match(&resource, server) {
        ResourceMatch::Same => true,
        ResourceMatch::Parent => {
            let origin = address::origin(&resource);
            let own = format!("{origin}{RESOURCE}{}", address::path(&resource));
            place == own || place == format!("{origin}{RESOURCE}")
        }
        ResourceMatch::None => false,
    }
}

/// Chooses one of the issuers that the server's metadata lists.
fn choose(resource: &Resource, server: &Url, choice: Choice<'_>) -> Result<String, AuthError> {
    let listed = resource.authorization_servers.as_deref().unwrap_or_default();
    let is_listed = |issuer: &&str| listed.iter().any(|known| known == issuer);
    if let Some(only) = choice.only {
        let is_listed = listed.iter().any(|known| address::is_trusted_issuer(known, only));
        return is_listed.then(|| only.to_owned()).ok_or_else(|| {
            let found: Vec<_> =
                listed.iter().take(4).map(|i| format!("`{}`", clip_text(i))).collect();
            AuthError::ForeignIssuer { expected: only.to_owned(), found: found.join(", ") }
        });
    }
    let first = listed.first().map(String::as_str);
    choice.preferred.filter(is_listed).or(first).map(str::to_owned).ok_or_else(|| {
        AuthError::Document {
            what: "the metadata of the server",
            url: address::canonical(server),
            why: "it names no authorization server".to_owned(),
        }
    })
}

/// Fetches the metadata of an authorization server, which must name the same issuer.
pub(super) async fn auth_server(
    fetcher: &SharedFetch,
    issuer: &str,
) -> Result<AuthServer, AuthError> {
    const WHAT: &str = "the metadata of the authorization server";
    let candidates = candidates(&address::issuer(issuer)?);
    let found: Option<(AuthServer, _)> = first(fetcher, WHAT, candidates).await?;
    let (found, _) = found.ok_or_else(|| AuthError::NoMetadata { issuer: issuer.to_owned() })?;
    if found.issuer != issuer {
        let found = clip_text(&found.issuer);
        return Err(AuthError::IssuerMismatch { asked: issuer.to_owned(), found });
    }
    Ok(found)
}

/// Refuses endpoints on this machine, unless the server or the issuer is on it.
fn check_endpoints(found: &AuthServer, server: &Url) -> Result<(), AuthError> {
    for (what, endpoint) in [
        ("the authorization endpoint", &found.authorization_endpoint),
        ("the token endpoint", &found.token_endpoint),
        ("the registration endpoint", &found.registration_endpoint),
        ("the device endpoint", &found.device_authorization_endpoint),
    ] {
        if let Some(endpoint) = endpoint {
            check_not_local(what, endpoint, &found.issuer, server)?;
        }
    }
    Ok(())
}

/// Refuses an address on this machine, unless the server or the issuer is on it: a remote party must not direct the
/// browser or this program to a local service.
pub(super) fn check_not_local(
    what: &'static str,
    url: &str,
    issuer: &str,
    server: &Url,
) -> Result<(), AuthError> {
    if address::is_loopback(server) || address::is_loopback(&address::issuer(issuer)?) {
        return Ok(());
    }
    // Accept an invalid address here; the code that uses the address refuses it.
    if Url::parse(url).is_ok_and(|url| address::is_loopback(&url)) {
        let why = "it is on this machine, and neither the server nor the issuer is";
        return Err(AuthError::Address { what, url: address::display_url(url), why });
    }
    Ok(())
}

/// Returns the addresses where an authorization server may publish its metadata, in order of preference.
fn candidates(issuer: &Url) -> Vec<String> {
    let (origin, path) = (address::origin(issuer), address::path(issuer));
    let mut candidates = vec![format!("{origin}{SERVER}{path}"), format!("{origin}{OPENID}{path}")];
    if !path.is_empty() {
        candidates.push(format!("{origin}{path}{OPENID}"));
    }
    candidates
}

/// Discovers the authorization server at the origin of a server of revision 2025-03-26. If it publishes no metadata,
/// its default endpoints are used.
async fn without_metadata(
    fetcher: &SharedFetch,
    server: &Url,
    choice: Choice<'_>,
) -> Result<Discovered, AuthError> {
    const WHAT: &str = "the metadata of the authorization server";
    let origin = address::origin(server);
    let found: Option<(AuthServer, _)> =
        first(fetcher, WHAT, vec![format!("{origin}{SERVER}")]).await?;
    let found = found.map_or_else(|| AuthServer::without_metadata(&origin), |(found, _)| found);
    // The expected issuer is the server's origin and not read from a document, so ignore a slash at the end.
    if found.issuer.strip_suffix('/').unwrap_or(&found.issuer) != origin {
        return Err(AuthError::IssuerMismatch { asked: origin, found: clip_text(&found.issuer) });
    }
    if let Some(only) = choice.only.filter(|only| *only != found.issuer) {
        let found = format!("`{}`", found.issuer);
        return Err(AuthError::ForeignIssuer { expected: only.to_owned(), found });
    }
    check_endpoints(&found, server)?;
    let resource = address::canonical(server);
    Ok(Discovered {
        resource,
        metadata: None,
        scopes: None,
        requires_dpop: false,
        proofs: ProofSupport::Unstated,
        server: found,
    })
}

/// Tries addresses in order; returns the first document found, and its address, or `None` if there is no document.
///
/// The next address is tried only if the answer means that there is no document. Otherwise an attacker who can
/// make requests fail could choose which document is used.
async fn first<T: DeserializeOwned>(
    fetcher: &SharedFetch,
    what: &'static str,
    candidates: Vec<String>,
) -> Result<Option<(T, String)>, AuthError> {
    for url in candidates {
        let answer = fetch(fetcher, &url).await?;
        let is_page = answer.status == 200 && !answer.body.trim_ascii_start().starts_with(b"{");
        if (400..500).contains(&answer.status) || is_page {
            continue;
        }
        return Ok(Some((document(what, &url, &answer)?, url)));
    }
    Ok(None)
}

/// Sends the request for a document, and follows redirects within its origin. A status for a temporary failure of the
/// server counts as a failed request, which can be repeated later, and not as a missing or invalid document.
async fn fetch(fetcher: &SharedFetch, url: &str) -> Result<FetchResponse, AuthError> {
    let failed = |url: &str, why| FetchError::Failed { url: address::display_url(url), why };
    let mut place = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let request = FetchRequest::get(place.as_str()).header("accept", "application/json");
        let answer = fetcher.fetch(request).await?;
        if matches!(answer.status, 408 | 429 | 500..=599) {
            return Err(failed(&place, format!("the status is {}", answer.status)).into());
        }
        match redirect(&place, &answer) {
            Some(target) => place = target,
            None => return Ok(answer),
        }
    }
    Err(failed(url, "too many redirects".to_owned()).into())
}

/// Returns the target of a redirect. A redirect to another origin is not followed: only the origin of a document may
/// decide about its content.
fn redirect(place: &str, answer: &FetchResponse) -> Option<String> {
    let place = Url::parse(place).ok()?;
    let target = place.join(answer.header("location")?).ok()?;
    let is_followed =
        matches!(answer.status, 301..=303 | 307 | 308) && target.origin() == place.origin();
    is_followed.then(|| target.into())
}

fn document<T: DeserializeOwned>(
    what: &'static str,
    url: &str,
    answer: &FetchResponse,
) -> Result<T, AuthError> {
    let refuse = |why| AuthError::Document { what, url: address::display_url(url), why };
    match answer.status {
        200 => {}
        // Redirects within the origin have been followed already, so this redirect leads to another origin.
        status @ (301..=303 | 307 | 308) => {
            let why = "it is redirected to another origin, which is not trusted";
            return Err(refuse(format!("{why} (status {status})")));
        }
        status => return Err(refuse(format!("the status is {status}"))),
    }
    serde_json::from_slice(&answer.body).map_err(|error| refuse(clip_text(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        let of = |issuer| candidates(&Url::parse(issuer).unwrap());
        assert_eq!(
            of("https://a.example/tenant1"),
            [
                "https://a.example/.well-known/oauth-authorization-server/tenant1",
                "https://a.example/.well-known/openid-configuration/tenant1",
                "https://a.example/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            of("https://a.example"),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_tenant_gets_no_tokens_for_its_host() {
        #[track_caller]
        fn check(resource: &str, place: &str, expected: bool) {
            let server = Url::parse("https://a.example/tenants/one").unwrap();
            let place = format!("https://a.example{place}");
            assert_eq!(
                may_name_resource(resource, &place, &server),
                expected,
                "{resource} {place}"
            );
        }
        const ROOT: &str = "/.well-known/oauth-protected-resource";
        let (host, all) = ("https://a.example", "https://a.example/tenants");
        let own = "https://a.example/tenants/one";
        for place in [ROOT, &format!("{ROOT}/tenants/one"), "/tenants/one/metadata.json"] {
            check(own, place, true);
            check("https://a.example/tenants/two", place, false);
            check("https://evil.example", place, false);
            check("tenants", place, false);
        }
        for above in [host, "https://a.example/", all] {
            check(above, ROOT, true);
            check(above, &format!("{ROOT}/tenants/one"), false);
            check(above, "/tenants/one/metadata.json", false);
            check(above, &format!("/tenants/one{ROOT}"), false);
            check(above, &format!("{ROOT}?x"), false);
        }
        check(all, &format!("{ROOT}/tenants"), true);
        check(host, &format!("{ROOT}/tenants"), false);
    }

    #[test]
    fn a_remote_server_cannot_name_an_endpoint_on_this_machine() {
        #[track_caller]
        fn check(server: &str, issuer: &str, endpoint: &str, fit: bool) {
            for name in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
                let json = serde_json::json!({ "issuer": issuer, name: endpoint });
                let found = serde_json::from_value(json).unwrap();
                let judged = check_endpoints(&found, &Url::parse(server).unwrap());
                assert_eq!(judged.is_ok(), fit, "{server} {issuer} {name} {endpoint}");
            }
        }
        let (away, there) = ("https://mcp.example/mcp", "https://one.example");
        let (here, own) = ("http://127.0.0.1:8000/mcp", "http://localhost:9000");
        check(away, there, "https://one.example/x", true);
        for page in [
            "http://127.0.0.1:8080/any",
            "https://127.0.0.1/any",
            "http://127.1/any",
            "http://localhost/any",
            "http://localhost./any",
            "http://printer.localhost/any",
            "http://[::1]:631/any",
            "http://[::ffff:127.0.0.1]/any",
        ] {
            check(away, there, page, false);
            check(here, there, page, true);
            check(away, own, page, true);
        }
    }

    #[test]
    fn a_trusted_issuer_may_be_listed_with_a_slash_after_its_host() {
        let json = r#"{"resource":"https://a.example","authorization_servers":["https://one.example/","https://one.example/t/"]}"#;
        let resource: Resource = serde_json::from_str(json).unwrap();
        let server = Url::parse("https://a.example").unwrap();
        let choose =
            |only| choose(&resource, &server, Choice { only: Some(only), preferred: None });
        assert_eq!(choose("https://one.example").unwrap(), "https://one.example");
        for other in ["https://one.example/t", "https://one.example//", "https://ONE.example"] {
            let foreign = choose(other).unwrap_err();
            assert!(matches!(foreign, AuthError::ForeignIssuer { .. }), "{other}: {foreign}");
        }
    }

    #[test]
    fn an_issuer_is_chosen_among_those_listed() {
        let json = r#"{"resource":"https://a.example","authorization_servers":["one","two"]}"#;
        let resource: Resource = serde_json::from_str(json).unwrap();
        let server = Url::parse("https://a.example").unwrap();
        let choose = |only, preferred| choose(&resource, &server, Choice { only, preferred });
        assert_eq!(choose(None, None).unwrap(), "one");
        assert_eq!(choose(None, Some("two")).unwrap(), "two");
        assert_eq!(choose(None, Some("gone")).unwrap(), "one");
        assert_eq!(choose(Some("two"), None).unwrap(), "two");
        let foreign = choose(Some("gone"), Some("two")).unwrap_err();
        assert!(matches!(foreign, AuthError::ForeignIssuer { .. }), "{foreign}");
    }
}
