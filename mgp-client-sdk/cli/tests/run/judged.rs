//! Tests of `mgp validate server` on our own programs: the kernel and a server of the SDK keep every rule that applies,
//! in both eras, over standard input and at a URL.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use mgp_testkit::{KilledChild, http_response, serve_http};
use serde_json::{Value, json};

use crate::program::program;
use crate::serving::Serving;
use crate::world::World;

/// Judges a server with `mgp validate server`; returns `true` if the server passed, and the report.
fn judge(world: &World, target: &[&str]) -> (bool, Value) {
    let mut command = Command::new(&world.program);
    command.env("MGP_STATE", world.state()).args(["--json", "validate", "server"]);
    let call = r#"{"chunks": 3, "bytes": 5}"#;
    let output = command.args(["--tool", "stream", "--args", call]).args(target).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.success(), report)
}

fn rules<'a>(report: &'a Value, status: &str) -> Vec<&'a str> {
    let results = report["results"].as_array().unwrap().iter();
    let found = results.filter(|result| result["status"] == status);
    found.map(|result| result["id"].as_str().unwrap()).collect()
}

/// Checks that a server breaks only the rules `broken`, and that it was judged in both eras. The names of rules that do
/// not apply to the server must begin with a name in `inapplicable`. Returns the report.
#[track_caller]
fn keeps_every_rule(
    world: &World,
    target: &[&str],
    broken: &[&str],
    inapplicable: &[&str],
) -> Value {
    let (has_passed, report) = judge(world, target);
    assert!(has_passed, "{target:?}: {report:#}");
    assert_eq!(rules(&report, "failed"), broken, "{target:?}: {report:#}");
    for rule in rules(&report, "skipped") {
        assert!(inapplicable.iter().any(|name| rule.starts_with(name)), "{target:?}: {rule}");
    }
    let revisions = &report["subject"]["revisions"];
    assert_eq!(revisions, &json!(["2025-11-25", "2026-07-28"]), "{target:?}");
    report
}

/// Creates a world whose kernel lists the tools of the example server `workbench` to agents.
fn world() -> World {
    let world = World::empty();
    let server = world.server("bench", &format!("exec {}", program("workbench")));
    let risk = "risk = { stream = \"safe\" }\n";
    world.config(&format!("[kernel]\nsurface = \"direct\"\n{server}{risk}"));
    world
}

#[test]
fn a_kernel_keeps_every_rule_over_both_transports() {
    let world = world();
    let kernel = world.mgp(&["--stdio"]);
    let words = std::iter::once(kernel.get_program()).chain(kernel.get_args());
    let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    // These rules do not apply, because only operators receive events of the audit log, and an agent may not stop the
    // kernel.
    let inapplicable = ["apps.", "mgp.audit.", "mgp.lifecycle.ends"];
    keeps_every_rule(&world, &[&["--"], &words[..]].concat(), &[], &inapplicable);
    drop(world);

    let world = self::world();
    let serving = Serving::start(&world, &[]);
    let url = serving.url();
    let mut keys = Command::new(&world.program);
    keys.env("MGP_STATE", world.state()).args(["--json", "keys", "add", "ann"]);
    let added: Value = serde_json::from_slice(&keys.output().unwrap().stdout).unwrap();
    let header = format!("Authorization: Bearer {}", added["key"].as_str().unwrap());
    let inapplicable = [&inapplicable[..], &["mcp.close", "mgp.lifecycle.shutdown"]].concat();
    keeps_every_rule(&world, &["--url", &url, "--header", &header], &[], &inapplicable);

    let (has_passed, report) = judge(&world, &["--url", &url]);
    assert_eq!((has_passed, &*rules(&report, "failed")), (false, &["mcp.connect"][..]));
    assert!(report["results"][0]["message"].to_string().contains("401"), "{report:#}");
}

#[test]
fn a_server_of_the_sdk_keeps_every_rule_over_both_transports() {
    let world = World::empty();
    let bench = program("workbench");
    // Most tools of this server state no security metadata; the rule that demands it is only a recommendation.
    let broken = ["mgp.tools.security"];
    let inapplicable = ["mcp.resources.", "mcp.prompts.", "mcp.logging.", "apps.", "skills."];
    let kernels = ["mgp.access.", "mgp.audit.", "mgp.discovery.", "mgp.tools.", "proposals."];
    let inapplicable = [&inapplicable[..], &kernels].concat();
    keeps_every_rule(&world, &["--", &bench], &broken, &inapplicable);

    let mut command = Command::new(&bench);
    command.args(["--http", "127.0.0.1:0"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut running = KilledChild(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("serving ").unwrap();
    let of_url = ["mcp.close", "mgp.lifecycle.ends", "mgp.lifecycle.shutdown"];
    let inapplicable = [&inapplicable[..], &of_url].concat();
    let report = keeps_every_rule(&world, &["--url", url], &broken, &inapplicable);
    assert!(rules(&report, "skipped").contains(&"mgp.lifecycle.shutdown"), "{report:#}");
    assert!(running.try_wait().unwrap().is_none(), "the server was asked to stop");
}

#[test]
fn a_url_that_is_no_server_fails_once_with_its_reason() {
    let page = http_response(200, "content-type: text/html\r\n", "<html>");
    let url = serve_http(move |_| page.clone()) + "/mcp";
    let world = World::empty();
    let (has_passed, report) = judge(&world, &["--timeout", "1", "--url", &url]);
    assert_eq!((has_passed, &*rules(&report, "failed")), (false, &["mcp.connect"][..]));
}

#[test]
fn a_url_without_a_scheme_fails_with_the_url_to_write() {
    let world = World::empty();
    for (written, url) in
        [("localhost:1/mcp", "http://localhost:1/mcp"), ("example.com", "https://example.com")]
    {
        let (has_passed, report) = judge(&world, &["--url", written]);
        let message = report["results"][0]["message"].to_string();
        assert!(!has_passed && message.contains(&format!("write `{url}`")), "{report:#}");
    }
}

#[test]
fn a_client_gets_an_error_if_a_server_at_a_url_sends_no_answer() {
    let url = serve_http(|request| {
        let body = request.value();
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": { "name": "s", "version": "1" } });
        let answer = json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }).to_string();
        let (status, kind, text) = match body["method"].as_str() {
            _ if request.head.starts_with("get") => (405, "text/plain", ""),
            Some("initialize") => (200, "application/json", &*answer),
            Some("ping") => (200, "text/event-stream", ": end\n\n"),
            _ => (202, "text/plain", ""),
        };
        http_response(status, &format!("content-type: {kind}\r\n"), text)
    }) + "/mcp";
    let world = World::empty();
    let mut command = Command::new(&world.program);
    command.env("MGP_STATE", world.state()).args(["validate", "pair", "--url", &url]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let client = json!({ "name": "c", "version": "1" });
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let mut input = child.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| {
        let answer: Value = serde_json::from_str(&line.unwrap()).unwrap();
        answer
    });
    let answer = answers.find(|answer| answer["id"] == 2).unwrap();
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    drop(input);
    child.wait().unwrap();
}
