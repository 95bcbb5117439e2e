//! Calls that wait for a person or a permit while rights are revoked.

use mgp_security::PermissionChange;
use mgp_server_sdk::Server;
use mgp_types::mgp::Permission;
use mgp_types::service::Stack;
use serde_json::json;

use super::raw::{self, accept_answer, code};
use super::world::{World, ann, mallory};

const ELICIT: &str = "elicitation/create";

#[tokio::test]
async fn access_revoked_while_a_person_confirms_runs_nothing() {
    let world = World::open().await;
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::legacy(&stack, mallory(), "2025-11-25").await;
    let call = agent.send("tools/call", json!({"name": "wipe"})).await;
    let asked = agent.asked(ELICIT).await;
    world.revoke("mallory").await;
    agent.answer(&asked, accept_answer()).await;
    assert_eq!(code(&agent.response(call).await), 1001);
    assert_eq!(world.ran(), 0);
    assert_eq!(world.events("TOOL_BLOCKED").len(), 1);
    assert!(world.events("TOOL_EXECUTED").is_empty());
}

#[tokio::test]
async fn access_that_expires_while_a_person_confirms_runs_nothing() {
    use mgp_types::mgp::{AccessGrantParams, AccessPermission, EntryType};
    let world = World::new();
    let allow = AccessPermission::Allow;
    let mut grant = AccessGrantParams::new(EntryType::ServerGrant, "mallory", "disk", allow);
    let end = std::time::SystemTime::now() + std::time::Duration::from_millis(300);
    grant.expires_at = Some(end.into());
    world.governance.access().grant(&ann(), grant).await.unwrap();
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::legacy(&stack, mallory(), "2025-11-25").await;
    let call = agent.send("tools/call", json!({"name": "wipe"})).await;
    let asked = agent.asked(ELICIT).await;
    tokio::time::sleep(std::time::Duration::from_millis(350)).await;
    agent.answer(&asked, accept_answer()).await;
    assert_eq!(code(&agent.response(call).await), 1001);
    assert_eq!(world.ran(), 0);
}

#[tokio::test]
async fn a_permission_revoked_while_a_person_confirms_runs_nothing() {
    let world = World::open().await;
    let change = || PermissionChange::new(Some("disk".into()), [Permission::ShellExecute]);
    world.governance.permissions().approve(&ann(), change()).await.unwrap();
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::legacy(&stack, mallory(), "2025-11-25").await;
    // The permission is dangerous, so the call must be confirmed.
    let call = agent.send("tools/call", json!({"name": "send"})).await;
    let asked = agent.asked(ELICIT).await;
    world.governance.permissions().deny(&ann(), change()).await.unwrap();
    agent.answer(&asked, accept_answer()).await;
    assert_eq!(code(&agent.response(call).await), 1000);
    assert_eq!(world.ran(), 0);
}

#[tokio::test]
async fn access_revoked_while_a_permission_is_asked_for_runs_nothing() {
    let world = World::open().await;
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::legacy(&stack, mallory(), "2025-11-25").await;
    let call = agent.send("tools/call", json!({"name": "send"})).await;
    let asked = agent.asked(ELICIT).await;
    world.revoke("mallory").await;
    let content = json!({"shell.execute": true, "confirm": true, "term": "1 hour"});
    agent.answer(&asked, json!({"action": "accept", "content": content})).await;
    // The agent may still be asked to confirm the call. It accepts, but that has no effect.
    let message = loop {
        let message = agent.receive().await;
        if message["method"] == ELICIT {
            agent.answer(&message, accept_answer()).await;
        } else if message["id"] == call {
            break message;
        }
    };
    assert_eq!(code(&message), 1001);
    assert_eq!(world.ran(), 0);
}

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
    let asked = agent.asked(ELICIT).await;
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

#[tokio::test]
async fn a_call_that_continues_after_its_confirmation_runs_once() {
    for modern in [false, true] {
        let world = World::open().await;
        let stack: Stack = world.disk().into_stack().unwrap();
        let answer = if modern {
            let mut agent = raw::modern(&stack, mallory());
            let asked = agent.ask("tools/call", json!({"name": "wipe"})).await;
            let (key, state) = raw::question(&asked);
            let params = json!({"name": "wipe", "inputResponses": {(key): accept_answer()}, "requestState": state});
            agent.ask("tools/call", params).await
        } else {
            let mut agent = raw::legacy(&stack, mallory(), "2025-11-25").await;
            let call = agent.send("tools/call", json!({"name": "wipe"})).await;
            let asked = agent.asked(ELICIT).await;
            agent.answer(&asked, accept_answer()).await;
            agent.response(call).await
        };
        assert_eq!(code(&answer), 0, "{answer}");
        assert_eq!(world.ran(), 1);
    }
}
