//! Tests that an agent with access to a single tool cannot do what only operators may do. The agent tries every method,
//! as a method and under every possible tool name, over every connection.

use mgp_client_sdk::{Client, ToolResult};
use mgp_types::mcp::{ElicitAction, ElicitResult, Era};
use mgp_types::method::{
    CallbackRespond, Kind, LifecycleShutdown, Request as _, methods, tool_spelling,
};
use serde_json::{Value, json};

use crate::callers::{token, with_tokens};
use crate::serving::Serving;
use crate::tool_paths::Caller;
use crate::wire::{Wire, agent};
use crate::world::World;
use mgp_testkit::until;

const CONFIG: &str = r#"
[[servers]]
id = "notes"
command = "{MGP}"
args = ["__example", "notes"]

[[servers]]
id = "unruly"
command = "{MGP}"
args = ["__example", "unruly"]
"#;

/// Returns the methods that only operators may call, with parameters that an attacker might use.
fn tries() -> Vec<(&'static str, Value)> {
    let params = json!({
        "server_id": "unruly", "tool": "wipe", "tool_name": "wipe", "agent_id": "ada", "id": "unruly",
        "permissions": ["shell.execute"], "permission": "allow", "entry_type": "server_grant",
        "command": "/bin/true", "reason": "operator_request", "fingerprint": "0".repeat(64),
    });
    let mut tries: Vec<_> = methods()
        .filter(|info| info.is_kernel_only() && info.kind == Kind::Request)
        .map(|info| (info.name, params.clone()))
        .collect();
    tries.extend(
        [
            "mgp/access/grant",
            "mgp/access/revoke",
            "mgp/discovery/register",
            "mgp/discovery/deregister",
        ]
        .map(|name| (name, params.clone())),
    );
    tries.push(("mgp/access/query", json!({"agent_id": "bob"})));
    tries
}

/// Returns the code of a refusal, which is an error response or a tool result marked as an error.
fn refused(answer: Result<mgp_types::mcp::CallToolResult, mgp_client_sdk::Error>) -> i32 {
    answer.and_then(ToolResult::into_result).expect_err("the call is refused").code().0
}

/// Returns everything that an operator can read, except values that may change by themselves.
fn state(world: &World) -> Value {
    let mut servers = world.json(&["servers", "ls"]);
    for server in servers.as_array_mut().unwrap() {
        let kept = ["id", "status", "pid", "tools"].map(|name| (name, server[name].clone()));
        *server = kept.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    }
    let mut tools = world.json(&["tools", "ls"]);
    for tool in tools.as_array_mut().unwrap() {
        // Remove the tokens, which are an estimate until the kernel has counted them.
        tool.as_object_mut().unwrap().remove("tokens");
    }
    json!([
        servers,
        world.json(&["access", "matrix"]),
        world.json(&["permissions", "ls"]),
        world.json(&["approvals", "ls"]),
        tools,
        world.json(&["keys", "ls"]),
    ])
}

#[tokio::test]
async fn one_granted_tool_gives_nothing_else() {
    let world = World::new(CONFIG);
    let serving = Serving::new(&world).await;
    world.knows(9).await;
    world.quietly(&["access", "grant", "ada", "notes", "notes.list", "--no-confirm"]);
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    let builder = || {
        let builder = Client::builder("host", "1");
        builder.on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) })
    };
    let hosts = [
        ("plain", world.host("ada", Era::Legacy, builder().without_mgp()).await),
        ("legacy", world.host("ada", Era::Legacy, builder()).await),
        ("modern", world.host("ada", Era::Modern, builder()).await),
        ("http", serving.comes(&key).await),
    ];
    let before = state(&world);
    let mut tried = raw(&world);
    for (way, host) in &hosts {
        host.call("notes.list").await.unwrap();
        for (name, params) in tries() {
            for spelling in [name.to_owned(), name.replace('/', "."), tool_spelling(name)] {
                let code = refused(host.call(&spelling).args(&params).await);
                assert_eq!(code, 1000, "{way} {spelling}");
                let through = json!({"name": spelling, "arguments": params});
                let code = refused(host.call("mgp_tools_call").args(through).await);
                assert_eq!(code, 1000, "{way} {spelling} through mgp_tools_call");
                tried += 2;
            }
        }
        tried += unserved(way, host).await;
        let listed = host.list_tools().await.unwrap();
        let names: Vec<_> = listed.iter().map(|tool| tool.name.as_str()).collect();
        let own = ["mgp_tools_discover", "mgp_tools_call", "mgp_tools_request", "notes.list"];
        assert!(names.iter().all(|name| own.contains(name)), "{way}: {names:?}");
        for query in ["grant access", "stop the kernel", "approve a call", "wipe a disk", ""] {
            let found = host.call("mgp_tools_discover").arg("query", query).await.unwrap();
            let found: Value = found.structured_content.unwrap().get().unwrap();
            let found = found["tools"].as_array().unwrap().iter();
            assert!(found.clone().all(|tool| tool["name"] == "notes.list"), "{way} {query}");
        }
    }
    // Each attempt is in the audit log, and the state is unchanged.
    let query =
        ["audit", "query", "--type", "PERMISSION_DENIED", "--agent", "ada", "--limit", "9999"];
    let mut denied = Value::Null;
    until("all is recorded", async || {
        denied = world.json(&query);
        denied.as_array().unwrap().len() >= tried
    })
    .await;
    assert_eq!(denied.as_array().unwrap().len(), tried);
    assert_eq!(state(&world), before);
    let verified = world.json(&["audit", "verify"]);
    assert_eq!(verified["ok"], true, "{verified}");
}

/// The prefixes of the methods that show and change only what belongs to the caller's tenant.
const OF_TENANT: [&str; 6] = [
    "mgp/access/",
    "mgp/kernel/approvals",
    "mgp/kernel/callbacks",
    "mgp/kernel/permissions",
    "mgp/kernel/subscriptions",
    "mgp/kernel/transactions",
];

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_another_tenant_rules_its_own_tenant_only() {
    let world = with_tokens(
        "tenant_claim = \"org\"\noperator_scope = \"tools\"\n\
         [kernel.registration]\nprograms = [\"/bin/cat\"]\n",
    );
    let serving = Serving::new(&world).await;
    let new_key = |more: &[&str]| {
        let made = world.json(&[&["keys", "add"][..], more].concat());
        made["key"].as_str().unwrap().to_owned()
    };
    // A registration of the local tenant waits for an approval.
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register", "--new-agent"]);
    let ada = serving.comes(&new_key(&["ada"])).await;
    let asked = json!({"id": "mine", "command": "/bin/cat", "justification": "work"});
    let waits = ada.call("mgp_discovery_register").args(&asked).await.unwrap();
    let waits: Value = waits.structured_content.unwrap().get().unwrap();
    assert_eq!(waits["status"], "pending_approval", "{waits}");
    let boss_key = new_key(&["boss", "--tenant", "acme", "--admin"]);
    serving.comes(&boss_key).await.close().await;

    let before = state(&world);
    for credential in [boss_key.clone(), token("tenant")] {
        let boss = serving.host(Some(&credential)).await.unwrap();
        let plain = Caller::new(&serving, &credential);
        for (name, params) in tries() {
            let (status, answer) = plain.call(&name.replace('/', "."), params.clone()).await;
            let code = boss.call(tool_spelling(name)).args(&params).await;
            if !OF_TENANT.iter().any(|of_tenant| name.starts_with(of_tenant)) {
                assert_eq!(
                    (status, &answer["error"]["code"]),
                    (403, &json!(1000)),
                    "{name} {answer}"
                );
                assert_eq!(refused(code), 1000, "{name}");
            }
        }
        for params in [json!({}), json!({"server_id": "notes"})] {
            let (status, answer) = plain.call("mgp.lifecycle.shutdown", params).await;
            assert_eq!(status, 403, "{answer}");
        }
        let (status, none) = plain.call("mgp.kernel.approvals", json!({})).await;
        assert_eq!((status, &none["approvals"]), (200, &json!([])), "{none}");
        let decision = json!({"id": waits["approval_id"]});
        let (status, answer) = plain.call("mgp.kernel.approvals.approve", decision).await;
        assert_ne!(status, 200, "{answer}");
        let own = json!({
            "entry_type": "tool_grant", "agent_id": "boss", "server_id": "mgp",
            "tool_name": "mgp.discovery.register", "permission": "allow",
        });
        assert_eq!(plain.call("mgp.access.grant", own).await.0, 200);
    }
    assert_eq!(state(&world), before);

    // Even with a grant, an operator of another tenant can register a server only like an agent: an operator of this
    // machine must approve it.
    let marker = world.path("started");
    let touch = format!("touch {}", marker.display());
    let mut program = json!({"id": "zz", "command": "/bin/sh", "args": ["-c", touch]});
    program["mgp"] = json!({"trust_level": "trusted"});
    let boss = Caller::new(&serving, &boss_key);
    assert_ne!(boss.call("mgp.discovery.register", program.clone()).await.1["status"], "connected");
    (program["id"], program["command"], program["args"]) =
        (json!("zy"), json!("/bin/cat"), json!([]));
    let (_, answer) = boss.call("mgp.discovery.register", program).await;
    assert_eq!(answer["status"], "pending_approval", "{answer}");
    assert!(!marker.exists());
    // An operator of the local tenant has authority over all tenants, also over HTTP.
    let root = new_key(&["root", "--admin"]);
    serving.comes(&root).await.close().await;
    let (status, answer) =
        Caller::new(&serving, &root).call("mgp.kernel.approvals", json!({})).await;
    assert_eq!((status, answer["approvals"].as_array().unwrap().len()), (200, 2), "{answer}");
}

/// Tries to call methods as tools that the kernel offers only as methods; returns the number of refusals that should be
/// in the audit log.
async fn unserved(way: &str, host: &Client) -> usize {
    let mut tried = 0;
    for (name, params) in others() {
        // For tool names with these prefixes, the kernel answers with code 1000 (permission denied), and records the
        // refusals. It does not know the names of all other methods as tools.
        let kept = ["mgp/lifecycle/"];
        let is_kept = kept.iter().any(|prefix| name.starts_with(prefix));
        for spelling in [name.replace('/', "."), tool_spelling(name)] {
            let through = json!({"name": spelling, "arguments": params});
            for answer in [
                host.call(&spelling).args(&params).await,
                host.call("mgp_tools_call").args(through).await,
            ] {
                let code = refused(answer);
                if is_kept {
                    assert_eq!(code, 1000, "{way} {spelling}");
                    tried += 1;
                } else {
                    assert!(
                        [1000, 4001, -32602, -32601].contains(&code),
                        "{way} {spelling}: {code}"
                    );
                }
            }
        }
    }
    tried
}

/// Returns requests that an agent might forge: answers to questions, and shutdowns of servers.
fn others() -> [(&'static str, Value); 6] {
    let answer = json!({
        "callback_id": "1", "response": "yes", "request_id": "1", "decision": "approved",
        "permissions": ["shell.execute"], "channels": ["*"], "reason": "operator_request",
    });
    let of = |server: &str| {
        let mut params = answer.clone();
        params["server_id"] = json!(server);
        params
    };
    [
        ("mgp/callback/respond", of("unruly")),
        ("mgp/permission/grant", of("unruly")),
        ("mgp/permission/response", of("unruly")),
        ("mgp/lifecycle/shutdown", of("notes")),
        ("mgp/lifecycle/shutdown", of("unruly")),
        ("mgp/lifecycle/shutdown", answer),
    ]
}

/// Sends the methods as single messages, with and without MGP; returns the number of refusals that should be in the
/// audit log.
fn raw(world: &World) -> usize {
    let mut recorded = 0;
    for speaks in [false, true] {
        let mut raw = connect(world, speaks);
        for (name, params) in tries() {
            let error = raw.ask(name, &params).unwrap_err();
            let code = if speaks { 1000 } else { -32601 };
            assert_eq!(error["code"], code, "{name}: {error}");
            recorded += usize::from(speaks);
        }
        for (name, params) in others() {
            match raw.ask(name, &params) {
                Err(error) => {
                    let code = error["code"].as_i64().unwrap();
                    assert!([1000, -32601].contains(&code), "{name}: {error}");
                    let is_kept = name == LifecycleShutdown::METHOD && code == 1000;
                    recorded += usize::from(is_kept);
                }
                // The kernel answers that the callback is unknown, because the agent owns none with this id.
                Ok(reply) if name == CallbackRespond::METHOD => {
                    assert_eq!(reply["status"], "unknown", "{name}: {reply}");
                }
                // The kernel answers as if servers that the agent may not see did not exist.
                Ok(reply) => {
                    assert_eq!(reply["accepted"], false, "{name}: {reply}");
                    assert_eq!(reply["status"], "not_found", "{name}: {reply}");
                }
            }
        }
        // Responses to requests that the kernel never sent must have no effect.
        for id in 0..20 {
            raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}}));
        }
    }
    recorded
}

#[tokio::test]
async fn an_agent_that_leaves_connections_open_does_not_lock_operators_out() {
    let world = World::new(CONFIG);
    let _serving = Serving::new(&world).await;
    let socket = world.path("state/mgp.sock");
    let mut open = Vec::new();
    let refused = (0..256).find_map(|_| {
        let wire = Wire::connect(&socket, &agent("ada")).map(|wire| open.push(wire));
        wire.err()
    });
    let reason = refused.unwrap()["error"].take();
    assert!(reason.as_str().unwrap().contains("limit of connections"), "{reason}");
    // The kernel must still accept the connection of an operator's command.
    world.json(&["status"]);
    assert!(open.len() > 200, "{}", open.len());
}

/// Connects the agent `ada` to the local socket, with or without MGP.
fn connect(world: &World, speaks: bool) -> Wire {
    let mut wire = Wire::connect(&world.path("state/mgp.sock"), &agent("ada")).unwrap();
    let all = ["access_control", "discovery", "lifecycle", "security", "bidirectional", "audit"];
    let mgp = json!({"mgp": {"version": "0.6.0", "extensions": all}});
    let hello = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": if speaks { mgp } else { json!({}) },
        "clientInfo": {"name": "raw", "version": "1"},
    });
    wire.ask("initialize", &hello).unwrap();
    wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    wire
}
