//! Sends requests to the service without sockets, so that a test can pause time, and send thousands of requests at the
//! same time.

use std::pin::Pin;

use http::{Method, Request, Response};
use hyper::body::Body as _;
use mgp_transport::http::{HttpBody, HttpConfig, HttpService};
use mgp_types::service::Principal;
use serde_json::{Value, json};
use tower_service::Service as _;

/// Returns a configuration without authentication.
pub(crate) fn open_to_all() -> HttpConfig {
    let mut config = HttpConfig::default();
    config.anonymous = Some(Principal::local());
    config
}

/// Returns a request with the headers every client sends.
pub(crate) fn request(method: &str, headers: &[(&str, &str)], body: &str) -> Request<HttpBody> {
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(HttpBody::from(body.as_bytes().to_vec())).unwrap()
}

pub(crate) async fn send(service: &HttpService, request: Request<HttpBody>) -> Response<HttpBody> {
    service.clone().call(request).await.unwrap()
}

/// Reads the next bytes of a body.
pub(crate) async fn piece(body: &mut HttpBody) -> Option<Vec<u8>> {
    let frame = std::future::poll_fn(|task| Pin::new(&mut *body).poll_frame(task)).await?;
    Some(frame.unwrap().into_data().unwrap().to_vec())
}

pub(crate) async fn text(response: Response<HttpBody>) -> String {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(piece) = piece(&mut body).await {
        text.extend(piece);
    }
    String::from_utf8(text).unwrap()
}

/// Opens a legacy session, or returns the response that refuses it.
pub(crate) async fn open(service: &HttpService) -> Result<String, Response<HttpBody>> {
    open_as(service, "c").await
}

/// Opens a legacy session of a client with this name, or returns the response that refuses it.
pub(crate) async fn open_as(
    service: &HttpService,
    name: &str,
) -> Result<String, Response<HttpBody>> {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": name, "version": "1" },
    });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = send(service, request("POST", &[], &hello.to_string())).await;
    let Some(id) = response.headers().get("mcp-session-id") else { return Err(response) };
    let id = id.to_str().unwrap().to_owned();
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let messages = send(service, request("POST", &[("mcp-session-id", &id)], ready)).await;
    assert_eq!(messages.status(), 202);
    // The server handles a notification concurrently, and counts it as running until it has handled it. So wait for
    // that.
    tokio::task::yield_now().await;
    Ok(id)
}

/// Returns whether the service knows a session.
pub(crate) async fn is_known(service: &HttpService, id: &str) -> bool {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    send(service, request("POST", &[("mcp-session-id", id)], ping)).await.status() == 200
}

pub(crate) fn modern(id: u64, tool: &str, arguments: &Value) -> Request<HttpBody> {
    let more = json!({ "arguments": arguments, "_meta": { "progressToken": "p" } });
    modern_call(id, tool, json!({}), more)
}

/// Returns a modern call of a client with these capabilities, with additional members.
pub(crate) fn modern_with(tool: &str, capabilities: Value, more: Value) -> Request<HttpBody> {
    modern_call(1, tool, capabilities, more)
}

fn modern_call(id: u64, tool: &str, capabilities: Value, mut params: Value) -> Request<HttpBody> {
    params["name"] = tool.into();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    request("POST", &headers, &call.to_string())
}

pub(crate) fn legacy(session: &str, id: u64, tool: &str, arguments: &Value) -> Request<HttpBody> {
    let params = json!({
        "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" },
    });
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    request("POST", &[("mcp-session-id", session)], &call.to_string())
}
