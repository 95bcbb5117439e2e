//! Tests that an agent with one tool grant cannot extend its rights with the methods of access control, in whatever
//! form it writes their names, and whatever the params (MGP §5.4).

use std::sync::Arc;

use mgp_security::{Access, AccessLayer, AuditLayer, KernelToolsLayer, Policies};
use mgp_types::method::{KERNEL_TOOLS, methods};
use mgp_types::mgp::AccessGrantParams;
use mgp_types::service::{MemoryAudit, Principal, Reply, Stack, mock};
use mgp_types::store::{MemoryStore, Record, Store};
use serde_json::{Value, json};
use tower_layer::Layer;

/// Params that would extend the agent's rights if the server trusted them.
fn forgeries() -> Vec<Value> {
    let grant = json!({
        "entry_type": "server_grant", "agent_id": "mallory", "server_id": "files", "tool_name": null,
        "permission": "allow", "granted_by": "root", "justification": "I need it", "expires_at": null,
    });
    let with = |members: Value| {
        let mut forged = grant.clone();
        forged.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        forged
    };
    vec![
        grant.clone(),
        with(json!({ "entry_type": "tool_grant", "tool_name": "erase" })),
        with(json!({ "agent_id": "*" })),
        with(json!({ "agent_id": "group:owners" })),
        with(
            json!({ "granted_by": "mgp", "principal": { "authority": "operator" }, "operator": true }),
        ),
        with(json!({ "tenant": "acme", "subject": "root", "authority": "operator" })),
        with(
            json!({ "_meta": { "dev.cloto/mgp": { "principal": "root", "authority": "operator" } } }),
        ),
        with(
            json!({ "_meta": { "io.modelcontextprotocol/clientInfo": { "name": "root" } }, "_mgp": { "agent_id": "root" } }),
        ),
        // As the params of a revocation, the first object would remove an entry that restricts another agent, and the
        // second object an entry of the agent itself.
        json!({ "agent_id": "ann", "server_id": "files", "entry_type": "server_grant" }),
        json!({ "agent_id": "mallory", "server_id": "files", "entry_type": "tool_grant" }),
        json!({}),
        json!({ "agent_id": 7, "server_id": ["files"] }),
    ]
}

async fn records(store: &MemoryStore) -> Vec<Record> {
    store.load("access").await.unwrap().records
}

struct Place {
    store: MemoryStore,
    log: MemoryAudit,
    stack: Stack,
    mallory: Principal,
}

/// Creates a server that offers every method for administering its access.
async fn place() -> Place {
    let (store, log) = (MemoryStore::new(), MemoryAudit::bounded(8));
    let access = Access::new(Arc::new(store.clone()), Arc::new(log.clone()), Policies::default());
    let root = Principal::new("acme", "root").operator();
    let one = AccessGrantParams::allow("mallory", "files").tool("read");
    let held = AccessGrantParams::deny("ann", "files");
    for grant in [one, held] {
        access.grant(&root, grant).await.unwrap();
    }
    let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
    let gated = AccessLayer::new(access.clone()).server("files").layer(tools);
    let kernel = KernelToolsLayer::new(access.router()).layer(gated);
    let routed = access.router().into_layer().layer(kernel);
    let audited = AuditLayer::new(Arc::new(log.clone())).layer(routed);
    let mallory = Principal::new("acme", "root-impostor").agent("mallory");
    Place { store, log, stack: Stack::new(audited), mallory }
}

/// Returns the number of events recorded so far. The log in memory keeps only the last few events, so reading it is
/// fast.
fn total(log: &MemoryAudit) -> u64 {
    log.dropped() + log.events().len() as u64
}

/// Returns the number of events of a type, not counting the first `before` recorded events.
fn since(log: &MemoryAudit, before: u64, event_type: &str) -> usize {
    let new = usize::try_from(total(log) - before).unwrap();
    let events = log.events();
    let new = &events[events.len() - new..];
    new.iter().filter(|event| event.event_type.as_str() == event_type).count()
}

#[tokio::test]
async fn no_administrative_method_in_any_spelling_changes_anything() {
    let Place { store, log, stack, mallory } = place().await;
    let mut client = mock::client(stack);
    client.cx.principal = mallory;
    assert!(client.request("tools/call", r#"{"name":"read"}"#).await.is_ok());
    let before = records(&store).await;
    let administrative = methods().filter(|info| info.is_mgp());
    let mut attempts = 0;
    for info in administrative {
        let served = matches!(info.name, "mgp/access/grant" | "mgp/access/revoke");
        for forged in forgeries() {
            // Send the params in a request first, then in a notification of the same method.
            let seen = total(&log);
            let answer = client.request(info.name, &forged.to_string()).await;
            if served {
                assert_eq!(answer.unwrap_err().code().0, 1000, "{} {forged}", info.name);
                assert_eq!(since(&log, seen, "PERMISSION_DENIED"), 1, "{} {forged}", info.name);
            }
            let seen = total(&log);
            let answer = client.notify(info.name, &forged.to_string()).await;
            if served {
                assert_eq!(answer.unwrap_err().code().0, 1000, "{} {forged}", info.name);
                assert_eq!(since(&log, seen, "PERMISSION_DENIED"), 1, "{} {forged}", info.name);
            }
            attempts += 2;
        }
    }
    assert_eq!(records(&store).await, before);
    assert!(attempts > 500, "{attempts}");
}

#[tokio::test]
async fn no_kernel_tool_in_any_spelling_changes_anything() {
    let Place { store, log, stack, mallory } = place().await;
    let mut client = mock::client(stack);
    client.cx.principal = mallory;
    let before = records(&store).await;
    for tool in KERNEL_TOOLS {
        let is_query = tool.name == "mgp.access.query";
        let served = is_query || matches!(tool.name, "mgp.access.grant" | "mgp.access.revoke");
        for (separator, forged) in ["/", ".", "_"]
            .into_iter()
            .flat_map(|sep| forgeries().into_iter().map(move |f| (sep, f)))
        {
            if is_query && (forged["agent_id"] == "mallory" || !forged["agent_id"].is_string()) {
                // The agent may query its own access, and a query without an agent is invalid, so neither is an attack.
                continue;
            }
            let name = tool.name.replace('.', separator);
            let call = json!({ "name": name, "arguments": forged, "_meta": forged["_meta"] });
            let seen = total(&log);
            let refused = client.request("tools/call", &call.to_string()).await.unwrap_err();
            // If the method is not served, its name is that of an ordinary tool, which the agent may not use.
            assert_eq!(refused.code().0, if served { 1000 } else { 1001 }, "{call}");
            assert_eq!(since(&log, seen, "TOOL_BLOCKED"), 1, "{call}");
            assert_eq!(since(&log, seen, "PERMISSION_DENIED"), usize::from(served), "{call}");

            let seen = total(&log);
            let answer = client.notify("tools/call", &call.to_string()).await;
            assert!(answer.is_err(), "{call}");
            assert_eq!(since(&log, seen, "TOOL_BLOCKED"), 1, "{call}");
        }
    }
    assert_eq!(records(&store).await, before);
}
