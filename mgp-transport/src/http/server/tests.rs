//! Tests of the whole service: the form of its answers, and the values that it passes on.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use mgp_types::mcp::Revision;
use mgp_types::service::{
    Call, Context, CredentialGrant, Method, Params, Principal, Reply, Router, WireRules,
};
use tokio::time::sleep;

use super::*;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// Returns a modern ping, or else the first request of a legacy client.
fn request(is_modern: bool, accept: &str) -> Request<Full<Bytes>> {
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("accept", accept)
        .header("content-type", "application/json")
        .header("user-agent", "test")
        .header("x-secret", "1");
    if is_modern {
        request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "ping");
    }
    let body = if is_modern { PING } else { INITIALIZE };
    request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

fn local() -> HttpConfig {
    HttpConfig { anonymous: Some(Principal::local()), ..HttpConfig::default() }
}

async fn send(stack: Stack, is_modern: bool, accept: &str) -> Response<HttpBody> {
    HttpService::new(stack, local()).call(request(is_modern, accept)).await.unwrap()
}

fn answers_after(delay: Duration) -> Stack {
    Stack::from_fn(move |_| async move {
        sleep(delay).await;
        Ok(Reply::empty())
    })
}

#[tokio::test]
async fn an_answer_has_no_header_of_its_request() {
    let accept = "application/json, text/event-stream";
    let response = send(Stack::new(Router::new()), true, accept).await;
    let names: Vec<_> = response.headers().keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["content-type"]);
    assert!(response.headers().capacity() >= 7, "it has the room of the request's");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_accepts_one_form_of_answers_gets_that_form() {
    let fast = answers_after(Duration::ZERO);
    let slow = answers_after(HttpConfig::default().stream_delay * 2);
    let (json_type, event_stream) = ("application/json", "text/event-stream");
    for is_modern in [true, false] {
        for (stack, accept, form) in [
            (&fast, json_type, json_type),
            (&fast, "*/*", json_type),
            (&fast, event_stream, event_stream),
            (&slow, json_type, json_type),
            (&slow, "*/*", event_stream),
            (&slow, event_stream, event_stream),
        ] {
            let response = send(stack.clone(), is_modern, accept).await;
            assert_eq!(response.status(), 200, "{accept} {is_modern}");
            assert_eq!(response.headers()["content-type"], form, "{accept} {is_modern}");
        }
        assert_eq!(send(fast.clone(), is_modern, "text/html").await.status(), 406);
    }
}

/// Regression test: a client that accepts only JSON got an event stream.
#[tokio::test]
async fn a_message_before_the_answer_makes_a_stream_only_for_clients_that_accept_it() {
    let stack = Stack::from_fn(|call: Call| async move {
        let cx = call.cx();
        // The session of a legacy client ends unless the revision is set.
        cx.scope.state::<WireRules>().set_revision(&Revision::V2025_11_25);
        let peer = cx.peer.clone();
        let own = Context::new(peer.clone(), cx.scope.clone(), cx.principal.clone());
        let method = Method::from_static("notifications/message");
        let message = Call::notification(method, Params::none(), own).related(cx.key);
        peer.send(message).await?;
        sleep(Duration::from_millis(1)).await;
        Ok(Reply::empty())
    });
    let mut service = HttpService::new(stack, local());
    for is_modern in [true, false] {
        for (accept, form) in
            [("application/json", "application/json"), ("*/*", "text/event-stream")]
        {
            let response = service.call(request(is_modern, accept)).await.unwrap();
            assert_eq!(response.headers()["content-type"], form, "{accept} {is_modern}");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8_lossy(&body);
            assert_eq!(body.contains("notifications/message"), accept == "*/*", "{body}");
            assert!(body.contains("\"result\""), "{body}");
        }
    }
}

#[tokio::test]
async fn a_client_that_accepts_only_json_gets_json_from_a_server_that_prefers_streams() {
    for is_modern in [true, false] {
        let config = HttpConfig { answer_mode: AnswerMode::Streams, ..local() };
        let mut service = HttpService::new(answers_after(Duration::ZERO), config);
        for (accept, form) in
            [("application/json", "application/json"), ("*/*", "text/event-stream")]
        {
            let response = service.call(request(is_modern, accept)).await.unwrap();
            assert_eq!(response.headers()["content-type"], form, "{accept} {is_modern}");
        }
    }
}

#[tokio::test]
async fn no_json_is_sent_to_a_client_whose_credentials_became_invalid_while_it_waited() {
    for is_modern in [true, false] {
        let mut request = request(is_modern, "application/json");
        request.extensions_mut().insert(CredentialGrant::new(["a"], || false));
        let mut service = HttpService::new(answers_after(Duration::ZERO), local());
        assert_eq!(service.call(request).await.unwrap().status(), 401, "{is_modern}");
    }
    let mut request = Request::get("/tools").header("host", "localhost");
    let extensions = request.extensions_mut().unwrap();
    extensions.insert(CredentialGrant::new(["a"], || false));
    let config = HttpConfig { tool_paths: true, ..local() };
    let mut service = HttpService::new(answers_after(Duration::ZERO), config);
    let response = service.call(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 401, "of a client without MCP");
}

#[tokio::test]
async fn a_call_has_the_values_that_were_read_from_its_request() {
    struct Secret(String);
    let stack = Stack::from_fn(|call| async move {
        let secret = call.cx().extensions.get::<Secret>().map(|secret| secret.0.as_str());
        assert_eq!(secret, Some("1 of a layer"));
        Ok(Reply::empty())
    });
    let mut config = local();
    let joint = "of".to_owned();
    config.on_request(move |request, extensions| {
        let header = request.headers["x-secret"].to_str().unwrap();
        let owner = request.extensions.get::<&'static str>().unwrap();
        extensions.insert(Secret(format!("{header} {joint} {owner}")));
    });
    let mut service = HttpService::new(stack, config);
    for is_modern in [true, false] {
        let mut request = request(is_modern, "*/*");
        request.extensions_mut().insert("a layer");
        assert_eq!(service.call(request).await.unwrap().status(), 200, "{is_modern}");
    }
}

/// Regression test: the Python SDK reported an error for each comment on a stream whose events have ids.
#[tokio::test(start_paused = true)]
async fn no_empty_line_follows_a_keep_alive_comment() {
    let config = HttpConfig::default();
    let delay = config.stream_delay + config.keep_alive_interval + Duration::from_secs(1);
    let response = send(answers_after(delay), true, "*/*").await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b": \nevent: message\ndata: {"), "{body:?}");
}

#[tokio::test]
async fn a_slash_at_the_end_of_the_endpoint_does_not_matter() {
    for (endpoint, path, status) in [
        ("/mcp", "/mcp", 401),
        ("/mcp", "/mcp/", 401),
        ("/mcp", "/mcp/?x=1", 401),
        ("/mcp/", "/mcp", 401),
        ("/", "/", 401),
        ("/mcp", "/mcp//", 404),
        ("/mcp", "/mcp/x", 404),
        ("/mcp", "/mc", 404),
        ("/mcp", "/", 404),
    ] {
        let config = HttpConfig { endpoint: Some(endpoint.to_owned()), ..HttpConfig::default() };
        let request = Request::get(path).header("host", "localhost");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let stack = Stack::new(Router::new());
        let response = HttpService::new(stack, config).call(request).await.unwrap();
        assert_eq!(response.status(), status, "{path} for {endpoint}");
    }
}
