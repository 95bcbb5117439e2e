//! Tests that an agent with access to a single tool cannot do what only operators may do: it tries every method, and
//! every spelling of the method as a tool name, over every connection.

use std::process::Stdio;
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_types::mcp::{ElicitAction, ElicitResult, Era};
use mgp_types::method::{
    CallbackRespond, Kind, LifecycleShutdown, Request as _, methods, tool_spelling,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::host::below_host;
use crate::serving::Serving;
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

/// Returns the methods for operators, with parameters that an attacker might use.
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
        // The tokens are an estimate until the kernel has counted them.
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
    let mut tried = raw(&world).await;
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

/// Tries methods that agents cannot call as tools; returns how many refusals should be in the audit log.
async fn unserved(way: &str, host: &Client) -> usize {
    let mut tried = 0;
    for (name, params) in others() {
        // Names with these prefixes are refused with 1000, which is recorded; other methods are unknown as tool names.
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

/// Returns requests with answers that an agent might forge, and shutdowns of servers that it might try to stop.
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

/// Sends the methods as raw messages, with and without MGP; returns how many refusals should be in the audit log.
async fn raw(world: &World) -> usize {
    let mut recorded = 0;
    for speaks in [false, true] {
        let mut raw = Raw::new(world, speaks).await;
        for (name, params) in tries() {
            let error = raw.ask(name, &params).await.unwrap_err();
            let code = if speaks { 1000 } else { -32601 };
            assert_eq!(error["code"], code, "{name}: {error}");
            recorded += usize::from(speaks);
        }
        for (name, params) in others() {
            match raw.ask(name, &params).await {
                Err(error) => {
                    let code = error["code"].as_i64().unwrap();
                    assert!([1000, -32601].contains(&code), "{name}: {error}");
                    let is_kept = name == LifecycleShutdown::METHOD && code == 1000;
                    recorded += usize::from(is_kept);
                }
                // The agent owns no callback with this id.
                Ok(reply) if name == CallbackRespond::METHOD => {
                    assert_eq!(reply["status"], "unknown", "{name}: {reply}");
                }
                // For the agent, servers that it may not see do not exist.
                Ok(reply) => {
                    assert_eq!(reply["accepted"], false, "{name}: {reply}");
                    assert_eq!(reply["status"], "not_found", "{name}: {reply}");
                }
            }
        }
        // Responses to requests that the kernel never sent must have no effect.
        for id in 0..20 {
            raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}})).await;
        }
    }
    recorded
}

/// A host of the legacy era that writes raw messages.
struct Raw {
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl Raw {
    async fn new(world: &World, speaks: bool) -> Self {
        let mut command = world.command(&["serve", "--stdio", "--agent", "ada", "--config"]);
        command.arg(world.path("mgp.toml"));
        let mut command = Command::from(below_host(&command));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut this = Self { _child: child, input, lines, next: 1000 };
        let all =
            ["access_control", "discovery", "lifecycle", "security", "bidirectional", "audit"];
        let mgp = json!({"mgp": {"version": "0.6.0", "extensions": all}});
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": if speaks { mgp } else { json!({}) },
            "clientInfo": {"name": "raw", "version": "1"},
        });
        this.ask("initialize", &hello).await.unwrap();
        this.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        this
    }

    async fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request).await;
        loop {
            let line = timeout(Duration::from_secs(20), self.lines.next_line()).await;
            let line = line.expect("an answer arrives").unwrap().unwrap();
            let mut answer: Value = line.parse().unwrap();
            if answer["id"] == id {
                let error = answer["error"].take();
                return if error.is_null() { Ok(answer["result"].take()) } else { Err(error) };
            }
        }
    }
}
