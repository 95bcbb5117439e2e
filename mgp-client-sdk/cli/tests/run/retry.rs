//! Tests of `[servers.mgp.retry]`, of repeated starts, and of time limits that change with a reload.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::program;
use crate::world::{Host, World, within};

/// The shell script of a server. The file `fails` contains the number of the next calls that fail; later calls succeed.
const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer='"result":{}'
  case "$line" in
    *'"initialize"'*) answer='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"mgp":{"version":"0.3.0","extensions":["idempotency"]}},"serverInfo":{"name":"busy","version":"1"}}' ;;
    *'"tools/list"'*) answer='"result":{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"add","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*)
      printf '%s\n' "$line" >>"$1/calls"
      left=$(cat "$1/fails")
      if [ "$left" -gt 0 ]; then
        echo $((left - 1)) >"$1/fails"
        answer="\"error\":$(cat "$1/error.json")"
      else
        answer='"result":{"content":[{"type":"text","text":"done"}]}'
      fi ;;
    *) [ -n "$id" ] || continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

const BUSY: &str = r#"{"code":3000,"message":"busy","data":{"_mgp":{"retryable":true,"retry_after_ms":10,"max_retries":5}}}"#;
const BROKE: &str = r#"{"code":5000,"message":"broke","data":{"_mgp":{"retryable":true,"retry_after_ms":10,"max_retries":5}}}"#;

fn configure(world: &World, retry: &str) {
    let folder = world.folder.display();
    let server = world.server("busy", &format!("exec sh {folder}/server.sh {folder}"));
    let server = server.trim_end();
    world.config(&format!(
        "{server}\ntrust_level = \"trusted\"\nrisk = {{ look = 'safe', add = 'safe' }}\n{retry}\n"
    ));
}

/// Calls a tool whose first `fails` attempts fail with `error`. Returns `true` if the call succeeded, and the number of
/// attempts that reached the server.
fn attempts(world: &World, host: &mut Host, tool: &str, error: &str, fails: u32) -> (bool, usize) {
    let folder = &world.folder;
    fs::write(folder.join("error.json"), error).unwrap();
    fs::write(folder.join("fails"), fails.to_string()).unwrap();
    fs::write(folder.join("calls"), "").unwrap();
    let answer = host.ask("tools/call", &json!({"name": tool, "arguments": {}}));
    let is_done = answer.is_ok_and(|result| result["content"][0]["text"] == "done");
    (is_done, fs::read_to_string(folder.join("calls")).unwrap().lines().count())
}

#[test]
fn failed_calls_are_repeated_as_the_table_says_before_and_after_a_reload() {
    let world = World::empty();
    fs::write(world.folder.join("server.sh"), SERVER).unwrap();
    fs::write(world.folder.join("fails"), "0").unwrap();
    configure(&world, "");
    let mut host = world.host(&[]);
    within(|| host.call("look", &json!({})).ok().filter(|text| text == "done"));
    // Without `[servers.mgp.retry]`, the kernel repeats no call.
    assert_eq!(attempts(&world, &mut host, "look", BUSY, 2), (false, 1));

    configure(&world, "[servers.mgp.retry]\nattempts = 3\ncircuit_failures = 0\n");
    within(|| (attempts(&world, &mut host, "look", BUSY, 1) == (true, 2)).then_some(()));
    assert_eq!(attempts(&world, &mut host, "look", BUSY, 2), (true, 3));
    assert_eq!(attempts(&world, &mut host, "look", BUSY, 3), (false, 3), "three attempts at most");
    // The kernel repeats a call that may have run only if its tool changes nothing.
    assert_eq!(attempts(&world, &mut host, "look", BROKE, 1), (true, 2));
    assert_eq!(attempts(&world, &mut host, "add", BROKE, 1), (false, 1));

    // The audit log has an event for each attempt.
    let recorded = world.operator().ask("mgp/kernel/audit", &json!({"limit": 500})).unwrap();
    let calls = |events: &Value| {
        let events = events["events"].as_array().unwrap().clone();
        let of_look = events.into_iter().filter(|event| event["target"]["tool_name"] == "look");
        of_look.count()
    };
    assert!(calls(&recorded) >= 8, "{recorded}");
}

#[test]
fn a_call_that_may_have_run_is_repeated_with_its_key_if_the_table_adds_keys() {
    let world = World::empty();
    fs::write(world.folder.join("server.sh"), SERVER).unwrap();
    fs::write(world.folder.join("fails"), "0").unwrap();
    configure(&world, "[servers.mgp.retry]\nkeys = true\ncircuit_failures = 0\n");
    let mut host = world.host(&[]);
    within(|| host.call("add", &json!({})).ok().filter(|text| text == "done"));
    assert_eq!(attempts(&world, &mut host, "add", BROKE, 1), (true, 2));
    let calls = fs::read_to_string(world.folder.join("calls")).unwrap();
    let keys = calls.lines().map(|line| {
        let call: Value = serde_json::from_str(line).unwrap();
        call["params"]["_meta"]["idempotency_key"].clone()
    });
    let keys: Vec<_> = keys.collect();
    assert!(keys[0].is_string() && keys[0] == keys[1], "{keys:?}");
}

#[test]
fn a_repeated_call_is_charged_once() {
    let world = World::empty();
    fs::write(world.folder.join("server.sh"), SERVER).unwrap();
    fs::write(world.folder.join("fails"), "0").unwrap();
    let retry = "[servers.mgp.retry]\nattempts = 3\ncircuit_failures = 0\n";
    configure(&world, &format!("{retry}[servers.limits]\ncalls_per_day = 3\nrunning = 1\n"));
    let mut host = world.host(&[]);
    within(|| host.call("look", &json!({})).ok().filter(|text| text == "done"));
    for _ in 0..2 {
        assert_eq!(attempts(&world, &mut host, "look", BUSY, 2), (true, 3));
    }
    let refused = host.ask("tools/call", &json!({"name": "look", "arguments": {}}));
    assert!(format!("{refused:?}").contains("3002"), "{refused:?}");
}

#[test]
fn the_time_of_an_approval_follows_a_reload() {
    let world = World::new("[kernel]\napproval_timeout = \"1s\"\n");
    let file = fs::read_to_string(world.config_file()).unwrap();
    let risky = file.replace("[servers.mgp]", "[servers.mgp]\nrisk = { echo = 'dangerous' }");
    world.config(&risky);
    let mut host = world.host(&["--agent", "ann"]);
    let mut wait = || {
        let begun = mgp_testkit::Stopwatch::start();
        let refused =
            host.ask("tools/call", &json!({"name": "echo", "arguments": {"message": "x"}}));
        (begun.elapsed(), refused)
    };
    let (time, refused) = within(|| {
        let (time, refused) = wait();
        let text = format!("{refused:?}");
        text.contains("in time").then_some((time, text))
    });
    assert!(time < Duration::from_secs(4), "{time:?}: {refused}");
    world.config(&risky.replace("\"1s\"", "\"6s\""));
    within(|| (wait().0 > Duration::from_secs(5)).then_some(()));
}

#[test]
fn a_search_starts_a_server_whose_first_start_failed() {
    let world = World::empty();
    let later = world.folder.join("later");
    let server = world.server("echo", &format!("exec {}", program("echo")));
    let entry = format!("cwd = \"{}\"\ncommand = ", later.display());
    world.config(&server.replacen("command = ", &entry, 1));
    let mut host = world.host(&[]);
    let mut found = || {
        let params = json!({"name": "mgp_tools_discover", "arguments": {"query": "echo"}});
        let answer = host.ask("tools/call", &params).unwrap();
        answer["structuredContent"]["total_available"].as_u64().unwrap()
    };
    assert_eq!(found(), 0);
    fs::create_dir(&later).unwrap();
    within(|| (found() > 0).then_some(()));
}
