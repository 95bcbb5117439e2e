//! Tests that the sealed state of a modern call with questions is accepted only unmodified, for the same caller and
//! call, and for a limited time.

use std::time::Duration;

use mgp_lifecycle::{HandshakeLayer, RoundsConfig, RoundsLayer, ServerOffer};
use mgp_transport::http::HttpService;
use mgp_types::mcp::Implementation;
use mgp_types::service::{Call, CallerRequest, Reply, Stack};
use mgp_types::{Payload, Sealer};
use serde_json::{Value, json};
use tower_layer::Layer as _;

use super::caller::{Caller, result_text};
use super::direct::{modern_with, open_to_all, send, text};
use super::world::World;

fn asking() -> Value {
    json!({ "elicitation": {} })
}

/// Sends a call for the first time; returns the key of the question that the server asks, and the sealed state.
async fn asked(caller: &Caller) -> (String, String) {
    let answer = caller.call(1, "ask", json!({ "n": 1 })).await.message().await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    (key, result["requestState"].as_str().unwrap().to_owned())
}

async fn again(caller: &Caller, tool: &str, n: u32, (key, state): (&str, &str)) -> Value {
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    let params = json!({
        "name": tool,
        "arguments": { "n": n },
        "inputResponses": { key: answer },
        "requestState": state,
    });
    let response = caller.request(2, "tools/call", params).await;
    assert_eq!(response.status, 200);
    response.message().await
}

#[tokio::test]
async fn state_of_another_call_or_caller_is_refused() {
    let world = World::guarded().await;
    let key = world.key("acme", "ann").await;
    let caller = Caller::modern(&world, asking(), Some(&key));
    let (question, state) = asked(&caller).await;

    let mut flipped = Vec::new();
    for at in [0, state.len() / 2, state.len() - 1] {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        flipped.push(String::from_utf8(bytes).unwrap());
    }
    flipped.extend([String::new(), "x".repeat(state.len()), state[1..].to_owned()]);
    for state in &flipped {
        let refused = again(&caller, "ask", 1, (&question, state)).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    for (tool, n) in [("ask_too", 1), ("ask", 2)] {
        let refused = again(&caller, tool, n, (&question, &state)).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    for (tenant, subject) in [("acme", "eve"), ("evil", "ann")] {
        let other = world.key(tenant, subject).await;
        let other = Caller::modern(&world, asking(), Some(&other));
        let refused = again(&other, "ask", 1, (&question, &state)).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let answer = again(&caller, "ask", 1, (&question, &state)).await;
    assert_eq!(result_text(&answer), "Ann");
}

/// The test waits in real time, because the expiry uses the system's clock, in seconds.
#[tokio::test]
async fn state_that_expired_is_refused() {
    let tool = Stack::from_fn(|call: Call| async move {
        let ask = CallerRequest::new("elicitation/create", Payload::empty_object());
        Ok(Reply::raw(call.cx().ask("name", ask).await?))
    });
    let mut config = RoundsConfig::default();
    config.ttl = Duration::ZERO;
    let rounds = RoundsLayer::new(Sealer::random().unwrap()).config(config).layer(tool);
    let offer = ServerOffer::new(Implementation::new("s", "1"));
    let stack = Stack::new(HandshakeLayer::new(offer).layer(rounds));
    let service = HttpService::new(stack, open_to_all());
    let ask = |more: Value| {
        let service = service.clone();
        async move {
            let answer = text(send(&service, modern_with("t", asking(), more)).await).await;
            serde_json::from_str::<Value>(&answer).unwrap()
        }
    };
    let state = ask(json!({})).await["result"]["requestState"].clone();
    assert!(state.is_string());
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let refused = ask(json!({ "inputResponses": { "name": {} }, "requestState": state })).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}
