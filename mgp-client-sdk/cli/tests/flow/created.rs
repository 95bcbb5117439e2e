//! Tests of tools that an agent creates when none matches its request (MGP §16.6), and of their guardrails.

use std::process::Command;

use mgp_client_sdk::Client;
use mgp_testkit::until;
use mgp_transport::Confinement;
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::world::{DESK, World};

/// A capability that no server has.
const MISSING: &str = "brew espresso with the coffee machine";

/// A server whose only tool reads or writes a file, and reports what happened.
const SCRIPT: &str = r#"
import json
import sys

TOOL = {
    "name": "brew",
    "description": "Brew espresso with the coffee machine",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "mode": {"type": "string"}}},
}

def call(arguments):
    try:
        with open(arguments["path"], arguments["mode"]) as file:
            return file.read() if arguments["mode"] == "r" else str(file.write("x"))
    except OSError as error:
        return type(error).__name__

for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if "id" not in message:
        continue
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "coffee", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [TOOL]}
    elif method == "tools/call":
        text = call(message["params"]["arguments"])
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(answer), flush=True)
"#;

/// Returns the path of the Python interpreter itself, because a wrapper around it may need a home folder.
pub(crate) fn python() -> String {
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let found = found.expect("the tests of created tools need `python3`");
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

/// Returns a configuration with which agents can create tools. The kernel approves permissions automatically, but must
/// not approve a created tool.
fn config() -> String {
    format!(
        "{DESK}[kernel]\npermission_policy = 'auto_approve'\nauto_approve_except = []\n\
         [kernel.registration]\nprograms = ['{}']\n[tool_creation]\nenabled = true\n",
        python()
    )
}

async fn host(world: &World, agent: &str) -> Client {
    world.host(agent, Era::Legacy, Client::builder("host", "1")).await
}

async fn request(client: &Client) -> Value {
    let wish = json!({"requirements": {"capabilities": [MISSING]}});
    let answer = client.call("mgp_tools_request").args(wish).await.unwrap();
    answer.structured_content.unwrap().get().unwrap()
}

/// Registers a script; returns the answer, or the code and the details of the refusal.
async fn register(client: &Client, id: &str, source: &str) -> Value {
    let asks = json!({
        "id": id, "command": python(), "source": source, "justification": "coffee",
        "mgp": {"trust_level": "trusted"},
    });
    match client.call("mgp_discovery_register").args(asks).await {
        Ok(answer) => answer.structured_content.unwrap().get().unwrap(),
        Err(error) => {
            let details = error.recovery().and_then(|recovery| recovery.details.clone());
            json!({"code": error.code().0, "details": details})
        }
    }
}

/// Calls the created tool; returns its answer, or the error of a refused call.
async fn brew(client: &Client, path: &str, mode: &str) -> String {
    let arguments = json!({"name": "made.brew", "arguments": {"path": path, "mode": mode}});
    match client.call("mgp_tools_call").args(arguments).await {
        Ok(answer) => serde_json::to_string(&answer).unwrap(),
        Err(error) => format!("refused: {error}"),
    }
}

fn ids(world: &World) -> Vec<String> {
    let servers = world.json(&["servers", "ls"]);
    let ids = servers.as_array().unwrap().iter();
    ids.map(|server| server["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_missing_tool_is_created_approved_called_confined_and_removed_with_its_session() {
    let world = World::new(&config());
    let secret = world.write("secret.txt", "the secret");
    let ada = host(&world, "ada").await;
    let watcher = host(&world, "bob").await;
    world.knows(5).await;
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register"]);
    let creating = request(&ada).await;
    assert_eq!(creating["status"], "creating", "{creating}");
    let note = creating["notes"][0].as_str().unwrap();
    assert!(note.contains("mgp_discovery_register"), "{note}");
    assert!(note.contains("mgp_tools_call"), "hosts call listed tools only: {note}");

    let reply = register(&ada, "made", SCRIPT).await;
    assert_eq!(reply["status"], "pending_approval", "{reply}");
    assert!(!ids(&world).is_empty());
    let id = reply["approval_id"].as_str().unwrap();
    let shown = world.json(&["approvals", "ls"]).to_string();
    assert!(shown.contains("no tool matched") && shown.contains(MISSING), "{shown}");
    world.quietly(&["approvals", "approve", id]);
    world.quietly(&["access", "grant", "ada", "made", "brew", "--no-confirm"]);
    world.knows(6).await;
    let mut given = Value::Null;
    until("the tool is given", async || {
        given = request(&ada).await;
        given["status"] == "fulfilled"
    })
    .await;
    assert_eq!(given["tools_loaded"][0]["server_id"], "made", "{given}");

    let written = brew(&ada, "note.txt", "w").await;
    assert!(written.contains("\"1\""), "its own folder: {written}");
    if Confinement::is_supported() {
        for (path, mode) in [(secret.to_str().unwrap(), "r"), ("/tmp/mgp-created-tool", "w")] {
            let refused = brew(&ada, path, mode).await;
            assert!(refused.contains("PermissionError"), "{path}: {refused}");
        }
    }
    let events = world.json(&["audit", "query", "--type", "TOOL_CREATED_DYNAMIC"]).to_string();
    assert!(events.contains("\"made\"") && events.contains(MISSING), "{events}");

    ada.close().await;
    until("the server is removed", async || !ids(&world).contains(&"made".to_owned())).await;
    watcher.close().await;
}

#[tokio::test]
async fn the_script_of_a_registration_can_be_read_before_it_is_approved() {
    let world = World::new(&config());
    let ada = host(&world, "ada").await;
    world.knows(5).await;
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register"]);
    let reply = register(&ada, "made", SCRIPT).await;
    let id = reply["approval_id"].as_str().unwrap();
    let print = |arguments: &[&str]| {
        let output = world.command(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = print(&["approvals", "ls"]);
    assert!(listed.contains(&format!("The whole script: `mgp approvals show {id}`")), "{listed}");
    let shown = print(&["approvals", "show", id]);
    for line in SCRIPT.lines().filter(|line| !line.is_empty()) {
        assert!(shown.contains(&format!("\n  {line}\n")), "{line}: {shown}");
    }
    let whole = world.json(&["approvals", "show", id]);
    let arguments: Value = whole["arguments"].as_str().unwrap().parse().unwrap();
    assert_eq!(arguments["script"], SCRIPT);
    ada.close().await;
}

#[tokio::test]
async fn each_guardrail_of_created_tools_holds() {
    let world = World::new(&config());
    let watcher = host(&world, "watcher").await;
    let ada = host(&world, "ada").await;
    world.knows(5).await;
    // The agent has no grant to register servers yet.
    let answer = request(&ada).await;
    assert_eq!(answer["status"], "unavailable", "{answer}");
    assert_eq!(register(&ada, "made", SCRIPT).await["code"], 1000);
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register"]);
    assert_eq!(request(&ada).await["status"], "creating");
    // With the validation level `strict`, the kernel refuses this code without asking an operator.
    for line in ["import os", "import subprocess", "import requests", "eval('1')", "x = ("] {
        let refused = register(&ada, "made", &format!("{line}\n{SCRIPT}")).await;
        assert_eq!(refused["code"], 1011, "{line}: {refused}");
    }
    assert_eq!(world.json(&["approvals", "ls"]), json!([]));
    // The automatic approval of permissions does not apply to created tools, and the kernel ignores the trust level
    // that the agent names.
    let reply = register(&ada, "made", SCRIPT).await;
    assert_eq!(reply["status"], "pending_approval", "{reply}");
    assert_eq!(world.json(&["approvals", "ls"]).as_array().unwrap().len(), 1);
    assert!(world.json(&["approvals", "ls"]).to_string().contains("sandboxed"));
    assert!(brew(&ada, "x", "r").await.contains("refused"), "it does not run yet");
    // After an operator has denied a registration, the kernel rejects the same registration without asking again.
    world.quietly(&["approvals", "deny", reply["approval_id"].as_str().unwrap()]);
    assert_eq!(register(&ada, "made", SCRIPT).await["status"], "rejected");
    // When the session of an agent ends, so does its registration that still waits for an approval.
    assert_eq!(request(&ada).await["status"], "creating");
    let reply = register(&ada, "other", SCRIPT).await;
    assert_eq!(reply["status"], "pending_approval", "{reply}");
    ada.close().await;
    until("nothing waits", async || world.json(&["approvals", "ls"]) == json!([])).await;
    // The changed configuration no longer enables the creation of tools.
    world.configure(&config().replace("enabled = true", "enabled = false"));
    let ada = host(&world, "ada").await;
    until("it is not enabled", async || request(&ada).await.to_string().contains("not enabled"))
        .await;
    ada.close().await;
    watcher.close().await;
}

/// Corrects a script with nothing but the names in the body of the answer that rejected the script.
fn corrected(script: &str, body: &Value) -> String {
    let violations = body["violations"].as_array().unwrap();
    let names: Vec<&str> = violations
        .iter()
        .filter_map(|violation| violation.as_str()?.split('\'').nth(1))
        .map(|name| name.split(['(', '.']).next().unwrap_or(name))
        .collect();
    let allowed = &body["hints"]["allowed_imports"];
    assert!(allowed.as_array().is_some_and(|allowed| allowed.contains(&json!("json"))), "{body}");
    let most = usize::try_from(body["hints"]["max_code_size_bytes"].as_u64().unwrap()).unwrap();
    let mut kept = String::new();
    for line in script.lines().filter(|line| !names.iter().any(|name| line.contains(name))) {
        if kept.len() + line.len() < most {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[tokio::test]
async fn an_agent_corrects_its_script_by_the_body_of_the_rejection_alone() {
    let world = World::new(&config());
    let mut hosts = Vec::new();
    for agent in ["ada", "bob", "eve"] {
        world.quietly(&["access", "grant", agent, "mgp", "mgp.discovery.register"]);
        hosts.push(host(&world, agent).await);
    }
    world.knows(5).await;
    let long = format!("# {}\n", "x".repeat(70)).repeat(1_000);
    let cases = [
        "import os",
        "import requests as r",
        "from subprocess import run",
        "import socket",
        "x = eval('1')",
        "exec('x = 1')",
        "y = __import__('os')",
        "import random\nz = random._os",
        "import importlib",
        &long,
    ];
    for (at, case) in cases.iter().enumerate() {
        let (host, id) = (&hosts[at % hosts.len()], format!("made{at}"));
        let script = format!("import json\n{case}\nprint(json.dumps(1))\n");
        let body = register(host, &id, &script).await;
        assert_eq!(body["code"], 1011, "{case:.40}");
        let body = &body["details"];
        let answer = register(host, &id, &corrected(&script, body)).await;
        assert_eq!(answer["status"], "pending_approval", "{case:.40}: {answer}, {body}");
    }
}
