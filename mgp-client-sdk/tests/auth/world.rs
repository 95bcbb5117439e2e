//! A script that plays a protected server, two authorization servers and a person; its switches change their behaviour.
//!
//! The script is strict: each violated rule is recorded in [`World::faults`], which tests check at their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mgp_client_sdk::auth::{AuthError, Browser, OAuth};
use mgp_types::service::{Fetch, FetchError, FetchRequest, FetchResponse, SharedFetch};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded;

use crate::proofs::{Checker, NonceRule, ProofResult};

mod protected;

pub(crate) const SERVER: &str = "https://mcp.example/mcp";
pub(crate) const ONE: &str = "https://one.example";
pub(crate) const TWO: &str = "https://two.example/tenant";
pub(crate) const REDIRECT: &str = "http://127.0.0.1:3000/callback";
pub(crate) const DOCUMENT: &str = "https://me.example/client.json";
pub(crate) const SECRET: &str = "s3cret:of+the client";

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch")]
pub(crate) struct Switches {
    /// The path of the server's metadata; `None` for a server of revision 2025-03-26, which has no metadata.
    pub(crate) metadata_at: Option<&'static str>,
    /// If `true`, refusals name the URL of the server's metadata.
    pub(crate) challenge_names_metadata: bool,
    /// The scope that the server's refusals name.
    pub(crate) challenge_scope: Option<&'static str>,
    pub(crate) resource: &'static str,
    pub(crate) scopes: Option<&'static str>,
    pub(crate) issuers: Vec<&'static str>,
    /// The location of the authorization servers' metadata, after their origin; `{}` is the path of the issuer.
    pub(crate) server_at: Option<&'static str>,
    /// Members that are added to the metadata of the authorization servers, or replaced in it.
    pub(crate) server: Value,
    /// The answer of the issuers' device endpoints.
    pub(crate) device: Value,
    /// The issuer that the response to a login names.
    pub(crate) iss: Option<&'static str>,
    /// The kind of response to a login: a code, an error, a wrong response or none.
    pub(crate) login: Login,
    /// The authentication method of registered clients; unless it is `none`, they get a secret.
    pub(crate) method: &'static str,
    pub(crate) registers: bool,
    pub(crate) expires_in: Option<u64>,
    pub(crate) refreshes: bool,
    pub(crate) rotates: bool,
    /// The HTTP status and the error code with which the token endpoint refuses every request.
    pub(crate) token_fault: Option<(u16, &'static str)>,
    /// Scopes that are requested but never granted.
    pub(crate) withheld: &'static str,
    /// Members that are added to the metadata of the protected server.
    pub(crate) resource_more: Value,
    /// The authentication schemes that the protected server accepts and names in its challenges.
    pub(crate) schemes: &'static [&'static str],
    /// If `true`, the authorization servers bind tokens to the proved keys.
    pub(crate) binds: bool,
    /// The nonces that the authorization servers require in proofs.
    pub(crate) token_wants: NonceRule,
    /// The nonces that the protected server requires in proofs.
    pub(crate) server_wants: NonceRule,
    /// The error with which the protected server refuses every proof, and the nonce that it sends with it.
    pub(crate) proof_fault: Option<(&'static str, Option<&'static str>)>,
    /// A URL that cannot be reached.
    pub(crate) unreachable: Option<&'static str>,
    /// A status, and the URL at which every request is answered with it.
    pub(crate) broken: Option<(u16, &'static str)>,
    /// A URL, and the address to which it redirects.
    pub(crate) redirect: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    Code,
    Denied,
    WrongState,
    Elsewhere,
    NoResponse,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            metadata_at: Some("/.well-known/oauth-protected-resource/mcp"),
            challenge_names_metadata: true,
            challenge_scope: None,
            resource: SERVER,
            scopes: None,
            issuers: vec![ONE],
            server_at: Some("/.well-known/oauth-authorization-server{}"),
            server: json!({}),
            device: json!({}),
            iss: None,
            login: Login::Code,
            method: "none",
            registers: true,
            expires_in: Some(3600),
            refreshes: false,
            rotates: true,
            token_fault: None,
            withheld: "",
            resource_more: json!({}),
            schemes: &["Bearer"],
            binds: true,
            token_wants: NonceRule::Nothing,
            server_wants: NonceRule::Nothing,
            proof_fault: None,
            unreachable: None,
            broken: None,
            redirect: None,
        }
    }
}

struct WorldState {
    /// The requests that the script received, as `METHOD URL`.
    log: Vec<String>,
    faults: Vec<String>,
    /// The registered clients by issuer and id, each with its secret if it has one.
    clients: BTreeMap<(String, String), Option<String>>,
    /// The authorization codes that were issued and not used yet, each with the parameters of its authorization
    /// request.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    /// Access tokens with their scopes and the keys to which they are bound.
    access: BTreeMap<String, (BTreeSet<String>, Option<String>)>,
    /// Refresh tokens: issuer, scopes and key.
    refresh: BTreeMap<String, (String, String, Option<String>)>,
    /// The parameters that the script received: the query of each login, the form of each token request, the body of
    /// each registration.
    logins: Vec<BTreeMap<String, String>>,
    tokens: Vec<BTreeMap<String, String>>,
    registrations: Vec<Value>,
    made: u32,
    at_token: Checker,
    at_server: Checker,
}

impl Default for WorldState {
    fn default() -> Self {
        Self {
            log: Vec::new(),
            faults: Vec::new(),
            clients: BTreeMap::new(),
            codes: BTreeMap::new(),
            access: BTreeMap::new(),
            refresh: BTreeMap::new(),
            logins: Vec::new(),
            tokens: Vec::new(),
            registrations: Vec::new(),
            made: 0,
            at_token: Checker::new("token"),
            at_server: Checker::new("server"),
        }
    }
}

/// The thumbprint of the key of a proof, and the nonce in the proof.
pub(crate) type Shown = (String, Option<String>);

pub(crate) struct World {
    switches: Mutex<Switches>,
    state: Mutex<WorldState>,
}

impl World {
    pub(crate) fn new(set: impl FnOnce(&mut Switches)) -> Arc<Self> {
        let mut switches = Switches::default();
        set(&mut switches);
        Arc::new(Self { switches: Mutex::new(switches), state: Mutex::default() })
    }

    pub(crate) fn set(&self, set: impl FnOnce(&mut Switches)) {
        set(&mut self.switches.lock().unwrap());
    }

    pub(crate) fn fetcher(self: &Arc<Self>) -> SharedFetch {
        Arc::new(WorldFetcher(Arc::clone(self)))
    }

    /// Returns credentials of a person for the server.
    pub(crate) fn oauth(self: &Arc<Self>) -> OAuth {
        OAuth::new(SERVER, self.fetcher()).client_name("tester").browser(Person(Arc::clone(self)))
    }

    pub(crate) fn add_client(&self, issuer: &str, id: &str, secret: Option<&str>) {
        let key = (issuer.to_owned(), id.to_owned());
        self.state().clients.insert(key, secret.map(str::to_owned));
    }

    /// Removes all clients that are registered at an issuer.
    pub(crate) fn remove_client(&self, issuer: &str) {
        self.state().clients.retain(|(known, _), _| known != issuer);
    }

    /// Makes all access tokens invalid.
    pub(crate) fn revoke(&self) {
        self.state().access.clear();
    }

    pub(crate) fn revoke_refresh(&self) {
        self.state().refresh.clear();
    }

    pub(crate) fn logins(&self) -> Vec<BTreeMap<String, String>> {
        self.state().logins.clone()
    }

    pub(crate) fn tokens(&self) -> Vec<BTreeMap<String, String>> {
        self.state().tokens.clone()
    }

    pub(crate) fn registrations(&self) -> Vec<Value> {
        self.state().registrations.clone()
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Returns the thumbprints and nonces of the received proofs: at the authorization servers, and at the server.
    pub(crate) fn proofs(&self) -> (Vec<Shown>, Vec<Shown>) {
        let state = self.state();
        (state.at_token.proofs.clone(), state.at_server.proofs.clone())
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        assert_eq!(self.state().faults, Vec::<String>::new());
    }

    fn switches(&self) -> Switches {
        self.switches.lock().unwrap().clone()
    }

    fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap()
    }

    fn fault(&self, what: impl Into<String>) {
        self.state().faults.push(what.into());
    }

    fn make(&self, what: &str) -> String {
        let mut state = self.state();
        state.made += 1;
        format!("{what}-{}", state.made)
    }

    // === the protected server and the authorization servers ===

    fn answer(&self, request: &FetchRequest) -> FetchResponse {
        self.state().log.push(format!("{} {}", request.method, request.url));
        let switches = self.switches();
        if let Some((status, url)) = switches.broken
            && url == request.url
        {
            return FetchResponse::new(status, "{}");
        }
        if let Some((url, target)) = switches.redirect
            && url == request.url
        {
            let mut answer = FetchResponse::new(307, "");
            answer.headers.push(("location".to_owned(), target.to_owned()));
            return answer;
        }
        let at = switches.metadata_at.map(|path| format!("https://mcp.example{path}"));
        if at.as_ref() == Some(&request.url) {
            let mut metadata = json!({
                "resource": switches.resource,
                "authorization_servers": switches.issuers,
            });
            if let Some(scopes) = switches.scopes {
                metadata["scopes_supported"] = scopes.split(' ').collect();
            }
            merge(&mut metadata, &switches.resource_more);
            return FetchResponse::new(200, metadata.to_string());
        }
        for issuer in [ONE, TWO, "https://mcp.example"] {
            let (origin, path) = parts(issuer);
            let at = switches.server_at.map(|at| format!("{origin}{}", at.replace("{}", &path)));
            if at.as_ref() == Some(&request.url) {
                return FetchResponse::new(200, Self::metadata(issuer, &switches).to_string());
            }
            if request.url == format!("{issuer}/register") {
                return self.register(issuer, request, &switches);
            }
            if request.url == format!("{issuer}/device") {
                let status = if switches.device.get("error").is_some() { 400 } else { 200 };
                return FetchResponse::new(status, switches.device.to_string());
            }
            if request.url == format!("{issuer}/revoke") {
                return self.revoke_token(issuer, request);
            }
            if request.url == format!("{issuer}/token") {
                return self.token(issuer, request, &switches);
            }
        }
        FetchResponse::new(404, "<html>")
    }

    fn metadata(issuer: &str, switches: &Switches) -> Value {
        let mut metadata = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "code_challenge_methods_supported": ["plain", "S256"],
            "token_endpoint_auth_methods_supported": [switches.method],
        });
        if switches.registers {
            metadata["registration_endpoint"] = format!("{issuer}/register").into();
        }
        merge(&mut metadata, &switches.server);
        metadata
    }

    fn register(&self, issuer: &str, request: &FetchRequest, switches: &Switches) -> FetchResponse {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        self.state().registrations.push(body);
        let id = self.make("client");
        let secret = (switches.method != "none").then(|| SECRET.to_owned());
        self.add_client(issuer, &id, secret.as_deref());
        let mut answer = json!({"client_id": id, "token_endpoint_auth_method": switches.method});
        if let Some(secret) = secret {
            answer["client_secret"] = secret.into();
            // In RFC 7591, 0 means that the secret does not expire. Some authorization servers send the number as text.
            answer["client_secret_expires_at"] = "0".into();
        }
        FetchResponse::new(201, answer.to_string())
    }

    fn token(&self, issuer: &str, request: &FetchRequest, switches: &Switches) -> FetchResponse {
        let form: BTreeMap<String, String> =
            form_urlencoded::parse(&request.body).into_owned().collect();
        self.state().tokens.push(form.clone());
        if let Some((status, error)) = switches.token_fault {
            // Like some authorization servers, repeat a secret of the request.
            let repeated = form.get("code_verifier").or(form.get("refresh_token"));
            let refusal = json!({"error": error, "error_description": repeated});
            return FetchResponse::new(status, refusal.to_string());
        }
        if form.get("resource").map(String::as_str) != Some(switches.resource) {
            self.fault(format!("token request for {:?}", form.get("resource")));
        }
        let Some(client) = self.client(issuer, request, &form) else {
            return FetchResponse::new(401, r#"{"error":"invalid_client"}"#);
        };
        let key = match self.proved(request, switches) {
            Ok(key) => key,
            Err(refusal) => return refusal,
        };
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        let scope = match field("grant_type").as_str() {
            "authorization_code" => {
                let Some(asked) = self.state().codes.remove(&field("code")) else {
                    return FetchResponse::new(400, r#"{"error":"invalid_grant"}"#);
                };
                let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
                for (what, found, expected) in [
                    ("verifier", &proof, &asked["code_challenge"]),
                    ("redirect URI", &field("redirect_uri"), &asked["redirect_uri"]),
                    ("client", &client, &asked["client_id"]),
                    ("issuer", &issuer.to_owned(), &asked["issuer"]),
                ] {
                    if found != expected {
                        self.fault(format!("{what} of the code: {found}, not {expected}"));
                    }
                }
                if asked.get("dpop_jkt") != key.as_ref() {
                    self.fault(format!(
                        "a code for {:?}, shown with {key:?}",
                        asked.get("dpop_jkt")
                    ));
                }
                asked.get("scope").cloned().unwrap_or_default()
            }
            "refresh_token" => {
                let token = field("refresh_token");
                let known = self.state().refresh.get(&token).cloned();
                let Some((known, scope, bound)) = known else {
                    return FetchResponse::new(400, r#"{"error":"invalid_grant"}"#);
                };
                if known != issuer {
                    self.fault("a refresh token of another issuer");
                }
                if bound.is_some() && bound != key {
                    self.fault("a refresh token with another key");
                }
                if switches.rotates {
                    self.state().refresh.remove(&token);
                }
                scope
            }
            "client_credentials"
            | "urn:ietf:params:oauth:grant-type:jwt-bearer"
            | "urn:ietf:params:oauth:grant-type:device_code" => field("scope"),
            other => panic!("{other}"),
        };
        self.grant(issuer, &scope, switches, key.filter(|_| switches.binds))
    }

    /// Returns the thumbprint of the key that a token request proves; `None` if it has no proof, or the refusal of its
    /// proof.
    fn proved(
        &self,
        request: &FetchRequest,
        switches: &Switches,
    ) -> Result<Option<String>, FetchResponse> {
        let Some((_, proof)) = request.headers.iter().find(|(name, _)| *name == "dpop") else {
            return Ok(None);
        };
        let mut state = self.state();
        let at = (request.method, request.url.as_str());
        match state.at_token.check(proof, at, None, switches.token_wants) {
            Ok(ProofResult::Key(key)) => Ok(Some(key)),
            Ok(ProofResult::Nonce) => {
                let mut refusal = FetchResponse::new(400, r#"{"error":"use_dpop_nonce"}"#);
                refusal.headers.push(("dpop-nonce".to_owned(), state.at_token.nonce()));
                if switches.token_wants == NonceRule::Endless {
                    state.at_token.rotate();
                }
                Err(refusal)
            }
            Err(why) => {
                state.faults.push(format!("proof at {}: {why}", request.url));
                Err(FetchResponse::new(400, r#"{"error":"invalid_dpop_proof"}"#))
            }
        }
    }

    fn grant(
        &self,
        issuer: &str,
        scope: &str,
        switches: &Switches,
        key: Option<String>,
    ) -> FetchResponse {
        let granted: BTreeSet<_> =
            words(scope).difference(&words(switches.withheld)).cloned().collect();
        let kind = if key.is_some() { "DPoP" } else { "Bearer" };
        let access = self.make("access-s3cret");
        let text = granted.iter().cloned().collect::<Vec<_>>().join(" ");
        let mut answer = json!({"access_token": access, "token_type": kind, "scope": text});
        self.state().access.insert(access, (granted, key.clone()));
        if let Some(seconds) = switches.expires_in {
            answer["expires_in"] = seconds.into();
        }
        if switches.refreshes {
            let refresh = self.make("refresh-s3cret");
            let kept = (issuer.to_owned(), scope.to_owned(), key);
            self.state().refresh.insert(refresh.clone(), kept);
            answer["refresh_token"] = refresh.into();
        }
        FetchResponse::new(200, answer.to_string())
    }

    /// Returns the client that requests tokens, if it authenticates as it registered.
    fn client(
        &self,
        issuer: &str,
        request: &FetchRequest,
        form: &BTreeMap<String, String>,
    ) -> Option<String> {
        let header = request.headers.iter().find(|(name, _)| *name == "authorization");
        let (id, secret, method) = if let Some((_, header)) = header {
            let pair = STANDARD.decode(header.strip_prefix("Basic ")?).ok()?;
            let pair = String::from_utf8(pair).ok()?;
            let (id, secret) = pair.split_once(':')?;
            let decode = |part: &str| {
                let mut decoded = form_urlencoded::parse(part.as_bytes());
                decoded.next().map(|(name, _)| name.into_owned()).unwrap_or_default()
            };
            (decode(id), Some(decode(secret)), "client_secret_basic")
        } else if let Some(secret) = form.get("client_secret") {
            (form.get("client_id")?.clone(), Some(secret.clone()), "client_secret_post")
        } else if form.contains_key("client_assertion") {
            (form.get("client_id")?.clone(), None, "private_key_jwt")
        } else {
            (form.get("client_id")?.clone(), None, "none")
        };
        let known = self.state().clients.get(&(issuer.to_owned(), id.clone())).cloned();
        let is_document = id == DOCUMENT;
        if known.is_none() && !is_document {
            let elsewhere = self.state().clients.keys().any(|(_, known)| *known == id);
            if elsewhere {
                self.fault(format!("{id} of another issuer shown to {issuer}"));
            }
            return None;
        }
        let expected = self.switches().method;
        if method != expected && !is_document {
            self.fault(format!("authenticated by {method}, not {expected}"));
        }
        if known.flatten() != secret {
            self.fault("another secret");
        }
        Some(id)
    }

    // === the person ===

    fn log_in(&self, url: &str) -> Result<String, AuthError> {
        let url = Url::parse(url).unwrap();
        let switches = self.switches();
        let issuer = url.as_str().split("/authorize?").next().unwrap().to_owned();
        let mut asked: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
        let field = |name: &str| asked.get(name).cloned().unwrap_or_default();
        for (name, expected) in [
            ("response_type", "code"),
            ("code_challenge_method", "S256"),
            ("resource", switches.resource),
        ] {
            if field(name) != expected {
                self.fault(format!("login with {name}={}", field(name)));
            }
        }
        let known = (issuer.clone(), field("client_id"));
        if !self.state().clients.contains_key(&known) && known.1 != DOCUMENT {
            self.fault(format!("login of {} at {issuer}", known.1));
        }
        asked.insert("issuer".to_owned(), issuer);
        self.state().logins.push(asked.clone());
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        let state = match switches.login {
            Login::NoResponse => return Err(AuthError::browser("no response")),
            Login::WrongState => "wrong",
            Login::Elsewhere => {
                back.set_path("/elsewhere");
                &asked["state"]
            }
            _ => &asked["state"],
        };
        back.query_pairs_mut().append_pair("state", state);
        if switches.login == Login::Denied {
            back.query_pairs_mut().append_pair("error", "access_denied");
        } else {
            let code = self.make("code");
            back.query_pairs_mut().append_pair("code", &code);
            self.state().codes.insert(code, asked.clone());
        }
        if let Some(iss) = switches.iss {
            back.query_pairs_mut().append_pair("iss", iss);
        }
        Ok(back.into())
    }
}

struct WorldFetcher(Arc<World>);

#[async_trait]
impl Fetch for WorldFetcher {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        // Let other tasks run before the answer, as on a network.
        tokio::task::yield_now().await;
        if self.0.switches().unreachable == Some(&*request.url) {
            return Err(FetchError::Failed { url: request.url, why: "refused".to_owned() });
        }
        Ok(self.0.answer(&request))
    }
}

/// The person's browser, which logs in at the authorization servers of the world.
pub(crate) struct Person(pub(crate) Arc<World>);

#[async_trait::async_trait]
impl Browser for Person {
    async fn redirect_uri(&self, _registered: Option<&str>) -> Result<String, AuthError> {
        Ok(REDIRECT.to_owned())
    }

    async fn authorize(&self, url: &str) -> Result<String, AuthError> {
        tokio::task::yield_now().await;
        self.0.log_in(url)
    }
}

fn merge(into: &mut Value, more: &Value) {
    for (name, value) in more.as_object().unwrap() {
        into[name] = value.clone();
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn parts(issuer: &str) -> (String, String) {
    let url = Url::parse(issuer).unwrap();
    (url.origin().ascii_serialization(), url.path().trim_end_matches('/').to_owned())
}
