//! `bare-http ADDR`: the echo tool over HTTP, directly on hyper, without an MCP framework. It replies to a POST with
//! `application/json`. `cargo xtask bench` uses it as the lower bound for an HTTP server.
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
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::args().nth(1).expect("an address");
    let l = tokio::net::TcpListener::bind(address).await.unwrap();
    loop {
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
    }
}
