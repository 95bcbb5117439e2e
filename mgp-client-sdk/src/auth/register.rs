//! The client's registration at an authorization server (MCP client registration; RFC 7591).

use mgp_types::service::{FetchRequest, SharedFetch};
use serde::{Deserialize, Serialize};

use super::address;
use super::authorize::{ApplicationType, check_redirect};
use super::config::{OAuthConfig, Preregistered};
use super::error::AuthError;
use super::metadata::AuthServer;
use super::now;
use super::scope::Scopes;
use super::secret::Secret;
use super::store::{Registration, RegistrationKind};
use super::token::{BASIC, DEVICE_GRANT, Identity, NONE, POST, Proof, Refusal, Seconds};

/// The grant type of logins by redirect.
const CODE_GRANT: &str = "authorization_code";

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "OpenID Connect names the member")]
struct Application<'a> {
    client_name: &'a str,
    redirect_uris: [&'a str; 1],
    grant_types: Vec<&'static str>,
    response_types: [&'static str; 1],
    token_endpoint_auth_method: &'static str,
    application_type: &'static str,
    /// The scopes of the next login. Some authorization servers refuse requests for scopes that are not registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<Secret>,
    #[serde(default)]
    client_secret_expires_at: Option<Seconds>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistrationOrigin {
    /// The registration is dynamic, and was stored before this login.
    Old,
    /// The client registered for this login, or the registration follows from the configuration.
    New,
}

/// Returns the client's registration and its origin (MCP client registration). Uses the configured credentials, else
/// the client's metadata document if it is supported, else the known dynamic registration if it is still usable, else a
/// new registration.
pub(super) async fn registration(
    fetcher: &SharedFetch,
    config: &OAuthConfig,
    server: &AuthServer,
    redirect_uri: &str,
    scopes: &Scopes,
    known: Option<&Registration>,
) -> Result<(Registration, RegistrationOrigin), AuthError> {
    let application_type = check_redirect(redirect_uri)?;
    if let Some(Preregistered { id, secret }) = &config.preregistered {
        let method = method(server, secret.as_ref());
        let made = made(RegistrationKind::Preregistered, id, secret.clone(), method, redirect_uri);
        return Ok((made, RegistrationOrigin::New));
    }
    if let Some(document) = config.document.as_deref().filter(|_| server.takes_documents()) {
        check_document(document)?;
        let made = made(RegistrationKind::Document, document, None, NONE, redirect_uri);
        return Ok((made, RegistrationOrigin::New));
    }
    if let Some(known) = known.filter(|known| is_good(known, redirect_uri)) {
        return Ok((known.clone(), RegistrationOrigin::Old));
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(AuthError::NoClient { issuer: server.issuer.clone() });
    };
    address::parse_secure("the registration endpoint", endpoint)?;
    let device = server.device_authorization_endpoint.as_ref().map(|_| DEVICE_GRANT);
    let grant_types = [CODE_GRANT, "refresh_token"].into_iter().chain(device).collect();
    let application = Application {
        client_name: &config.name,
        redirect_uris: [redirect_uri],
        grant_types,
        response_types: ["code"],
        token_endpoint_auth_method: wanted(server),
        application_type: match application_type {
            ApplicationType::Native => "native",
            ApplicationType::Web => "web",
        },
        scope: (!scopes.is_empty()).then(|| scopes.to_string()),
    };
    Ok((register_leniently(fetcher, server, endpoint, application).await?, RegistrationOrigin::New))
}

/// Returns the identity of a registered client for the token endpoint.
pub(super) fn identity(registration: &Registration) -> Identity {
    let secret = registration.client_secret.clone();
    let proof = match (registration.method.as_str(), secret) {
        (POST, Some(secret)) => Proof::Post(secret),
        (NONE, _) | (_, None) => Proof::None,
        (_, Some(secret)) => Proof::Basic(secret),
    };
    Identity { id: registration.client_id.clone(), proof }
}

/// Returns how a client authenticates at the token endpoint; the method depends on whether the client has a secret, and
/// on the methods that the server lists.
pub(super) fn method(server: &AuthServer, secret: Option<&Secret>) -> &'static str {
    let lists = |method| server.has_method(method);
    match secret {
        None => NONE,
        Some(_) if lists(BASIC) == Some(false) && lists(POST) == Some(true) => POST,
        Some(_) if lists(BASIC) == Some(false) && lists(NONE) == Some(true) => NONE,
        // RFC 8414 §2: `client_secret_basic` is the default if the metadata lists no methods.
        Some(_) => BASIC,
    }
}

/// Returns the authentication method to register. A method without a secret is preferred, because a program on a
/// person's machine cannot protect a secret. A secret in the body is preferred to a secret in the header: some servers
/// do not decode the header, and servers of the Python SDK accept the header only if the body has the client id.
fn wanted(server: &AuthServer) -> &'static str {
    let methods = [NONE, POST, BASIC];
    let listed = methods.into_iter().find(|method| server.has_method(method) == Some(true));
    listed.unwrap_or(NONE)
}

/// Registers the client. If the authorization server refuses the metadata of the client, registers again with less
/// metadata: some servers refuse scopes that only the protected server knows, or grant types that they do not offer.
async fn register_leniently(
    fetcher: &SharedFetch,
    server: &AuthServer,
    endpoint: &str,
    mut application: Application<'_>,
) -> Result<Registration, AuthError> {
    match register(fetcher, server, endpoint, &application).await {
        Err(AuthError::Registration { error, .. }) if error == "invalid_client_metadata" => {}
        done => return done,
    }
    application.scope = None;
    application.grant_types.retain(|grant| *grant == CODE_GRANT || server.offers_grant(grant));
    register(fetcher, server, endpoint, &application).await
}

async fn register(
    fetcher: &SharedFetch,
    server: &AuthServer,
    endpoint: &str,
    application: &Application<'_>,
) -> Result<Registration, AuthError> {
    let document = |why: &str| AuthError::Document {
        what: "the answer of the registration endpoint",
        url: address::display_url(endpoint),
        why: why.to_owned(),
    };
    let body = serde_json::to_vec(application).map_err(|error| document(&error.to_string()))?;
    let request = FetchRequest::post(endpoint, body)
        .header("accept", "application/json")
        .header("content-type", "application/json");
    let answer = fetcher.fetch(request).await?;
    if !matches!(answer.status, 200 | 201) {
        let refusal = serde_json::from_slice(&answer.body).ok();
        let (error, description) = Refusal::clipped(refusal, answer.status);
        let issuer = server.issuer.clone();
        return Err(AuthError::Registration { issuer, error, description });
    }
    // The error of serde is dropped, because it quotes the text, which contains a secret.
    let found: Registered =
        serde_json::from_slice(&answer.body).map_err(|_| document("it is not a registration"))?;
    if found.client_id.is_empty() {
        return Err(document("its client id is empty"));
    }
    let method = match found.token_endpoint_auth_method.as_deref() {
        Some(declared) => [NONE, BASIC, POST]
            .into_iter()
            .find(|known| *known == declared)
            .ok_or_else(|| document("it asks for a way to authenticate that was not asked for"))?,
        None => method(server, found.client_secret.as_ref()),
    };
    let redirect_uri = application.redirect_uris[0];
    let kind = RegistrationKind::Dynamic;
    let mut made = made(kind, &found.client_id, found.client_secret, method, redirect_uri);
    made.expires_at = found.client_secret_expires_at.map(|Seconds(at)| at).filter(|at| *at > 0);
    Ok(made)
}

/// Returns whether an earlier registration can be used again.
fn is_good(known: &Registration, redirect_uri: &str) -> bool {
    known.kind == RegistrationKind::Dynamic
        && known.redirect_uri.as_deref() == Some(redirect_uri)
        && known.expires_at.is_none_or(|at| at > now())
}

fn made(
    kind: RegistrationKind,
    client_id: &str,
    client_secret: Option<Secret>,
    method: &str,
    redirect_uri: &str,
) -> Registration {
    let (client_id, method) = (client_id.to_owned(), method.to_owned());
    let redirect_uri = Some(redirect_uri.to_owned());
    Registration { client_id, client_secret, expires_at: None, method, redirect_uri, kind }
}

/// Checks a client id that is the URL of a metadata document: it must use `https` and have a path.
fn check_document(url: &str) -> Result<(), AuthError> {
    const WHAT: &str = "the client's metadata document";
    let refuse = |why| AuthError::Address { what: WHAT, url: address::display_url(url), why };
    let parsed = address::parse_secure(WHAT, url)?;
    if parsed.scheme() != "https" {
        return Err(refuse("it must be `https`"));
    }
    if parsed.path() == "/" {
        return Err(refuse("it has no path"));
    }
    Ok(())
}
