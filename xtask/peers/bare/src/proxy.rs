//! `bare-proxy LISTEN UPSTREAM_HOSTPORT`: an HTTP proxy with the least possible work, as the lower bound for a gateway.
//! It parses the id, method and tool name of each POST, as access control must, refuses only the tool `forbidden`, and
//! forwards bodies unchanged. Each client connection has one kept-alive connection to the upstream server.
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, Request, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};
use tokio::sync::Mutex;
#[derive(Deserialize)]
struct Req<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<P<'a>>,
}
#[derive(Deserialize)]
struct P<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
}
type Up = Arc<Mutex<Option<hyper::client::conn::http1::SendRequest<Full<Bytes>>>>>;
async fn svc(
    r: Request<Incoming>,
    up: Up,
    host: Arc<str>,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let (h, b) = r.into_parts();
    let b = b.collect().await?.to_bytes();
    if h.method == hyper::Method::POST {
        let q: Req = serde_json::from_slice(&b)?;
        if q.method == "tools/call"
            && q.params.as_ref().and_then(|p| p.name.as_deref()) == Some("forbidden")
            && q.id.is_some()
        {
            return Ok(Response::builder().status(403).body(Full::new(Bytes::new()))?);
        }
    }
    let mut g = up.lock().await;
    if g.as_ref().map(|s| s.is_closed()).unwrap_or(true) {
        let s = tokio::net::TcpStream::connect(&*host).await?;
        s.set_nodelay(true)?;
        let (s, c) = hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(s)).await?;
        tokio::spawn(async move {
            let _ = c.await;
        });
        *g = Some(s);
    }
    let mut o = Request::builder().method(h.method).uri(h.uri.path()).header("host", &*host);
    for k in [
        "content-type",
        "accept",
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
    ] {
        if let Some(v) = h.headers.get(k) {
            o = o.header(k, v);
        }
    }
    let s = g.as_mut().unwrap();
    s.ready().await?;
    let resp = s.send_request(o.body(Full::new(b))?).await?;
    let (h, b) = resp.into_parts();
    let b = b.collect().await?.to_bytes();
    let mut o = Response::builder().status(h.status);
    for k in ["content-type", "mcp-session-id"] {
        if let Some(v) = h.headers.get(k) {
            o = o.header(k, v);
        }
    }
    Ok(o.body(Full::new(b))?)
}
#[tokio::main]
async fn main() {
    let a: Vec<String> = std::env::args().collect();
    let l = tokio::net::TcpListener::bind(&a[1]).await.unwrap();
    let host: Arc<str> = a[2].as_str().into();
    loop {
        let (s, _) = l.accept().await.unwrap();
        let _ = s.set_nodelay(true);
        let (up, host): (Up, _) = (Default::default(), host.clone());
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(
                    hyper_util::rt::TokioIo::new(s),
                    hyper::service::service_fn(move |r| svc(r, up.clone(), host.clone())),
                )
                .await;
        });
    }
}
