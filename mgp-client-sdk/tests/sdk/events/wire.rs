//! Tests of servers that send events without the id of a subscription, or with a number as the id, as some existing
//! servers do.

use mgp_client_sdk::{Client, EraChoice, TestClient};
use mgp_types::RpcError;
use mgp_types::method::{EventNotification, Notification as _};
use mgp_types::service::{Call, Method, Params, Reply, Stack};
use serde_json::json;

/// Returns a server that numbers subscriptions, and sends an event before its answer.
fn old_server() -> Stack {
    Stack::from_fn(|call: Call| async move {
        let answer = match call.method().as_str() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "serverInfo": {"name": "old", "version": "1"},
                "capabilities": {"mgp": {"version": "0.2.0", "extensions": ["bidirectional"]}},
            }),
            "mgp/events/subscribe" => {
                for (params, text) in [
                    (json!({"channel": "early", "data": {}, "subscription_id": 7}), "its id"),
                    (json!({"channel": "stray", "data": {}}), "no id"),
                ] {
                    let params =
                        Params::split(EventNotification::METHOD, params.to_string().into());
                    let method = Method::from_static(EventNotification::METHOD);
                    let cx = call.cx().clone();
                    let event = Call::notification(method, params?, cx);
                    call.cx().peer.send(event).await.unwrap_or_else(|_| panic!("{text}"));
                }
                json!({"subscribed": ["early"], "subscription_id": 7})
            }
            "mgp/events/unsubscribe" => {
                let params: serde_json::Value = call.params().get()?;
                assert_eq!(params["subscription_id"], 7);
                json!({})
            }
            other => return Err(RpcError::method_not_found(other)),
        };
        Reply::of(&answer)
    })
}

#[tokio::test]
async fn numbers_as_ids_and_early_events_are_accepted() {
    let builder = Client::builder("test", "1").era(EraChoice::Legacy);
    let client = TestClient::with_builder(old_server(), builder).await;
    let mut events = client.events().subscribe(["*"]).await.unwrap();
    let event = events.next().await.unwrap();
    assert_eq!((event.channel.as_str(), event.seq), ("early", None));
    events.unsubscribe().await.unwrap();
}
