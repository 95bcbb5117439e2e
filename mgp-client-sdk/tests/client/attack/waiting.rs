//! Tests of calls that wait for a person or a permit while rights are revoked or their tool is replaced.

use mgp_server_sdk::Server;
use mgp_types::service::Stack;
use serde_json::json;

use super::raw::{self, accept_answer, code};
use super::world::{World, mallory};

#[tokio::test]
async fn access_revoked_while_a_call_waits_for_its_turn_runs_nothing() {
    for modern in [false, true] {
        let world = World::open().await;
        let mut limit = mgp_lifecycle::LimitConfig::default();
        limit.max_running = 1;
        let server: Server = world.disk().limit(limit);
        let stack: Stack = server.into_stack().unwrap();
        let mut agent = if modern {
            raw::modern(&stack, mallory())
        } else {
            raw::legacy(&stack, mallory(), "2025-11-25").await
        };
        let first = agent.send("tools/call", json!({"name": "sleep"})).await;
        let second = agent.send("tools/call", json!({"name": "look"})).await;
        while world.ran() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        world.revoke("mallory").await;
        let (mut one, mut other) = (serde_json::Value::Null, serde_json::Value::Null);
        while one.is_null() || other.is_null() {
            let response = agent.receive().await;
            match response["id"].as_u64() {
                Some(id) if id == first => one = response,
                Some(id) if id == second => other = response,
                _ => {}
            }
        }
        let of = |id: u64| if id == first { &one } else { &other };
        assert_eq!(code(of(first)), 0, "it ran already");
        assert_eq!(code(of(second)), 1001, "modern: {modern}");
        assert_eq!(world.ran(), 1);
        assert_eq!(world.events("TOOL_BLOCKED").len(), 1);
    }
}

#[tokio::test]
async fn a_tool_that_is_replaced_while_a_person_confirms_does_not_run() {
    let world = World::open().await;
    let server = world.disk();
    let tools = server.tools();
    let stack: Stack = server.into_stack().unwrap();
    let mut agent = raw::legacy(&stack, mallory(), "2025-11-25").await;
    let call = agent.send("tools/call", json!({"name": "wipe"})).await;
    let asked = agent.asked("elicitation/create").await;
    let ran = std::sync::Arc::clone(&world.ran);
    let other = mgp_server_sdk::Tool::new("wipe", "Wipes all disks there are", move || {
        ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async { "gone" }
    });
    assert!(tools.remove("wipe"));
    tools.add(other);
    agent.answer(&asked, accept_answer()).await;
    assert_eq!(code(&agent.response(call).await), 1000);
    assert_eq!(world.ran(), 0);
}
