//! Who authorises for a server (MCP authorization server discovery; RFC 9728, RFC 8414, `OpenID` Connect Discovery).
//!
//! A server of 2025-03-26 publishes no metadata of its own: its origin is its authorization server.
//!
//! Applies to: outbound.

use mgp_types::service::{FetchRequest, Fetched, Fetcher};
use serde::de::DeserializeOwned;
use url::Url;

use super::address::{self, Cover, shorten};
use super::dpop::Signs;
use super::error::AuthError;
use super::metadata::{AuthServer, Resource};
use super::scope::Scopes;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// What was found out.
#[derive(Clone, Debug)]
pub(super) struct Discovered {
    /// What tokens are asked for, as the server writes it.
    pub(super) resource: String,
    /// Where the server's metadata was, if it came by a challenge.
    pub(super) metadata: Option<String>,
    /// The scopes the server lists.
    pub(super) scopes: Option<Scopes>,
    /// Whether the server takes no tokens that are not bound to a key, and which proofs it takes.
    pub(super) requires_dpop: bool,
    pub(super) proofs: Signs,
    /// The authorization server.
    pub(super) server: AuthServer,
}

/// Which authorization server to take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choice<'a> {
    /// Only this one, as the credentials are for it.
    pub(super) only: Option<&'a str>,
    /// This one where it is listed.
    pub(super) rather: Option<&'a str>,
}

/// Finds out who authorises for a server.
pub(super) async fn discover(
    fetcher: &Fetcher,
    server: &Url,
    metadata: Option<&str>,
    choice: Choice<'_>,
) -> Result<Discovered, AuthError> {
    let Some(resource) = resource(fetcher, server, metadata).await? else {
        return unpublished(fetcher, server, choice).await;
    };
    let issuer = choose(&resource, server, choice)?;
    let found = auth_server(fetcher, &issuer).await?;
    stays_away(&found, server)?;
    Ok(Discovered {
        server: found,
        metadata: metadata.map(str::to_owned),
        scopes: resource.scopes(),
        requires_dpop: resource.requires_dpop(),
        proofs: resource.proofs(),
        resource: resource.resource,
    })
}

/// The metadata of the server itself; `None` where it publishes none.
async fn resource(
    fetcher: &Fetcher,
    server: &Url,
    metadata: Option<&str>,
) -> Result<Option<Resource>, AuthError> {
    const WHAT: &str = "the metadata of the server";
    let found = if let Some(url) = metadata {
        address::secure(WHAT, url)?;
        Some((document(WHAT, url, &fetch(fetcher, url).await?)?, url.to_owned()))
    } else {
        let origin = address::origin(server);
        let mut candidates = vec![format!("{origin}{RESOURCE}{}", address::path(server))];
        candidates.push(format!("{origin}{RESOURCE}"));
        candidates.dedup();
        first(fetcher, WHAT, candidates).await?
    };
    let Some((found, place)): Option<(Resource, _)> = found else { return Ok(None) };
    if !is_believed(&found.resource, &place, server) {
        return Err(AuthError::ResourceMismatch {
            resource: address::shown(&found.resource),
            server: address::canonical(server),
        });
    }
    Ok(Some(found))
}

/// Whether a document, found at a place, may name a resource as that of the server.
///
/// RFC 9728 §3.3 wants the server itself. Many hosts publish one document for all that is below it; that is believed where
/// only who runs the host can have put it (RFC 9728 §3.1): what one of its tenants says elsewhere must not get tokens for
/// all of them.
fn is_believed(resource: &str, place: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    match address::cover(&resource, server) {
        Cover::Same => true,
        Cover::Above => {
            let origin = address::origin(&resource);
            let own = format!("{origin}{RESOURCE}{}", address::path(&resource));
            place == own || place == format!("{origin}{RESOURCE}")
        }
        Cover::None => false,
    }
}

/// The issuer to ask, of those that the server names.
fn choose(resource: &Resource, server: &Url, choice: Choice<'_>) -> Result<String, AuthError> {
    let listed = resource.authorization_servers.as_deref().unwrap_or_default();
    let is_listed = |issuer: &&str| listed.iter().any(|known| known == issuer);
    if let Some(only) = choice.only {
        return choice.only.filter(is_listed).map(str::to_owned).ok_or_else(|| {
            let found: Vec<_> =
                listed.iter().take(4).map(|i| format!("`{}`", shorten(i))).collect();
            AuthError::ForeignIssuer { expected: only.to_owned(), found: found.join(", ") }
        });
    }
    let first = listed.first().map(String::as_str);
    choice.rather.filter(is_listed).or(first).map(str::to_owned).ok_or_else(|| {
        AuthError::Document {
            what: "the metadata of the server",
            url: address::canonical(server),
            why: "it names no authorization server".to_owned(),
        }
    })
}

/// The metadata of an authorization server, which must call itself what we call it.
pub(super) async fn auth_server(fetcher: &Fetcher, issuer: &str) -> Result<AuthServer, AuthError> {
    const WHAT: &str = "the metadata of the authorization server";
    let candidates = candidates(&address::issuer(issuer)?);
    let found: Option<(AuthServer, _)> = first(fetcher, WHAT, candidates).await?;
    let (found, _) = found.ok_or_else(|| AuthError::NoMetadata { issuer: issuer.to_owned() })?;
    if found.issuer != issuer {
        let found = shorten(&found.issuer);
        return Err(AuthError::IssuerMismatch { asked: issuer.to_owned(), found });
    }
    Ok(found)
}

/// Refuses endpoints on this machine, unless the server or the issuer is on it: a person, their browser and this program
/// must not be sent to what listens here by somebody elsewhere.
fn stays_away(found: &AuthServer, server: &Url) -> Result<(), AuthError> {
    if address::is_loopback(server) || address::is_loopback(&address::issuer(&found.issuer)?) {
        return Ok(());
    }
    for (what, endpoint) in [
        ("the authorization endpoint", &found.authorization_endpoint),
        ("the token endpoint", &found.token_endpoint),
        ("the registration endpoint", &found.registration_endpoint),
    ] {
        let Some(endpoint) = endpoint else { continue };
        // What is no address is refused where it is used.
        if Url::parse(endpoint).is_ok_and(|url| address::is_loopback(&url)) {
            let why = "it is on this machine, and neither the server nor the issuer is";
            return Err(AuthError::Address { what, url: address::shown(endpoint), why });
        }
    }
    Ok(())
}

/// Where an authorization server may have its metadata, in the order of trying.
fn candidates(issuer: &Url) -> Vec<String> {
    let (origin, path) = (address::origin(issuer), address::path(issuer));
    let mut candidates = vec![format!("{origin}{SERVER}{path}"), format!("{origin}{OPENID}{path}")];
    if !path.is_empty() {
        candidates.push(format!("{origin}{path}{OPENID}"));
    }
    candidates
}

/// A server of 2025-03-26: its origin authorises, with metadata or at the addresses of that revision.
async fn unpublished(
    fetcher: &Fetcher,
    server: &Url,
    choice: Choice<'_>,
) -> Result<Discovered, AuthError> {
    const WHAT: &str = "the metadata of the authorization server";
    let origin = address::origin(server);
    let found: Option<(AuthServer, _)> =
        first(fetcher, WHAT, vec![format!("{origin}{SERVER}")]).await?;
    let found = found.map_or_else(|| AuthServer::unpublished(&origin), |(found, _)| found);
    // Nobody wrote the issuer down, so either way of writing an origin is it.
    if found.issuer.strip_suffix('/').unwrap_or(&found.issuer) != origin {
        return Err(AuthError::IssuerMismatch { asked: origin, found: shorten(&found.issuer) });
    }
    if let Some(only) = choice.only.filter(|only| *only != found.issuer) {
        let found = format!("`{}`", found.issuer);
        return Err(AuthError::ForeignIssuer { expected: only.to_owned(), found });
    }
    let resource = address::canonical(server);
    Ok(Discovered {
        resource,
        metadata: None,
        scopes: None,
        requires_dpop: false,
        proofs: Signs::Unsaid,
        server: found,
    })
}

/// The document of the first of some addresses that has one, and the address.
///
/// Only an answer that denies it leads on to the next: who can make a request fail must not choose what is believed.
async fn first<T: DeserializeOwned>(
    fetcher: &Fetcher,
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

async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Fetched, AuthError> {
    let request = FetchRequest::get(url).header("accept", "application/json");
    Ok(fetcher.fetch(request).await?)
}

fn document<T: DeserializeOwned>(
    what: &'static str,
    url: &str,
    answer: &Fetched,
) -> Result<T, AuthError> {
    let refuse = |why| AuthError::Document { what, url: address::shown(url), why };
    if answer.status != 200 {
        return Err(refuse(format!("the status is {}", answer.status)));
    }
    serde_json::from_slice(&answer.body).map_err(|error| refuse(shorten(&error.to_string())))
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
            assert_eq!(is_believed(resource, &place, &server), expected, "{resource} {place}");
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
    fn nobody_elsewhere_names_an_endpoint_on_this_machine() {
        #[track_caller]
        fn check(server: &str, issuer: &str, endpoint: &str, fit: bool) {
            for name in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
                let json = serde_json::json!({ "issuer": issuer, name: endpoint });
                let found = serde_json::from_value(json).unwrap();
                let judged = stays_away(&found, &Url::parse(server).unwrap());
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
    fn an_issuer_is_chosen_among_those_listed() {
        let json = r#"{"resource":"https://a.example","authorization_servers":["one","two"]}"#;
        let resource: Resource = serde_json::from_str(json).unwrap();
        let server = Url::parse("https://a.example").unwrap();
        let choose = |only, rather| choose(&resource, &server, Choice { only, rather });
        assert_eq!(choose(None, None).unwrap(), "one");
        assert_eq!(choose(None, Some("two")).unwrap(), "two");
        assert_eq!(choose(None, Some("gone")).unwrap(), "one");
        assert_eq!(choose(Some("two"), None).unwrap(), "two");
        let foreign = choose(Some("gone"), Some("two")).unwrap_err();
        assert!(matches!(foreign, AuthError::ForeignIssuer { .. }), "{foreign}");
    }
}
