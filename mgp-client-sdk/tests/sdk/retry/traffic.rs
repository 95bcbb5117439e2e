//! Tests of the traffic of failing calls, and of which calls are repeated.

use mgp_security::ServerPolicy;
use mgp_server_sdk::Server;
use mgp_types::mgp::{RiskLevel, TrustLevel};

use super::world::{Governed, Shop, tool_error};

#[tokio::test(start_paused = true)]
async fn ten_thousand_failing_calls_make_a_tenth_more_traffic() {
    const CALLS: usize = 10_000;
    let shop = Shop::default();
    let tool = shop.tool("buy", RiskLevel::Safe, |_| {
        Err(tool_error(
            3000,
            r#"{"retryable":true,"retry_strategy":"immediate","max_retries":1000000000}"#,
        ))
    });
    let world = Governed::new(Server::new("s", "1").tool(tool), &["buy"], |builder| builder).await;
    for _ in 0..CALLS / 100 {
        let calls = (0..100).map(|_| world.client.call("buy"));
        let outcomes = world.client.call_many(calls, 50).await;
        assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap_err().code().0 == 3000));
    }
    let ran = shop.ran("buy");
    assert!(ran > CALLS && ran * 10 <= CALLS * 11, "{ran}");
    // Each attempt must have passed all layers of the client, so each must be recorded.
    assert_eq!(world.events("buy").len(), ran);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_repeated_if_its_definition_allows() {
    let failing = |number| match number {
        1 => Err(tool_error(5000, r#"{"retryable":true,"retry_after_ms":10}"#)),
        _ => Ok("done"),
    };
    let shop = Shop::default();
    let server = || {
        Server::new("s", "1").tool(shop.tool("look", RiskLevel::Safe, failing)).tool(shop.tool(
            "sell",
            RiskLevel::Moderate,
            failing,
        ))
    };
    let world = Governed::new(server(), &["look", "sell"], |builder| builder).await;
    assert_eq!(world.client.text("look", ()).await, "done");
    assert_eq!(world.client.refusal("sell", ()).await.code().0, 5000);
    assert_eq!((shop.ran("look"), shop.ran("sell")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_sandboxed_server_allow_no_retry() {
    for (trust, ran) in [(TrustLevel::Standard, 4), (TrustLevel::Sandboxed, 1)] {
        let shop = Shop::default();
        let look = shop.tool("look", RiskLevel::Safe, |_| {
            Err(tool_error(5000, r#"{"retryable":true,"retry_after_ms":10}"#))
        });
        // Set the risk in the policy, because otherwise the call would wait for a confirmation.
        let policy = ServerPolicy::default().trust(trust.clone()).risk("look", RiskLevel::Safe);
        let server = Server::new("s", "1").tool(look);
        let world = Governed::under(policy, server, &["look"], |builder| builder).await;
        assert_eq!(world.client.refusal("look", ()).await.code().0, 5000);
        assert_eq!(shop.ran("look"), ran, "{trust:?}");
    }
}
