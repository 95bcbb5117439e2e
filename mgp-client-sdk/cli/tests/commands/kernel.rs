//! Tests of commands while a kernel runs.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mgp_testkit::{KilledChild, until_blocking};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::hostile::stub;
use crate::program::program;
use crate::world::Home;

/// A running kernel; dropping this value kills it before its home is removed.
pub(crate) struct Kernel {
    child: KilledChild,
    pub(crate) home: Home,
}

impl Kernel {
    pub(crate) fn new(config: &str) -> Self {
        let home = Home::new();
        let config = home.write("c.toml", config);
        Self::on(home, Some(&config))
    }

    /// Starts a kernel in an existing home, with the file `config` or, for `None`, with the home's own configuration.
    pub(crate) fn on(home: Home, config: Option<&Path>) -> Self {
        Self::on_with(home, config, &[])
    }

    /// Starts a kernel in an existing home with these environment variables.
    pub(crate) fn on_with(home: Home, config: Option<&Path>, env: &[(&str, &str)]) -> Self {
        let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--no-auth"]);
        command.envs(env.iter().copied());
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        Self::start(home, command)
    }

    pub(crate) fn start(home: Home, mut command: Command) -> Self {
        let ready: PathBuf = home.path("ready.json");
        command.arg("--ready-file").arg(&ready);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let kernel = Self { child: KilledChild(child), home };
        until_blocking("the kernel is ready", || ready.exists());
        kernel
    }

    /// Starts a kernel with the example server `workbench`, and waits for its tools.
    pub(crate) fn bench() -> Self {
        let bench = program("workbench");
        let kernel = Self::new(&format!("[[servers]]\nid = 'bench'\ncommand = '{bench}'\n"));
        until_blocking("the tools are listed", || {
            kernel.server("bench")["tools"].as_u64() > Some(5)
        });
        kernel
    }

    pub(crate) fn server(&self, id: &str) -> Value {
        let all = self.home.json("servers-ls", &["servers", "ls"]);
        all.as_array().unwrap().iter().find(|server| server["id"] == id).unwrap().clone()
    }

    /// Kills the kernel, and returns its home.
    pub(crate) fn killed(mut self) -> Home {
        self.child.kill().unwrap();
        self.into_home()
    }

    /// Waits until the kernel has ended, and returns its home.
    pub(crate) fn into_home(mut self) -> Home {
        let _ = self.child.wait();
        self.home
    }
}

#[test]
fn status_shows_the_kernel_and_stop_stops_it() {
    let mut kernel = Kernel::bench();
    let status = kernel.home.json("status", &["status"]);
    assert_eq!((&status["servers"], &status["pid"]), (&json!(1), &json!(kernel.child.id())));
    assert!(kernel.home.succeed(&["status"]).starts_with("running mgp "));
    kernel.home.json("sessions", &["sessions"]);
    let report = kernel.home.json("doctor", &["doctor", "--no-start"]);
    assert!(report.to_string().contains(", 0 connected"), "{report}");
    kernel.home.silent(&["stop"]);
    kernel.home.fail(3, &["status"], "no kernel is running");
    assert!(kernel.child.wait().unwrap().success());
}

#[test]
fn status_shows_errors_of_the_configuration_until_they_are_fixed() {
    let good = format!("[[servers]]\nid = 'echo'\ncommand = '{}'\n", program("echo"));
    let kernel = Kernel::new(&good);
    let home = &kernel.home;
    let severity = || home.json("status", &["status"])["findings"][0]["severity"].clone();
    assert_eq!(severity(), Value::Null);
    home.write("c.toml", "[[servers\n");
    until_blocking("the finding is updated", || severity() == "error");
    assert!(home.succeed(&["status"]).contains("/c.toml:1: "), "the place of the error");
    // The entry of the server is broken now, but the server keeps running.
    home.write("c.toml", &good.replace("command = ", "comand = "));
    until_blocking("the state is updated", || {
        home.succeed(&["status"]).contains("did you mean `command`?")
    });
    assert_eq!(kernel.server("echo")["status"], "connected");
    let listed = home.run(&["servers", "ls"]);
    assert!(listed.err.contains("a server has neither `command` nor `url`"), "{listed:?}");
    home.write("c.toml", &good);
    until_blocking("the finding is updated", || severity() == Value::Null);
}

#[test]
fn only_allowed_hosts_and_origins_reach_a_kernel() {
    let home = Home::new();
    let ready = home.path("ready.json");
    let made = home.json("keys-add", &["keys", "add", "ada"]);
    let key = made["key"].as_str().unwrap();
    let arguments = ["serve", "--http", "127.0.0.1:0", "--allow-host", "kernel.example"];
    let mut command = home.command(&arguments);
    command.args(["--allow-origin", "https://app.example", "--ready-file"]).arg(&ready);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_blocking("the kernel is ready", || ready.exists());
    let line: Value = serde_json::from_str(&fs::read_to_string(&ready).unwrap()).unwrap();
    let url = line["http"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let status = |host: &str, origin: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = "POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: 2";
        let who = format!("Authorization: Bearer {key}\r\nHost: {host}\r\nOrigin: {origin}");
        write!(stream, "{head}\r\n{who}\r\n\r\n{{}}").unwrap();
        let mut first = String::new();
        BufReader::new(stream).read_line(&mut first).unwrap();
        first.split(' ').nth(1).unwrap().to_owned()
    };
    let page = "https://app.example";
    // The kernel answers 415 to requests that pass its checks of host and origin, because they have no content type.
    assert_eq!(status("kernel.example:8900", page), "415");
    assert_eq!(status(address, "http://localhost:3000"), "415");
    assert_eq!(status("evil.example", page), "403");
    assert_eq!(status("kernel.example", "https://evil.example"), "403");
    child.kill().unwrap();
    child.wait().unwrap();
    let arguments = ["serve", "--http", "127.0.0.1:0", "--allow-host", "https://kernel.example"];
    home.fail(2, &arguments, "is not a valid host; use the name alone");
    home.fail(2, &["serve", "--stdio", "--allow-host", "kernel.example"], "--stdio");
    let arguments = ["--allow-host", "kernel.example", "--no-auth"];
    home.fail(2, &[&["serve", "--http", "127.0.0.1:0"], &arguments[..]].concat(), "--no-auth");
}

#[test]
fn an_unread_log_does_not_block_the_kernel() {
    let home = Home::new();
    // The kernel logs more text than a pipe holds, because each line contains the long path of the file.
    let many = |number| format!("[agents.a{number}]\nbudgte = 1\n");
    let file = format!("{}/c.toml", "long".repeat(60));
    let config = home.write(&file, &(0..250).map(many).collect::<String>());
    let ready = home.path("ready.json");
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--no-auth"]);
    command.arg("--ready-file").arg(&ready).arg("--config").arg(config);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until_blocking("the kernel is ready", || ready.exists());
    home.succeed(&["status"]);
    home.silent(&["stop"]);
    assert!(child.wait().unwrap().success());
    let mut printed = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut printed).unwrap();
    assert!(
        printed.contains("did you mean `budget`?") && printed.len() <= 1 << 16,
        "{}",
        printed.len()
    );
}

#[test]
fn stop_returns_when_the_folder_is_free() {
    // The server ignores SIGTERM, and exits 1.5 seconds after its standard input is closed.
    let echo = program("echo");
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'slow'\ncommand = 'sh'\nargs = ['-c', 'trap \"\" TERM; \"$0\"; sleep 1.5', '{echo}']\n"
    ));
    let home = &kernel.home;
    until_blocking("the state is updated", || kernel.server("slow")["status"] == "connected");
    home.silent(&["stop"]);
    let lock = fs::File::open(home.path(".local/state/mgp/kernel.lock")).unwrap();
    lock.try_lock().expect("the folder is free");
}

#[test]
fn a_ready_file_that_cannot_be_written_stops_the_kernel_in_order() {
    let home = Home::new();
    home.configure("[[servers]]\nid = 'echo'\ncommand = 'echo'\n");
    let arguments = ["serve", "--http", "127.0.0.1:0", "--no-auth", "--ready-file", "none/there"];
    home.fail(1, &arguments, "the ready file `none/there` cannot be written");
    assert!(!home.path(".local/state/mgp/mgp.sock").exists());
    home.succeed(&["audit", "verify"]);
}

#[test]
fn the_ready_file_of_a_killed_kernel_is_removed_before_the_next_one_serves() {
    let home = Home::new();
    home.configure("");
    home.write("ready.json", "{\"pid\":1}\n");
    let (taken, ready) = (TcpListener::bind("127.0.0.1:0").unwrap(), home.path("ready.json"));
    let address = taken.local_addr().unwrap().to_string();
    let ready_file = ready.to_str().unwrap();
    let arguments = ["serve", "--http", &address, "--no-auth", "--ready-file", ready_file];
    home.fail(1, &arguments, "is in use by another program");
    assert!(!ready.exists());
}

#[test]
fn an_audit_log_in_another_folder_is_found_by_every_command() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    home.configure("[kernel.audit]\ndir = '~/logs'\n");
    let kernel = Kernel::on(home, None);
    let home = &kernel.home;
    assert!(home.path("logs").exists());
    home.succeed(&["keys", "add", "ada"]);
    home.succeed(&["access", "grant", "bob", "bench", "--force"]);
    let whole = || {
        home.succeed(&["audit", "verify"]);
        let report = home.any_json("doctor", &["doctor", "--no-start"]).0;
        assert!(report.to_string().contains("unchanged"), "{report}");
    };
    whole();
    home.silent(&["stop"]);
    whole();
    home.succeed(&["access", "grant", "cid", "bench", "--force"]);
    let found = home.json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED"]);
    let found = found.to_string();
    assert!(found.contains("\"bob\"") && found.contains("\"cid\""), "{found}");
}

#[cfg(unix)]
#[test]
fn a_terminated_host_removes_its_ready_file() {
    let home = Home::new();
    home.configure("");
    let kernel = Kernel::on(home, None);
    let ready = kernel.home.path("host.json");
    let mut command = kernel.home.command(&["serve", "--stdio", "--ready-file"]);
    let mut host = command.arg(&ready).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // Keep the input open, because `mgp serve --stdio` exits at the end of its input.
    let input = host.stdin.take();
    until_blocking("the kernel is ready", || ready.exists());
    let reply = std::process::Command::new("kill").arg(host.id().to_string()).status().unwrap();
    assert!(reply.success());
    assert_eq!(host.wait().unwrap().code(), Some(128 + 15));
    drop(input);
    assert!(!ready.exists());
}

#[test]
fn a_server_that_ends_without_an_error_when_it_is_asked_for_its_tools_has_not_started() {
    let script = r#"
read -r line
id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id"
while read -r line; do case "$line" in *tools/list*) exit 0 ;; esac; done
"#;
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'ends'\nera = 'legacy'\ncommand = 'sh'\nargs = ['-c', '''{script}''']\n"
    ));
    let begun = Instant::now();
    for action in ["start", "restart"] {
        kernel.home.fail(1, &["servers", action, "ends"], "ends is not connected");
    }
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
}

#[test]
fn servers_are_started_stopped_and_shown() {
    let script = "echo 'I am here' >&2; exec \"$0\"";
    let echo = program("echo");
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'echo'\ncommand = 'sh'\nargs = ['-c', '''{script}''', '{echo}']\n\
         [[servers]]\nid = 'gone'\ncommand = 'no-such-program'\n\
         [[servers]]\nid = 'loud'\ncommand = 'sh'\n\
         args = ['-c', 'echo \"Error: no licence\" >&2; echo bye >&2; exit 1']\n"
    ));
    let home = &kernel.home;
    until_blocking("the state is updated", || kernel.server("echo")["status"] == "connected");
    let table = home.succeed(&["servers", "ls"]);
    assert!(table.starts_with("ID") && table.contains("echo  connected"), "{table}");
    assert!(home.succeed(&["servers", "ls", "echo"]).contains("process"));
    home.fail(1, &["servers", "start", "gone"], "run `mgp doctor gone`");
    home.fail(1, &["servers", "restart", "loud"], "; it wrote: Error: no licence; run");
    home.silent(&["servers", "stop", "loud"]);
    let error = kernel.server("loud")["error"].to_string();
    assert!(!error.contains("operator_request"), "it names the stop: {error}");
    assert!(error.contains("code 1") && !error.contains("next try"), "{error}");
    let events = home.succeed(&["events", "system.server_state"]);
    assert!(events.contains("system.server_state  echo"), "{events}");
    let lines = home.json("servers-logs", &["servers", "logs", "echo"]);
    assert_eq!(lines[0]["text"], "I am here");
    assert!(home.succeed(&["logs", "echo", "-n", "1"]).ends_with(" I am here\n"));

    let process = kernel.server("echo")["pid"].clone();
    let done = home.json("done", &["servers", "restart", "echo"]);
    assert_eq!(done, json!({ "subject": "echo", "status": "connected", "notes": [] }));
    assert_eq!(kernel.server("echo")["status"], "connected");
    assert_ne!(kernel.server("echo")["pid"], process);
    home.silent(&["servers", "stop", "echo", "--timeout", "5s"]);
    until_blocking("the state is updated", || kernel.server("echo")["status"] == "disconnected");
    home.silent(&["servers", "start", "echo"]);
    assert_eq!(kernel.server("echo")["status"], "connected");
    let unknown = "there is no server `ehco`; did you mean `echo`?";
    for args in [
        &["servers", "ls", "ehco"][..],
        &["servers", "start", "ehco"],
        &["servers", "logs", "ehco"],
        &["servers", "rm", "ehco"],
        &["tools", "ls", "ehco"],
    ] {
        home.fail(1, args, unknown);
    }
    let unknown = "there is no tool `echo.ehco`; did you mean `echo.echo`?";
    home.fail(1, &["why", "default", "echo.ehco"], unknown);
    home.fail(1, &["tools", "approve", "echo.ehco", "--yes"], unknown);
}

#[test]
fn an_agent_finds_and_calls_what_it_was_granted() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    let seen = |agent: &str| {
        let all = home.json("tools-ls", &["tools", "ls", "--agent", agent]);
        let echo = all
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["tool_id"] == "bench.echo")
            .unwrap()
            .clone();
        (echo["seen_by_agent"].clone(), echo["hidden_because"].clone())
    };
    assert_eq!(seen("ada").0, false);
    assert!(home.succeed(&["tools", "ls", "--agent", "ada"]).contains("no: default_policy opt-in"));
    assert!(
        home.succeed(&["tools", "search", "echo", "--agent", "ada"])
            .contains("no tool that agent `ada` may use fits")
    );
    home.fail(1, &["tools", "call", "bench.echo", "message=hi", "--agent", "ada"], "bench");

    home.succeed(&["access", "grant", "ada", "bench"]);
    home.succeed(&["access", "grant", "ada", "bench", "echo", "--no-confirm"]);
    assert_eq!(seen("ada"), (true.into(), Value::Null));
    let found = home.json("tools-search", &["tools", "search", "echo a message", "--agent", "ada"]);
    assert_eq!(found[0]["tool_id"], "bench.echo");
    let german =
        home.json("tools-search", &["tools", "search", "gib den Text zurück", "--agent", "ada"]);
    assert_eq!(german[0]["tool_id"], "bench.echo", "the program has the lexicon");
    let why = home.succeed(&["tools", "search", "echo a message", "--agent", "ada", "--why"]);
    assert!(
        why.contains("WHY") && why.contains("has the words echo, message; very close"),
        "{why}"
    );
    assert_eq!(
        home.succeed(&["tools", "call", "bench.echo", "message=hi", "--agent", "ada"]),
        "hi\n"
    );
    let answer = home.json(
        "tools-call",
        &["tools", "call", "bench.echo", "--arguments", "{\"message\":\"7\"}", "--agent", "ada"],
    );
    assert_eq!(answer["content"][0]["text"], "7");
    let from_input = ["tools", "call", "bench.echo", "--arguments", "-", "--agent", "ada"];
    assert_eq!(home.run_fed(&from_input, "{\"message\":\"read\"}").out, "read\n");
    home.fail(2, &["tools", "call", "bench.echo", "--arguments", "[]"], "not a JSON object");
    home.fail(2, &["tools", "call", "bench.echo", "hi"], "is not NAME=VALUE");
    let twice = ["tools", "call", "bench.echo", "message=a", "message=b"];
    home.fail(2, &twice, "`message` is given twice");
    let number = ["tools", "call", "bench.echo", "message=7", "--agent", "ada"];
    home.fail(1, &number, "a text that looks like JSON is given in quotation marks");
    home.fail(1, &["tools", "call", "bench.nothing", "--agent", "ada"], "nothing");

    let tokens = home.json("tools-tokens", &["tools", "tokens", "--agent", "ada"]);
    assert_eq!(tokens["listed"], tokens["all"], "a small catalogue is listed as it is");
}

#[test]
fn changes_beside_a_running_kernel_apply_at_once_and_are_recorded() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    home.succeed(&["access", "grant", "ada", "bench", "--because", "over the socket"]);
    home.silent(&["permissions", "approve", "bench", "network.outbound"]);
    home.silent(&["permissions", "deny", "bench", "filesystem.write"]);
    let all = home.json("permissions-ls", &["permissions", "ls", "bench"]);
    assert_eq!(all.as_array().unwrap().len(), 2);
    home.silent(&["permissions", "revoke", "bench", "filesystem.write"]);
    let events = home
        .json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED", "--server", "bench"]);
    assert_eq!(events.as_array().unwrap().len(), 1);
    assert!(home.succeed(&["audit", "tail", "-n", "30"]).contains("over the socket"));
    assert!(home.succeed(&["audit", "export"]).lines().count() > 3);
    let mut tail = home.command(&["audit", "tail", "-f", "-n", "1"]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    home.succeed(&["access", "grant", "bob", "bench"]);
    assert!(lines.any(|line| line.unwrap().contains("ACCESS_GRANTED")));
    // `mgp audit tail` exits when the reader of its output has closed the pipe.
    drop(lines);
    home.succeed(&["access", "grant", "eve", "bench"]);
    let unknown = "there is no `bench` tool `ehco`; did you mean `echo`?";
    home.fail(1, &["access", "grant", "eve", "bench", "ehco"], unknown);
    home.silent(&["access", "grant", "eve", "bench", "ehco", "--force"]);
    assert!(tail.wait().unwrap().success());

    // `mgp keys` records its changes in the store, from where the running kernel moves them to the audit log.
    let before = home.json("audit-verify", &["audit", "verify"])["records"].as_u64().unwrap();
    let made = home.json("keys-add", &["keys", "add", "nightly"]);
    home.silent(&["keys", "revoke", made["id"].as_str().unwrap()]);
    let after = home.json("audit-verify", &["audit", "verify"])["records"].as_u64().unwrap();
    assert!(after >= before + 2, "{before} {after}");
    for event in ["key_added", "key_revoked"] {
        let events = home.json("audit-query", &["audit", "query", "--type", event]);
        assert_eq!(events[0]["details"]["key_id"], made["id"], "{events}");
    }
    home.silent(&["access", "revoke", "ada", "bench"]);
    home.fail(1, &["access", "revoke", "ada", "bench"], "no entry to revoke");
}

#[test]
fn a_kernel_finds_the_definitions_recorded_before_its_start() {
    let home = Home::new();
    let add = ["servers", "add", "bench", "--agent", "ada", "--", &program("workbench")];
    let added = home.succeed(&add);
    assert!(added.contains(" tool definitions recorded"), "{added}");
    let pins = |home: &Home| {
        let arguments = ["audit", "query", "--type", "dev.cloto.definition_pinned"];
        home.json("audit-query", &arguments).as_array().unwrap().len()
    };
    let before = pins(&home);
    let kernel = Kernel::on(home, None);
    until_blocking("the tools are listed", || kernel.server("bench")["tools"].as_u64() > Some(5));
    let all = kernel.home.json("tools-ls", &["tools", "ls", "--agent", "ada"]);
    let all = all.as_array().unwrap();
    assert!(all.iter().all(|tool| tool["standing"] == "pinned" && tool["seen_by_agent"] == true));
    assert_eq!(
        (before, pins(&kernel.home)),
        (all.len(), all.len()),
        "no definition is recorded again"
    );
    // While a kernel runs, the command records nothing.
    let add = ["servers", "add", "more", "--agent", "ada", "--", &program("echo")];
    let added = kernel.home.succeed(&add);
    assert!(added.contains("for ada; 1 tool") && !added.contains("recorded"), "{added}");
}

#[test]
fn servers_are_added_and_removed_while_a_kernel_runs() {
    let kernel = Kernel::on(Home::new(), None);
    let home = &kernel.home;
    let ids = || -> Vec<String> {
        let all = home.json("servers-ls", &["servers", "ls"]);
        all.as_array()
            .unwrap()
            .iter()
            .map(|server| server["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let bench = program("workbench");
    let added =
        home.json("servers-add", &["servers", "add", "bench", "--agent", "ada", "--", &bench]);
    assert!(added["granted"][0].get("error").is_none(), "{added}");
    assert_eq!(ids(), ["bench"], "at once");
    until_blocking("the command shows it", || {
        home.succeed(&["tools", "search", "echo", "--agent", "ada"]).contains("bench.echo")
    });
    home.fail(1, &["servers", "add", "bench", "--", "x"], "there is a server `bench` already");
    let quoted = ["servers", "add", "quoted", "--", "npx -y a/b"];
    home.fail(2, &quoted, "without quotes around its arguments: `-- npx -y a/b`");

    // After each of these commands, the kernel must reload immediately, before its own regular check for changes.
    home.succeed(&["servers", "add", "brief", "--no-grant", "--", &bench]);
    assert_eq!(ids(), ["bench", "brief"]);
    home.silent(&["servers", "disable", "brief"]);
    assert_eq!(kernel.server("brief")["status"], "disabled");
    home.silent(&["servers", "enable", "brief"]);
    assert_ne!(kernel.server("brief")["status"], "disabled");
    home.fail(1, &["servers", "disable", "nothing"], "there is no server `nothing`");
    home.succeed(&["tools", "pin", "brief.echo", "--agent", "ada"]);
    let removed = home.run(&["servers", "rm", "brief"]);
    assert!(removed.err.contains("removed with it: the pins brief.echo"), "{removed:?}");
    assert_eq!(ids(), ["bench"]);

    // The running kernel uses the server of a project as soon as the project is approved, and until the approval is
    // revoked.
    home.write(
        "work/mgp.toml",
        &format!("[[servers]]\nid = 'echo'\ncommand = '{}'\n", program("echo")),
    );
    home.succeed(&["trust", "--yes"]);
    until_blocking("the servers are updated", || ids() == ["bench", "echo"]);
    home.silent(&["trust", "--revoke"]);
    until_blocking("the servers are updated", || ids() == ["bench"]);
    let removed = home.run(&["servers", "rm", "bench"]);
    assert!(removed.err.contains("removed with it: the access of ada"), "{removed:?}");
    until_blocking("the servers are updated", || ids().is_empty());
}

#[test]
fn an_upgrade_waits_for_an_operator_and_is_one_review() {
    let files = Home::new();
    let list = |word: &str| {
        let tool = |name: &str| json!({ "name": name, "description": format!("Reads {name} {word}"), "inputSchema": { "type": "object" } });
        Value::from(["one", "two", "three", "four"].map(tool).to_vec())
    };
    let kernel = Kernel::new(&stub(&files, "sh", &list("whole"), &json!({})));
    let home = &kernel.home;
    let waiting = || home.json("tools-ls", &["tools", "ls", "--waiting"]).as_array().unwrap().len();
    let pinned = || {
        let all = home.json("tools-ls", &["tools", "ls", "sh"]);
        all.as_array().unwrap().iter().filter(|tool| tool["standing"] == "pinned").count()
    };
    let lacks = || kernel.server("sh")["lacks"].clone();
    let upgrade = |word: &str| {
        files.write("sh.tools.json", &list(word).to_string());
        home.silent(&["servers", "restart", "sh"]);
        until_blocking("the definitions wait", || waiting() == 4);
    };
    until_blocking("the definitions are checked", || pinned() == 4);
    home.fail(1, &["tools", "approve", "--all"], "no definition needs a decision");
    home.fail(1, &["tools", "approve", "sh.one"], "needs no decision; its definition is pinned");
    home.fail(1, &["tools", "approve", "sh.u"], "there is no tool `sh.u`");
    upgrade("in part");
    let why = "4 definitions wait for an operator; see `mgp tools ls sh --waiting`";
    assert_eq!(lacks(), why);
    let report = home.json("doctor", &["doctor", "--no-start"]);
    assert!(report.to_string().contains("in the kernel: 4 definitions wait"), "{report}");
    let printed = home.succeed(&["tools", "ls", "--waiting"]);
    assert!(printed.contains("mgp tools approve sh."), "{printed}");
    home.fail(2, &["tools", "approve", "sh.one"], "add --yes");
    home.fail(
        1,
        &["tools", "approve", "other.*", "--yes"],
        "no definition of `other.*` needs a decision",
    );
    home.fail(2, &["tools", "approve", "sh", "--fingerprint", "x"], "name one tool");
    let because = ["--yes", "--because", "it is meant so"];
    let ended = home.run(&[&["tools", "approve", "sh.t*", "sh.one"][..], &because].concat());
    let shown = "  /description was “Reads one whole”, is “Reads one in part”";
    assert_eq!((ended.code, ended.err.contains(shown)), (Some(0), true), "{ended:?}");
    until_blocking("the definitions are decided", || waiting() == 1);
    upgrade("again");
    home.succeed(&["tools", "approve", "sh", "--yes"]);
    until_blocking("the definitions are decided", || waiting() == 0);
    upgrade("at last");
    home.succeed(&["tools", "approve", "--all", "--yes"]);
    until_blocking("the definitions are decided", || waiting() == 0);
    until_blocking("the warning is updated", || lacks().is_null());
    let approved = home.succeed(&["audit", "query", "--type", "dev.cloto.definition_approved"]);
    assert!(approved.contains("sh.one"), "{approved}");
}

#[test]
fn the_index_is_exported_after_its_kernel_has_stopped() {
    let home = Home::new();
    home.fail(1, &["index", "export"], "the index is empty");
    let kernel = Kernel::bench();
    let home = &kernel.home;
    home.silent(&["stop"]);
    let lines = home.succeed(&["index", "export"]);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(first["tool_id"].as_str().unwrap().starts_with("bench."), "{first}");
    assert!(first.get("embedding").is_none(), "{first}");
    assert!(home.succeed(&["index", "export", "--vectors"]).contains("\"embedding\":["));
}

#[test]
fn why_names_the_rule_that_decides_a_call_and_makes_no_call() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    let refused = home.json("why", &["why", "ada", "bench.echo", "message=hello"]);
    assert_eq!((&refused["outcome"], &refused["code"]), (&json!("refuse"), &json!(1001)));
    assert_eq!(refused["steps"][0]["rule"], "default_policy opt-in", "{refused}");

    home.succeed(&["access", "grant", "ada", "bench"]);
    let allowed = home.json("why", &["why", "ada", "bench.echo", "message=hello"]);
    let rule = allowed["steps"][0]["rule"].as_str().unwrap();
    assert!(rule.starts_with("server_grant allow for ada on bench"), "{allowed}");
    assert_ne!(allowed["outcome"], "refuse", "{allowed}");
    let text = home.succeed(&["why", "ada", "bench.echo"]);
    assert!(text.contains("bench.echo") && text.contains(rule), "{text}");

    home.fail(1, &["why", "ada", "no_such_tool"], "see `mgp tools ls`");
    home.fail(2, &["why", "bench.echo", "ada"], "agent before it: `mgp why ada bench.echo`");
    home.fail(2, &["why", "ada", "bench.echo", "text"], "is not NAME=VALUE");
    let calls = home.json("audit-query", &["audit", "query", "--type", "TOOL_EXECUTED"]);
    assert_eq!(calls, json!([]), "nothing was called");
}
