//! Tests of servers that refuse, redirect, or are unreachable: error texts and renewal of credentials.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mgp_client_sdk::{Client, CredentialRefusal, Credentials, EraChoice, Error, ToolResult as _};
use mgp_types::{ErrorCode, RpcError};

use crate::script::{Received, Response, Server, client, status};

fn challenge(code: u16, challenge: &str) -> Response {
    Response::Whole(code, vec![("WWW-Authenticate", challenge.to_owned())], "", String::new())
}

/// Credentials that send `Bearer n`, with a greater number after each refusal.
#[derive(Clone, Default)]
struct Counting {
    shown: Arc<AtomicUsize>,
    refused: Arc<Mutex<Vec<CredentialRefusal>>>,
}

#[async_trait]
impl Credentials for Counting {
    async fn authorization(&self) -> Result<Option<String>, RpcError> {
        let shown = format!("Bearer {}", self.shown.load(Ordering::SeqCst));
        Ok(Some(shown))
    }

    async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError> {
        self.shown.fetch_add(1, Ordering::SeqCst);
        self.refused.lock().unwrap().push(refusal);
        Ok(())
    }
}

#[tokio::test]
async fn refused_credentials_are_renewed_and_the_request_sent_again() {
    let server = Server::modern(|seen| match (seen.method(), seen.header("authorization")) {
        (_, Some("Bearer 0")) => Some(challenge(401, r#"Bearer scope="a""#)),
        ("tools/call", Some("Bearer 1")) => {
            Some(challenge(403, r#"Bearer error="insufficient_scope""#))
        }
        _ => None,
    })
    .await;
    let credentials = Counting::default();
    let client = client().credentials(credentials.clone()).connect_url(&server.url).await.unwrap();
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    let refused = credentials.refused.lock().unwrap();
    let told: Vec<_> = refused
        .iter()
        .map(|told| (told.status, &*told.challenges[0], told.shown.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            (401, r#"Bearer scope="a""#, Some("Bearer 0")),
            (403, r#"Bearer error="insufficient_scope""#, Some("Bearer 1")),
        ]
    );
    assert!(!format!("{refused:?}").contains("Bearer 0"), "what was shown is a secret");
}

#[tokio::test]
async fn a_server_that_always_refuses_is_asked_three_more_times() {
    let server = Server::start(|_| challenge(401, "Bearer")).await;
    let credentials = Counting::default();
    let connecting = client().credentials(credentials.clone()).connect_url(&server.url);
    let error = connecting.await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AUTH_EXPIRED, "{error}");
    assert_eq!((server.seen().len(), credentials.refused.lock().unwrap().len()), (4, 3));
}

#[tokio::test]
async fn a_server_that_requires_credentials_names_them() {
    let server = Server::start(|seen: &Received| match seen.header("authorization") {
        Some(_) => challenge(401, r#"Bearer error="invalid_token""#),
        None => challenge(401, r#"Bearer realm="x""#),
    })
    .await;
    let error = client().connect_url(&server.url).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AUTH_REQUIRED);
    let response = error.to_string();
    assert!(
        response.contains("`Authorization`") && response.contains(r#"realm="x""#),
        "{response}"
    );
    assert_eq!(server.seen().len(), 1, "the other era would be refused as well");

    let error = client().bearer("old-secret").connect_url(&server.url).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AUTH_EXPIRED);
    let response = format!("{error} {error:?}");
    assert!(response.contains("invalid_token") && !response.contains("old-secret"), "{response}");
    let sent = server.seen().pop().unwrap();
    assert_eq!(sent.header("authorization"), Some("Bearer old-secret"));
}

#[tokio::test]
async fn a_refusal_without_a_json_rpc_error_has_the_text_of_the_server() {
    let problem = r#"{"title":"Out of credit","detail":"30 left"}"#;
    for (kind, body, text) in [
        ("text/plain", "Workspace 17 is archived.\n", "Workspace 17 is archived."),
        ("application/problem+json; charset=utf-8", problem, "Out of credit: 30 left"),
        ("application/json", r#"{"error":{"code":403,"message":"no seat"}}"#, "no seat"),
        ("", "gone", "gone"),
    ] {
        let server = Server::legacy(move |seen| {
            let is_call = seen.method() == "tools/call";
            is_call.then(|| Response::Whole(403, Vec::new(), kind, body.to_owned()))
        });
        let server = server.await;
        let client = client().connect_url(&server.url).await.unwrap();
        let error = client.call("t").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED, "{kind}");
        assert!(error.to_string().contains(&format!("(server: `{text}`)")), "{error}");
    }
}

#[tokio::test]
async fn a_header_of_a_refusal_is_shown_as_one_short_line_without_keys() {
    let shown =
        "http://a.example/shown k3y-k3y-k3y \u{9b}31m\u{202e}".to_owned() + &"x".repeat(5000);
    let with_key =
        || client().http(|http| drop(http.headers.insert("x-key", "k3y-k3y-k3y".parse().unwrap())));
    for (code, name, builder) in [
        (401, "WWW-Authenticate", client().bearer("k3y-k3y-k3y")),
        (401, "WWW-Authenticate", with_key()),
        (403, "WWW-Authenticate", with_key()),
        (302, "Location", with_key()),
        (200, "Content-Type", with_key()),
    ] {
        let value = shown.clone();
        let server = Server::legacy(move |seen| {
            let refusal = || Response::Whole(code, vec![(name, value.clone())], "", "x".to_owned());
            (seen.method() == "tools/call").then(refusal)
        });
        let server = server.await;
        let client = builder.connect_url(&server.url).await.unwrap();
        let error = client.call("t").await.unwrap_err().to_string();
        assert!(error.contains("shown") && error.len() < 1000, "{code} {name}: {error}");
        let is_clean = !error.contains(['\u{9b}', '\u{202e}']) && !error.contains("k3y-k3y");
        assert!(is_clean, "{code} {name}: {error:?}");
    }
}

/// A client that speaks only the modern era must report the server's error, and not an unsupported version.
#[tokio::test]
async fn a_modern_client_reports_the_real_error() {
    let body = |code: i32, why: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"{why}"}}}}"#)
    };
    for (status, code, why) in
        [(401, 1002, "show a key"), (404, -32600, "nothing is served here"), (501, 0, "HTTP 501")]
    {
        let text = if code == 0 { String::new() } else { body(code, why) };
        let server = Server::start(move |_| {
            Response::Whole(status, Vec::new(), "application/json", text.clone())
        })
        .await;
        let connecting = client().era(EraChoice::Modern).connect_url(&server.url);
        let error = connecting.await.unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("revision"), "{status}: {error}");
    }
}

#[tokio::test]
async fn urls_that_cannot_be_used_are_refused_by_name() {
    for (url, why) in [
        ("ftp://localhost/", "http://"),
        ("localhost:8000/mcp", "http"),
        ("http://me:secret@127.0.0.1/", "`Authorization`"),
    ] {
        let error = client().connect_url(url).await.unwrap_err();
        assert!(matches!(error, Error::Url(_)), "{url}: {error}");
        assert!(error.to_string().contains(why), "{url}: {error}");
    }
    let error = client().bearer("x").connect_url("http://example.com/mcp").await.unwrap_err();
    assert!(error.to_string().contains("https"), "{error}");
}

#[tokio::test]
async fn a_key_in_a_header_is_not_sent_in_clear_text() {
    let far = "http://mcp.example/mcp";
    let with = |name: &'static str| {
        client().http(move |http| drop(http.headers.insert(name, "k3y".parse().unwrap())))
    };
    let error = with("x-api-key").connect_url(far).await.unwrap_err();
    assert!(error.to_string().contains("not https"), "{error}");
    assert!(!error.to_string().contains("k3y"), "{error}");
    let near = Server::modern(|_| None).await;
    with("x-api-key").connect_url(&near.url).await.unwrap();
    assert_eq!(near.seen()[0].header("x-api-key"), Some("k3y"));
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let free = mgp_testkit::unused_address();
    let error = client().connect_url(format!("http://{free}/mcp")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY);
    assert!(error.is_retryable());
    let response = error.to_string().to_lowercase();
    assert!(response.contains(&free.to_string()) && response.contains("refused"), "{response}");
}

#[tokio::test]
async fn an_address_without_an_endpoint_is_reported() {
    let page =
        Server::start(|_| Response::Whole(200, Vec::new(), "text/html", "<p>hi".to_owned())).await;
    let error = client().connect_url(&page.url).await.unwrap_err();
    assert!(error.to_string().contains("text/html"), "{error}");
    let packed = Server::start(|_| {
        let gzip = vec![("Content-Encoding", "gzip".to_owned())];
        Response::Whole(200, gzip, "application/json", "{}".to_owned())
    });
    let error = client().connect_url(&packed.await.url).await.unwrap_err();
    assert!(error.to_string().contains("Content-Encoding: gzip"), "{error}");
    for (code, word) in [(404, "no MCP endpoint"), (405, "HTTP+SSE"), (502, "502")] {
        let server = Server::start(move |_| status(code)).await;
        let error = client().connect_url(&server.url).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_is_followed_once_and_only_on_the_same_origin() {
    let moved = |to: String| Response::Whole(307, vec![("Location", to)], "", String::new());
    let server =
        Server::modern(move |seen| (seen.path == "/mcp").then(|| moved("/mcp/".to_owned()))).await;
    let client_there = client().connect_url(&server.url).await.unwrap();
    client_there.call("t").await.unwrap();

    let other = format!("{}?code=s3cret", server.url);
    let away = Server::start(move |_| moved(other.clone())).await;
    let before = server.seen().len();
    let error = client().bearer("secret").connect_url(&away.url).await.unwrap_err();
    assert!(error.to_string().contains(&server.url), "{error}");
    assert!(!error.to_string().contains("s3cret"), "what a redirect carries is not shown: {error}");
    assert_eq!((away.seen().len(), server.seen().len()), (1, before));

    let round = Server::start(move |_| moved("/mcp".to_owned())).await;
    client().connect_url(&round.url).await.unwrap_err();
    assert_eq!(round.seen().len(), 2);
    let gone = Server::start(|_| {
        Response::Whole(302, vec![("Location", "/x".to_owned())], "", String::new())
    })
    .await;
    let error = client().connect_url(&gone.url).await.unwrap_err();
    let whole = gone.url.replace("/mcp", "/x");
    assert!(error.to_string().contains(&format!("`{whole}`")), "{error}");
    assert_eq!(gone.seen().len(), 1);
    let nowhere = Server::start(|_| status(300)).await;
    let error = client().connect_url(&nowhere.url).await.unwrap_err();
    assert!(error.to_string().contains("refuses the request (HTTP 300"), "{error}");
}

#[tokio::test]
async fn settings_are_printed_without_secrets() {
    let builder = Client::builder("c", "1")
        .bearer("s3cret")
        .http(|http| drop(http.headers.insert("x-api-key", "k3y".parse().unwrap())));
    let shown = format!("{builder:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("k3y"), "{shown}");
}

#[tokio::test]
async fn a_client_of_public_servers_does_not_connect_to_this_machine() {
    let server = Server::modern(|_| None).await;
    let name = server.url.replace("127.0.0.1", "localhost");
    for url in [&server.url, &name] {
        let connecting = client().http(|http| http.only_public = true);
        let error = connecting.connect_url(url).await.unwrap_err().to_string();
        assert!(error.contains("it is an address of this machine"), "{url}: {error}");
    }
    assert!(server.seen().is_empty(), "nothing is sent");
    client().connect_url(&name).await.unwrap();
}
