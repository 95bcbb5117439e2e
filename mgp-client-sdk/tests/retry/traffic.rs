//! The traffic of failing calls, and their audit records.

use std::time::Duration;

use mgp_client_sdk::EraChoice;
use mgp_security::ServerPolicy;
use mgp_server_sdk::Server;
use mgp_types::mgp::{RiskLevel, TrustLevel};
use tokio::time::Instant;

use crate::world::{Governed, Shop, detail, tool_error};

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
    // Each attempt passed all layers of the client, and is recorded.
    assert_eq!(world.events("buy").len(), ran);
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_recorded_with_its_number_and_the_trace_of_the_call() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let shop = Shop::default();
        let tool = shop.tool("buy", RiskLevel::Safe, |number| match number {
            1 | 2 => Err(tool_error(
                3000,
                r#"{"retryable":true,"retry_after_ms":300,"retry_strategy":"fixed_delay"}"#,
            )),
            _ => Ok("bought"),
        });
        let server = Server::new("s", "1").tool(tool);
        let world = Governed::new(server, &["buy"], |builder| builder.era(era)).await;
        let began = Instant::now();
        assert_eq!(world.client.text("buy", ()).await, "bought");
        assert_eq!(began.elapsed(), Duration::from_millis(600));
        let events = world.events("buy");
        let told: Vec<_> = events
            .iter()
            .map(|event| {
                let part = |name| detail(event, name).unwrap_or_default();
                let result = event.result.as_str().to_owned();
                [
                    result,
                    part("code"),
                    part("retry_attempt"),
                    part("retry_of_code"),
                    part("waited_ms"),
                ]
            })
            .collect();
        let expected = [
            ["FAILURE", "3000", "", "", ""],
            ["FAILURE", "3000", "1", "3000", "300"],
            ["SUCCESS", "", "2", "3000", "300"],
        ];
        assert_eq!(told, expected, "{era:?}");
        assert!(events[0].trace_id.is_some());
        assert!(events.iter().all(|event| event.trace_id == events[0].trace_id), "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_a_result_is_followed_by_a_plain_client() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let shop = Shop::default();
        let tool = shop.tool("buy", RiskLevel::Safe, |number| match number {
            1 => Err(tool_error(3000, r#"{"retryable":true,"retry_after_ms":200}"#)),
            2 => Err(tool_error(4000, r#"{"retryable":false}"#)),
            _ => Ok("bought"),
        });
        let server = Server::new("s", "1").tool(tool);
        let world = Governed::new(server, &["buy"], |builder| builder.without_mgp().era(era)).await;
        let began = Instant::now();
        let error = world.client.refusal("buy", ()).await;
        assert_eq!((error.code().0, shop.ran("buy")), (4000, 2), "{era:?}");
        assert_eq!(began.elapsed(), Duration::from_millis(200));
    }
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

#[tokio::test(start_paused = true)]
async fn a_closed_connection_fails_calls_at_once() {
    let shop = Shop::default();
    let tool = shop.tool("look", RiskLevel::Safe, |_| Ok("seen"));
    let world = Governed::new(Server::new("s", "1").tool(tool), &["look"], |builder| builder).await;
    world.client.text("look", ()).await;
    world.client.close().await;
    let began = Instant::now();
    assert_eq!(world.client.refusal("look", ()).await.code().0, 2000);
    assert_eq!(world.client.list_tools().await.unwrap_err().code().0, 2000);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
