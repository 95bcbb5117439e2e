//! Tests of the guarantees for layers and logs that govern a client (MGP §6.4).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, Error, ServerChange};
use mgp_testkit::{RefusingAudit, until};
use mgp_transport::ChildCommand;
use mgp_types::mgp::AuditResult;
use mgp_types::service::{AuditError, Call, MemoryAudit, gate};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::script::Script;

fn client() -> ClientBuilder {
    Client::builder("test", "1").server_id("files")
}

// === Gates ===

#[tokio::test]
async fn a_gate_sees_every_call_with_the_configured_id_of_its_server() {
    for modern in [false, true] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hook = Arc::clone(&seen);
        let builder = client().layer(gate(move |call: &Call| {
            let server = call.cx().server.as_ref().map(ToString::to_string);
            hook.lock().unwrap().push((call.method().to_string(), server));
            Ok(())
        }));
        // The server claims the id `bank`. Layers can read the claim, but the client identifies the server by its
        // configured id.
        let claims =
            json!({ "version": "0.3.0", "extensions": ["streaming"], "server_id": "bank" });
        let capabilities = json!({ "tools": {}, "extensions": { "dev.cloto/mgp": claims } });
        let (client, mut script) = if modern {
            Script::modern(builder, capabilities).await
        } else {
            Script::legacy(builder, capabilities).await
        };
        assert_eq!(client.server().claimed_server_id.as_deref(), Some("bank"));
        let serving = async {
            script.serve("tools/list", json!({ "tools": [] })).await;
            script.serve("tools/call", json!({ "content": [] })).await;
            script.serve("tools/call", json!({ "content": [] })).await;
        };
        let calling = async {
            client.tools().await.unwrap();
            client.call_tool("t", ()).await.unwrap();
            // A call whose context already names a server must keep that server.
            let mut cx = client.context();
            cx.server = Some("other".into());
            let params = mgp_types::service::Params::tool("t", &mgp_types::Payload::empty_object());
            let method = mgp_types::service::Method::of("tools/call");
            client.stack().send(Call::request(method, params, cx)).await.unwrap();
        };
        tokio::join!(serving, calling);
        let seen = seen.lock().unwrap().clone();
        let of = |method: &str| -> Vec<_> {
            seen.iter()
                .filter(|(name, _)| name == method)
                .map(|(_, server)| server.as_deref().unwrap())
                .collect()
        };
        assert_eq!(of("tools/list"), ["files"]);
        assert_eq!(of("tools/call"), ["files", "other"]);
        assert!(seen.iter().all(|(_, server)| server.is_some()), "{seen:?}");
    }
}

#[tokio::test]
async fn a_changed_list_is_reported_before_the_next_call_is_sent() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (hook, look) = (Arc::clone(&heard), Arc::clone(&heard));
    let stale = Arc::new(Mutex::new(Vec::new()));
    let at_gate = Arc::clone(&stale);
    let builder = client().on_change(move |what| hook.lock().unwrap().push(what.clone())).layer(
        gate(move |call: &Call| {
            if call.tool().is_some() {
                at_gate.lock().unwrap().push(look.lock().unwrap().contains(&ServerChange::Tools));
            }
            Ok(())
        }),
    );
    let capabilities = json!({ "tools": { "listChanged": true } });
    let (client, mut script) = Script::legacy(builder, capabilities).await;
    let serving = async {
        script.serve("tools/call", json!({ "content": [] })).await;
        let second = script.read().await.unwrap();
        // The client reads the notification before the answer, so it has handled the change when the answer arrives.
        script.notify("notifications/tools/list_changed", json!({})).await;
        script.answer(&second, json!({ "content": [] })).await;
        script.serve("tools/call", json!({ "content": [] })).await;
    };
    let calling = async {
        for _ in 0..3 {
            client.call_tool("t", ()).await.unwrap();
        }
    };
    tokio::join!(serving, calling);
    assert_eq!(*stale.lock().unwrap(), [false, false, true]);
}

#[tokio::test]
async fn a_cached_list_can_be_invalidated() {
    let capabilities = json!({ "tools": { "listChanged": true } });
    let (client, mut script) = Script::legacy(client(), capabilities).await;
    let serving = async {
        script.serve("tools/list", json!({ "tools": [] })).await;
        script.serve("tools/list", json!({ "tools": [] })).await;
    };
    let asking = async {
        client.tools().await.unwrap();
        client.tools().await.unwrap();
        client.invalidate(&ServerChange::Tools);
        client.tools().await.unwrap();
    };
    tokio::join!(serving, asking);
}

// === The log of connections ===

/// Returns the events so far: type, result, and reason of the end.
fn events(log: &MemoryAudit) -> Vec<(String, AuditResult, String)> {
    let told = log.events().into_iter().map(|event| {
        assert_eq!(event.target.unwrap().server_id.as_deref(), Some("files"));
        let details = event.details.unwrap();
        let reason: Option<String> = details.decode("cause").unwrap();
        (event.event_type.to_string(), event.result, reason.unwrap_or_default())
    });
    told.collect()
}

/// Waits for the second event, and checks that there is no third.
async fn ended(log: &MemoryAudit) -> (AuditResult, String) {
    until("both events are recorded", async || events(log).len() >= 2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut events = events(log);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[0].0, "SERVER_CONNECTED");
    assert_eq!(events[0].1, AuditResult::Success);
    let (kind, result, reason) = events.remove(1);
    assert_eq!(kind, "SERVER_DISCONNECTED");
    (result, reason)
}

fn audited(log: &MemoryAudit) -> ClientBuilder {
    client().audit(Arc::new(log.clone()))
}

#[tokio::test]
async fn a_connection_is_recorded_with_its_facts() {
    let claims = json!({ "version": "0.3.0", "extensions": ["streaming"], "server_id": "bank" });
    for (modern, revision) in [(false, "2025-11-25"), (true, "2026-07-28")] {
        let log = MemoryAudit::new();
        let capabilities = json!({ "extensions": { "dev.cloto/mgp": claims } });
        let (client, _script) = if modern {
            Script::modern(audited(&log), capabilities).await
        } else {
            Script::legacy(audited(&log), capabilities).await
        };
        let event = log.events().remove(0);
        let details: Value = serde_json::to_value(&event.details).unwrap();
        let expected = json!({
            "revision": revision, "extensions": ["streaming"], "claimed_server_id": "bank", "mgp_version": "0.3.0",
        });
        assert_eq!(details, expected);
        drop(client);
    }
}

#[tokio::test]
async fn a_connection_that_the_client_ends_is_recorded_once() {
    for drops in [false, true] {
        let log = MemoryAudit::new();
        let (client, _script) = Script::legacy(audited(&log), json!({})).await;
        let other = client.clone();
        if drops {
            drop(client);
            assert_eq!(events(&log).len(), 1, "a handle is left");
            drop(other);
        } else {
            client.close().await;
            assert_eq!(events(&log).len(), 2, "it is recorded before `close` has answered");
            other.close().await;
            drop((client, other));
        }
        let (result, reason) = ended(&log).await;
        assert_eq!(result, AuditResult::Success);
        let expected = if drops { "the client was dropped" } else { "the client closed it" };
        assert_eq!(reason, expected);
    }
}

#[tokio::test]
async fn a_server_that_stops_is_recorded_once() {
    let log = MemoryAudit::new();
    let (client, script) = Script::legacy(audited(&log), json!({})).await;
    drop(script);
    client.closed().await;
    client.close().await;
    drop(client);
    let (result, reason) = ended(&log).await;
    assert_eq!((result, &*reason), (AuditResult::Failure, "the peer closed the connection"));
}

#[tokio::test]
async fn a_handshake_that_fails_leaves_no_record() {
    let log = MemoryAudit::new();
    let (end, mut script) = Script::new();
    let connecting = audited(&log).era(EraChoice::Legacy).connect(end.reader, end.writer);
    let refusing = async {
        let hello = script.read().await.unwrap();
        let error = json!({ "code": -32603, "message": "no" });
        script.refuse(&hello, error).await;
    };
    let (connected, ()) = tokio::join!(connecting, refusing);
    connected.unwrap_err();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(log.events().is_empty());
}

#[tokio::test]
async fn a_log_needs_a_server_id() {
    let (end, _script) = Script::new();
    let builder = Client::builder("test", "1").audit(Arc::new(MemoryAudit::new()));
    let error = builder.connect(end.reader, end.writer).await.unwrap_err();
    assert!(error.to_string().contains(".server_id("), "{error}");
}

#[tokio::test]
async fn a_client_whose_log_lacks_a_server_id_starts_no_program() {
    let builder = Client::builder("test", "1").audit(Arc::new(MemoryAudit::new()));
    let error = builder.spawn(ChildCommand::new("/no/such/program")).await.unwrap_err();
    assert!(error.to_string().contains(".server_id("), "{error}");
}

#[tokio::test]
async fn a_connection_that_cannot_be_recorded_is_closed() {
    let (end, mut script) = Script::new();
    let builder = client().audit(Arc::new(RefusingAudit(AuditError::Full))).era(EraChoice::Legacy);
    let connecting = builder.connect(end.reader, end.writer);
    let result = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "serverInfo": { "name": "script", "version": "1" },
    });
    let serving = async {
        script.serve("initialize", result).await;
        // Read everything that the client still sends, until it disconnects.
        while script.read().await.is_some() {}
    };
    let (connected, ()) = tokio::join!(connecting, serving);
    let error = connected.unwrap_err();
    assert!(matches!(error, Error::Unaudited(AuditError::Full)), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_killed_child_is_recorded_once_with_its_exit_status() {
    const SERVER: &str = r#"read -r _; printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'; read -r _; "#;
    for (script, killed, how) in [
        ("kill -9 $$", true, "signal 9"),
        ("exit 3", true, "3"),
        ("read -r _", false, "the client was dropped"),
    ] {
        let log = MemoryAudit::new();
        let command = ChildCommand::new("sh").args(["-c", &format!("{SERVER}{script}")]);
        let client = audited(&log).era(EraChoice::Legacy).spawn(command).await.unwrap();
        if killed {
            timeout(Duration::from_secs(10), client.closed()).await.unwrap();
        }
        drop(client);
        let (result, reason) = ended(&log).await;
        let expected = if killed { AuditResult::Failure } else { AuditResult::Success };
        assert_eq!(result, expected, "{script}");
        assert!(killed || reason.contains(how), "{script}: {reason}");
    }
    // If the client is still there when the child ends, the recorded reason must contain the child's exit status.
    let log = MemoryAudit::new();
    let command = ChildCommand::new("sh").args(["-c", &format!("{SERVER}kill -9 $$")]);
    let client = audited(&log).era(EraChoice::Legacy).spawn(command).await.unwrap();
    let (_, reason) = ended(&log).await;
    assert!(reason.contains('9'), "{reason}");
    drop(client);
}

#[test]
fn a_client_that_outlives_its_runtime_is_recorded_once() {
    let log = MemoryAudit::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, script) = runtime.block_on(Script::legacy(audited(&log), json!({})));
    drop(runtime);
    drop((client, script));
    assert_eq!(events(&log).len(), 2);
}

// === Governance ===

#[tokio::test]
async fn an_unlisted_tool_is_known_before_it_is_called() {
    use mgp_client_sdk::TestClient;
    use mgp_client_sdk::security::prelude::*;
    use mgp_server_sdk::{Server, Tool};

    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let policies = Policies::default();
        policies.set("clock", ServerPolicy::default().default_policy(DefaultPolicy::OptOut));
        let governance = Governance::builder().policies(policies).build();
        let builder = Client::builder("test", "1").era(era).governed(&governance, "clock");
        let now = Tool::new("now", "The time", || async { "noon" }).risk(RiskLevel::Safe);
        let client = TestClient::with_builder(Server::new("clock", "1").tool(now), builder).await;
        assert_eq!(client.text("now", ()).await, "noon", "{era:?}");
    }
}
