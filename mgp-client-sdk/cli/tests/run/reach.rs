//! Tests of the limits in `mgp.toml` as a host notices them: on results, listed tools, and calls.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::serving::Serving;
use crate::world::{Host, World, kill, within, within_time};

/// A shell script of a server whose tools return the contents of files.
const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"files","version":"1"}}' ;;
    *'"tools/list"'*) result=$(cat "$1/tools.json") ;;
    *'"tools/call"'*)
      tool=$(printf %s "$line" | sed -n 's/.*"name":"\([a-z]*\)".*/\1/p')
      echo "$tool" >>"$1/calls"
      [ -e "$1/seconds" ] && sleep "$(cat "$1/seconds")"
      printf '%s\n' "$line" | sed -n 's/.*"traceparent":"\([^"]*\)".*/\1/p' >>"$1/traces"
      printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"; cat "$1/$tool.json"; printf '}\n'
      continue ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"
      continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// Creates a world whose server has these tools with these results, and further lines of configuration.
pub(crate) fn world(tools: &[(&str, Value)], more: &str) -> World {
    let world = World::empty();
    let folder = &world.folder;
    fs::write(folder.join("server.sh"), SERVER).unwrap();
    for (name, result) in tools {
        fs::write(folder.join(format!("{name}.json")), result.to_string()).unwrap();
    }
    let tool = |name: &str| json!({"name": name, "description": "Returns a file", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let listed: Vec<_> = tools.iter().map(|(name, _)| tool(name)).collect();
    fs::write(folder.join("tools.json"), json!({ "tools": listed }).to_string()).unwrap();
    configure(&world, more);
    world
}

pub(crate) fn configure(world: &World, more: &str) {
    let folder = world.folder.display();
    let server = world.server("files", &format!("exec sh {folder}/server.sh {folder}"));
    world.config(&format!(
        "{}trust_level = \"trusted\"\n{more}",
        server.trim_end().to_owned() + "\n"
    ));
}

pub(crate) fn agent(world: &World, name: &str) -> Host {
    world.host(&["--agent", name])
}

pub(crate) fn call(host: &mut Host, tool: &str, arguments: &Value) -> Result<Value, Value> {
    host.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// Returns the content of a result without the kernel's note at its beginning. Also returns the handle in this note,
/// with which an agent reads the next part of the result.
pub(crate) fn blocks(result: &Value) -> (Vec<Value>, Option<String>) {
    let mut blocks = result["content"].as_array().unwrap().clone();
    let note = blocks.first().and_then(|first| first["text"].as_str()).unwrap_or_default();
    let Some((_, rest)) = note.split_once(r#"{"handle":""#).filter(|_| note.starts_with("[mgp: "))
    else {
        return (blocks, None);
    };
    let handle = rest.split('"').next().unwrap().to_owned();
    blocks.remove(0);
    (blocks, Some(handle))
}

/// Calls a tool, reads its whole result part by part, and checks that no part exceeds the limits.
fn read_all(host: &mut Host, tool: &str, max_text: usize, max_data: usize) -> Vec<Value> {
    let mut result = call(host, tool, &json!({})).unwrap();
    let mut all = Vec::new();
    loop {
        let (part, handle) = blocks(&result);
        let sum = |key: &str| {
            part.iter().filter_map(|one| one[key].as_str()).map(str::len).sum::<usize>()
        };
        assert!(
            sum("text") <= max_text + 2 && sum("data") <= max_data,
            "{} {}",
            sum("text"),
            sum("data")
        );
        let notes = result.to_string().len() - json!(part).to_string().len();
        assert!(notes < 600, "{notes}");
        all.extend(part);
        let Some(handle) = handle else { return all };
        // The test alternates between a direct call and `mgp_tools_call`, because some hosts permit only calls of
        // listed tools.
        result = if all.len() % 2 == 0 {
            call(host, "mgp_read_more", &json!({"handle": handle})).unwrap()
        } else {
            let inner = json!({"name": "mgp_read_more", "arguments": {"handle": handle}});
            call(host, "mgp_tools_call", &inner).unwrap()
        };
    }
}

pub(crate) fn text(value: &str) -> Value {
    json!({"content": [{"type": "text", "text": value}]})
}

/// The default limit of the text in a result, in bytes.
const TEXT: usize = 32 << 10;
/// The default limit of the binary data in a result, in bytes.
const DATA: usize = 4 << 20;

#[test]
fn a_long_result_is_cut_to_the_limits_and_read_to_its_last_byte() {
    let lines = (0..125_000).map(|n| format!("{n:06} a line of a long log, wörter too\n"));
    let log = lines.collect::<Vec<_>>().concat();
    let rows: Vec<_> =
        (0..30_000).map(|n| json!({"id": n, "tags": ["a,]", n], "text": "x".repeat(70)})).collect();
    let rows_text = json!(rows).to_string();
    assert!(log.len() > 5_000_000 && rows_text.len() > 3_000_000);
    let image = |n: usize| json!({"type": "image", "mimeType": "image/png", "data": format!("{n:08}").repeat(4000)});
    let images = json!({"content": (0..200).map(image).collect::<Vec<_>>()});
    let table = json!({"content": [], "structuredContent": {"rows": &rows[..9000], "next": 1}});
    let world = world(
        &[
            ("log", text(&log)),
            ("rows", text(&rows_text)),
            ("images", images),
            ("table", table),
            ("short", text("short")),
        ],
        "",
    );
    let mut ann = agent(&world, "ann");
    within(|| ann.call("short", &json!({})).ok().filter(|text| text == "short"));

    let parts = read_all(&mut ann, "log", TEXT, DATA);
    let lines: Vec<_> = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert!(lines.iter().all(|part| part.ends_with('\n')), "cut within a line");
    assert!(lines.concat() == log, "the log differs");

    let parts = read_all(&mut ann, "rows", TEXT, DATA);
    let read = parts.iter().flat_map(|part| {
        serde_json::from_str::<Vec<Value>>(part["text"].as_str().unwrap())
            .expect("each part is JSON")
    });
    assert!(read.eq(rows.iter().cloned()), "the rows differ");

    let parts = read_all(&mut ann, "images", TEXT, DATA);
    assert_eq!(parts, (0..200).map(image).collect::<Vec<_>>());

    let result = call(&mut ann, "table", &json!({})).unwrap();
    let cut = &result["structuredContent"];
    assert!(
        cut.to_string().len() <= 256 << 10 && cut["rows"][0] == rows[0] && cut["next"] == 1,
        "{}",
        cut.to_string().len()
    );

    let (_, handle) = blocks(&call(&mut ann, "log", &json!({})).unwrap());
    let listed = ann.ask("tools/list", &json!({})).unwrap().to_string();
    assert!(listed.contains("mgp_read_more"), "{listed}");
    let mut bob = agent(&world, "bob");
    let stolen = call(&mut bob, "mgp_read_more", &json!({"handle": handle}));
    assert!(
        !json!([stolen.as_ref().ok(), stolen.as_ref().err()]).to_string().contains("a long log")
    );
    let listed = bob.ask("tools/list", &json!({})).unwrap().to_string();
    assert!(!listed.contains("mgp_read_more"), "{listed}");

    configure(&world, "[servers.results]\nmax_text = 5000\n[agents.ann.results]\nmax_text = 900\n");
    let cut = |host: &mut Host, max: usize| {
        within(|| {
            let (part, _) = blocks(&call(host, "log", &json!({})).unwrap());
            (part[0]["text"].as_str().unwrap().len() <= max).then_some(())
        });
    };
    cut(&mut ann, 900);
    cut(&mut bob, 5000);
    assert!(read_all(&mut bob, "log", TEXT, DATA).len() > 60);
}

#[test]
fn a_message_of_a_server_is_as_long_as_its_key_allows() {
    let tools = [("long", text(&"x".repeat(100_000))), ("short", text("short"))];
    let world = world(&tools, "[servers.limits]\nmax_message = 65536\n");
    let mut ann = agent(&world, "ann");
    let refused = call(&mut ann, "long", &json!({})).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("larger than 65536 bytes"), "{refused}");
    assert_eq!(call(&mut ann, "short", &json!({})).unwrap()["content"][0]["text"], "short");
}

/// Returns the names of the listed tools.
pub(crate) fn listed(host: &mut Host) -> BTreeSet<String> {
    let list = host.ask("tools/list", &json!({})).unwrap();
    let tools = list["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_small_catalogue_is_listed_as_it_is_and_a_large_one_is_searched() {
    let world = world(&[("log", text("a")), ("rows", text("b"))], "");
    let mut ann = agent(&world, "ann");
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let all = names(&["log", "rows"]);
    let meta = names(&["mgp_tools_call", "mgp_tools_discover"]);
    within(|| (listed(&mut ann) == all).then_some(()));
    configure(&world, "[kernel]\nsurface = \"search\"\n[agents.bob]\nsurface = \"direct\"\n");
    within(|| (listed(&mut ann) == meta).then_some(()));
    assert_eq!(listed(&mut agent(&world, "bob")), all);
    // If the list of tools exceeds `direct_tokens`, the kernel lists all tools only while their list is shorter than
    // that of the discovery tools.
    configure(&world, "[kernel]\ndirect_tokens = 0\n");
    within(|| (listed(&mut ann) == all).then_some(()));
    let many: Vec<_> = (0..200).map(|n| json!({"name": format!("tool_{n}"), "description": "Does one of many things", "inputSchema": {"type": "object"}})).collect();
    fs::write(world.folder.join("tools.json"), json!({ "tools": many }).to_string()).unwrap();
    configure(&world, "[servers.limits]\nrunning = 9\n");
    world.operator().ask("mgp/kernel/servers/restart", &json!({"server_id": "files"})).unwrap();
    within(|| (listed(&mut ann) == meta).then_some(()));
}

pub(crate) fn calls(world: &World) -> usize {
    fs::read_to_string(world.folder.join("calls")).unwrap_or_default().lines().count()
}

/// Repeats a call until it is refused; returns the number of answered calls and the refusal.
fn exhaust(host: &mut Host, tool: &str) -> (usize, Value) {
    for answered in 0..50 {
        match call(host, tool, &json!({})) {
            Ok(result) if result["isError"] != true => {}
            Ok(error) | Err(error) => return (answered, error),
        }
    }
    panic!("no limit");
}

#[test]
fn limits_hold_across_a_reload_a_restart_and_a_kill() {
    // The kernel's counts start again at each full hour, so the test must not run across a full hour.
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    while seconds() % 3600 > 3540 {
        thread::sleep(Duration::from_secs(5));
    }
    let limits = "[servers.limits]\ntool_units = { rows = 4 }\n[limits]\ncalls_per_day = 5\n[agents.ann.limits]\nunits_per_hour = 10\ncalls_per_day = 50\n";
    let world = world(&[("log", text("a")), ("rows", text("b"))], limits);
    let refused = |error: &Value, code: i32, key: &str| {
        let error = error.to_string();
        assert!(error.contains(&code.to_string()) && error.contains(key), "{error}");
    };
    let mut ann = agent(&world, "ann");
    within(|| ann.call("rows", &json!({})).ok());
    ann.call("rows", &json!({})).unwrap();
    let error = ann.call("rows", &json!({})).unwrap_err();
    refused(&error, 3002, "agents.ann.limits.units_per_hour");
    assert_eq!(calls(&world), 2, "a refused call reached the server");
    let mut operator = world.operator();
    let mut why = |agent: &str| {
        let call = json!({"agent_id": agent, "tool_name": "rows"});
        operator.ask("mgp/kernel/explain", &call).unwrap()
    };
    refused(&why("ann"), 3002, "agents.ann.limits.units_per_hour");
    assert_eq!(why("ann")["outcome"], "refuse");
    assert_eq!(why("bob")["outcome"], "allow", "asking counts nothing");
    let log = std::fs::read_to_string(world.state().join("kernel.log")).unwrap();
    assert!(log.contains("no key, host or access entry names `ann`"), "{log}");
    let mut bob = agent(&world, "bob");
    let (answered, error) = exhaust(&mut bob, "log");
    assert_eq!(answered, 5);
    refused(&error, 3002, "limits.calls_per_day");
    for _ in 0..2 {
        kill("-KILL", world.kernel().unwrap());
        ann.end();
        bob.end();
        (ann, bob) = (agent(&world, "ann"), agent(&world, "bob"));
        let error = within(|| ann.call("rows", &json!({})).err());
        refused(&error, 3002, "agents.ann.limits.units_per_hour");
        refused(&exhaust(&mut bob, "log").1, 3002, "limits.calls_per_day");
    }
    assert_eq!(calls(&world), 7);
    configure(
        &world,
        &limits.replace("= 10", "= 12").replace("tool_units", "max_arguments = 20\ntool_units"),
    );
    within(|| ann.call("rows", &json!({})).ok());
    refused(&ann.call("rows", &json!({})).unwrap_err(), 3002, "units_per_hour");
    let error = ann.call("rows", &json!({"long": "x".repeat(30)})).unwrap_err();
    refused(&error, 3001, "`servers.limits.max_arguments` of server `files`");
    configure(
        &world,
        "[servers.limits]\ntool_calls_per_minute = { log = 3 }\n[limits]\ncalls_per_minute = 6\n",
    );
    within(|| bob.call("rows", &json!({})).ok());
    let (answered, error) = exhaust(&mut bob, "log");
    assert_eq!(answered, 3);
    refused(&error, 3000, "more than 3 calls a minute by tool; try again in ");
    refused(&error, 3000, "`servers.limits.tool_calls_per_minute` of server `files`");
    let (_, error) = exhaust(&mut bob, "rows");
    refused(&error, 3000, "limits.calls_per_minute");
    for _ in 0..3 {
        bob.call("rows", &json!({})).unwrap_err();
    }
    let filter = json!({"limit": 500, "event_type": "TOOL_BLOCKED", "agent": "bob"});
    let recorded = world.operator().ask("mgp/kernel/audit", &filter).unwrap();
    let of_rows = recorded["events"].as_array().unwrap().iter().filter(|event| {
        event["target"]["tool_name"] == "rows" && event["details"]["reason"] == "RATE_LIMITED"
    });
    let of_rows: Vec<_> = of_rows.collect();
    assert_eq!(of_rows.len(), 1, "one record of four refusals in a minute: {recorded}");
    assert!(of_rows[0]["trace_id"].is_string(), "{recorded}");
}

/// Regression test: the audit log did not contain such calls. Later, it named `mgp_tools_call` as the tool of some of
/// them, and counted all known tools whose versions were refused as one tool that was not found.
#[test]
fn a_call_that_is_refused_before_the_checks_of_a_server_is_recorded() {
    let world = world(&[("log", text("a")), ("rows", text("b"))], "");
    let (mut ann, mut bob, mut cat) =
        (agent(&world, "ann"), agent(&world, "bob"), agent(&world, "cat"));
    within(|| ann.call("log", &json!({})).ok());
    let session = json!({"name": "log", "arguments": {}, "_mgp": {"session_handle": "unknown"}});
    bob.ask("tools/call", &session).unwrap_err();
    for name in ["first", "second", "third"] {
        call(&mut bob, name, &json!({})).unwrap_err();
    }
    for name in ["files.log", "rows"] {
        let versioned = json!({"name": name, "arguments": {}, "_meta": {"tool_version": "^2"}});
        // Ignore the answer, because the refusal is a result for some hosts and an error for others.
        let _ = bob.ask("tools/call", &versioned);
    }
    call(&mut cat, "mgp_tools_call", &json!({"name": "fourth", "arguments": {}})).unwrap_err();
    let mut operator = world.operator();
    let mut recorded = |agent: &str| {
        let filter = json!({"limit": 500, "event_type": "TOOL_BLOCKED", "agent": agent});
        let found = operator.ask("mgp/kernel/audit", &filter).unwrap();
        let events = found["events"].as_array().unwrap().iter().map(|event| {
            let target = &event["target"];
            json!([target["server_id"], target["tool_name"], event["details"]["code"]])
        });
        let mut events: Vec<_> = events.collect();
        events.sort_by_key(Value::to_string);
        events
    };
    let expected = [
        json!(["files", "log", -32602]),
        json!(["files", "log", 4000]),
        json!(["files", "rows", 4000]),
        // Unknown tools have one record in a minute.
        json!([null, "first", 4001]),
    ];
    assert_eq!(recorded("bob"), expected);
    assert_eq!(recorded("cat"), [json!([null, "fourth", 4001])]);
}

/// Sends a GET request and returns the response; empty if nothing listens at the address.
fn get(address: &str, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn probes_and_metrics_are_served_and_denials_are_counted() {
    let address = mgp_testkit::unused_address().to_string();
    let closed = |world: &World| {
        let folder = world.folder.display();
        let server = world.server("closed", &format!("exec sh {folder}/server.sh {folder}"));
        server.replace("opt-out", "opt-in")
    };
    let world = world(&[("log", text("a"))], "");
    configure(&world, &format!("{}[kernel]\nmetrics = \"{address}\"\n", closed(&world)));
    let mut ann = agent(&world, "ann");
    within(|| get(&address, "/readyz").contains(" 200 ").then_some(()));
    assert!(get(&address, "/healthz").ends_with("ok\n"));
    within(|| ann.call("files.log", &json!({})).ok());
    ann.call("files.log", &json!({})).unwrap();
    ann.call("closed.log", &json!({})).unwrap_err();
    let metrics = get(&address, "/metrics");
    for line in [
        r#"mgp_server_up{server="files"} 1"#,
        r#"mgp_calls_total{server="files",code="ok"} 2"#,
        r#"mgp_denied_total{server="closed",code="1001"} 1"#,
        r#"mgp_call_duration_seconds_count{server="files"} 2"#,
        r#"mgp_call_duration_seconds_bucket{server="files",le="+Inf"} 2"#,
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line} {metrics}");
    }
    let log = fs::read_to_string(world.state().join("kernel.log")).unwrap();
    assert!(log.contains("denied tool call"), "{log}");
    // End the host, which would otherwise start another kernel.
    ann.end();
    kill("-KILL", world.kernel().unwrap());
    let serving = Serving::start(&world, &["--no-auth"]);
    let url = serving.url();
    let http = url.trim_start_matches("http://").trim_end_matches("/mcp");
    within(|| get(http, "/readyz").contains(" 200 ").then_some(()));
    assert!(get(http, "/healthz").contains(" 200 "));
    assert!(!get(http, "/metrics").contains("mgp_server_up"), "figures are for operators");
}

#[test]
fn a_server_that_hangs_is_restarted() {
    let world = world(&[("log", text("a"))], "");
    let mut ann = agent(&world, "ann");
    within(|| ann.call("log", &json!({})).ok());
    let pid = || {
        let servers = world.operator().ask("mgp/kernel/servers", &json!({})).unwrap();
        servers["servers"][0]["pid"].as_u64()
    };
    let before = pid();
    let file = fs::read_to_string(world.config_file()).unwrap();
    world.config(&file.replace("[servers.mgp]", "health_interval = \"1s\"\n[servers.mgp]"));
    // Wait for the new process, because the kernel restarts the server when the interval changes.
    let hung = within(|| pid().filter(|pid| Some(*pid) != before));
    within(|| ann.call("log", &json!({})).ok());
    kill("-STOP", u32::try_from(hung).unwrap());
    within_time(Duration::from_mins(1), || pid().filter(|pid| *pid != hung));
    within(|| ann.call("log", &json!({})).ok());
    let server = within(|| Some(described(&world)).filter(|server| server["error"].is_null()));
    assert_eq!(server["last_failure"], "unhealthy: it does not answer", "{server}");
    let log = fs::read_to_string(world.state().join("kernel.log")).unwrap();
    assert!(log.contains("server failed") && log.contains("it does not answer"), "{log}");
}

/// Regression test: while the kernel was paused, the time limit of the call ended before the kernel read the answer, so
/// the call failed with code 3003 (timeout).
#[test]
fn a_call_that_is_answered_while_the_kernel_is_paused_gets_its_answer() {
    let world = world(&[("log", text("a"))], "[kernel]\ntimeout = \"5s\"\n");
    let mut ann = agent(&world, "ann");
    within(|| ann.call("log", &json!({})).ok());
    fs::write(world.folder.join("seconds"), "1").unwrap();
    let (kernel, file) = (world.kernel().unwrap(), world.folder.join("calls"));
    let before = calls(&world);
    let pausing = thread::spawn(move || {
        within(|| (fs::read_to_string(&file).unwrap().lines().count() > before).then_some(()));
        kill("-STOP", kernel);
        // The pause ends more than a second after the time limit of the call.
        thread::sleep(Duration::from_secs(8));
        kill("-CONT", kernel);
    });
    let answer = ann.call("log", &json!({}));
    pausing.join().unwrap();
    answer.unwrap();
}

/// Returns the kernel's description of the only server.
fn described(world: &World) -> Value {
    world.operator().ask("mgp/kernel/servers", &json!({})).unwrap()["servers"][0].clone()
}

#[test]
fn arguments_and_results_that_do_not_fit_their_schemas_are_refused_with_the_member() {
    let rows = json!({"content": [], "structuredContent": {"rows": "many"}});
    let world = world(&[("log", text("a")), ("rows", rows)], "");
    let read_only = json!({"readOnlyHint": true});
    let limited = json!({"type": "object", "properties": {"limit": {"type": "integer"}}, "required": ["limit"]});
    let counted = json!({"type": "object", "properties": {"rows": {"type": "integer"}}});
    let tools = json!({"tools": [
        {"name": "log", "description": "Returns a file", "inputSchema": limited, "annotations": read_only},
        {"name": "rows", "description": "Returns a file", "inputSchema": {"type": "object"}, "outputSchema": counted, "annotations": read_only},
    ]});
    fs::write(world.folder.join("tools.json"), tools.to_string()).unwrap();
    let mut host = agent(&world, "ann");
    within(|| host.call("log", &json!({"limit": 3})).ok());
    let before = calls(&world);
    let refused = |host: &mut Host, tool: &str, arguments: &Value, words: &str| {
        let answer = call(host, tool, arguments).unwrap_or_else(|error| error);
        let answer = answer.to_string();
        assert!(answer.contains(words), "{answer}");
    };
    refused(&mut host, "log", &json!({"limit": "three"}), "`/limit`: ");
    refused(&mut host, "log", &json!({}), "is a required property");
    assert_eq!(calls(&world), before, "a refused call reached the server");
    refused(&mut host, "rows", &json!({}), "output schema of `rows`: `/rows`: ");
    configure(&world, "");
    let config = fs::read_to_string(world.config_file()).unwrap();
    world.config(&config.replace("[servers.mgp]", "check_arguments = false\n[servers.mgp]"));
    within(|| host.call("log", &json!({})).ok());
    within(|| call(&mut host, "rows", &json!({})).ok().filter(|result| result["isError"] != true));
}

#[test]
fn a_server_that_agents_share_is_offered_roots_only_with_its_key() {
    let world = World::empty();
    let script = |name: &str| {
        format!(
            "IFS= read -r line; printf %s \"$line\" >{}/{name}; exec cat >/dev/null",
            world.folder.display()
        )
    };
    let of = |name: &str| world.server(name, &script(name)).trim_end().to_owned();
    // For a legacy server the kernel sends no probe, so the first line that the server reads is `initialize`.
    let legacy = |entry: String| entry.replace("[servers.mgp]", "era = \"legacy\"\n[servers.mgp]");
    world.config(&format!("{}\n\n{}\nroots = true\n", legacy(of("plain")), legacy(of("open"))));
    let _host = Host::start(&world, &["--agent", "ada"]);
    let greeting = |name: &str| {
        let path = world.folder.join(name);
        within(|| fs::read_to_string(&path).ok().filter(|text| text.ends_with('}')))
    };
    assert!(!greeting("plain").contains("\"roots\""));
    assert!(greeting("open").contains("\"roots\""));
}
