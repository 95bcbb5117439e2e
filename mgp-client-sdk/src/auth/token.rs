//! Requests to the token endpoint (OAuth 2.1 §3.2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mgp_types::service::{FetchRequest, FetchResponse, SharedFetch};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::address::{self, clip_text};
use super::dpop::{Binding, NONCE_RETRIES, Prover, WANTS_NONCE};
use super::error::AuthError;
use super::jwt::SigningKey;
use super::metadata::AuthServer;
use super::now;
use super::scope::Scopes;
use super::secret::Secret;
use super::store::{TokenKind, Tokens};

const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The fields of a form whose values are secret.
const SECRET_FIELDS: &[&str] = &[
    "assertion",
    "code",
    "code_verifier",
    "device_code",
    "refresh_token",
    "subject_token",
    "token",
];

/// The minimum length, in bytes, of a secret that is left out of a refusal. Leaving out shorter secrets would hide
/// ordinary words.
const MIN_SECRET_BYTES: usize = 8;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The grant type of logins by a device code (RFC 8628).
pub(super) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The error code for a client that is unknown or failed to authenticate itself (RFC 6749 §5.2).
const INVALID_CLIENT: &str = "invalid_client";

/// Authentication methods of clients (RFC 7591).
pub(super) const NONE: &str = "none";
pub(super) const BASIC: &str = "client_secret_basic";
pub(super) const POST: &str = "client_secret_post";

/// A client's identity for the token endpoint.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) proof: Proof,
}

impl Identity {
    /// Returns this identity with its secret in the body of requests instead of the header. Returns `None` if there is
    /// no secret in the header, or if the server does not list the body as a place for it.
    fn with_secret_in_body(&self, server: &AuthServer) -> Option<Self> {
        let Proof::Basic(secret) = &self.proof else { return None };
        let proof = Proof::Post(secret.clone());
        (server.has_method(POST) == Some(true)).then(|| Self { id: self.id.clone(), proof })
    }
}

/// The way a client authenticates itself.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// The client does not authenticate itself: it is a public client.
    None,
    /// The client sends its secret in the `Authorization` header.
    Basic(Secret),
    /// The client sends its secret in the form-encoded body of the request.
    Post(Secret),
    /// The client sends an assertion that it signs with this key.
    Key(SigningKey),
}

impl Proof {
    /// Returns the name that RFC 7591 gives to this authentication method.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::None => NONE,
            Self::Basic(_) => BASIC,
            Self::Post(_) => POST,
            Self::Key(_) => "private_key_jwt",
        }
    }
}

pub(super) type Form<'a> = Vec<(&'static str, &'a str)>;

/// The response of a token endpoint.
#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) access_token: Secret,
    pub(super) token_type: String,
    pub(super) issued_token_type: Option<String>,
    expires_in: Option<Seconds>,
    refresh_token: Option<Secret>,
    scope: Option<String>,
}

/// A number of seconds. Some servers send it as a string or with a fraction.
#[derive(Clone, Copy)]
pub(super) struct Seconds(pub(super) u64);

/// The body of an endpoint's response that refuses a request.
#[derive(Deserialize)]
pub(super) struct Refusal {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl Refusal {
    /// Returns the error code and the description of a refusal, or the status if there is no code.
    pub(super) fn clipped(refusal: Option<Self>, status: u16) -> (String, String) {
        let (error, description) = match refusal {
            Some(refusal) => (refusal.error, refusal.error_description.unwrap_or_default()),
            None => (format!("status {status}"), String::new()),
        };
        (clip_text(&error), clip_text(&description))
    }
}

/// Requests tokens from an authorization server.
pub(super) async fn request(
    fetcher: &SharedFetch,
    server: &AuthServer,
    identity: &Identity,
    form: Form<'_>,
    scopes: &Scopes,
    (binding, prover): (Binding, Option<Prover<'_>>),
) -> Result<Tokens, AuthError> {
    let endpoint = token_endpoint(server)?;
    let asked = ask(fetcher, endpoint, &server.issuer, identity, form.clone(), prover).await;
    let answer = match (asked, identity.with_secret_in_body(server)) {
        // Try again with the secret in the body: some servers expect the secret only where the client was registered to
        // send it, or do not decode the header.
        (Err(AuthError::Token { error, .. }), Some(identity)) if error == INVALID_CLIENT => {
            ask(fetcher, endpoint, &server.issuer, &identity, form, prover).await?
        }
        (asked, _) => asked?,
    };
    answer.tokens(endpoint, scopes, binding)
}

/// Returns the token endpoint of an authorization server; fails if the server has none to which credentials may be
/// sent.
pub(super) fn token_endpoint(server: &AuthServer) -> Result<&str, AuthError> {
    let endpoint = server.token_endpoint.as_deref().ok_or_else(|| AuthError::MissingEndpoint {
        issuer: server.issuer.clone(),
        what: "token endpoint",
    })?;
    address::parse_secure("the token endpoint", endpoint)?;
    Ok(endpoint)
}

/// Sends a request to a token endpoint and reads the response. Repeats the request if the endpoint requires a
/// nonce.
pub(super) async fn ask(
    fetcher: &SharedFetch,
    endpoint: &str,
    issuer: &str,
    identity: &Identity,
    form: Form<'_>,
    prover: Option<Prover<'_>>,
) -> Result<Answer, AuthError> {
    address::parse_secure("the token endpoint", endpoint)?;
    let mut retries = 0;
    loop {
        // Create the request again for each attempt, because proofs and assertions can be used only once.
        let request = post(endpoint, issuer, identity, &form)?;
        let Some(prover) = prover else {
            let answer = fetcher.fetch(request).await?;
            return read(endpoint, &without_secrets(answer, identity, &form));
        };
        let answer = fetcher.fetch(prover.prove(request)?).await?;
        let is_new = prover.learn(endpoint, &answer)?;
        match read(endpoint, &without_secrets(answer, identity, &form)) {
            Err(AuthError::Token { error, .. })
                if error == WANTS_NONCE && is_new && retries < NONCE_RETRIES =>
            {
                retries += 1;
            }
            done => return done,
        }
    }
}

/// Sends a form to an endpoint other than the token endpoint. If the endpoint refuses the client's secret in the
/// header, sends the form again with the secret in the body.
pub(super) async fn send(
    fetcher: &SharedFetch,
    server: &AuthServer,
    endpoint: &str,
    identity: &Identity,
    form: Form<'_>,
) -> Result<FetchResponse, AuthError> {
    let answer = fetcher.fetch(post(endpoint, &server.issuer, identity, &form)?).await?;
    let is_refused = matches!(
        refusal(endpoint, &answer),
        AuthError::Token { error, .. } if error == INVALID_CLIENT
    );
    let answer = match identity.with_secret_in_body(server).filter(|_| is_refused) {
        Some(identity) => fetcher.fetch(post(endpoint, &server.issuer, &identity, &form)?).await?,
        None => answer,
    };
    Ok(without_secrets(answer, identity, &form))
}

/// Replaces the secrets of a request in the texts of the response that refuses it. Some endpoints repeat them there,
/// and these texts are shown and logged.
fn without_secrets(
    mut answer: FetchResponse,
    identity: &Identity,
    form: &[(&'static str, &str)],
) -> FetchResponse {
    let Ok(mut members) = serde_json::from_slice::<Value>(&answer.body) else { return answer };
    if !members["error"].is_string() {
        return answer;
    }
    let own = match &identity.proof {
        Proof::Basic(secret) | Proof::Post(secret) => Some(secret.expose()),
        Proof::None | Proof::Key(_) => None,
    };
    let sent = form.iter().filter(|(name, _)| SECRET_FIELDS.contains(name));
    let secrets = sent.map(|(_, secret)| *secret).chain(own);
    for secret in secrets.filter(|secret| secret.len() >= MIN_SECRET_BYTES) {
        // The other members stay as they are, because a success may contain the same refresh token again.
        for name in ["error", "error_description"] {
            if let Some(Value::String(text)) = members.get_mut(name) {
                *text = text.replace(secret, "…");
            }
        }
    }
    answer.body = members.to_string().into_bytes();
    answer
}

/// Creates a request that contains a form and authenticates the client.
fn post(
    endpoint: &str,
    issuer: &str,
    identity: &Identity,
    form: &[(&'static str, &str)],
) -> Result<FetchRequest, AuthError> {
    let mut body = Serializer::new(String::new());
    body.extend_pairs(form);
    let mut authorization = None;
    match &identity.proof {
        Proof::None => {
            body.append_pair("client_id", &identity.id);
        }
        Proof::Basic(secret) => authorization = Some(basic(&identity.id, secret)),
        Proof::Post(secret) => {
            body.append_pair("client_id", &identity.id);
            body.append_pair("client_secret", secret.expose());
        }
        Proof::Key(key) => {
            body.append_pair("client_id", &identity.id);
            body.append_pair("client_assertion_type", ASSERTION_TYPE);
            body.append_pair("client_assertion", key.statement(&identity.id, issuer)?.expose());
        }
    }
    let request = FetchRequest::post(endpoint, body.finish())
        .header("accept", "application/json")
        .header("content-type", "application/x-www-form-urlencoded");
    Ok(match authorization {
        Some(authorization) => request.header("authorization", authorization),
        None => request,
    })
}

/// Returns the value of an `Authorization` header; id and secret are encoded as in a form (OAuth 2.1 §2.4.1).
fn basic(id: &str, secret: &Secret) -> String {
    let encode = |part: &str| byte_serialize(part.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encode(id), encode(secret.expose()))))
}

fn read(endpoint: &str, answer: &FetchResponse) -> Result<Answer, AuthError> {
    if !(200..300).contains(&answer.status) {
        return Err(refusal(endpoint, answer));
    }
    if let Ok(read) = serde_json::from_slice(&answer.body) {
        return Ok(read);
    }
    // The error of serde is dropped, because it quotes the text, which is secret.
    Err(refusal_with_success(endpoint, answer).unwrap_or_else(|| AuthError::Document {
        what: "the answer of the token endpoint",
        url: address::display_url(endpoint),
        why: "it is not a token response".to_owned(),
    }))
}

/// Returns the error in an answer that refuses the request but has the status of a success. Some endpoints send such
/// answers, e.g. GitHub's.
pub(super) fn refusal_with_success(endpoint: &str, answer: &FetchResponse) -> Option<AuthError> {
    let refusal: Refusal = serde_json::from_slice(&answer.body).ok()?;
    Some(token_error(endpoint, Some(refusal), answer.status))
}

/// Returns the error for an endpoint's response that refuses a request.
pub(super) fn refusal(endpoint: &str, answer: &FetchResponse) -> AuthError {
    let refusal: Option<Refusal> = serde_json::from_slice(&answer.body).ok();
    // Ignore the error code in a response with 408 or 429, because such a response is not a judgement about the
    // request.
    let is_judged = (400..500).contains(&answer.status) && !matches!(answer.status, 408 | 429);
    token_error(endpoint, refusal.filter(|_| is_judged), answer.status)
}

fn token_error(endpoint: &str, refusal: Option<Refusal>, status: u16) -> AuthError {
    let (error, description) = Refusal::clipped(refusal, status);
    AuthError::Token { endpoint: address::display_url(endpoint), error, description }
}

impl Answer {
    /// Returns the tokens after checking that the access token has the required binding and fits in a header.
    fn tokens(self, endpoint: &str, asked: &Scopes, binding: Binding) -> Result<Tokens, AuthError> {
        let refuse = |why: &str| AuthError::Document {
            what: "the answer of the token endpoint",
            url: address::display_url(endpoint),
            why: why.to_owned(),
        };
        let is = |kind: &str| self.token_type.eq_ignore_ascii_case(kind);
        let kind = match binding {
            Binding::Must if is("bearer") => {
                return Err(AuthError::TokenNotBound { endpoint: address::display_url(endpoint) });
            }
            _ if is("bearer") => TokenKind::Bearer,
            Binding::Wanted | Binding::Must if is("dpop") => TokenKind::Dpop,
            Binding::None if is("dpop") => {
                return Err(refuse("its token is bound to a key, and none was shown"));
            }
            _ => return Err(refuse("its token is neither for bearers nor bound to a key")),
        };
        let access = self.access_token.expose();
        if access.is_empty()
            || access.len() > MAX_TOKEN_BYTES
            || !access.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(refuse("its token does not fit in a header"));
        }
        let issued_at = now();
        let granted = self.scope.as_deref().map(Scopes::parse).unwrap_or_default();
        Ok(Tokens {
            refresh: self.refresh_token.filter(|refresh| !refresh.expose().is_empty()),
            expires_at: self.expires_in.map(|Seconds(seconds)| issued_at.saturating_add(seconds)),
            scopes: asked.union(&granted),
            access: self.access_token,
            kind,
            issued_at,
        })
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl serde::de::Visitor<'_> for Reader {
            type Value = Seconds;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of seconds")
            }

            fn visit_u64<E>(self, seconds: u64) -> Result<Seconds, E> {
                Ok(Seconds(seconds))
            }

            fn visit_i64<E>(self, seconds: i64) -> Result<Seconds, E> {
                Ok(Seconds(seconds.try_into().unwrap_or(0)))
            }

            fn visit_f64<E: serde::de::Error>(self, seconds: f64) -> Result<Seconds, E> {
                self.visit_str(&format!("{:.0}", seconds.trunc()))
            }

            fn visit_str<E: serde::de::Error>(self, seconds: &str) -> Result<Seconds, E> {
                seconds.parse().map(Seconds).map_err(E::custom)
            }
        }

        from.deserialize_any(Reader)
    }
}

/// Returns whether a refusal is permanent, so that the same request would fail again.
pub(super) fn is_final(error: &AuthError) -> bool {
    const FINAL: &[&str] = &[
        "access_denied",
        // An error code of GitHub.
        "bad_refresh_token",
        "consent_required",
        "interaction_required",
        INVALID_CLIENT,
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "invalid_token",
        "login_required",
        "unauthorized_client",
        "unsupported_grant_type",
        // Some authorization servers refuse a refresh token with one of these statuses and without an error code.
        // Proxies and firewalls also send 403, so 403 is not in the list.
        "status 400",
        "status 401",
    ];
    match error {
        AuthError::Token { error, .. } => FINAL.contains(&error.as_str()),
        AuthError::TokenNotBound { .. } => true,
        _ => false,
    }
}

/// Returns whether the error means that this client may not use the grant, although the authorization server offers it.
pub(super) fn is_grant_refused(error: &AuthError) -> bool {
    matches!(error, AuthError::Token { error, .. } if error == "unauthorized_client" || error == "unsupported_grant_type")
}

/// Returns whether the error means that the authorization server does not know the client.
pub(super) fn is_unknown_client(error: &AuthError) -> bool {
    matches!(error, AuthError::Token { error, .. } if error == INVALID_CLIENT || error == "unauthorized_client")
}

/// Returns whether the error means that the authorization server refused the requested scopes, either in its response
/// to a login or in the answer of an endpoint.
pub(super) fn is_scope_refused(error: &AuthError) -> bool {
    matches!(error, AuthError::Denied { error, .. } | AuthError::Token { error, .. } if error == "invalid_scope")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_of_basic_are_encoded_as_in_a_form() {
        let header = basic("a:b c", &"p%+é".into());
        let decoded = STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(String::from_utf8(decoded).unwrap(), "a%3Ab+c:p%25%2B%C3%A9");
    }

    #[test]
    fn a_refusal_does_not_show_the_secrets_that_it_repeats() {
        let identity = Identity { id: "me".to_owned(), proof: Proof::Post("own/s3cret".into()) };
        let form = [("subject_token", "sent/s3cret"), ("resource", "https://a.example/mcp")];
        let cleaned = |body: &str| without_secrets(FetchResponse::new(400, body), &identity, &form);
        // Some JSON libraries write `/` with a backslash.
        let refused = cleaned(
            r#"{"error":"own/s3cret","error_description":"sent\/s3cret for https://a.example/mcp"}"#,
        );
        let shown = refusal("https://a.example/token", &refused).to_string();
        assert!(shown.ends_with("(…): … for https://a.example/mcp"), "{shown}");
        let mut granted = cleaned(
            r#"{"error":"","access_token":"t","token_type":"bearer","refresh_token":"sent/s3cret"}"#,
        );
        granted.status = 200;
        let granted = read("https://a.example/token", &granted).unwrap();
        assert_eq!(granted.refresh_token, Some("sent/s3cret".into()));
    }

    #[test]
    fn answers_are_checked_before_they_are_used() {
        #[track_caller]
        fn check(status: u16, body: &str, expected: Result<Option<u64>, &str>) {
            let asked = Scopes::parse("a");
            let tokens = read("https://a.example/token", &FetchResponse::new(status, body))
                .and_then(|a| a.tokens("https://a.example/token", &asked, Binding::None));
            match (tokens, expected) {
                (Ok(tokens), Ok(expires)) => {
                    assert_eq!(tokens.expires_at.map(|at| at - tokens.issued_at), expires);
                }
                (Err(error), Err(words)) => {
                    let display_url = format!("{error} {error:?}");
                    assert!(display_url.contains(words), "{display_url}");
                    assert!(!display_url.contains("s3cret"), "{display_url}");
                }
                (found, _) => panic!("{found:?}"),
            }
        }
        check(200, r#"{"access_token":"t","token_type":"bearer"}"#, Ok(None));
        check(200, r#"{"access_token":"t","token_type":"Bearer","expires_in":60}"#, Ok(Some(60)));
        check(200, r#"{"access_token":"t","token_type":"Bearer","expires_in":"60"}"#, Ok(Some(60)));
        check(200, r#"{"access_token":"t","token_type":"Bearer","expires_in":60.5}"#, Ok(Some(60)));
        check(200, r#"{"access_token":"t","token_type":"Bearer","expires_in":-1}"#, Ok(Some(0)));
        check(200, r#"{"access_token":"s3cret","token_type":"mac"}"#, Err("neither for bearers"));
        check(200, r#"{"access_token":"s3cret","token_type":"DPoP"}"#, Err("none was shown"));
        check(200, r#"{"access_token":"s3cret\r\nx: y","token_type":"Bearer"}"#, Err("header"));
        check(200, r#"{"access_token":"","token_type":"Bearer"}"#, Err("header"));
        check(200, r#"{"access_token":["s3cret"]}"#, Err("not a token response"));
        check(200, "s3cret", Err("not a token response"));
        check(200, r#"{"error":"authorization_pending"}"#, Err("authorization_pending"));
        check(400, r#"{"error":"invalid_grant","error_description":"gone"}"#, Err("gone"));
        check(302, r#"{"access_token":"s3cret","token_type":"Bearer"}"#, Err("status 302"));
        for status in [408, 429, 503] {
            let expected = format!("status {status}");
            check(status, r#"{"error":"invalid_grant"}"#, Err(expected.as_str()));
        }
    }
}
