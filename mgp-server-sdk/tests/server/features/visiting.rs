//! Tests of tools that request a visit to a URL: a legacy call fails with the URL and must be repeated, and a modern
//! call asks the caller; then the server notifies the caller that the visit is complete.

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, UrlElicited};
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use super::wire::{ERAS, Wire, code};

fn server() -> Server {
    let again = Tool::new("again", "Is called again after the visit", |cx: Context| async move {
        let page = cx.elicit_url("Sign in", "https://example.com/in").id("e1").call_again();
        Ok::<_, RpcError>(if page.await? == UrlElicited::Agreed { "agreed" } else { "no" })
    });
    let done = Tool::new("done", "Tells that the page was visited", |cx: Context| async move {
        cx.elicitation_complete("e1").await;
        "messages"
    });
    Server::new("visits", "1").tool(again).tool(done)
}

fn with_pages() -> Value {
    json!({ "elicitation": { "url": {} } })
}

#[tokio::test]
async fn a_legacy_call_ends_with_the_page_and_a_modern_one_asks() {
    let mut legacy = Wire::offering(server(), Era::Legacy, with_pages()).await;
    let refused = legacy.ask("tools/call", json!({ "name": "again" })).await;
    assert_eq!(code(&refused), -32042);
    let page = json!({
        "mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "e1",
    });
    assert_eq!(refused.unwrap_err()["data"], json!({ "elicitations": [page] }));

    let mut modern = Wire::offering(server(), Era::Modern, with_pages()).await;
    modern.answers = [json!({ "action": "accept" })].into();
    let answer = modern.ask("tools/call", json!({ "name": "again" })).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "agreed");
}

#[tokio::test]
async fn a_client_without_url_support_is_not_sent_to_a_page() {
    for era in ERAS {
        let mut wire = Wire::offering(server(), era, json!({ "elicitation": {} })).await;
        let answer = wire.ask("tools/call", json!({ "name": "again" })).await;
        match era {
            Era::Modern => assert_eq!(code(&answer), -32021),
            Era::Legacy => assert_eq!(answer.unwrap()["structuredContent"]["code"], 1000),
        }
    }
}

#[tokio::test]
async fn only_clients_that_know_the_notification_receive_it() {
    for era in ERAS {
        let mut wire = Wire::offering(server(), era, with_pages()).await;
        wire.ask("tools/call", json!({ "name": "done" })).await.unwrap();
        let messages: Vec<_> = wire.notices().await;
        let expected = json!({
            "jsonrpc": "2.0",
            "method": "notifications/elicitation/complete",
            "params": { "elicitationId": "e1" },
        });
        match era {
            Era::Modern => assert!(messages.is_empty(), "{messages:?}"),
            Era::Legacy => assert_eq!(messages, [expected]),
        }
    }
}
