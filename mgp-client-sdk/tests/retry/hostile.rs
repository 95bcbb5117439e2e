//! Servers that request more retries than the client permits.

use std::time::Duration;

use mgp_server_sdk::Server;
use mgp_types::mgp::RiskLevel;
use tokio::time::Instant;

use crate::world::{Answer, Governed, Shop, detail, tool_error};

/// Returns a client of a shop, and the shop. `buy` answers the calls of the tool `buy`; the client has no access to
/// `rob`.
async fn shop(buy: Answer) -> (Governed, Shop) {
    let shop = Shop::default();
    let server = Server::new("s", "1")
        .tool(shop.tool("buy", RiskLevel::Safe, buy))
        .tool(shop.tool("look", RiskLevel::Safe, |_| Ok("seen")))
        .tool(shop.tool("rob", RiskLevel::Safe, |_| Ok("robbed")))
        .tool(shop.tool("burn", RiskLevel::Dangerous, |_| Ok("burnt")));
    (Governed::new(server, &["buy", "look", "burn"], |builder| builder).await, shop)
}

/// Calls `buy`, and checks how often it ran, how long that took, and that its own error is returned.
#[track_caller]
fn check(buy: Answer, ran: usize, took: Duration) -> impl Future<Output = (Governed, Shop)> {
    let at = std::panic::Location::caller();
    async move {
        let (world, shop) = shop(buy).await;
        let began = Instant::now();
        let error = world.client.refusal("buy", ()).await;
        assert_eq!((error.code().0, &*error.message()), (3000, "not now"), "{at}");
        assert_eq!((shop.ran("buy"), began.elapsed()), (ran, took), "{at}");
        assert_eq!((shop.ran("rob"), shop.ran("burn"), shop.ran("look")), (0, 0, 0), "{at}");
        (world, shop)
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_fallback_is_refused_and_the_first_error_returned() {
    let buy: Answer = |_| {
        Err(tool_error(
            3000,
            r#"{"retryable":true,"retry_after_ms":50,"max_retries":1,"fallback_tool":"rob"}"#,
        ))
    };
    let (world, _) = check(buy, 2, Duration::from_millis(50)).await;
    // The client's governance refused the fallback, and recorded that.
    let events = world.events("rob");
    let [blocked] = &*events else { panic!("{events:?}") };
    assert_eq!(
        (blocked.event_type.as_str(), detail(blocked, "code").as_deref()),
        ("TOOL_BLOCKED", Some("1001"))
    );
    assert_eq!(detail(blocked, "fallback_for").as_deref(), Some("\"buy\""));
}

#[tokio::test(start_paused = true)]
async fn a_more_dangerous_fallback_is_not_even_tried() {
    let buy: Answer =
        |_| Err(tool_error(3000, r#"{"retryable":true,"max_retries":0,"fallback_tool":"burn"}"#));
    let (world, _) = check(buy, 1, Duration::ZERO).await;
    assert!(world.events("burn").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_thirty_years_is_not_waited_for() {
    let buy: Answer = |_| {
        Err(tool_error(
            3000,
            r#"{"retryable":true,"retry_after_ms":1000000000000,"fallback_tool":"look"}"#,
        ))
    };
    check(buy, 1, Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_billion_attempts_are_three() {
    let buy: Answer = |_| {
        Err(tool_error(
            3000,
            r#"{"retryable":true,"retry_after_ms":0,"retry_strategy":"immediate","max_retries":1000000000}"#,
        ))
    };
    check(buy, 4, Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forbids_retries_is_obeyed() {
    let buy: Answer = |_| {
        Err(tool_error(
            3000,
            r#"{"retryable":false,"retry_after_ms":1,"max_retries":9,"fallback_tool":"look"}"#,
        ))
    };
    check(buy, 1, Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn an_allowed_fallback_answers_and_is_recorded() {
    let (world, shop) = shop(|_| {
        Err(tool_error(
            3000,
            r#"{"retryable":true,"retry_after_ms":50,"max_retries":2,"fallback_tool":"look"}"#,
        ))
    })
    .await;
    assert_eq!(world.client.text("buy", ()).await, "seen");
    assert_eq!((shop.ran("buy"), shop.ran("look")), (3, 1));
    let (bought, looked) = (world.events("buy"), world.events("look"));
    assert_eq!((bought.len(), looked.len()), (3, 1));
    assert_eq!(looked[0].trace_id, bought[0].trace_id);
    assert_eq!(detail(&looked[0], "fallback_for").as_deref(), Some("\"buy\""));
}
