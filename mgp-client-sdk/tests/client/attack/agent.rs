//! Tests of attacks by an agent that may call tools and tries to confirm its own dangerous calls.

use mgp_testkit::RawPeer;
use mgp_types::service::{Principal, Stack};
use serde_json::{Value, json};

use super::raw::{self, accept_answer, code, question};
use super::world::{World, mallory};

/// Returns the params of a call of `wipe` that accepts the question `key` and returns the server's state.
fn confirmed(arguments: &Value, key: &str, state: &str) -> Value {
    json!({
        "name": "wipe", "arguments": arguments,
        "inputResponses": {(key): accept_answer()}, "requestState": state,
    })
}

async fn asked(agent: &mut RawPeer, arguments: &Value) -> (String, String) {
    question(&agent.ask("tools/call", json!({"name": "wipe", "arguments": arguments})).await)
}

#[tokio::test]
async fn a_confirmation_allows_one_run_however_often_it_is_sent() {
    let world = World::open().await;
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::modern(&stack, mallory());
    let (key, state) = asked(&mut agent, &json!({})).await;
    let params = confirmed(&json!({}), &key, &state);
    // Send the confirmed call a hundred times at the same time, over two connections.
    let mut other = raw::modern(&stack, mallory());
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        here.push(agent.send("tools/call", params.clone()).await);
        there.push(other.send("tools/call", params.clone()).await);
    }
    let mut codes = Vec::new();
    for _ in 0..50 {
        for agent in [&mut agent, &mut other] {
            let response = loop {
                let response = agent.receive().await;
                if response.get("method").is_none() {
                    break response;
                }
            };
            codes.push(code(&response));
        }
    }
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1);
    assert_eq!(codes.iter().filter(|code| **code == 1000).count(), 99);
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn a_confirmation_is_valid_for_its_own_call_only() {
    let world = World::open().await;
    world.grant("eve").await;
    let server = world.disk();
    let ran = std::sync::Arc::clone(&world.ran);
    let other = mgp_server_sdk::Tool::new("format", "Formats the disk", move || {
        ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async { "formatted" }
    });
    let stack: Stack = server.tool(other).into_stack().unwrap();
    let mut agent = raw::modern(&stack, mallory());
    let (key, state) = asked(&mut agent, &json!({"n": 1})).await;
    let (second_key, second) = asked(&mut agent, &json!({"n": 2})).await;
    let good = confirmed(&json!({"n": 1}), &key, &state);
    let with = |member: &str, value: Value| {
        let mut changed = good.clone();
        changed[member] = value;
        changed
    };
    let mut flipped = state.clone();
    let last = if flipped.pop() == Some('A') { 'B' } else { 'A' };
    flipped.push(last);
    let attacks = [
        with("name", json!("format")),
        with("name", json!("wipe ")),
        with("arguments", json!({"n": 2})),
        with("arguments", json!({"n": 1, "m": null})),
        with("arguments", json!({"n": "1"})),
        with("arguments", json!([1])),
        with("requestState", json!(second)),
        with("requestState", json!(flipped)),
        with("requestState", json!("")),
        with("requestState", json!(null)),
        with("inputResponses", json!({(second_key): accept_answer()})),
        with("inputResponses", json!({(&*key): {"action": "accept"}})),
        with(
            "inputResponses",
            json!({(&*key): {"action": "accept", "content": {"confirm": "true"}}}),
        ),
        with("inputResponses", json!({(&*key): {"action": "accept", "content": {"confirm": 1}}})),
        with(
            "inputResponses",
            json!({(&*key): {"action": "accept", "content": {"Confirm": true}}}),
        ),
        with(
            "inputResponses",
            json!({(&*key): {"action": "ACCEPT", "content": {"confirm": true}}}),
        ),
        with(
            "inputResponses",
            json!({(&*key): {"action": "cancel", "content": {"confirm": true}}}),
        ),
        with(
            "inputResponses",
            json!({(&*key): {"action": "decline", "content": {"confirm": true}}}),
        ),
        with("inputResponses", json!({(&*key): {"content": {"confirm": true}}})),
        with("inputResponses", json!({(&*key): [accept_answer()]})),
        with("inputResponses", json!({(&*key): true})),
    ];
    for attack in attacks {
        let response = agent.ask("tools/call", attack.clone()).await;
        let asks_again = response["result"]["resultType"] == "input_required";
        assert!(asks_again || code(&response) != 0, "{attack}: {response}");
        assert_eq!(world.ran(), 0, "{attack}");
    }
    // The confirmation must be valid neither for another principal nor for a principal with the same name in another
    // tenant.
    for principal in [Principal::new("acme", "eve"), Principal::new("evil", "mallory")] {
        let mut eve = raw::modern(&stack, principal);
        assert_ne!(code(&eve.ask("tools/call", good.clone()).await), 0);
    }
    // After a restart, the server must no longer accept the state.
    let restarted: Stack = world.disk_again().into_stack().unwrap();
    let mut late = raw::modern(&restarted, mallory());
    assert_ne!(code(&late.ask("tools/call", good.clone()).await), 0);
    assert_eq!(world.ran(), 0);
    // The call that the person confirmed must still run, but only once.
    assert_eq!(code(&agent.ask("tools/call", good.clone()).await), 0);
    assert_ne!(code(&agent.ask("tools/call", good).await), 0);
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn equivalent_arguments_run_once_and_ambiguous_ones_never() {
    let world = World::open().await;
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::modern(&stack, mallory());
    let (key, state) = asked(&mut agent, &json!({"a": 1, "b": "é"})).await;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    let mut id = 1000;
    let mut run = async |arguments: &str| {
        id += 1;
        agent
            .line(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"wipe","arguments":{arguments},"inputResponses":{{"{key}":{{"action":"accept","content":{{"confirm":true}}}}}},"requestState":"{state}",{meta}}}}}"#
            ))
            .await;
        agent.response(id).await
    };
    // Some readers use the first of two equal members, others the last. They must not see different calls.
    for arguments in [
        r#"{"a":1,"b":"é","a":2}"#,
        r#"{"a":2,"b":"é","a":1}"#,
        r#"{"a":1,"\u0061":2,"b":"é"}"#,
        r#"{"a":1,"b":"e\u0301"}"#,
        r#"{"a":1,"b":"é"},"arguments":{"a":2}"#,
        r#"{"a":1e400,"b":"é"}"#,
        r#"{"a":1.0,"b":"é"}"#,
        r#"{"a":1e0,"b":"é"}"#,
    ] {
        let response = run(arguments).await;
        let asks_again = response["result"]["resultType"] == "input_required";
        assert!(asks_again || code(&response) != 0, "{arguments}: {response}");
    }
    let response = run(r#"{ "b" : "\u00e9" ,	"\u0061" : 1 }"#).await;
    assert_eq!(code(&response), 0, "{response}");
    let response = run(r#"{"a":1,"b":"é"}"#).await;
    assert_eq!(code(&response), 1000, "{response}");
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn odd_names_reach_no_tool_and_are_recorded_once() {
    let world = World::new();
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::modern(&stack, mallory());
    let long = "w".repeat(100_000);
    #[rustfmt::skip]
    let names = [
        "wipe", "WIPE", "wipe ", " wipe", "wipe\u{200b}", "w\u{131}pe", "ｗｉｐｅ", "wipe\0", "", "*",
        "disk/wipe", "disk.wipe", "group:", "mgp_access_grant", "mgp.access.grant",
        "mgp/access/grant", "mgp_access_revoke", "mgp_access_query", "MGP_access_grant",
        "mgp_access_grant ", "mgp/tools/call", "tools/call", &long,
    ];
    for (index, name) in names.iter().enumerate() {
        let arguments = json!({
            "entry_type": "server_grant", "agent_id": "*", "server_id": "disk", "permission": "allow",
            "granted_by": "ann", "_meta": {"operator": true}, "principal": {"authority": "operator"},
        });
        let params = json!({"name": name, "arguments": arguments});
        let response = agent.ask("tools/call", params).await;
        assert_ne!(code(&response), 0, "{name}");
        let text = response.to_string();
        assert!(text.len() < 8_000, "{name:.40}: {} bytes", text.len());
        let events = world.events("TOOL_BLOCKED");
        assert_eq!(events.len(), index + 1, "{name:.40}");
        let record = serde_json::to_string(&events[index]).unwrap();
        assert!(record.len() < 4_000, "{name:.40}: {} bytes", record.len());
        assert!(record.contains(r#""rule":"#), "{record}");
    }
    assert_eq!(world.ran(), 0);
    // The hidden tools must not be in a list either.
    let response = agent.ask("tools/list", json!({})).await;
    assert_eq!(response["result"]["tools"], json!([]));
}

#[tokio::test]
async fn notifications_and_batches_cannot_run_what_requests_may_not() {
    for revision in ["2025-03-26", "2025-11-25"] {
        let world = World::new();
        let stack: Stack = world.disk().into_stack().unwrap();
        let mut agent = raw::legacy(&stack, mallory(), revision).await;
        for name in ["look", "wipe", "mgp_access_grant"] {
            let call = |id: Option<u64>| {
                let arguments = json!({
                    "entry_type": "server_grant", "agent_id": "mallory", "server_id": "disk",
                    "permission": "allow",
                });
                let params = json!({"name": name, "arguments": arguments});
                let mut call = json!({"jsonrpc": "2.0", "method": "tools/call", "params": params});
                if let Some(id) = id {
                    call["id"] = json!(id);
                }
                call
            };
            agent.write(&call(None)).await;
            agent.write(&json!([call(None), call(Some(900)), call(None), call(Some(901))])).await;
        }
        // If the server accepts batches, it answers them first; in any case this answer is the last.
        let last = agent.ask("tools/list", json!({})).await;
        assert_eq!(last["result"]["tools"], json!([]), "{revision}");
        assert_eq!(world.ran(), 0);
        let access = world.governance.access();
        let look =
            access.decide(&mallory(), Some(&"disk".into()), None, std::time::SystemTime::now());
        assert!(!look.is_allowed());
    }
}

#[tokio::test]
async fn claims_of_a_caller_neither_fill_the_log_nor_identify_it() {
    let world = World::open().await;
    let stack: Stack = world.disk().into_stack().unwrap();
    let mut agent = raw::modern(&stack, mallory());
    let long = "t".repeat(200_000);
    let claims = json!({
        "name": "look", "trace_id": long, "agent_id": "ann", "principal": "ann", "subject": "ann",
        "_mgp": {"trace_id": long, "agent_id": "ann", "principal": {"subject": "ann"}, "delegation": ["ann"]},
        "_meta": {
            "dev.cloto/mgp": {"agent_id": "ann", "principal": "ann", "trace_id": long},
            "traceparent": format!("00-{long}-b7ad6b7169203331-01"),
            "io.modelcontextprotocol/clientInfo": {"name": "ann", "version": long},
        },
        "arguments": {"secret": "hunter2", "long": long},
    });
    for _ in 0..2 {
        agent.ask("tools/call", claims.clone()).await;
        world.revoke("mallory").await;
    }
    let events: Vec<_> = world
        .log
        .events()
        .into_iter()
        .filter(|event| event.event_type.as_str().starts_with("TOOL"))
        .collect();
    assert!(events.len() >= 2, "{events:?}");
    for event in events {
        let record = serde_json::to_string(&event).unwrap();
        assert!(record.len() < 4_000, "{} bytes: {record:.400}", record.len());
        assert!(record.contains("mallory") && !record.contains("hunter2"), "{record}");
        assert!(!record.contains(r#""id":"ann""#), "{record}");
    }
}
