//! Tests of tools that a server proposes in place of a failing tool, under the governance of the client.

use mgp_server_sdk::Server;
use mgp_types::mgp::RiskLevel;

use super::world::{Answer, Governed, Shop, detail, tool_error};

/// Returns a client of a shop, and the shop. `buy` answers the calls of the tool `buy`; the client has no access to
/// `rob`.
async fn shop(buy: Answer) -> (Governed, Shop) {
    let shop = Shop::default();
    let server = Server::new("s", "1")
        .tool(shop.tool("buy", RiskLevel::Safe, buy))
        .tool(shop.tool("look", RiskLevel::Safe, |_| Ok("seen")))
        .tool(shop.tool("rob", RiskLevel::Safe, |_| Ok("robbed")));
    (Governed::new(server, &["buy", "look"], |builder| builder).await, shop)
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_fallback_is_refused_and_the_first_error_returned() {
    let (world, shop) = shop(|_| {
        Err(tool_error(
            3000,
            r#"{"retryable":true,"retry_after_ms":50,"max_retries":1,"fallback_tool":"rob"}"#,
        ))
    })
    .await;
    let error = world.client.refusal("buy", ()).await;
    assert_eq!((error.code().0, &*error.message()), (3000, "not now"));
    assert_eq!((shop.ran("buy"), shop.ran("rob")), (2, 0));
    // The client's governance must have refused the fallback, and recorded the refusal.
    let events = world.events("rob");
    let [blocked] = &*events else { panic!("{events:?}") };
    assert_eq!(
        (blocked.event_type.as_str(), detail(blocked, "code").as_deref()),
        ("TOOL_BLOCKED", Some("1001"))
    );
    assert_eq!(detail(blocked, "fallback_for").as_deref(), Some("\"buy\""));
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
