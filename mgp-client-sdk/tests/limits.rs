//! Limits of calls, on either side of a connection and in both eras (MGP §14.3: 3000–3003).

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice, TestClient};
use mgp_lifecycle::{Quota, QuotaLayer, RateKey, RateLayer, RateLimit};
use mgp_server_sdk::prelude::*;
use mgp_types::service::Principal;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

fn through(era: EraChoice) -> mgp_client_sdk::ClientBuilder {
    Client::builder("test", "1").era(era)
}

#[test]
fn the_example_shows_each_limit_alone_on_either_side() {
    let program = mgp_testkit::example("mgp-client-sdk", "limit_layers");
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = String::from_utf8(output.stdout).unwrap();
    let mut expected = Vec::new();
    for (name, calls) in [
        ("rate", "answered, 3000"),
        ("quota", "answered, 3002"),
        ("size", "3001, 3001"),
        ("turns", "3001, 3001"),
        ("time", "3003, 3003"),
    ] {
        expected.extend(["client", "server"].map(|side| format!("{name} on the {side}: {calls}")));
    }
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

fn clock() -> Server {
    Server::new("clock", "1").tool(Tool::new("now", "The time", || async { "noon" }))
}

#[tokio::test]
async fn a_server_refuses_too_many_calls_and_names_the_delay() {
    for era in ERAS {
        let server =
            clock().rate(RateLimit::per_hour(2).by(RateKey::Tool)).rate(RateLimit::per_hour(1_000));
        let client = TestClient::with_builder(server, through(era)).await;
        for _ in 0..2 {
            assert_eq!(client.text("now", ()).await, "noon");
        }
        let refused = client.refusal("now", ()).await;
        assert_eq!(refused.code().0, 3000);
        let hints = refused.recovery().unwrap();
        let wait = hints.retry_after_ms.unwrap();
        assert!(hints.is_retryable() && wait > 1_700_000 && wait <= 1_800_000, "{wait}");
        assert_eq!(hints.max_retries, Some(3));
        let details = hints.details.as_ref().unwrap();
        assert_eq!(details.decode::<u32>("limit").unwrap(), Some(2));
        assert_eq!(details.decode::<String>("by").unwrap().as_deref(), Some("tool"));
    }
}

#[tokio::test]
async fn a_client_limits_its_calls_to_each_server() {
    for era in ERAS {
        let rate = RateLayer::new(RateLimit::per_hour(1).by(RateKey::Server));
        let files = through(era).server_id("files").layer(rate.clone());
        let clocks = through(era).server_id("clocks").layer(rate);
        let files = TestClient::with_builder(clock(), files).await;
        let clocks = TestClient::with_builder(clock(), clocks).await;
        assert_eq!(files.text("now", ()).await, "noon");
        assert_eq!(files.refusal("now", ()).await.code().0, 3000);
        assert_eq!(clocks.text("now", ()).await, "noon");
    }
}

/// In the modern era, the client sends the call again with each answer; in the legacy era, the person is asked while
/// the call runs. Both are charged as one call.
#[tokio::test]
async fn a_call_that_asks_is_charged_once_on_either_side() {
    for era in ERAS {
        let ask = Tool::new("ask", "Asks twice", |cx: Context| async move {
            Quota::charge(&cx, 10)?;
            cx.elicit::<Text>("What?").await?;
            Quota::charge(&cx, 5)?;
            Ok::<_, RpcError>("done")
        });
        let (here, there) =
            (QuotaLayer::new(Quota::per_day(9)), QuotaLayer::new(Quota::per_day(9)));
        let server = Server::new("s", "1").tool(ask).quota(there.clone());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let builder = through(era).layer(here.clone()).on_elicitation(move |question| {
            count.fetch_add(1, Ordering::Relaxed);
            async move { question.accept_with(&serde_json::json!({ "text": "yes" })) }
        });
        let client = TestClient::with_builder(server, builder).await;
        assert_eq!(client.text("ask", ()).await, "done");
        assert!(asked.load(Ordering::Relaxed) > 0);
        let used = |layer: &QuotaLayer| layer.used(&Principal::local());
        assert_eq!((used(&there).calls, used(&there).units), (1, 15), "{era:?}");
        assert_eq!(used(&here).calls, 1, "{era:?}");
    }
}

#[tokio::test]
async fn sizes_are_bounded_in_both_directions() {
    for era in ERAS {
        let server = Server::new("s", "1")
            .tool(Tool::new("echo", "Says it", |Args(text): Args<Text>| async move { text.text }))
            .max_arguments(1_000)
            .max_result(400);
        let client = TestClient::with_builder(server, through(era)).await;
        let text = |length: usize| serde_json::json!({ "text": "x".repeat(length) });
        assert_eq!(client.text("echo", text(100)).await.len(), 100);
        let result = client.refusal("echo", text(500)).await;
        assert!(result.message().contains("result"), "{result}");
        let arguments = client.refusal("echo", text(1_000)).await;
        assert_eq!(arguments.code().0, 3001);
        assert!(arguments.message().contains("arguments"), "{arguments}");
        assert!(!arguments.recovery().unwrap().is_retryable());
    }
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// A waiting call runs after at most one call of each other caller, not after all their calls.
#[tokio::test]
async fn callers_take_turns() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let slow = Tool::new("slow", "Takes a while", move |cx: Context| {
        seen.lock().unwrap().push(cx.principal.subject().to_string());
        async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            "done"
        }
    });
    let mut limit = mgp_server_sdk::LimitConfig::default();
    limit.max_running = 1;
    let stack = Server::new("s", "1").tool(slow).limit(limit).into_stack().unwrap();
    let call = |subject: &str| {
        let mut client = mgp_types::service::mock::client(stack.clone());
        client.cx.principal = Principal::new("t", subject);
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        tokio::spawn(client.call("tools/call", &format!(r#"{{"name":"slow",{meta}}}"#)))
    };
    let mut calls: Vec<_> = (0..30).map(|_| call("ann")).collect();
    tokio::task::yield_now().await;
    calls.push(call("bob"));
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let order = order.lock().unwrap();
    let bob = order.iter().position(|subject| subject == "bob").unwrap();
    assert!(bob <= 2, "{order:?}");
}
