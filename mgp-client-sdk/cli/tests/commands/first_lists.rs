//! Tests of the lists that commands read before the first kernel starts.

use std::fs;

use mgp_client_sdk::Client;
use mgp_testkit::until_blocking;
use serde_json::{Value, json};

use crate::hostile::FLAGGED;
use crate::kernel::Kernel;
use crate::world::Home;

/// A shell script of an MCP server with a prompt and the tools in the file `$2`. It adds a line to the file `$1` at
/// each start, and ends at a call with the argument `leave`.
const SCRIPT: &str = r#"
echo started >> "$1"
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"desk","version":"1"}}' ;;
    *'"tools/list"'*) answer "\"result\":{\"tools\":$(cat "$2")}" ;;
    *'"prompts/list"'*) answer '"result":{"prompts":[{"name":"greet"}]}' ;;
    *'"leave"'*) exit 0 ;;
    *'"tools/call"'*) answer '"result":{"content":[{"type":"text","text":"done"}]}' ;;
    *'"id"'*) [ -n "$id" ] && answer '"error":{"code":-32601,"message":"unknown"}' ;;
  esac
done
"#;

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

/// Returns a home into which a server with these tools was imported.
fn imported(tools: &[Value]) -> Home {
    imported_beside(json!({}), tools)
}

/// Returns a home into which a server with these tools was imported, together with other servers.
fn imported_beside(mut servers: Value, tools: &[Value]) -> Home {
    let home = Home::new();
    let script = home.write("desk.sh", SCRIPT);
    let tools = home.write("tools.json", &json!(tools).to_string());
    let args = json!([script, home.path("starts"), tools]);
    servers["desk"] = json!({ "command": "sh", "args": args });
    let file = home.write("host.json", &json!({ "mcpServers": servers }).to_string());
    home.succeed(&["import", file.to_str().unwrap(), "--apply", "--agent", "default"]);
    assert_eq!(starts(&home), 1);
    home
}

fn starts(home: &Home) -> usize {
    fs::read_to_string(home.path("starts")).unwrap().lines().count()
}

/// Returns the states of the definitions of all tools, in the order of the names of the tools.
fn standings(home: &Home) -> Vec<String> {
    let all = home.json("tools-ls", &["tools", "ls"]);
    let all = all.as_array().unwrap().iter();
    all.map(|tool| tool["standing"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_first_kernel_uses_the_lists_that_an_import_has_read() {
    let home = imported(&[tool("get_note", "Gets a note."), tool("get_task", "Gets a task.")]);
    // From now on, the server lists another definition than the recorded one.
    let changed = json!([tool("get_note", "Deletes a note."), tool("get_task", "Gets a task.")]);
    home.write("tools.json", &changed.to_string());
    let kernel = Kernel::on(home, None);
    let desk = kernel.server("desk");
    assert_eq!((&desk["status"], &desk["tools"]), (&json!("registered"), &json!(2)), "{desk}");
    assert_eq!(standings(&kernel.home), ["pinned", "pinned"]);
    assert_eq!(starts(&kernel.home), 1);

    let ready = fs::read_to_string(kernel.home.path("ready.json")).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let host = Client::builder("host", "1").without_mgp();
    let host = host.connect_url(ready["http"].as_str().unwrap()).await.unwrap();
    let prompts = host.list_prompts().await.unwrap();
    assert!(prompts.iter().any(|prompt| prompt.name.ends_with("greet")), "{prompts:?}");
    // A call starts the server, and does not run, because the definition was changed.
    let called = host.call_tool("desk.get_note", &json!({})).await;
    assert!(!called.is_ok_and(|result| result.is_error != Some(true)));
    assert!(starts(&kernel.home) > 1);
    until_blocking("the changed definition waits", || {
        standings(&kernel.home) == ["changed", "pinned"]
    });
}

#[test]
fn a_server_whose_configuration_was_changed_after_an_import_is_started() {
    let home = imported(&[tool("get_note", "Gets a note.")]);
    let text = fs::read_to_string(home.own()).unwrap();
    let changed = text.replace("command = \"sh\"", "command = \"/bin/sh\"");
    assert_ne!(changed, text);
    fs::write(home.own(), changed).unwrap();
    let kernel = Kernel::on(home, None);
    until_blocking("it is started", || starts(&kernel.home) == 2);
}

#[test]
fn a_server_one_of_whose_imported_tools_waits_for_a_review_is_started() {
    let home = imported(&[tool("get_note", "Gets a note."), tool("get_task", FLAGGED)]);
    let kernel = Kernel::on(home, None);
    until_blocking("it is started", || starts(&kernel.home) == 2);
    // So the kernel lists the tool as soon as an operator has approved it.
    kernel.home.succeed(&["tools", "approve", "desk.get_task", "--yes"]);
    until_blocking("both tools can be used", || standings(&kernel.home) == ["pinned", "pinned"]);
}

/// Regression test: the command did not know the server `broken` while it judged the names of the tools.
#[test]
fn an_imported_tool_with_the_id_of_another_imported_server_waits_for_a_review() {
    let broken = json!({ "broken": { "command": "sh", "args": ["-c", "exit 1"] } });
    let home = imported_beside(broken, &[tool("broken.get_note", "Gets a note.")]);
    let kernel = Kernel::on(home, None);
    until_blocking("it is started", || starts(&kernel.home) == 2);
    until_blocking("its tool waits", || standings(&kernel.home) == ["flagged"]);
}

/// Regression test: only suspicious definitions were counted, but not those that differ from the recorded ones.
#[test]
fn a_second_import_counts_the_definitions_that_have_changed_meanwhile() {
    let home = imported(&[tool("get_note", "Gets a note."), tool("get_task", "Gets a task.")]);
    let changed = json!([tool("get_note", "Deletes a note."), tool("get_task", "Gets a task.")]);
    home.write("tools.json", &changed.to_string());
    let file = home.path("host.json");
    let again = ["import", file.to_str().unwrap(), "--apply", "--agent", "other"];
    let done = home.json("import", &again);
    assert_eq!(done["granted"][0]["waiting"], 1, "{done}");
}

#[test]
fn setup_counts_a_server_that_ended_as_ready_unless_an_operator_keeps_it_stopped() {
    let mut note = tool("get_note", "Gets a note.");
    note["annotations"] = json!({ "readOnlyHint": true });
    let home = imported(&[note]);
    let servers = fs::read_to_string(home.path("host.json")).unwrap();
    home.write(".cursor/mcp.json", &servers);
    home.succeed(&["connect", "cursor", "--replace", "--interactive", "no"]);
    let kernel = Kernel::on(home, None);
    let home = &kernel.home;
    // The server ends without an error, as if the kernel had stopped it because it was idle for long.
    home.run(&["tools", "call", "desk.get_note", "leave=true", "--agent", "default"]);
    until_blocking("it has ended", || kernel.server("desk")["status"] == "disconnected");
    let ready = || {
        let done = home.json("setup", &["setup", "cursor", "--yes", "--interactive", "no"]);
        done["hosts"][0]["ready"].clone()
    };
    assert_eq!(ready(), 1);
    home.succeed(&["servers", "stop", "desk"]);
    assert_eq!(ready(), 0);
}
