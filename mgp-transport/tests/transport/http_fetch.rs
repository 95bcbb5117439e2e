//! Tests that documents are fetched from this machine only if that is allowed, without redirects, and within limits.

#![cfg(feature = "http")]

use std::net::SocketAddr;
use std::time::Duration;

use mgp_transport::http::GuardedFetch;
use mgp_types::service::{Fetch, FetchError, FetchRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Starts a server that answers every request with `answer` and then sends nothing more; an empty answer echoes the
/// request as the body.
async fn server(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap();
            let text = if answer.is_empty() {
                let sent = String::from_utf8_lossy(&request[..count]).into_owned();
                format!(
                    "HTTP/1.1 200 OK\r\nX-Kind: echo\r\nContent-Length: {}\r\n\r\n{sent}",
                    sent.len()
                )
            } else {
                answer.to_owned()
            };
            stream.write_all(text.as_bytes()).await.unwrap();
            // The connection stays open, so a client that expects more data has to wait.
            tokio::spawn(async move { stream.read_to_end(&mut Vec::new()).await });
        }
    });
    address
}

fn fetcher(address: SocketAddr) -> GuardedFetch {
    GuardedFetch::for_server(&format!("http://{address}/mcp")).unwrap()
}

#[tokio::test]
async fn documents_beside_a_server_on_this_machine_are_fetched() {
    let address = server("").await;
    let url = format!("http://{address}/.well-known/x?y=1");
    let request = FetchRequest::post(&url, "a=b").header("accept", "application/json");
    let fetched = fetcher(address).fetch(request).await.unwrap();
    assert_eq!((fetched.status, fetched.header("x-kind")), (200, Some("echo")));
    let sent = String::from_utf8(fetched.body).unwrap();
    assert!(sent.starts_with("POST /.well-known/x?y=1 HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("accept: application/json") && sent.ends_with("a=b"), "{sent}");
}

#[tokio::test]
async fn this_machine_is_reached_only_for_a_server_on_it_or_by_permission() {
    let address = server("").await;
    for url in [
        format!("http://{address}/"),
        format!("https://{address}/"),
        format!("https://[::ffff:127.0.0.1]:{}/", address.port()),
    ] {
        let public = GuardedFetch::new().unwrap();
        let error = public.fetch(FetchRequest::get(&url)).await.unwrap_err();
        assert!(matches!(error, FetchError::Forbidden { .. }), "{url}: {error}");
        let elsewhere = GuardedFetch::for_server("https://mcp.example/mcp").unwrap();
        let error = elsewhere.fetch(FetchRequest::get(&url)).await.unwrap_err();
        assert!(matches!(error, FetchError::Forbidden { .. }), "{url}: {error}");
    }
    let own = GuardedFetch::new().unwrap().allow_host("127.0.0.1").unwrap();
    assert_eq!(
        own.fetch(FetchRequest::get(format!("http://{address}/"))).await.unwrap().status,
        200
    );
}

#[tokio::test]
async fn a_secret_in_a_url_is_not_shown_in_the_error() {
    let public = GuardedFetch::new().unwrap();
    for url in ["http://127.0.0.1/x?code=s3cret", "https://me:s3cret@example.com/"] {
        let request = FetchRequest::get(url);
        assert!(!format!("{request:?}").contains("s3cret"), "{request:?}");
        let error = public.fetch(request).await.unwrap_err();
        assert!(matches!(error, FetchError::Forbidden { .. }), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

/// In a build without TLS, the fetcher must refuse `https`, because its connector would send the request unencrypted.
#[tokio::test]
async fn https_is_never_sent_in_clear_text() {
    let address = server("").await;
    let own = GuardedFetch::new().unwrap().allow_host("127.0.0.1").unwrap();
    let secret = FetchRequest::post(format!("https://{address}/"), "secret");
    let error = own.fetch(secret).await.unwrap_err();
    assert!(matches!(error, FetchError::Failed { .. }), "{error}");
    assert!(cfg!(feature = "tls") || error.to_string().contains("`tls`"), "{error}");
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let address =
        server("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n").await;
    let fetched =
        fetcher(address).fetch(FetchRequest::get(format!("http://{address}/"))).await.unwrap();
    assert_eq!((fetched.status, fetched.header("location")), (302, Some("/elsewhere")));
}

#[track_caller]
fn failed(error: &FetchError, why: &str) {
    assert!(matches!(error, FetchError::Failed { .. }), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

#[tokio::test]
async fn time_and_size_are_bounded() {
    let silent = server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal").await;
    let get = |address| FetchRequest::get(format!("http://{address}/"));
    let fetch = fetcher(silent).with_limits(Duration::from_millis(100), 1000);
    failed(&fetch.fetch(get(silent)).await.unwrap_err(), "longer than 100 ms");

    let long = server("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world").await;
    let fetch = fetcher(long).with_limits(Duration::from_secs(5), 10);
    failed(&fetch.fetch(get(long)).await.unwrap_err(), "more than 10 bytes");

    let closed = mgp_testkit::unused_address();
    failed(&fetcher(closed).fetch(get(closed)).await.unwrap_err(), "refused");
}
