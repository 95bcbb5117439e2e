//! Tests that every method of a server or a kernel refuses known members with values of the wrong type (MCP, MGP
//! §14.3).

use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Prompt, Resource};
use mgp_types::mcp::Era;
use mgp_types::method::{Direction, Kind, lookup, methods};
use mgp_types::service::Stack;
use serde_json::{Value, json};

use super::peer::{Dialect, PEERS, Peer};

/// Invalid params of methods of MCP. The expected code is always −32602 (invalid params).
const MCP: &[(&str, &str)] = &[
    ("tools/list", r#"{"cursor":7}"#),
    ("tools/list", r#"{"cursor":"p9"}"#),
    ("tools/call", "{}"),
    ("tools/call", r#"{"name":7}"#),
    ("tools/call", r#"{"name":"t","arguments":[7]}"#),
    ("tools/call", r#"{"name":"t","arguments":"x"}"#),
    ("resources/list", r#"{"cursor":7}"#),
    ("resources/list", r#"{"cursor":"p9"}"#),
    ("resources/templates/list", r#"{"cursor":7}"#),
    ("resources/templates/list", r#"{"cursor":"p9"}"#),
    ("resources/read", "{}"),
    ("resources/read", r#"{"uri":7}"#),
    ("resources/subscribe", "{}"),
    ("resources/subscribe", r#"{"uri":7}"#),
    ("resources/unsubscribe", r#"{"uri":7}"#),
    ("prompts/list", r#"{"cursor":7}"#),
    ("prompts/list", r#"{"cursor":"p9"}"#),
    ("prompts/get", "{}"),
    ("prompts/get", r#"{"name":7}"#),
    ("prompts/get", r#"{"name":"p","arguments":[7]}"#),
    ("logging/setLevel", "{}"),
    ("logging/setLevel", r#"{"level":7}"#),
    ("logging/setLevel", r#"{"level":"loud"}"#),
    ("subscriptions/listen", "{}"),
    ("subscriptions/listen", r#"{"notifications":7}"#),
    ("tasks/get", "{}"),
    ("tasks/get", r#"{"taskId":7}"#),
    ("tasks/result", r#"{"taskId":7}"#),
    ("tasks/list", r#"{"cursor":7}"#),
    ("tasks/list", r#"{"cursor":"p9"}"#),
    ("tasks/cancel", r#"{"taskId":7}"#),
    ("tasks/update", r#"{"taskId":7}"#),
];

/// Invalid params of methods of MGP that every server serves, with the expected code.
const MGP: &[(&str, &str, i32)] = &[
    ("mgp/health/ping", r#"{"timestamp":7}"#, -32602),
    ("mgp/health/ping", r#"{"server_id":7}"#, -32602),
    ("mgp/health/status", r#"{"server_id":7}"#, -32602),
    ("mgp/stream/cancel", "{}", -32602),
    ("mgp/stream/cancel", r#"{"request_id":{}}"#, -32602),
    // The server first checks whether the caller may shut it down, and parses the params only after that.
    ("mgp/lifecycle/shutdown", r#"{"timeout_ms":"x"}"#, 1000),
];

/// Invalid params of methods of MGP that only a server with permissions serves.
const PERMISSIONS: &[(&str, &str, i32)] = &[
    ("mgp/permission/request", "{}", -32602),
    ("mgp/permission/request", r#"{"request_id":"p","permissions":7}"#, -32602),
    ("mgp/permission/await", r#"{"request_id":7,"permissions":[]}"#, -32602),
    ("mgp/permission/response", r#"{"request_id":"p","grants":[]}"#, -32602),
    ("mgp/permission/grant", r#"{"request_id":"p","grants":{"camera":7}}"#, -32602),
    ("mgp/permission/grant", "{}", -32602),
];

/// Invalid params of methods that a kernel serves. The methods for operators refuse other callers before they parse the
/// params.
const KERNEL: &[(&str, &str, i32)] = &[
    ("completion/complete", "{}", -32602),
    ("completion/complete", r#"{"ref":7,"argument":{"name":"a","value":"b"}}"#, -32602),
    ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":7}"#, -32602),
    ("skills/list", r#"{"cursor":7}"#, -32602),
    ("skills/get", "{}", -32602),
    ("skills/get", r#"{"uri":7}"#, -32602),
    ("resources/directory/read", "{}", -32602),
    ("tools/list", r#"{"_mgp":{"session_handle":7}}"#, -32602),
    ("tools/call", r#"{"name":"t","_mgp":{"server_id":7}}"#, -32602),
    ("tools/call", r#"{"name":"t","_mgp":{"session_handle":7}}"#, -32602),
    ("mgp/access/query", "{}", 1000),
    ("mgp/access/grant", "{}", 1000),
    ("mgp/access/revoke", "{}", 1000),
    ("mgp/discovery/list", r#"{"filter":7}"#, -32602),
    ("mgp/discovery/list", r#"{"filter":{"extensions":"audit"}}"#, -32602),
    ("mgp/discovery/register", r#"{"id":7}"#, 1000),
    ("mgp/discovery/deregister", r#"{"id":7}"#, 1000),
    ("mgp/tools/discover", r#"{"query":7}"#, -32602),
    ("mgp/tools/discover", r#"{"query":"x","max_results":"many"}"#, -32602),
    ("mgp/tools/discover", r#"{"query":"x","filter":[]}"#, -32602),
    ("mgp/tools/request", "{}", -32602),
    ("mgp/tools/request", r#"{"requirements":7}"#, -32602),
    ("mgp/tools/session", r#"{"session_handle":7}"#, -32602),
    ("mgp/tools/session/evict", "{}", -32602),
    ("mgp/tools/session/evict", r#"{"tools":7}"#, -32602),
    ("mgp/kernel/info", r#"{"x":1}"#, 1000),
];

fn sdk() -> Stack {
    let photo = Tool::new("t", "Takes a photo", || async { "done" }).permissions(["camera"]);
    let prompt = Prompt::new("p", "Asks", || async { "hello" });
    let note = Resource::new("note://one", "one", || async { "text" });
    let server = Server::new("s", "1").tool(photo).prompt(prompt).resource(note).logging();
    server.into_stack().unwrap()
}

/// As each kind of peer, sends the request of each row to a stack. Returns the answers with an unexpected code.
async fn differing(stack: &Stack, rows: &[(&str, &str, i32)]) -> Vec<String> {
    let mut all = Vec::new();
    for kind in PEERS {
        let mut peer = Peer::join(stack, kind).await;
        for (method, params, code) in rows {
            let info = lookup(method).unwrap();
            let is_spoken = !info.is_mgp() || kind.1 == Dialect::Mgp;
            if !info.is_in_era(kind.0) || !is_spoken {
                continue;
            }
            // These peers do not offer tasks, so a modern server refuses methods of tasks with code −32021 (missing
            // client capability).
            let is_offered = kind.0 == Era::Legacy || !method.starts_with("tasks/");
            let code = if is_offered { *code } else { -32021 };
            let answer = peer.ask(method, serde_json::from_str(params).unwrap()).await;
            if answer["error"]["code"] != code {
                all.push(format!("{kind:?} {method} {params}: {answer}"));
            }
        }
    }
    all
}

#[tokio::test]
async fn known_members_of_the_wrong_type_are_refused_by_every_method() {
    let mcp: Vec<_> = MCP.iter().map(|(method, params)| (*method, *params, -32602)).collect();
    let kernel = Kernel::builder().build().await.unwrap();
    let kernel = kernel.server().into_stack().unwrap();
    let mut wrong = differing(&sdk(), &[&mcp, MGP, PERMISSIONS].concat()).await;
    wrong.extend(differing(&kernel, &[&mcp, MGP, KERNEL].concat()).await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn initialize_needs_its_members() {
    let whole = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "c", "version": "1" },
    });
    let kernel = Kernel::builder().build().await.unwrap();
    for stack in [sdk(), kernel.server().into_stack().unwrap()] {
        for member in ["protocolVersion", "capabilities", "clientInfo"] {
            for wrong in [None, Some(json!(7))] {
                let mut params = whole.clone();
                match wrong {
                    None => drop(params.as_object_mut().unwrap().remove(member)),
                    Some(value) => params[member] = value,
                }
                let mut peer = Peer::connect(&stack, PEERS[0]);
                let answer = peer.ask("initialize", params.clone()).await;
                assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
                // The failed `initialize` has not begun a session, so the client can repeat it.
                let answer = peer.ask("initialize", whole.clone()).await;
                assert!(answer["result"].is_object(), "{answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_notification_with_an_id_is_answered_with_an_error() {
    let kernel = Kernel::builder().build().await.unwrap();
    for stack in [sdk(), kernel.server().into_stack().unwrap()] {
        for kind in PEERS {
            let mut peer = Peer::join(&stack, kind).await;
            for name in [
                "notifications/initialized",
                "notifications/cancelled",
                "notifications/roots/list_changed",
                "notifications/progress",
                "notifications/mgp.audit",
            ] {
                let answer = peer.ask(name, json!({})).await;
                assert_eq!(answer["error"]["code"], -32601, "{kind:?} {name}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_method_that_nobody_serves_is_unknown_and_not_a_lack_of_the_client() {
    for kind in PEERS {
        let mut peer = Peer::join(&sdk(), kind).await;
        for method in ["mgp/nope", "mgp/events/subscribe", "mgp/discovery/list"] {
            let answer = peer.ask(method, json!({})).await;
            assert_eq!(answer["error"]["code"], -32601, "{kind:?} {method}: {answer}");
            assert_eq!(answer["error"].get("data"), None::<&Value>, "{answer}");
        }
    }
    // If the server serves a method whose extension the client has not offered, the error names that extension.
    let mut peer = Peer::join(&sdk(), (Era::Modern, Dialect::Plain)).await;
    let answer = peer.ask("mgp/health/ping", json!({})).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
}

#[tokio::test]
async fn each_method_is_served_by_a_server_or_a_kernel() {
    let kernel = Kernel::builder().build().await.unwrap();
    let stacks = [sdk(), kernel.server().into_stack().unwrap()];
    for info in methods().filter(|info| info.is_mgp() && info.kind == Kind::Request) {
        let mut is_served = false;
        for stack in &stacks {
            // Each method is called over a separate connection, because some methods end their connection.
            let mut peer = Peer::join(stack, (Era::Legacy, Dialect::Mgp)).await;
            let answer = peer.ask(info.name, json!({})).await;
            is_served |= answer["error"]["code"] != -32601;
        }
        assert_ne!(info.direction, Direction::ToClient);
        assert!(is_served, "{}", info.name);
    }
}
