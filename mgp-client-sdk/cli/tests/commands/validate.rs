//! Tests of `mgp validate`, which judges servers and clients by the messages that they send.

use serde_json::Value;

use crate::world::Home;

#[test]
fn a_good_server_passes_and_the_report_is_written() {
    let world = Home::new();
    let (report, page) = (world.path("report.json"), world.path("report.html"));
    let files = [report.to_str().unwrap(), page.to_str().unwrap()];
    let mgp = env!("CARGO_BIN_EXE_mgp").to_owned();
    let text = world.succeed(&[
        "validate",
        "server",
        "--report",
        files[0],
        "--page",
        files[1],
        "--conformance",
        world.path("conformance.json").to_str().unwrap(),
        "--",
        &mgp,
        "__example",
        "notes",
    ]);
    assert!(text.contains("passed"), "{text}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["subject"]["name"], "notes");
    assert_eq!(report["summary"]["failed"], 0, "{report}");
    assert!(report["summary"]["passed"].as_u64().unwrap() > 60, "{report}");
    let other = std::fs::read_to_string(world.path("conformance.json")).unwrap();
    let other: Value = serde_json::from_str(&other).unwrap();
    assert_eq!((&other["server_name"], &other["summary"]["failed"]), (&"notes".into(), &0.into()));
    assert_eq!(other["results"][4]["test_id"], "CONF-005", "{other}");
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
}

#[test]
fn a_program_that_is_no_server_fails_once_with_its_reason() {
    let world = Home::new();
    let script = "echo hello; echo 'Error: no licence' >&2; echo bye >&2; exit 3";
    let output = world.run(&["validate", "server", "--", "sh", "-c", script]);
    assert_eq!(output.code, Some(1), "{} {}", output.out, output.err);
    assert!(
        output.out.contains("mcp.connect") && output.out.contains("not answered"),
        "{} {}",
        output.out,
        output.err
    );
    assert_eq!(output.out.matches("FAILED").count(), 1, "{} {}", output.out, output.err);
    let reason = "(exited with code 3); it wrote: Error: no licence";
    assert!(output.out.contains(reason), "{} {}", output.out, output.err);
    let missing = world.run(&["validate", "server", "--", "/no/such/program"]);
    assert_eq!(missing.out.matches("cannot be started").count(), 1, "{missing:?}");
}

#[test]
fn invisible_characters_in_the_messages_of_a_server_are_escaped() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no \u202e"}}"#;
    let script = format!("while read -r line; do printf '%s\\n' '{answer}'; done");
    let output = Home::new().run(&["validate", "server", "--", "sh", "-c", &script]);
    let is_escaped = output.out.contains(r#""no \u{202e}""#) && !output.out.contains('\u{202e}');
    assert!(is_escaped, "{} {}", output.out, output.err);
}

#[test]
fn a_client_is_judged_by_its_messages() {
    let world = Home::new();
    let handshake = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"judge-ping","result":{}}
{"jsonrpc":"2.0","id":"judge-unknown","error":{"code":-32601,"message":"unknown"}}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
"#;
    let wrong = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/list\"}\n";
    for (messages, expected) in [
        (handshake.to_owned(), Vec::new()),
        (format!("{handshake}{wrong}"), vec!["client.ids", "client.undeclared"]),
    ] {
        let ended = world.run_fed(&["validate", "client"], &messages);
        let found: Vec<_> = ["client.ids", "client.undeclared", "client.ping", "client.json"]
            .into_iter()
            .filter(|rule| ended.err.contains(&format!("FAILED  {rule} ")))
            .collect();
        assert_eq!(found, expected, "{ended:?}");
        assert_eq!(ended.code == Some(0), expected.is_empty(), "{ended:?}");
    }
}

/// The messages of a client to the example server `notes`; one of them calls a tool.
const PAIR: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"notes.list","arguments":{}}}
{"jsonrpc":"2.0","id":3,"method":"ping"}
"#;

/// Runs `mgp validate pair` between these messages of a client and a server. Returns `true` if the check passed, the
/// messages that the client received, and the report.
fn pair(world: &Home, messages: &str, server: &[&str]) -> (bool, String, Value) {
    let report = world.path("pair.json");
    let mut words = vec!["validate", "pair", "--report", report.to_str().unwrap(), "--"];
    words.extend(server);
    let ended = world.run_fed(&words, messages);
    let report = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    (ended.code == Some(0), ended.out, report)
}

fn results_of(report: &Value, status: &str) -> Vec<String> {
    let results = report["results"].as_array().unwrap().iter();
    let of = results.filter(|result| result["status"] == status);
    of.map(|result| result["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_client_and_a_server_that_talk_through_the_judge_are_both_judged() {
    let world = Home::new();
    let mgp = env!("CARGO_BIN_EXE_mgp");
    let (passed, received, report) = pair(&world, PAIR, &[mgp, "__example", "notes"]);
    assert!(passed, "{report}");
    assert_eq!(received.lines().count(), 4, "{received}");
    assert_eq!(
        (&report["client"]["name"], &report["subject"]["name"]),
        (&"host".into(), &"notes".into())
    );
    let kept = results_of(&report, "passed");
    for rule in [
        "client.initialized",
        "client.undeclared",
        "pair.answers",
        "mcp.initialize.result",
        "mcp.ping",
        "mcp.tools.list",
        "mcp.tools.call.result",
    ] {
        assert!(kept.iter().any(|kept| kept == rule), "{rule}: {report}");
    }
    assert!(kept.len() > 15, "{kept:?}");
    // The report lists rules about requests that the client did not send as skipped.
    assert!(results_of(&report, "skipped").contains(&"mcp.tools.call.unknown".to_owned()));
}

#[test]
fn each_side_is_judged_by_its_own_faults() {
    let world = Home::new();
    let mgp = env!("CARGO_BIN_EXE_mgp");
    let wrong = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"mgp/health/ping\"}\n";
    let twice = PAIR.replace(r#""id":3"#, r#""id":2"#) + wrong;
    let (passed, _, report) = pair(&world, &twice, &[mgp, "__example", "notes"]);
    assert!(!passed);
    assert_eq!(results_of(&report, "failed"), ["client.ids", "client.mgp.silence"], "{report}");

    // The server prints a line that is not JSON, lists a schema of the wrong type, and answers a call twice with
    // invalid content.
    let script = r#"echo starting; while read -r line; do case "$line" in
*initialize\"*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"broken","version":"1"}}}';;
*tools/list*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"notes.list","description":"d","inputSchema":{"type":"array"}}]}}';;
*tools/call*) for i in 1 2; do echo '{"jsonrpc":"2.0","id":"c","result":{"content":[{"type":"txt"}]}}'; done;;
*ping*) echo '{"jsonrpc":"2.0","id":3,"result":{}}';;
esac; done"#;
    let (passed, received, report) = pair(&world, PAIR, &["sh", "-c", script]);
    assert!(!passed);
    assert!(received.starts_with("starting\n"), "it passes as it is: {received}");
    let failed = results_of(&report, "failed");
    let expected = ["pair.answers", "mcp.tools.list", "mcp.tools.call.result", "mcp.output.json"];
    assert_eq!(failed, expected, "{report}");
    let call = report["results"].as_array().unwrap().iter();
    let call = call.clone().find(|result| result["id"] == "mcp.tools.call.result").unwrap();
    assert!(call["sent"].as_str().unwrap().contains("notes.list"), "{call}");
}

#[test]
fn a_server_that_refuses_the_handshake_is_at_fault_and_its_client_is_not() {
    let world = Home::new();
    let script = r#"while read -r line; do
echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no licence"}}'; done"#;
    let initialize = format!("{}\n", PAIR.lines().next().unwrap());
    let (passed, _, report) = pair(&world, &initialize, &["sh", "-c", script]);
    assert!(!passed);
    assert_eq!(results_of(&report, "failed"), ["mcp.connect"], "{report}");
}

#[test]
fn a_modern_client_that_does_not_discover_is_judged_with_its_server() {
    let world = Home::new();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let list = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{{{meta}}}}}\n"
    );
    let script = r#"while read -r line; do for i in 1 2; do
echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[],"resultType":"complete"}}'; done; done"#;
    let (passed, _, report) = pair(&world, &list, &["sh", "-c", script]);
    assert!(!passed);
    assert_eq!(results_of(&report, "failed"), ["pair.answers"], "the second answer: {report}");
}

#[test]
fn an_ordinary_request_of_a_modern_client_is_not_judged_as_one_of_an_unknown_revision() {
    let world = Home::new();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"host","version":"1"}}"#;
    let requests = [(1, "server/discover"), (2, "tools/list"), (3, "tools/list")];
    let request = |(id, method): (u8, &str)| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{meta}}}}}"#) + "\n"
    };
    let messages: String = requests.into_iter().map(request).collect();
    let mgp = env!("CARGO_BIN_EXE_mgp");
    let (passed, _, report) = pair(&world, &messages, &[mgp, "__example", "notes"]);
    assert!(passed, "{report}");
    assert!(results_of(&report, "skipped").contains(&"modern.version.unknown".to_owned()));
    assert!(results_of(&report, "passed").contains(&"modern.tools.list".to_owned()), "{report}");
}

#[test]
fn a_pair_whose_client_sends_nothing_fails() {
    let world = Home::new();
    let mgp = env!("CARGO_BIN_EXE_mgp");
    let (passed, _, report) = pair(&world, "", &[mgp, "__example", "notes"]);
    assert!(!passed);
    assert_eq!(results_of(&report, "failed"), ["client.initialize"], "{report}");
}

#[test]
fn a_name_that_selects_no_rule_is_an_error() {
    let world = Home::new();
    for command in ["server", "pair"] {
        let words = ["validate", command, "--only", "mcp.tool.list", "--", "sh"];
        world.fail(2, &words, "no rule that this command checks begins with `mcp.tool.list`");
    }
    world.fail(2, &["validate", "server", "--only", "pair.", "--", "sh"], "`pair.`");
    let mgp = env!("CARGO_BIN_EXE_mgp");
    let connect = ["--json", "validate", "server", "--only", "mcp.connect", "--", mgp];
    let judged = world.succeed(&[&connect[..], &["__example", "notes"]].concat());
    let report: Value = serde_json::from_str(&judged).unwrap();
    assert_eq!(results_of(&report, "passed"), ["mcp.connect"], "{report}");
    let rules = world.succeed(&["validate", "rules"]);
    for rule in ["mcp.ping", "client.ids", "pair.answers"] {
        assert!(rules.contains(rule), "{rule}: {rules}");
    }
}

#[test]
fn a_server_is_not_at_fault_for_a_tool_that_it_does_not_have() {
    let world = Home::new();
    let list = ["validate", "server", "--tool", "missing", "--args", "[1]", "--", "sh"];
    world.fail(2, &list, "`--args` must be a JSON object");
    let mgp = env!("CARGO_BIN_EXE_mgp");
    let judge = ["--json", "validate", "server", "--tool", "missing", "--only", "mgp.errors"];
    let judged = world.succeed(&[&judge[..], &["--", mgp, "__example", "notes"]].concat());
    let report: Value = serde_json::from_str(&judged).unwrap();
    assert_eq!(results_of(&report, "skipped"), ["mgp.errors.params"], "{report}");
}
