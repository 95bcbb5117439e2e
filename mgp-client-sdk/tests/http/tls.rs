//! Tests of servers with TLS and certificates of a private authority, and of errors about invalid certificates.
//!
//! The files in `certificates/` were made once with openssl. One is an authority (P-256, until 2124), whose private key
//! was deleted. The others are four certificates of one key: one for `localhost` and `127.0.0.1` (until 2124), one for
//! another host, one that has expired, and one that is self-signed as an authority (until 2124).

use std::sync::Arc;

use mgp_client_sdk::{Error, ToolResult as _};
use mgp_transport::http::GuardedFetch;
use mgp_types::ErrorCode;
use mgp_types::service::{BoxFuture, Fetch as _, FetchRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::script::{Pipe, Server, client, usual};

const ROOT: &[u8] = include_bytes!("certificates/root.pem");
const KEY: &[u8] = include_bytes!("certificates/server.key.pem");
const GOOD: &[u8] = include_bytes!("certificates/server.pem");
const ELSEWHERE: &[u8] = include_bytes!("certificates/elsewhere.pem");
const EXPIRED: &[u8] = include_bytes!("certificates/expired.pem");
const AUTHORITY: &[u8] = include_bytes!("certificates/authority.pem");

async fn server(certificate: &[u8]) -> Server {
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let open = move |stream| -> BoxFuture<'static, _> {
        let accepting = acceptor.accept(stream);
        Box::pin(async move { Some(Box::new(accepting.await.ok()?) as Box<dyn Pipe>) })
    };
    Server::start_over("https", Arc::new(open), usual).await
}

#[tokio::test]
async fn a_configured_root_is_trusted() {
    let server = server(GOOD).await;
    let named = server.url.replace("127.0.0.1", "localhost");
    for url in [&server.url, &named] {
        let client = client().bearer("secret").http(|http| {
            http.root_certificates(ROOT);
        });
        let client = client.connect_url(url).await.unwrap();
        assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    }
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.header("authorization") == Some("Bearer secret")));
}

#[track_caller]
fn check(error: &Error, methods: &[&str]) {
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY, "{error}");
    assert!(!error.is_retryable(), "{error}");
    for word in methods {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[tokio::test]
async fn an_unknown_root_is_reported_with_the_remedy() {
    let server = server(GOOD).await;
    let error = client().connect_url(&server.url).await.unwrap_err();
    check(&error, &["cannot trust https://127.0.0.1", "root_certificates", "SSL_CERT_FILE"]);
    assert!(server.seen().is_empty(), "nothing is sent to an untrusted server");
}

#[tokio::test]
async fn an_invalid_certificate_is_reported_with_the_reason() {
    for (certificate, methods) in [
        (ELSEWHERE, ["cannot trust https://127.0.0.1", "another host", "elsewhere.example"]),
        (EXPIRED, ["cannot trust https://127.0.0.1", "has expired", "clock"]),
        (AUTHORITY, ["cannot trust https://127.0.0.1", "`CA:TRUE`", "basicConstraints"]),
    ] {
        let server = server(certificate).await;
        let connecting = client().http(|http| {
            http.root_certificates(ROOT);
        });
        check(&connecting.connect_url(&server.url).await.unwrap_err(), &methods);
        assert!(server.seen().is_empty(), "nothing is sent to an untrusted server");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_reported_with_the_remedy() {
    let open = |mut stream: TcpStream| -> BoxFuture<'static, _> {
        Box::pin(async move {
            let mut buffer = vec![0; 16 << 10];
            let _ = stream.read(&mut buffer).await.ok()?;
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.ok()?;
            // The client must read the answer before the connection is closed.
            let _ = stream.read(&mut buffer).await.ok()?;
            None::<Box<dyn Pipe>>
        })
    };
    let server = Server::start_over("https", Arc::new(open), usual).await;
    let error = client().connect_url(&server.url).await.unwrap_err();
    check(&error, &["cannot trust https://127.0.0.1", "is not TLS", "`http://`"]);
}

#[tokio::test]
async fn roots_that_cannot_be_read_are_an_error() {
    for (pem, says) in [
        (&b"no certificate"[..], "holds no certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "cannot be used"),
        (KEY, "holds no certificate"),
    ] {
        let connecting = client().http(|http| {
            http.root_certificates(pem);
        });
        let error = connecting.connect_url("https://127.0.0.1:9/mcp").await.unwrap_err();
        assert!(matches!(error, Error::Url(_)) && error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_fetcher_trusts_a_configured_root_too() {
    let server = server(GOOD).await;
    let fetch = GuardedFetch::for_server(&server.url).unwrap();
    fetch.fetch(FetchRequest::get(&server.url)).await.unwrap_err();
    assert!(server.seen().is_empty(), "nothing is sent to an untrusted server");
    let fetch = fetch.root_certificates(ROOT).unwrap();
    assert_eq!(fetch.fetch(FetchRequest::get(&server.url)).await.unwrap().status, 200);
}
