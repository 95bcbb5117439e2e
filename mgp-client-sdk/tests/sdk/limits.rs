//! Tests of limits of calls, on either side of a connection and in both eras (MGP §14.3: 3000–3003).

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, EraChoice, TestClient};
use mgp_lifecycle::{Quota, QuotaLayer, RateLayer, RateLimit};
use mgp_server_sdk::prelude::*;
use mgp_types::service::Principal;

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

/// In the modern era, the client sends the call again with each answer; in the legacy era, the person is asked while
/// the call runs. Both are charged as one call.
#[tokio::test]
async fn a_call_that_asks_counts_once_on_either_side() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let ask = Tool::new("ask", "Asks twice", |cx: Context| async move {
            Quota::charge(&cx, 10)?;
            let answer = cx.elicit::<Text>("What?").await?.accepted();
            Quota::charge(&cx, 5)?;
            Ok::<_, RpcError>(answer.map(|answer| answer.text).unwrap_or_default())
        });
        let (here, there) =
            (QuotaLayer::new(Quota::per_day(9)), QuotaLayer::new(Quota::per_day(9)));
        let once = RateLimit::per_hour(1);
        let server = Server::new("s", "1").tool(ask).quota(there.clone()).rate(once);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let builder = Client::builder("test", "1").era(era).layer(here.clone());
        let builder = builder.layer(RateLayer::new(once).count_rounds_once());
        let builder = builder.on_elicitation(move |question| {
            count.fetch_add(1, Ordering::Relaxed);
            async move { question.accept_with(&serde_json::json!({ "text": "yes" })) }
        });
        let client = TestClient::with_builder(server, builder).await;
        assert_eq!(client.text("ask", ()).await, "yes");
        assert!(asked.load(Ordering::Relaxed) > 0);
        let used = |layer: &QuotaLayer| layer.used(&Principal::local());
        assert_eq!((used(&there).calls, used(&there).units), (1, 15), "{era:?}");
        assert_eq!(used(&here).calls, 1, "{era:?}");
        assert_eq!(client.refusal("ask", ()).await.code(), ErrorCode::RATE_LIMITED, "{era:?}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}
