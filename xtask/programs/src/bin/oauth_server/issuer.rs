//! The OAuth authorization server of this program: metadata, client registration, logins, and tokens that expire,
//! rotate and can be revoked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Form, Json, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mgp_types::{random_name, sync::Mutex};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

type Fields = HashMap<String, String>;

pub(crate) struct Issuer {
    origin: String,
    state: Mutex<IssuerState>,
}

struct IssuerState {
    /// The login, PKCE challenge and redirect URI of each authorization code.
    codes: HashMap<String, (Login, String, String)>,
    /// The user of each device code; `None` until the user has entered the user code.
    devices: HashMap<String, Option<String>>,
    refresh: HashMap<String, Login>,
    access: HashMap<String, (Login, Instant)>,
    ttl: Duration,
    /// The scope that each request to the MCP server needs; `None` if requests need no scope.
    needs: Option<String>,
    /// If set, the token endpoint and the revocation endpoint answer every request with this status.
    token_fault: Option<StatusCode>,
    /// If `true`, clients can register themselves.
    registers: bool,
    /// The secret of the client that logs in as itself (client credentials grant).
    machine: Option<String>,
    log: Vec<String>,
}

/// A user who logged in, and the scopes that the user granted, separated by spaces.
#[derive(Clone)]
struct Login {
    user: String,
    scopes: String,
}

impl Login {
    /// Creates a login that grants no scopes.
    fn of(user: &str) -> Self {
        Self { user: user.to_owned(), scopes: String::new() }
    }
}

impl Issuer {
    pub(crate) fn new(origin: &str) -> Self {
        let state = IssuerState {
            codes: HashMap::new(),
            devices: HashMap::new(),
            refresh: HashMap::new(),
            access: HashMap::new(),
            ttl: Duration::from_hours(1),
            needs: None,
            token_fault: None,
            registers: true,
            machine: Some("s3cret".to_owned()),
            log: Vec::new(),
        };
        Self { origin: origin.to_owned(), state: Mutex::new(state) }
    }

    pub(crate) fn challenge(&self) -> String {
        format!(
            "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
            self.origin
        )
    }

    /// Returns the user of an access token, and adds the call to the log; `None` if the token is unknown or expired.
    pub(crate) fn user_of(&self, token: &str) -> Option<String> {
        let mut state = self.state.lock();
        let (Login { user, .. }, until) = state.access.get(token)?.clone();
        if until <= Instant::now() {
            return None;
        }
        state.log.push(format!("call {user} {token}"));
        Some(user)
    }

    /// Returns the scope that requests need, if an access token does not have it.
    pub(crate) fn missing_scope(&self, token: &str) -> Option<String> {
        let state = self.state.lock();
        let (login, _) = state.access.get(token)?;
        let needs = state.needs.as_ref()?;
        (!login.scopes.split(' ').any(|scope| scope == needs)).then(|| needs.clone())
    }

    fn tokens(&self, login: &Login, refreshes: bool) -> Response {
        let (access, refresh) = (name("access"), name("refresh"));
        let mut state = self.state.lock();
        let ttl = state.ttl;
        state.access.insert(access.clone(), (login.clone(), Instant::now() + ttl));
        let mut answer = json!({
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": ttl.as_secs(),
            "scope": login.scopes,
        });
        if refreshes {
            state.refresh.insert(refresh.clone(), login.clone());
            answer["refresh_token"] = refresh.into();
        }
        Json(answer).into_response()
    }
}

pub(crate) fn router(issuer: Arc<Issuer>) -> Router {
    Router::new()
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/device", post(device))
        .route("/token", post(token))
        .route("/revoke", post(revoke))
        .route("/test/{what}", get(control))
        .with_state(issuer)
}

async fn resource(State(issuer): State<Arc<Issuer>>) -> Json<Value> {
    let origin = &issuer.origin;
    Json(json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] }))
}

async fn metadata(State(issuer): State<Arc<Issuer>>) -> Json<Value> {
    let origin = &issuer.origin;
    let registration = issuer.state.lock().registers.then(|| format!("{origin}/register"));
    Json(json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": registration,
        "device_authorization_endpoint": format!("{origin}/device"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post", "private_key_jwt"],
    }))
}

async fn register(Json(application): Json<Value>) -> (StatusCode, Json<Value>) {
    let uris = &application["redirect_uris"];
    let registered = json!({
        "client_id": name("client"),
        "redirect_uris": uris,
        "token_endpoint_auth_method": "none",
    });
    (StatusCode::CREATED, Json(registered))
}

/// Serves the login page. Immediately logs in the user that the query parameter `user` names, without asking for
/// consent.
async fn authorize(State(issuer): State<Arc<Issuer>>, Query(query): Query<Fields>) -> Response {
    let field = |name: &str| query.get(name).cloned().unwrap_or_default();
    if field("code_challenge_method") != "S256" || field("resource").is_empty() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let code = name("code");
    let user = query.get("user").cloned().unwrap_or_else(|| "ada".to_owned());
    let login = Login { user, scopes: field("scope") };
    let login = (login, field("code_challenge"), field("redirect_uri"));
    issuer.state.lock().codes.insert(code.clone(), login);
    let (uri, state) = (field("redirect_uri"), field("state"));
    Redirect::to(&format!("{uri}?code={code}&state={state}")).into_response()
}

async fn device(State(issuer): State<Arc<Issuer>>) -> Json<Value> {
    let (device, user_code) = (name("device"), "WDJB-MJHT");
    issuer.state.lock().devices.insert(device.clone(), None);
    let page = format!("{}/test/device", issuer.origin);
    Json(json!({
        "device_code": device,
        "user_code": user_code,
        "verification_uri": page,
        "expires_in": 600,
        "interval": 0,
    }))
}

async fn token(State(issuer): State<Arc<Issuer>>, Form(form): Form<Fields>) -> Response {
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let refuse =
        |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    if let Some(status) = issuer.state.lock().token_fault {
        return status.into_response();
    }
    match field("grant_type") {
        "authorization_code" => {
            let login = issuer.state.lock().codes.remove(field("code"));
            let Some((login, challenge, uri)) = login else { return refuse("invalid_grant") };
            let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
            if proof != challenge || uri != field("redirect_uri") {
                return refuse("invalid_grant");
            }
            issuer.tokens(&login, true)
        }
        "refresh_token" => {
            // Remove the refresh token, because it can be used only once.
            let login = issuer.state.lock().refresh.remove(field("refresh_token"));
            let Some(login) = login else { return refuse("invalid_grant") };
            issuer.state.lock().log.push(format!("refresh {}", login.user));
            issuer.tokens(&login, true)
        }
        DEVICE_GRANT => {
            let entered = issuer.state.lock().devices.get(field("device_code")).cloned();
            match entered {
                Some(Some(user)) => issuer.tokens(&Login::of(&user), true),
                Some(None) => refuse("authorization_pending"),
                None => refuse("invalid_grant"),
            }
        }
        "client_credentials" => {
            let secret = issuer.state.lock().machine.clone();
            let has_secret = || Some(field("client_secret")) == secret.as_deref();
            let is_proved = has_secret() || is_by_nightly(field("client_assertion"));
            if field("client_id") != "nightly" || !is_proved {
                return refuse("invalid_client");
            }
            issuer.tokens(&Login::of("nightly"), false)
        }
        _ => refuse("unsupported_grant_type"),
    }
}

/// Returns whether an assertion is made by `nightly` with its key `k1`. The signature is not checked; tests of
/// `mgp-client-sdk` do that.
fn is_by_nightly(assertion: &str) -> bool {
    let part = |text: &str| {
        let json = URL_SAFE_NO_PAD.decode(text).ok()?;
        serde_json::from_slice::<Value>(&json).ok()
    };
    let mut parts = assertion.split('.').map(|text| part(text).unwrap_or_default());
    let mut next = || parts.next().unwrap_or_default();
    next()["kid"] == "k1" && next()["sub"] == "nightly"
}

/// Revokes one token (RFC 7009), and adds the revocation to the log.
async fn revoke(State(issuer): State<Arc<Issuer>>, Form(form): Form<Fields>) -> StatusCode {
    let mut state = issuer.state.lock();
    let token = form.get("token").map_or("", String::as_str);
    if let Some(status) = state.token_fault {
        return status;
    }
    if !form.contains_key("client_id") {
        return StatusCode::UNAUTHORIZED;
    }
    if let Some(login) = state.refresh.remove(token) {
        state.log.push(format!("revoke refresh {}", login.user));
    } else if let Some((login, _)) = state.access.remove(token) {
        state.log.push(format!("revoke access {}", login.user));
    }
    StatusCode::OK
}

/// Serves `/test/…`: tests use it to change which tokens are valid and how the server answers, and to read the log.
async fn control(
    State(issuer): State<Arc<Issuer>>,
    axum::extract::Path(what): axum::extract::Path<String>,
    Query(query): Query<Fields>,
) -> Response {
    let mut state = issuer.state.lock();
    let user = query.get("user").cloned().unwrap_or_else(|| "ada".to_owned());
    match what.as_str() {
        "log" => return std::mem::take(&mut state.log).join("\n").into_response(),
        "ttl" => {
            let seconds = query.get("seconds").and_then(|text| text.parse().ok());
            state.ttl = Duration::from_secs(seconds.unwrap_or(3600));
        }
        "expire" => state.access.clear(),
        "revoke" => {
            state.access.retain(|_, (login, _)| login.user != user);
            state.refresh.retain(|_, login| login.user != user);
        }
        "needs" => state.needs = query.get("scope").cloned(),
        "token-fault" => {
            state.token_fault = query.get("status").and_then(|status| status.parse().ok());
        }
        "no-registration" => state.registers = false,
        "device" => state.devices.values_mut().for_each(|entered| *entered = Some(user.clone())),
        "forget-machine" => {
            state.machine = None;
            state.access.clear();
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    }
    "done".into_response()
}

fn name(kind: &str) -> String {
    format!("{kind}-{}", random_name().unwrap_or_default())
}
