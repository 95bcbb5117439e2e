//! Tests of the layer around a small service: admitted requests, and the answers to refused requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response};
use mgp_types::service::Principal;
use serde_json::Value;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::*;

const KEY_A: &str = "mgp_a_0123456789abcdefghijklmnopqrstuv";
const KEY_B: &str = "mgp_b_0123456789abcdefghijklmnopqrstuv";
const KEY_REVOKED: &str = "mgp_r_0123456789abcdefghijklmnopqrstuv";
const URL: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

/// A verifier whose answer depends on the text of the token.
struct Tokens;

#[async_trait]
impl TokenVerifier for Tokens {
    async fn verify(&self, token: &str) -> Result<Authenticated, AuthRefused> {
        tokio::task::yield_now().await;
        match token {
            "good" => Ok(Authenticated::new(
                Principal::new("issuer", "user"),
                Credential::Token { issuer: "issuer".to_owned(), client: None },
                vec!["tools".to_owned()],
                None,
            )),
            "expired" => Err(AuthRefused::Expired),
            "narrow" => {
                Err(AuthRefused::InsufficientScope { needed: "tools \"admin\"\r\n".to_owned() })
            }
            "early" => Err(AuthRefused::Unavailable),
            _ => Err(AuthRefused::Invalid("the token is for another resource")),
        }
    }

    fn metadata(&self) -> ResourceMetadata {
        let mut metadata =
            ResourceMetadata::new("https://mcp.example/mcp", "https://issuer.example").unwrap();
        metadata.required_scopes = vec!["tools".to_owned()];
        metadata.scopes_supported = vec!["tools".to_owned(), "files".to_owned()];
        metadata
    }
}

async fn keys() -> ApiKeys {
    let keys = ApiKeys::new();
    keys.import(KEY_A, KeyGrant::new("acme", "a").permission("memory.read")).await.unwrap();
    keys.import(KEY_B, KeyGrant::new("acme", "b")).await.unwrap();
    keys.import(KEY_REVOKED, KeyGrant::new("acme", "r")).await.unwrap();
    keys.revoke("r").await.unwrap();
    keys
}

/// A server that returns the name of its caller, and counts the admitted requests.
struct Server {
    layer: AuthLayer,
    reached: Arc<AtomicUsize>,
}

impl Server {
    async fn new() -> Self {
        Self::of(AuthLayer::new().keys(keys().await).tokens(Tokens))
    }

    fn of(layer: AuthLayer) -> Self {
        Self { layer, reached: Arc::default() }
    }

    async fn ask<B: Send + 'static>(&self, request: Request<B>) -> Response<Bytes> {
        let reached = Arc::clone(&self.reached);
        let whoami = service_fn(move |request: Request<B>| {
            let reached = Arc::clone(&reached);
            async move {
                reached.fetch_add(1, Ordering::SeqCst);
                assert!(!request.headers().contains_key(AUTHORIZATION), "tokens end at the layer");
                let caller = request.extensions().get::<Principal>().unwrap();
                let known = request.extensions().get::<Authenticated>().unwrap();
                assert_eq!(known.principal(), caller);
                Ok::<_, Infallible>(Response::new(Bytes::from(format!("{caller:?}"))))
            }
        });
        let before = self.reached.load(Ordering::SeqCst);
        let answer = self.layer.layer(whoami).oneshot(request).await.unwrap();
        let reached = self.reached.load(Ordering::SeqCst) > before;
        assert_eq!(reached, answer.status() == 200);
        answer
    }

    async fn post(&self, path: &str, authorization: &[&str]) -> Response<Bytes> {
        let mut request = Request::post(path).body(()).unwrap();
        for value in authorization {
            request.headers_mut().append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        self.ask(request).await
    }

    async fn get(&self, method: Method, path: &str) -> Response<Bytes> {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let whoami = service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(Bytes::from_static(b"inside")))
        });
        self.layer.layer(whoami).oneshot(request).await.unwrap()
    }
}

/// Checks status, code and challenge of a refusal, and that a JSON-RPC client can read the answer.
#[track_caller]
fn check(answer: &Response<Bytes>, status: u16, code: i32, challenge: &str) {
    assert_eq!(answer.status(), status);
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(body["jsonrpc"], "2.0");
    assert!(body.as_object().unwrap()["id"].is_null());
    assert_eq!(body["error"]["code"], code);
    assert!(body["error"].get("data").is_none());
    assert_eq!(answer.headers()[WWW_AUTHENTICATE], challenge);
}

fn challenge(rest: &str) -> String {
    format!(r#"Bearer resource_metadata="{URL}", scope="tools"{rest}"#)
}

fn invalid(description: &str) -> String {
    challenge(&format!(r#", error="invalid_token", error_description="{description}""#))
}

#[tokio::test]
async fn callers_with_keys_or_tokens_are_admitted() {
    let server = Server::new().await;
    let inside = async |authorization: &str| {
        let answer = server.post("/mcp", &[authorization]).await;
        assert_eq!(answer.status(), 200);
        String::from_utf8(answer.body().to_vec()).unwrap()
    };
    assert_eq!(inside(&format!("Bearer {KEY_A}")).await, "acme/a");
    assert_eq!(inside(&format!("bearer {KEY_B}")).await, "acme/b");
    assert_eq!(inside("BEARER good").await, "issuer/user");
}

/// Sends requests like those of the class `auth` in the corpus of broken requests, and checks the status of each
/// answer.
#[tokio::test]
async fn requests_without_valid_credentials_are_refused() {
    let server = Server::new().await;
    let query = format!("/mcp?access_token={KEY_A}");
    let (a, b) = (format!("Bearer {KEY_A}"), format!("Bearer {KEY_B}"));
    let rows: [(&str, &[&str], u16); 9] = [
        ("/mcp", &[], 401),
        ("/mcp", &["Bearer"], 401),
        ("/mcp", &["Basic eDp5"], 401),
        (&query, &[], 401),
        ("/mcp", &[&format!("Bearer {KEY_REVOKED}")], 401),
        ("/mcp", &[&a, &b], 400),
        ("/mcp", &[&a, &a], 400),
        ("/mcp", &["Bearer not.a.token"], 401),
        ("/mcp", &["Bearer narrow"], 403),
    ];
    for (path, authorization, status) in rows {
        assert_eq!(server.post(path, authorization).await.status(), status, "{authorization:?}");
    }
    // The server still answers valid requests.
    assert_eq!(server.post("/mcp", &[&a]).await.status(), 200);
}

#[tokio::test]
async fn challenges_describe_the_remedy() {
    let server = Server::new().await;
    let post = async |authorization: &[&str]| server.post("/mcp", authorization).await;
    check(&post(&[]).await, 401, 1002, &challenge(""));
    check(&post(&["Basic eDp5"]).await, 401, 1002, &challenge(""));
    let malformed = challenge(
        r#", error="invalid_request", error_description="malformed credentials: a token has letters, digits and `-._~+/` only""#,
    );
    check(&post(&["Bearer a b"]).await, 400, 1002, &malformed);
    let other = invalid("the token is for another resource");
    check(&post(&["Bearer foreign"]).await, 401, 1002, &other);
    let expired = invalid("the key or token has expired; get a new one");
    check(&post(&["Bearer expired"]).await, 401, 1003, &expired);
    let narrow = format!(
        r#"Bearer resource_metadata="{URL}", scope="tools admin", error="insufficient_scope", error_description="the token lacks a scope; needed: tools admin""#
    );
    check(&post(&["Bearer narrow"]).await, 403, 1000, &narrow);
}

#[tokio::test]
async fn invalid_keys_get_the_same_answer() {
    let server = Server::new().await;
    let expected = server.post("/mcp", &[&format!("Bearer {KEY_REVOKED}")]).await;
    check(&expected, 401, 1002, &invalid("the key or token is not valid here"));
    let secret = KEY_A.rsplit('_').next().unwrap();
    let long = format!("mgp_a_{}", "x".repeat(400));
    for key in
        ["mgp_", "mgp_a", "mgp_a_", "mgp_a_x", "mgp_zz_x", &format!("mgp_zz_{secret}"), &long]
    {
        let answer = server.post("/mcp", &[&format!("Bearer {key}")]).await;
        assert_eq!(answer.body(), expected.body(), "{key}");
        assert_eq!(answer.headers(), expected.headers(), "{key}");
    }
}

#[tokio::test]
async fn uncheckable_credentials_are_refused_without_a_challenge() {
    let answer = Server::new().await.post("/mcp", &["Bearer early"]).await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()[RETRY_AFTER], "5");
    assert!(!answer.headers().contains_key(WWW_AUTHENTICATE));
    assert!(answer.body().starts_with(br#"{"jsonrpc":"2.0","id":null,"error":{"code":5002"#));
}

#[tokio::test]
async fn a_layer_accepts_only_the_configured_kinds_of_credentials() {
    let (a, t) = (format!("Bearer {KEY_A}"), "Bearer good".to_owned());
    let status = async |layer: AuthLayer, value: &str| {
        Server::of(layer).post("/mcp", &[value]).await.status().as_u16()
    };
    assert_eq!(status(AuthLayer::new(), &a).await, 401);
    assert_eq!(status(AuthLayer::new(), &t).await, 401);
    assert_eq!(status(AuthLayer::new().keys(keys().await), &t).await, 401);
    assert_eq!(status(AuthLayer::new().tokens(Tokens), &a).await, 401);
    assert_eq!(status(AuthLayer::new().tokens(Tokens), &t).await, 200);
    // Without an issuer there is no metadata document, so the challenge contains no URL.
    let answer = Server::of(AuthLayer::new().keys(keys().await)).post("/mcp", &[]).await;
    check(&answer, 401, 1002, r#"Bearer realm="mgp""#);
}

#[tokio::test]
async fn a_principal_of_an_outer_layer_is_replaced() {
    let server = Server::new().await;
    let mut request = Request::post("/mcp").body(()).unwrap();
    request.extensions_mut().insert(Principal::new("evil", "root").operator());
    let bearer = HeaderValue::from_str(&format!("Bearer {KEY_A}")).unwrap();
    request.headers_mut().insert(AUTHORIZATION, bearer);
    assert_eq!(server.ask(request).await.body(), "acme/a");
}

#[tokio::test]
async fn the_metadata_document_needs_no_credentials() {
    let server = Server::new().await;
    for path in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
    {
        let answer = server.get(Method::GET, path).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/json");
        let document: Value = serde_json::from_slice(answer.body()).unwrap();
        let expected = serde_json::json!({
            "resource": "https://mcp.example/mcp",
            "authorization_servers": ["https://issuer.example"],
            "scopes_supported": ["tools", "files"],
            "bearer_methods_supported": ["header"],
        });
        assert_eq!(document, expected);
        assert_eq!(server.get(Method::OPTIONS, path).await.status(), 204);
        assert_eq!(server.get(Method::POST, path).await.status(), 405);
    }
}

#[tokio::test]
async fn other_documents_are_not_served() {
    let server = Server::new().await;
    for (path, status) in [
        ("/.well-known/oauth-protected-resource/", 404),
        ("/.well-known/oauth-protected-resource/other", 404),
        ("/.well-known/oauth-protected-resource/mcp/", 404),
        ("/.well-known/oauth-protected-resource/../mcp", 404),
        ("/.well-known/oauth-authorization-server", 404),
        ("//.well-known/oauth-protected-resource", 401),
    ] {
        assert_eq!(server.get(Method::GET, path).await.status(), status, "{path}");
    }
}

#[tokio::test]
async fn a_client_without_a_key_is_not_led_to_believe_that_it_could_register() {
    // A server that accepts no tokens publishes no metadata document.
    let closed = Server::of(AuthLayer::new().keys(keys().await));
    for (method, path, status) in [
        (Method::GET, "/.well-known/oauth-protected-resource", 404),
        (Method::GET, "/.well-known/oauth-authorization-server/mcp", 404),
        (Method::POST, "/register", 404),
        (Method::POST, "/mcp", 401),
        (Method::POST, "/", 401),
    ] {
        assert_eq!(closed.get(method, path).await.status(), status, "{path}");
    }
    // Clients show their user this text only, so it must explain what to do.
    let answer = closed.get(Method::POST, "/register").await;
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    let text = body["error_description"].as_str().unwrap();
    assert!(text.contains("send a valid key"), "{text}");
}

/// A service that fails unless it is called through the instance whose readiness was polled.
struct Careful(bool);

impl Clone for Careful {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Service<Request<()>> for Careful {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Bytes>, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        self.0 = true;
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.0), "called before it was ready");
        std::future::ready(Ok(Response::new(Bytes::new())))
    }
}

#[tokio::test]
async fn the_service_that_was_made_ready_is_the_one_that_is_called() {
    let layer = AuthLayer::new().keys(keys().await).tokens(Tokens);
    let mut service = layer.layer(Careful(false));
    for credential in ["good", KEY_A, "good"] {
        let mut request = Request::post("/mcp").body(()).unwrap();
        let bearer = HeaderValue::from_str(&format!("Bearer {credential}")).unwrap();
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let answer = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

#[test]
fn futures_go_from_thread_to_thread() {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync + Clone + 'static>() {}
    sent::<<Auth<Careful> as Service<Request<()>>>::Future>();
    shared::<AuthLayer>();
    shared::<ApiKeys>();
    shared::<Authenticated>();
    shared::<ResourceServer>();
}
