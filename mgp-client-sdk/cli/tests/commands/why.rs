//! Tests of `mgp why`: it shows how much of each limit is used, and the reasons for a tool's risk.

use mgp_testkit::until_blocking;
use serde_json::json;

use crate::hostile::stub;
use crate::kernel::Kernel;
use crate::world::Home;

/// Starts a kernel with the server `tiny`, whose tools have different annotations, and with further lines of
/// configuration.
fn tiny(more: &str) -> Kernel {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let tool = |name: &str, hints: serde_json::Value| json!({"name": name, "inputSchema": schema, "annotations": hints});
    let tools = json!([
        tool("look", json!({"readOnlyHint": true})),
        tool("erase", json!({"destructiveHint": true})),
        {"name": "plain", "inputSchema": schema},
        tool("update_text", json!({"readOnlyHint": true})),
    ]);
    let home = Home::new();
    let server = stub(&home, "tiny", &tools, &json!({ "content": [] }));
    let file = home.write("c.toml", &format!("{server}era = 'legacy'\n{more}"));
    let kernel = Kernel::on(home, Some(&file));
    until_blocking("the tools are listed", || kernel.server("tiny")["tools"] == 4);
    kernel
}

#[test]
fn why_names_how_much_of_each_limit_is_used_and_when_it_is_free_again() {
    let limits = "[servers.mgp]\ndefault_policy = 'opt-out'\n\
                  [servers.limits]\nrunning = 3\ncalls_per_minute = 50\ntool_calls_per_minute = { look = 20 }\n\
                  [agents.ada.limits]\ncalls_per_minute = 10\nrunning = 2\n";
    let kernel = tiny(limits);
    let rules = |agent: &str| {
        let why = kernel.home.json("why", &["why", agent, "tiny.look"]);
        let steps = why["steps"].as_array().unwrap().clone().into_iter();
        let of_limits = steps.filter(|step| step["stage"] == "limits");
        of_limits.map(|step| step["rule"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let unused = rules("ada");
    assert_eq!(unused.len(), 5, "{unused:?}");
    assert_eq!(unused[0], "0 of 10 a minute: agents.ada.limits.calls_per_minute");
    assert_eq!(unused[1], "0 of 2 at once: agents.ada.limits.running");
    for _ in 0..3 {
        kernel.home.succeed(&["tools", "call", "tiny.look", "--agent", "ada"]);
    }
    // The limit is 10 calls a minute, so one more call is permitted every six seconds.
    let used = rules("ada");
    let (begin, end) = used[0].split_once(" a minute, all free again in ").unwrap();
    let seconds: u64 = end.split_once(" s: agents.ada.limits").unwrap().0.parse().unwrap();
    assert!(
        ["3 of 10", "2 of 10", "1 of 10"].contains(&begin) && (1..=18).contains(&seconds),
        "{used:?}"
    );
    let of_server = "a minute, all free again in ";
    assert!(used[2].contains(&format!(" of 50 {of_server}")), "{used:?}");
    assert!(used[2].ends_with(": servers.limits.calls_per_minute of server tiny"), "{used:?}");
    assert!(used[4].contains(&format!(" of 20 {of_server}")), "{used:?}");
    for _ in 0..8 {
        kernel.home.run(&["tools", "call", "tiny.look", "--agent", "ada"]);
    }
    let used_up = kernel.home.json("why", &["why", "ada", "tiny.look"]);
    assert_eq!((&used_up["outcome"], &used_up["code"]), (&json!("refuse"), &json!(3000)));
    let reason = used_up["reason"].as_str().unwrap();
    let begin = "a limit is used up: 10 of 10 a minute, the next call is allowed in ";
    let wait = reason.strip_prefix(begin).unwrap_or_else(|| panic!("{reason}"));
    let (wait, key) = wait.split_once(": ").unwrap();
    let seconds =
        wait.trim_end_matches("ms").trim_end_matches('s').trim_end().parse::<f64>().unwrap();
    assert!(wait.ends_with("ms") || seconds <= 6.0, "the time of the refusal: {reason}");
    assert_eq!(key, "agents.ada.limits.calls_per_minute");
    // Another agent has its own limits, but shares the limits of the server.
    let other = rules("eve");
    assert!(other.len() == 3, "{other:?}");
    assert!(other[2].contains(" of 20 a minute, all free again in "), "{other:?}");
}

#[test]
fn why_applies_the_limits_of_a_key_and_names_keys_that_it_leaves_out() {
    let kernel = tiny("[servers.mgp]\ndefault_policy = 'opt-out'\n");
    let home = &kernel.home;
    let add = ["keys", "add", "ada", "--permission", "tools.call:look", "--force"];
    let added = home.json("keys-add", &add);
    let id = added["id"].as_str().unwrap();
    let with_key = |tool: &str| home.json("why", &["why", "ada", tool, "--key", id]);
    assert_eq!(with_key("tiny.look")["outcome"], "allow");
    let refused = with_key("tiny.erase");
    assert_eq!(refused["outcome"], "refuse");
    let rules = refused["steps"].to_string();
    assert!(rules.contains("credentials without the permission `tools.call:erase`"), "{rules}");
    let without = home.run(&["why", "ada", "tiny.erase"]);
    assert!(!without.out.contains("credentials"), "{without:?}");
    assert!(without.err.contains(&format!("permits only tools.call:look; `--key {id}`")));
    let fails = |code: i32, agent: &str, key: &str, error: &str| {
        home.fail(code, &["why", agent, "tiny.look", "--key", key], error);
    };
    fails(2, "eve", id, "belongs to the agent `ada`");
    fails(1, "ada", "0000000000000000", "see `mgp keys ls`");
    home.silent(&["keys", "revoke", id]);
    fails(1, "ada", id, "is revoked");
}

#[test]
fn an_agent_with_the_name_of_a_tool_is_not_taken_for_the_tool() {
    let kernel = tiny("");
    let why = ["why", "look", "typo"];
    kernel.home.fail(2, &why, "`look` is a tool; name the agent before it: `mgp why typo look`");
    kernel.home.succeed(&["access", "grant", "look", "tiny"]);
    kernel.home.fail(1, &why, "there is no tool `typo`");
}

#[test]
fn why_names_how_much_of_each_quota_is_used() {
    let limits = "[servers.mgp]\ndefault_policy = 'opt-out'\n\
                  [agents.ada.limits]\ncalls_per_day = 2\nunits_per_day = 90\n";
    let kernel = tiny(limits);
    let steps = || {
        let why = kernel.home.json("why", &["why", "ada", "tiny.look"]);
        let steps = why["steps"].as_array().unwrap().iter();
        let of_limits = steps.filter(|step| step["stage"] == "limits").cloned();
        (why["outcome"].clone(), of_limits.collect::<Vec<_>>())
    };
    for (used, outcome, result) in [(1, "allow", "passed"), (2, "refuse", "refused")] {
        kernel.home.succeed(&["tools", "call", "tiny.look", "--agent", "ada"]);
        let (now, steps) = steps();
        assert_eq!((now, steps.len()), (json!(outcome), 2), "{steps:?}");
        let calls = steps[0]["rule"].as_str().unwrap();
        assert!(calls.starts_with(&format!("{used} of 2 calls per day, reset at ")), "{calls}");
        assert!(calls.ends_with(": agents.ada.limits.calls_per_day"), "{calls}");
        assert_eq!(steps[0]["result"], result);
        let units = steps[1]["rule"].as_str().unwrap();
        assert!(units.starts_with(&format!("{used} of 90 units per day, ")), "{units}");
        assert_eq!(steps[1]["result"], "passed");
    }
}

#[test]
fn why_tells_a_tool_that_declares_danger_from_one_that_declares_nothing() {
    let kernel =
        tiny("[servers.mgp]\ndefault_policy = 'opt-out'\nrisk = { update_text = 'dangerous' }\n");
    let reason = |tool: &str| {
        let why = kernel.home.json("why", &["why", "ada", tool]);
        why["risk_reason"].as_str().map(str::to_owned)
    };
    let reads = "the tool declares that it only reads, and nothing contradicts that";
    assert_eq!(reason("tiny.look").unwrap(), reads);
    assert_eq!(reason("tiny.erase").unwrap(), "the tool declares that it is destructive");
    let nothing = "the tool declares nothing, so it counts as possibly destructive";
    assert_eq!(reason("tiny.plain").unwrap(), nothing);
    assert_eq!(reason("tiny.update_text").unwrap(), "the configuration sets it");
    let text = kernel.home.succeed(&["why", "ada", "tiny.plain"]);
    assert!(text.contains(&format!("risk      dangerous: {nothing}")), "{text}");
}

#[test]
fn why_names_a_declaration_that_the_name_of_a_tool_contradicts() {
    let kernel = tiny("[servers.mgp]\ndefault_policy = 'opt-out'\n");
    let why = kernel.home.json("why", &["why", "ada", "tiny.update_text"]);
    let reason = "the tool declares that it only reads, but its name or arguments suggest that it changes something";
    assert_eq!(why["risk_reason"], reason, "{why}");
}

#[test]
fn an_entry_that_names_a_dangerous_tool_does_not_confirm_its_calls() {
    let kernel = tiny("");
    let home = &kernel.home;
    let confirmation = || {
        let why = home.json("why", &["why", "ada", "tiny.erase"]);
        let mut steps = why["steps"].as_array().unwrap().iter();
        steps.find(|step| step["stage"] == "confirmation").unwrap()["result"].clone()
    };
    let grant = ["access", "grant", "ada", "tiny", "erase"];
    home.succeed(&grant);
    assert_eq!(confirmation(), "asks");
    home.succeed(&["permissions", "approve", "tiny", "filesystem.write", "--tool", "erase"]);
    assert_eq!(confirmation(), "asks");
    home.succeed(&[&grant[..], &["--no-confirm"]].concat());
    assert_eq!(confirmation(), "passed");
    let shown = home.succeed(&["access", "query", "ada", "tiny"]);
    assert!(shown.contains("allow, without confirmation"), "{shown}");
    home.succeed(&grant);
    assert_eq!(confirmation(), "asks");
    home.succeed(&["access", "grant", "ada", "tiny", "--no-confirm"]);
    assert_eq!(confirmation(), "passed", "an entry for the whole server frees all its tools");
}

#[test]
fn why_finds_a_tool_by_name_as_the_call_of_that_agent_does() {
    let echo = crate::program::program("echo");
    let server = |id: &str| format!("[[servers]]\nid = '{id}'\ncommand = '{echo}'\n");
    let kernel = Kernel::new(&(server("a") + &server("b")));
    let home = &kernel.home;
    home.succeed(&["access", "grant", "ada", "b"]);
    until_blocking("the tools are listed", || {
        ["a", "b"].iter().all(|id| kernel.server(id)["tools"] == 1)
    });
    home.succeed(&["tools", "call", "echo", "message=x", "--agent", "ada"]);
    assert_eq!(home.json("why", &["why", "ada", "echo", "message=x"])["server_id"], "b");
    home.fail(2, &["why", "eve", "echo"], "several servers have a tool `echo`");
}

#[test]
fn a_server_that_has_written_nothing_has_no_lines_yet() {
    let kernel = tiny("");
    assert_eq!(kernel.home.succeed(&["logs", "tiny"]), "no lines yet\n");
}
