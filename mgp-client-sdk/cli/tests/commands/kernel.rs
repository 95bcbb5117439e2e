//! What is asked of a kernel that runs, and told to it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Home, example};

/// How often is looked for what must come.
const LOOKS: u32 = 400;

/// A kernel of one's own; it is gone at the end.
pub(crate) struct Kernel {
    pub(crate) home: Home,
    child: Child,
}

impl Kernel {
    pub(crate) fn new(config: &str) -> Self {
        let home = Home::new();
        let config = home.write("c.toml", config);
        Self::on(home, Some(&config))
    }

    /// One with this configuration, or those of the home, in a home where something is already.
    pub(crate) fn on(home: Home, config: Option<&Path>) -> Self {
        let ready: PathBuf = home.path("ready.json");
        let arguments = ["serve", "--http", "127.0.0.1:0", "--no-auth"];
        let mut command = home.command(&arguments);
        command.arg("--ready-file").arg(&ready);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let kernel = Self { home, child };
        until(|| ready.exists());
        kernel
    }

    /// One with the workbench, which has told what it has.
    pub(crate) fn bench() -> Self {
        let bench = example("workbench");
        let kernel = Self::new(&format!("[[servers]]\nid = 'bench'\ncommand = '{bench}'\n"));
        until(|| kernel.server("bench")["tools"].as_u64() > Some(5));
        kernel
    }

    pub(crate) fn server(&self, id: &str) -> Value {
        let all = self.home.json("servers-ls", &["servers", "ls"]);
        all.as_array().unwrap().iter().find(|server| server["id"] == id).unwrap().clone()
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
pub(crate) fn until(is_so: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("it did not come to that");
}

#[test]
fn a_kernel_says_what_it_is_and_stops_when_it_is_told_to() {
    let mut kernel = Kernel::bench();
    let status = kernel.home.json("status", &["status"]);
    assert_eq!((&status["servers"], &status["pid"]), (&json!(1), &json!(kernel.child.id())));
    assert!(kernel.home.well(&["status"]).starts_with("runs mgp "));
    kernel.home.json("sessions", &["sessions"]);
    let report = kernel.home.json("doctor", &["doctor", "--no-start"]);
    assert!(report.to_string().contains("runs as process"), "{report}");
    kernel.home.quietly(&["stop"]);
    kernel.home.ill(3, &["status"], "no kernel runs");
    assert!(kernel.child.wait().unwrap().success());
}

#[test]
fn what_is_wrong_in_the_files_is_said_until_it_is_mended() {
    let good = format!("[[servers]]\nid = 'echo'\ncommand = '{}'\n", example("echo"));
    let kernel = Kernel::new(&good);
    let home = &kernel.home;
    let severity = || home.json("status", &["status"])["findings"][0]["severity"].clone();
    assert_eq!(severity(), Value::Null);
    home.write("c.toml", "[[servers\n");
    until(|| severity() == "error");
    assert!(home.well(&["status"]).contains("/c.toml:1: "), "where it is");
    // The one that runs goes on as it was, and is what the entry is about.
    home.write("c.toml", &good.replace("command = ", "comand = "));
    until(|| home.well(&["status"]).contains("did you mean `command`?"));
    assert_eq!(kernel.server("echo")["status"], "connected");
    home.write("c.toml", &good);
    until(|| severity() == Value::Null);
}

#[test]
fn names_and_pages_that_are_allowed_reach_a_kernel_and_no_others() {
    let home = Home::new();
    let ready = home.path("ready.json");
    let made = home.json("keys-add", &["keys", "add", "ada"]);
    let key = made["key"].as_str().unwrap();
    let arguments = ["serve", "--http", "127.0.0.1:0", "--allow-host", "kernel.example"];
    let mut command = home.command(&arguments);
    command.args(["--allow-origin", "https://app.example", "--ready-file"]).arg(&ready);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| ready.exists());
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
    // What comes in is looked at: it lacks what a message needs.
    assert_eq!(status("kernel.example:8900", page), "415");
    assert_eq!(status(address, "http://localhost:3000"), "415");
    assert_eq!(status("evil.example", page), "403");
    assert_eq!(status("kernel.example", "https://evil.example"), "403");
    child.kill().unwrap();
    child.wait().unwrap();
    let arguments = ["serve", "--http", "127.0.0.1:0", "--allow-host", "https://kernel.example"];
    home.ill(2, &arguments, "is no host: write the name alone");
    home.ill(2, &["serve", "--stdio", "--allow-host", "kernel.example"], "--stdio");
    let arguments = ["--allow-host", "kernel.example", "--no-auth"];
    home.ill(2, &[&["serve", "--http", "127.0.0.1:0"], &arguments[..]].concat(), "--no-auth");
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let home = Home::new();
    // More than a pipe holds: each line names the file.
    let many = |number| format!("[agents.a{number}]\nbudgte = 1\n");
    let file = format!("{}/c.toml", "long".repeat(60));
    let config = home.write(&file, &(0..250).map(many).collect::<String>());
    let ready = home.path("ready.json");
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--no-auth"]);
    command.arg("--ready-file").arg(&ready).arg("--config").arg(config);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| ready.exists());
    home.well(&["status"]);
    home.quietly(&["stop"]);
    assert!(child.wait().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("did you mean `budget`?") && said.len() <= 1 << 16, "{}", said.len());
}

#[test]
fn the_folder_is_free_once_a_kernel_was_stopped() {
    // It takes its time to end once its standard input is closed.
    let echo = example("echo");
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'slow'\ncommand = 'sh'\nargs = ['-c', 'trap \"\" TERM; \"$0\"; sleep 1.5', '{echo}']\n"
    ));
    let home = &kernel.home;
    until(|| kernel.server("slow")["status"] == "connected");
    home.quietly(&["stop"]);
    let lock = fs::File::open(home.path(".local/state/mgp/kernel.lock")).unwrap();
    lock.try_lock().expect("the kernel has gone");
}

#[test]
fn a_ready_file_that_cannot_be_written_ends_it_in_order() {
    let home = Home::new();
    home.write(".config/mgp/servers.toml", "[[servers]]\nid = 'echo'\ncommand = 'echo'\n");
    let arguments = ["serve", "--http", "127.0.0.1:0", "--no-auth", "--ready-file", "none/there"];
    home.ill(1, &arguments, "the ready file `none/there` cannot be written");
    assert!(!home.path(".local/state/mgp/mgp.sock").exists());
    home.well(&["audit", "verify"]);
}

#[test]
fn a_log_that_is_kept_elsewhere_is_found_by_every_command() {
    let home = Home::new();
    home.quietly(&["access", "grant", "ada", "bench"]);
    home.write(".config/mgp/servers.toml", "[kernel.audit]\ndir = '~/logs'\n");
    let kernel = Kernel::on(home, None);
    let home = &kernel.home;
    assert!(home.path("logs").exists());
    home.well(&["keys", "add", "ada"]);
    home.quietly(&["access", "grant", "bob", "bench"]);
    let whole = || {
        home.well(&["audit", "verify"]);
        let report = home.any_json("doctor", &["doctor", "--no-start"]).0;
        assert!(report.to_string().contains("as they were written"), "{report}");
    };
    whole();
    home.quietly(&["stop"]);
    whole();
    home.quietly(&["access", "grant", "cid", "bench"]);
    let found = home.json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED"]);
    let found = found.to_string();
    assert!(found.contains("\"bob\"") && found.contains("\"cid\""), "{found}");
}

#[test]
fn a_host_hears_that_the_kernel_has_the_files_of_another_folder() {
    let home = Home::new();
    let file = home.write("work/mgp.toml", "");
    let kernel = Kernel::on(home, None);
    let home = &kernel.home;
    let said = |folder: &str| {
        let mut command = home.command(&["serve", "--stdio"]);
        let ended = command.current_dir(home.path(folder)).output().unwrap();
        String::from_utf8(ended.stderr).unwrap()
    };
    assert!(!said("work").contains("that one counts"));
    fs::create_dir(home.path("other")).unwrap();
    let other = said("other");
    assert!(other.contains(file.to_str().unwrap()) && other.contains("--standalone"), "{other}");
}

#[cfg(unix)]
#[test]
fn a_host_that_is_told_to_end_takes_its_ready_file_with_it() {
    let home = Home::new();
    home.write(".config/mgp/servers.toml", "");
    let kernel = Kernel::on(home, None);
    let ready = kernel.home.path("host.json");
    let mut command = kernel.home.command(&["serve", "--stdio", "--ready-file"]);
    let mut host = command.arg(&ready).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // A host whose input ends would end by itself.
    let input = host.stdin.take();
    until(|| ready.exists());
    let told = std::process::Command::new("kill").arg(host.id().to_string()).status().unwrap();
    assert!(told.success());
    assert_eq!(host.wait().unwrap().code(), Some(128 + 15));
    drop(input);
    assert!(!ready.exists());
}

#[test]
fn servers_are_started_stopped_and_looked_at() {
    let script = "echo 'I am here' >&2; exec \"$0\"";
    let echo = example("echo");
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'echo'\ncommand = 'sh'\nargs = ['-c', '''{script}''', '{echo}']\n\
         [[servers]]\nid = 'gone'\ncommand = 'no-such-program'\n"
    ));
    let home = &kernel.home;
    until(|| kernel.server("echo")["status"] == "connected");
    let table = home.well(&["servers", "ls"]);
    assert!(table.starts_with("ID") && table.contains("echo  connected"), "{table}");
    assert!(home.well(&["servers", "ls", "echo"]).contains("process"));
    home.ill(1, &["servers", "start", "gone"], "look with `mgp doctor gone`");
    let lines = home.json("servers-logs", &["servers", "logs", "echo"]);
    assert_eq!(lines[0]["text"], "I am here");

    let process = kernel.server("echo")["pid"].clone();
    let done = home.json("done", &["servers", "restart", "echo"]);
    assert_eq!(done, json!({ "subject": "echo", "status": "connected", "notes": [] }));
    assert_eq!(kernel.server("echo")["status"], "connected");
    assert_ne!(kernel.server("echo")["pid"], process);
    home.quietly(&["servers", "stop", "echo", "--timeout", "5s"]);
    until(|| kernel.server("echo")["status"] == "disconnected");
    home.quietly(&["servers", "start", "echo"]);
    assert_eq!(kernel.server("echo")["status"], "connected");
    home.ill(1, &["servers", "ls", "nobody"], "there is no server `nobody`");
    home.ill(1, &["servers", "start", "nobody"], "there is no server `nobody`");
    home.ill(1, &["servers", "rm", "nobody"], "nobody");
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
    assert!(home.well(&["tools", "ls", "--agent", "ada"]).contains("no: default_policy opt-in"));
    assert!(
        home.well(&["tools", "search", "echo", "--agent", "ada"]).contains("nothing was found")
    );
    home.ill(1, &["tools", "call", "bench.echo", "message=hi", "--agent", "ada"], "bench");

    home.quietly(&["access", "grant", "ada", "bench"]);
    home.quietly(&["access", "grant", "ada", "bench", "echo", "--no-confirm"]);
    assert_eq!(seen("ada"), (true.into(), Value::Null));
    let found = home.json("tools-search", &["tools", "search", "echo a message", "--agent", "ada"]);
    assert_eq!(found[0]["tool_id"], "bench.echo");
    assert_eq!(home.well(&["tools", "call", "bench.echo", "message=hi", "--agent", "ada"]), "hi\n");
    let answer = home.json(
        "tools-call",
        &["tools", "call", "bench.echo", "--arguments", "{\"message\":\"7\"}", "--agent", "ada"],
    );
    assert_eq!(answer["content"][0]["text"], "7");
    let mut command =
        home.command(&["tools", "call", "bench.echo", "--arguments", "-", "--agent", "ada"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"message\":\"read\"}").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"read\n");
    home.ill(2, &["tools", "call", "bench.echo", "--arguments", "[]"], "no JSON object");
    home.ill(2, &["tools", "call", "bench.echo", "hi"], "is not NAME=VALUE");
    home.ill(1, &["tools", "call", "bench.nothing", "--agent", "ada"], "nothing");

    let tokens = home.json("tools-tokens", &["tools", "tokens", "--agent", "ada"]);
    assert!(tokens["listed"].as_u64() < tokens["all"].as_u64(), "{tokens}");
}

#[test]
fn what_is_changed_while_a_kernel_runs_holds_at_once_and_is_on_its_record() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    home.quietly(&["access", "grant", "ada", "bench", "--because", "over the socket"]);
    home.quietly(&["permissions", "approve", "bench", "network.outbound"]);
    home.quietly(&["permissions", "deny", "bench", "filesystem.write"]);
    let all = home.json("permissions-ls", &["permissions", "ls", "bench"]);
    assert_eq!(all.as_array().unwrap().len(), 2);
    home.quietly(&["permissions", "revoke", "bench", "filesystem.write"]);
    let events = home
        .json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED", "--server", "bench"]);
    assert_eq!(events.as_array().unwrap().len(), 1);
    assert!(home.well(&["audit", "tail", "-n", "30"]).contains("over the socket"));
    assert!(home.well(&["audit", "export"]).lines().count() > 3);
    let mut tail = home.command(&["audit", "tail", "-f", "-n", "1"]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    home.quietly(&["access", "grant", "bob", "bench"]);
    assert!(lines.any(|line| line.unwrap().contains("ACCESS_GRANTED")));
    // It ends with whoever reads it.
    drop(lines);
    home.quietly(&["access", "grant", "eve", "bench"]);
    // A tool that comes later may be named, and one that was typed wrong is told.
    let told = home.run(&["access", "grant", "eve", "bench", "ehco"]);
    let note = "mgp: no tool `ehco` is known here; did you mean `echo`?\n";
    assert_eq!((told.code, &*told.out, &*told.err), (Some(0), "", note));
    assert!(tail.wait().unwrap().success());

    // The kernel has the log to itself, and keys are recorded all the same.
    let before = home.json("audit-verify", &["audit", "verify"])["records"].as_u64().unwrap();
    let made = home.json("keys-add", &["keys", "add", "nightly"]);
    home.quietly(&["keys", "revoke", made["id"].as_str().unwrap()]);
    let after = home.json("audit-verify", &["audit", "verify"])["records"].as_u64().unwrap();
    assert!(after >= before + 2, "{before} {after}");
    home.quietly(&["access", "revoke", "ada", "bench"]);
    home.ill(1, &["access", "revoke", "ada", "bench"], "nothing to take back");
}

#[test]
fn what_was_pinned_before_a_kernel_began_is_what_it_finds() {
    let home = Home::new();
    home.well(&["servers", "add", "bench", "--agent", "ada", "--", &example("workbench")]);
    let pins = |home: &Home| {
        let arguments = ["audit", "query", "--type", "dev.cloto.definition_pinned"];
        home.json("audit-query", &arguments).as_array().unwrap().len()
    };
    let before = pins(&home);
    let kernel = Kernel::on(home, None);
    until(|| kernel.server("bench")["tools"].as_u64() > Some(5));
    let all = kernel.home.json("tools-ls", &["tools", "ls", "--agent", "ada"]);
    let all = all.as_array().unwrap();
    assert!(all.iter().all(|tool| tool["standing"] == "pinned" && tool["seen_by_agent"] == true));
    assert_eq!((before, pins(&kernel.home)), (all.len(), all.len()), "none is pinned anew");
}

#[test]
fn servers_come_and_go_while_a_kernel_runs() {
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
    let bench = example("workbench");
    let added =
        home.json("servers-add", &["servers", "add", "bench", "--agent", "ada", "--", &bench]);
    assert!(added["granted"][0].get("error").is_none(), "{added}");
    assert_eq!(ids(), ["bench"], "at once");
    until(|| home.well(&["tools", "search", "echo", "--agent", "ada"]).contains("bench.echo"));
    home.ill(1, &["servers", "add", "bench", "--", "x"], "there is a server `bench` already");

    // Sooner than the kernel would look by itself.
    home.well(&["servers", "add", "brief", "--no-grant", "--", &bench]);
    assert_eq!(ids(), ["bench", "brief"]);
    home.quietly(&["servers", "rm", "brief"]);
    assert_eq!(ids(), ["bench"]);

    // A project's server once it was approved, and no longer than that.
    home.write(
        "work/mgp.toml",
        &format!("[[servers]]\nid = 'echo'\ncommand = '{}'\n", example("echo")),
    );
    home.well(&["trust", "--yes"]);
    until(|| ids() == ["bench", "echo"]);
    home.quietly(&["trust", "--revoke"]);
    until(|| ids() == ["bench"]);
    home.quietly(&["servers", "rm", "bench"]);
    until(|| ids().is_empty());
}

/// A server in the shell whose one tool says what a file says.
const SHELL: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^[^,]*,"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","description":"%s","inputSchema":{"type":"object"}}]}}\n' "$id" "$(cat "$1")" ;;
    *'"method":"notifications/'*) ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn a_definition_that_changed_waits_until_somebody_looked_at_it() {
    let files = Home::new();
    let (script, says) = (files.write("s.sh", SHELL), files.write("says", "Reads a file"));
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'sh'\ncommand = 'sh'\nargs = ['{}', '{}']\n",
        script.display(),
        says.display()
    ));
    let home = &kernel.home;
    let standing = || {
        let all = home.json("tools-ls", &["tools", "ls"]);
        all.as_array().unwrap().first().map(|tool| tool["standing"].as_str().unwrap().to_owned())
    };
    until(|| standing().as_deref() == Some("pinned"));
    home.ill(1, &["tools", "approve", "sh.t"], "does not wait for anybody: it is pinned");
    home.ill(1, &["tools", "approve", "sh.u"], "there is no tool `sh.u`");
    fs::write(&says, "Sends a file to a stranger").unwrap();
    home.quietly(&["servers", "restart", "sh"]);
    until(|| standing().as_deref() == Some("changed"));
    let lacks = || kernel.server("sh")["lacks"].clone();
    let why = "1 definition waits for an operator; see `mgp tools ls sh --waiting`";
    assert_eq!(lacks(), why);
    let report = home.json("doctor", &["doctor", "--no-start"]);
    assert!(report.to_string().contains("in the kernel: 1 definition waits"), "{report}");
    let said = home.well(&["tools", "ls", "--waiting"]);
    assert!(said.contains("mgp tools approve sh.t"), "{said}");
    home.ill(2, &["tools", "approve", "sh.t"], "add --yes");
    let ended = home.run(&["tools", "approve", "sh.t", "--yes", "--because", "it is meant so"]);
    assert_eq!((ended.code, &*ended.out), (Some(0), ""), "{ended:?}");
    until(|| standing().as_deref() == Some("pinned"));
    until(|| lacks().is_null());
    let approved = home.well(&["audit", "query", "--type", "dev.cloto.definition_approved"]);
    assert!(approved.contains("sh.t"), "{approved}");
}

#[test]
fn what_an_index_finds_is_counted_and_written_out() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    home.quietly(&["stop"]);
    let lines = home.well(&["index", "export"]);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(
        first["tool_id"].as_str().unwrap().starts_with("bench.")
            && first.get("embedding").is_none()
    );
    let questions = home.write(
        "work/q.jsonl",
        "{\"query\": \"echo a message\", \"relevant\": [\"bench.echo\"]}\n\n{\"query\": \"anything\", \"relevant\": [\"bench.missing\"]}\n",
    );
    let questions = questions.to_str().unwrap();
    let judged = home.json("index-eval", &["index", "eval", questions, "--strategy", "keyword"]);
    assert_eq!(
        (&judged["questions"], &judged["recall"], &judged["first"]),
        (&json!(2), &json!(0.5), &json!(0.5))
    );
    assert_eq!(judged["missed"][0]["unknown"], json!(["bench.missing"]));
    assert!(home.well(&["index", "eval", questions]).contains("recall@5"));
    home.write("work/bad.jsonl", "{\"query\": 1}");
    home.ill(1, &["index", "eval", "bad.jsonl"], "line 1: no question");
    home.ill(1, &["index", "eval", "none.jsonl"], "cannot be read");
}
