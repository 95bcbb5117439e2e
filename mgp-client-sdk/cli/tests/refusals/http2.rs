//! Tests of HTTP/2 of `mgp serve --http`: over TLS, both sides negotiate HTTP/2; without TLS, a client must know in
//! advance that the kernel supports it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::serving::Serving;
use crate::world::World;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"two","version":"1"}}}"#;

fn address(url: &str) -> String {
    url.split("://").nth(1).unwrap().trim_end_matches("/mcp").to_owned()
}

/// Sends twenty requests at the same time over one connection; all of them must be answered.
async fn multiplex<T>(socket: T, url: &str, key: &str)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    let answers = (0..20).map(|_| {
        let request = Request::post(url)
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Full::new(Bytes::from_static(HELLO.as_bytes())))
            .unwrap();
        let mut sender = sender.clone();
        async move {
            sender.ready().await.unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(String::from_utf8_lossy(&body).contains("\"serverInfo\""), "{body:?}");
        }
    });
    join_all(answers).await;
}

#[tokio::test]
async fn http2_is_served_without_tls_beside_http1() {
    let world = World::new("");
    let serving = Serving::new(&world).await;
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    // The kernel also serves a client that uses HTTP/1.1.
    serving.comes(&key).await;
    let socket = TcpStream::connect(address(&serving.url)).await.unwrap();
    multiplex(socket, &serving.url, &key).await;
}

#[tokio::test]
async fn http2_is_agreed_on_over_tls() {
    let files =
        "[kernel.http]\ntls_cert = \"{DIR}/server.pem\"\ntls_key = \"{DIR}/server.key.pem\"\n";
    let world = World::new(files);
    world.write("server.key.pem", include_str!("access/first.key.pem"));
    world.write("server.pem", include_str!("access/first.pem"));
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    let serving = Serving::new(&world).await;

    let mut roots = RootCertStore::empty();
    let root = include_bytes!("access/first.root.pem");
    roots.add(CertificateDer::from_pem_slice(root).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let socket = TcpStream::connect(address(&serving.url)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let socket = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    multiplex(socket, &serving.url.replace("127.0.0.1", "localhost"), &key).await;
}

#[tokio::test]
async fn http2_does_not_open_a_session_for_another_host() {
    let world = World::new("");
    let serving = Serving::new(&world).await;
    let socket = TcpStream::connect(address(&serving.url)).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://evil.example/mcp")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(HELLO.as_bytes())))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert!(matches!(answer.status().as_u16(), 401 | 403), "{}", answer.status());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    assert!(body["result"].is_null(), "{body}");
}
