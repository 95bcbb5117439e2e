//! `bare-http ADDR hyper|axum|axum-value [--rt current|multi]`: the echo tool over HTTP, directly on hyper or axum,
//! without an MCP framework. It replies to a POST with `application/json`. `cargo xtask bench` uses it as the lower
//! bound.
mod message;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, Request, Response};
use message::{Call, CallRes, Req, Resp, Text};

fn handle(b: &[u8]) -> Option<Vec<u8>> {
    let r: Req = serde_json::from_slice(b).expect("json");
    let id = r.id?;
    Some(match r.method.as_ref() {
        "tools/call" => {
            let c: Call = serde_json::from_str(r.params.unwrap().get()).expect("params");
            assert!(c.name == "echo");
            let mut v = Vec::with_capacity(b.len() + 64);
            serde_json::to_writer(&mut v, &Resp { jsonrpc: "2.0", id, result: CallRes { content: [Text { r#type: "text", text: &c.arguments.message }], is_error: false } }).unwrap();
            v
        }
        "initialize" => serde_json::to_vec(&Resp { jsonrpc: "2.0", id, result: serde_json::json!({"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"0"}}) }).unwrap(),
        _ => serde_json::to_vec(&Resp { jsonrpc: "2.0", id, result: serde_json::json!({}) }).unwrap(),
    })
}
fn reply(b: &[u8]) -> Response<Full<Bytes>> {
    match handle(b) {
        Some(v) => Response::builder()
            .header("content-type", "application/json")
            .header("mcp-session-id", "s")
            .body(Full::new(v.into()))
            .unwrap(),
        None => Response::builder().status(202).body(Full::new(Bytes::new())).unwrap(),
    }
}
async fn hyper_svc(r: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let b = r.into_body().collect().await?.to_bytes();
    Ok(reply(&b))
}
async fn axum_h(b: Bytes) -> Response<axum::body::Body> {
    reply(&b).map(axum::body::Body::new)
}
async fn axum_v(axum::Json(r): axum::Json<serde_json::Value>) -> axum::response::Response {
    use axum::response::IntoResponse;
    let Some(id) = r.get("id") else { return axum::http::StatusCode::ACCEPTED.into_response() };
    let res = match r["method"].as_str().unwrap() {
        "tools/call" => {
            serde_json::json!({"content":[{"type":"text","text": r["params"]["arguments"]["message"].clone()}],"isError":false})
        }
        "initialize" => {
            serde_json::json!({"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"0"}})
        }
        _ => serde_json::json!({}),
    };
    axum::Json(serde_json::json!({"jsonrpc":"2.0","id":id.clone(),"result":res})).into_response()
}
async fn run(a: Vec<String>) {
    let l = tokio::net::TcpListener::bind(&a[1]).await.unwrap();
    match a[2].as_str() {
        "hyper" => loop {
            let (s, _) = l.accept().await.unwrap();
            let _ = s.set_nodelay(true);
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(
                        hyper_util::rt::TokioIo::new(s),
                        hyper::service::service_fn(hyper_svc),
                    )
                    .await;
            });
        },
        m => {
            use axum::{extract::DefaultBodyLimit, routing::post, serve::ListenerExt};
            let app = if m == "axum" {
                axum::Router::new().route("/mcp", post(axum_h))
            } else {
                axum::Router::new().route("/mcp", post(axum_v))
            }
            .layer(DefaultBodyLimit::disable());
            axum::serve(
                l.tap_io(|s| {
                    let _ = s.set_nodelay(true);
                }),
                app,
            )
            .await
            .unwrap();
        }
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let cur = a.windows(2).any(|w| w[0] == "--rt" && w[1] == "current");
    let rt = if cur {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()
    }
    .unwrap();
    rt.block_on(run(a));
}
