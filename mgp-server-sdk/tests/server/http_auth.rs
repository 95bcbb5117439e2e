//! Tests of a server over HTTP that authenticates its callers, and of other services that are mounted in it.

use http::StatusCode;
use mgp_security::auth::{ApiKeys, AuthLayer, KeyGrant, ResourceServer};
use mgp_server_sdk::Pages;
use mgp_server_sdk::prelude::*;
use mgp_testkit::http_exchange as ask;
use mgp_types::service::CredentialGrant;

#[tokio::test]
async fn callers_authenticate_with_a_key_or_token() {
    let keys = ApiKeys::new();
    let key = keys.issue(KeyGrant::new("acme", "ci")).await.unwrap();
    let tokens = ResourceServer::new("http://127.0.0.1:1/mcp", "https://issuer.example").unwrap();
    let admin = keys.issue(KeyGrant::new("acme", "ann").permission("admin")).await.unwrap();
    let reset = Tool::new("reset", "t", || async { "done" }).visible_to(|cx| {
        cx.extensions.get::<CredentialGrant>().is_some_and(|grant| grant.permits("admin"))
    });
    let server = Server::new("t", "1").tool(Tool::new("now", "t", || async { "noon" })).tool(reset);
    let bound = server
        .http("127.0.0.1:0")
        .auth(AuthLayer::new().keys(keys.clone()).tokens(tokens))
        .bind()
        .await
        .unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.run());
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let head = "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list";
    for (extra, status) in [
        (String::new(), "401"),
        ("\r\nAuthorization: Bearer".to_owned(), "401"),
        ("\r\nAuthorization: Basic eDp5".to_owned(), "401"),
        ("\r\nAuthorization: Bearer a.b.c".to_owned(), "401"),
        (
            format!("\r\nAuthorization: Bearer {0}\r\nAuthorization: Bearer {0}", key.reveal()),
            "400",
        ),
        (format!("\r\nauthorization: bearer   {} ", key.reveal()), "200"),
    ] {
        let answer = ask(address, &format!("{head}{extra}"), body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    for (key, is_listed) in [(&key, false), (&admin, true)] {
        let head = format!("{head}\r\nAuthorization: Bearer {}", key.reveal());
        let answer = ask(address, &head, body).await;
        assert_eq!(answer.contains(r#""name":"reset""#), is_listed, "{answer}");
    }
    keys.revoke(key.id()).await.unwrap();
    let answer =
        ask(address, &format!("{head}\r\nAuthorization: Bearer {}", key.reveal()), body).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let answer = ask(address, "GET /.well-known/oauth-protected-resource/mcp HTTP/1.1", "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("authorization_servers"));
}

#[tokio::test]
async fn a_mounted_service_is_served_at_its_path_and_below_however_it_is_written() {
    for (mounted, path) in [
        ("/docs", "/docs/a"),
        ("/docs/", "/docs/a"),
        ("/docs/", "/docs"),
        ("docs", "/docs/a"),
        ("/", "/docs/a"),
    ] {
        let pages = Pages::new().page(path, || (StatusCode::OK, "a page".to_owned()));
        let bound = Server::new("t", "1").http("127.0.0.1:0").no_auth().bind().await.unwrap();
        let bound = bound.mount(mounted, pages);
        let address = bound.local_addr();
        tokio::spawn(bound.run());
        let answer = ask(address, &format!("GET {path} HTTP/1.1"), "").await;
        assert!(answer.contains("a page"), "{mounted} {path}: {answer}");
    }
}

#[tokio::test]
async fn the_error_of_a_taken_port_names_the_remedy() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Server::new("t", "1").http(address).no_auth().bind().await.unwrap_err();
    assert!(error.to_string().ends_with("; choose another port, or stop the program that uses it"));
}
