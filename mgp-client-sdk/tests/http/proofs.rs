//! Tests of credentials with a proof for each request: the client requests the proof whenever it sends, and passes on
//! the server's nonces.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mgp_client_sdk::{
    CredentialRefusal, Credentials, RequestCredentials, RequestTarget, ToolResult as _,
};
use mgp_types::RpcError;
use mgp_types::service::BoxFuture;

use crate::script::{Response, Server, client};

#[derive(Clone, Default)]
struct Proving(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    /// The requests for which a proof was made, as `METHOD URL`.
    targets: Vec<String>,
    /// The nonces in successful answers of the server.
    nonces: Vec<String>,
    refused: Vec<(Option<String>, u32)>,
}

#[async_trait]
impl Credentials for Proving {
    async fn authorization(&self) -> Result<Option<String>, RpcError> {
        Ok(None)
    }

    fn for_request<'a>(
        &'a self,
        request: RequestTarget<'a>,
    ) -> BoxFuture<'a, Result<RequestCredentials, RpcError>> {
        let mut heard = self.0.lock().unwrap();
        heard.targets.push(format!("{} {}", request.method, request.url));
        let shown = RequestCredentials::new(Some("DPoP s3cret".to_owned()));
        let shown = shown.header("dpop", format!("proof-{}", heard.targets.len()));
        assert!(!format!("{shown:?}").contains("s3cret"), "what is shown is a secret");
        Box::pin(async { Ok(shown) })
    }

    fn handle_nonce(&self, nonce: &str) {
        self.0.lock().unwrap().nonces.push(nonce.to_owned());
    }

    async fn handle_refusal(&self, refusal: CredentialRefusal) -> Result<(), RpcError> {
        self.0.lock().unwrap().refused.push((refusal.nonce, refusal.attempts));
        Ok(())
    }
}

fn nonce(nonce: &str) -> (&'static str, String) {
    ("DPoP-Nonce", nonce.to_owned())
}

#[tokio::test]
async fn each_sending_has_its_own_proof_for_its_address() {
    let calls = AtomicUsize::new(0);
    let server = Server::modern(move |seen| {
        if seen.method() != "tools/call" {
            return None;
        }
        // The server answers with two refusals, and then with a redirect.
        Some(match (calls.fetch_add(1, Ordering::SeqCst), &*seen.path) {
            (0, _) => Response::Whole(401, vec![nonce("one")], "", String::new()),
            (1, _) => Response::Whole(401, vec![nonce("a"), nonce("b")], "", String::new()),
            (_, "/mcp?key=k") => {
                Response::Whole(307, vec![("Location", "/there".to_owned())], "", String::new())
            }
            _ => {
                let body = seen.text("done").to_string();
                Response::Whole(200, vec![nonce("two")], "application/json", body)
            }
        })
    })
    .await;
    let proving = Proving::default();
    let url = format!("{}?key=k", server.url);
    let client = client().credentials(proving.clone()).connect_url(&url).await.unwrap();
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    let heard = proving.0.lock().unwrap();
    let there = format!("POST {}", server.url.replace("/mcp", "/there"));
    let here = format!("POST {url}");
    let (before, call) = heard.targets.split_at(heard.targets.len() - 4);
    assert_eq!(call, [&here, &here, &here, &there].map(Clone::clone));
    assert!(before.iter().all(|target| *target == here));
    // An answer with two nonces is invalid, so neither of them is used.
    assert_eq!(heard.refused, [(Some("one".to_owned()), 1), (None, 2)]);
    assert_eq!(heard.nonces, ["two"]);
    for (number, seen) in (1..).zip(server.seen()) {
        assert_eq!(seen.header("dpop"), Some(&*format!("proof-{number}")));
    }
    assert!(server.seen().iter().all(|seen| seen.header("authorization") == Some("DPoP s3cret")));
}

/// Credentials that contain characters which are invalid in a header.
struct Broken;

#[async_trait]
impl Credentials for Broken {
    async fn authorization(&self) -> Result<Option<String>, RpcError> {
        Ok(Some("Bearer s3cret\r\nx: y".to_owned()))
    }

    async fn handle_refusal(&self, _: CredentialRefusal) -> Result<(), RpcError> {
        Ok(())
    }
}

#[tokio::test]
async fn credentials_that_are_invalid_in_a_header_are_not_sent() {
    let server = Server::modern(|_| None).await;
    let error = client().credentials(Broken).connect_url(&server.url).await.unwrap_err();
    let response = format!("{error} {error:?}");
    assert!(response.contains("authorization") && !response.contains("s3cret"), "{response}");
    assert!(server.seen().is_empty());
}
