//! Tests of registration over `mgp serve`: commands of the operator, and recovery after the kernel is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use mgp_testkit::{KilledChild, TempDir, until_blocking};
use mgp_transport::Confinement;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::wire::{OPERATOR, Wire, agent};
use crate::world::{allowing, asks, folder};

/// A running `mgp serve` in a temporary folder.
struct Served {
    child: KilledChild,
    folder: TempDir,
}

impl Served {
    fn new(config: &str) -> Self {
        let folder = folder();
        fs::write(folder.path().join("mgp.toml"), allowing(config, folder.path())).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let child = serve(folder.path());
        Self { child, folder }
    }

    /// Kills the kernel with SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_file(self.path("ready.json")).unwrap();
    }

    fn restart(&mut self) {
        self.child = serve(self.folder.path());
    }

    fn wire(&self, hello: &str) -> Wire {
        let ready = fs::read(self.path("ready.json")).unwrap();
        let ready: Value = serde_json::from_slice(&ready).unwrap();
        Wire::open(Path::new(ready["socket"].as_str().unwrap()), hello)
    }

    fn operator(&self) -> Wire {
        self.wire(OPERATOR)
    }

    fn agent(&self, name: &str) -> Wire {
        self.wire(&agent(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command of `mgp` as an operator.
    fn mgp(&self, arguments: &[&str]) -> Output {
        self.mgp_in(self.folder.path(), arguments)
    }

    fn mgp_in(&self, working_folder: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command.arg("--state").arg(self.path("state")).args(arguments);
        command
            .env("HOME", self.folder.path())
            .env_remove("XDG_CONFIG_HOME")
            .current_dir(working_folder);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Returns a request that registers a program, which writes into the folder `work`.
    fn asks(&self, id: &str) -> Value {
        let mut params = serde_json::to_value(asks(self.folder.path(), id)).unwrap();
        params["cwd"] = json!(self.path("work"));
        params["args"][3] = json!(self.path("work"));
        params
    }

    /// Approves the registration of the server `made`, and waits for a state of the server. Also returns whether the
    /// kernel replied at its time limit of 1.5 s, before the server had started or ended, e.g. on a slow machine.
    fn approve(&self, id: &str, because: &str, state: &str) -> (Output, bool) {
        let begun = Instant::now();
        let decision = ["approvals", "approve", id, "--because", because];
        let output = self.mgp(&[&decision[..], &["--grant", "filesystem.write"]].concat());
        let is_early = begun.elapsed() >= Duration::from_millis(1_500)
            && String::from_utf8_lossy(&output.stdout).contains("connecting");
        until_blocking(state, || self.operator().server("made")["status"] == state);
        (output, is_early)
    }

    fn runs(&self, id: &str) -> usize {
        let runs = fs::read_to_string(self.path(&format!("work/{id}.runs")));
        runs.map_or(0, |runs| runs.lines().count())
    }
}

fn serve(folder: &Path) -> KilledChild {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.args(["serve", "--http", "127.0.0.1:0", "--no-auth", "--config"]);
    command.arg(folder.join("mgp.toml")).arg("--state").arg(folder.join("state"));
    command.arg("--ready-file").arg(folder.join("ready.json")).current_dir(folder);
    command.env("HOME", folder).env_remove("XDG_CONFIG_HOME");
    for name in ["MGP_STATE", "MGP_CONFIG", "MGP_CONFIG_PATH", "MGP_LOG"] {
        command.env_remove(name);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = KilledChild(child.spawn().unwrap());
    until_blocking("the kernel is ready", || folder.join("ready.json").exists());
    child
}

impl Wire {
    fn grant(&mut self, agent: &str, server: &str, tool: &str) {
        let params = json!({
            "entry_type": "tool_grant", "agent_id": agent, "server_id": server, "tool_name": tool,
            "permission": "allow",
        });
        self.ask("mgp/access/grant", &params).unwrap();
    }

    fn server(&mut self, id: &str) -> Value {
        let all = self.ask("mgp/kernel/servers", &json!({})).unwrap();
        let found = all["servers"].as_array().unwrap().iter().find(|server| server["id"] == id);
        found.cloned().unwrap_or_default()
    }
}

#[test]
fn an_operator_approves_and_removes_a_registered_server() {
    let served = Served::new("");
    let mut ada = served.agent("ada");
    served.operator().grant("ada", "mgp", "mgp.discovery.register");
    let params = served.asks("made");
    let reply = ada.ask("mgp/discovery/register", &params).unwrap();
    let id = reply["approval_id"].as_str().unwrap();

    let printed = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = printed(&served.mgp(&["approvals", "ls"]));
    for shown in [id, "registration", "ada", "made", "teller", "is denied", "to be told things"] {
        assert!(listed.contains(shown), "{shown}: {listed}");
    }
    let waiting = printed(&served.mgp(&["servers", "ls"]));
    assert!(waiting.contains("waits for an operator"), "{waiting}");
    assert!(waiting.contains("  pending_approval  ") && !waiting.contains("idle"), "{waiting}");
    let (approved, is_early) = served.approve(id, "it is mine", "connected");
    let is_connected = is_early || printed(&approved).contains("connected");
    assert!(approved.status.success() && is_connected, "{approved:?}");
    assert!(printed(&served.mgp(&["approvals", "ls"])).contains("no pending approvals"));
    assert!(printed(&served.mgp(&["servers", "ls", "made"])).contains("registered"));
    assert_eq!(served.runs("made"), 1);
    let audit = || printed(&served.mgp(&["audit", "query", "--server", "made", "--json"]));
    until_blocking("the expected state", || {
        audit().contains("it is mine") && audit().contains("dev.cloto.server_registered")
    });

    // In the folder of a project whose server has the same id, `mgp servers rm` still removes the registered server.
    let project = served.path("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("mgp.toml"), "[[servers]]\nid = 'made'\ncommand = 'x'\n").unwrap();
    let removed = served.mgp_in(&project, &["servers", "rm", "made"]);
    assert!(removed.status.success() && printed(&removed) == "made: removed\n", "{removed:?}");
    assert!(printed(&served.mgp(&["servers", "ls"])).contains("no servers"));
    let again = served.mgp(&["servers", "rm", "made"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stderr).contains("no server `made`"), "{again:?}");

    // If a server does not start after its approval, `mgp approvals approve` reports this.
    let mut broken = params.clone();
    broken["args"] = json!(["-c", "exit 3"]);
    broken["mgp"] = json!({"restart_policy": "never"});
    let reply = ada.ask("mgp/discovery/register", &broken).unwrap();
    let (approved, is_early) = served.approve(reply["approval_id"].as_str().unwrap(), "x", "error");
    let is_reported = String::from_utf8_lossy(&approved.stderr).contains("did not start");
    assert!(is_early || is_reported && approved.status.code() == Some(1), "{approved:?}");
}

#[test]
fn a_listed_program_that_an_agent_registers_writes_only_with_a_grant() {
    let served = Served::new("");
    served.operator().grant("ada", "mgp", "mgp.discovery.register");
    let mut ada = served.agent("ada");
    let reply = ada.ask("mgp/discovery/register", &served.asks("made")).unwrap();
    let approval = json!({"id": reply["approval_id"]});
    let mut operator = served.operator();
    operator.ask("mgp/kernel/approvals/approve", &approval).unwrap();
    until_blocking("it is connected", || operator.server("made")["status"] == "connected");
    assert_eq!(served.runs("made"), usize::from(!Confinement::is_supported()));
    let rights = Confinement::is_supported().then_some("no further rights");
    assert_eq!(operator.server("made")["confinement"].as_str(), rights);
}

#[test]
fn a_program_that_may_read_and_write_reaches_neither_hidden_files_nor_those_of_the_kernel() {
    if !Confinement::is_supported() {
        return;
    }
    let config = r#"
[kernel.audit.sinks.all]
file = "~/events.jsonl"

[[servers]]
id = "off"
command = "/bin/cat"
env = { TOKEN = "${file:token}" }
enabled = false
"#;
    let served = Served::new(config);
    let files = ["notes/todo", ".profile", ".ssh/id", ".config/mgp/own", "token", "events.jsonl"];
    for file in files {
        let path = served.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x\n").unwrap();
    }
    let mut params = served.asks("made");
    let tries = r#"for file in notes/todo .profile .ssh/id .config/mgp/own state/secrets.json mgp.toml \
  token events.jsonl; do
  cat "$2/$file" > /dev/null 2>&1 && echo "reads $file" >> "$1/reached"
  (echo x >> "$2/$file") 2> /dev/null && echo "writes $file" >> "$1/reached"
done
mv "$2/notes/todo" "$2/mgp.toml" 2> /dev/null && echo "replaces mgp.toml" >> "$1/reached"
"#;
    params["args"][1] = json!(format!("{tries}{}", params["args"][1].as_str().unwrap()));
    params["args"].as_array_mut().unwrap().push(json!(served.folder.path()));
    params["cwd"] = json!(served.folder.path());
    params["mgp"] = json!({"permissions_required": ["filesystem.read"]});
    let mut operator = served.operator();
    operator.grant("ada", "mgp", "mgp.discovery.register");
    let reply = served.agent("ada").ask("mgp/discovery/register", &params).unwrap();
    let approval = json!({"id": reply["approval_id"], "permissions": ["filesystem.write"]});
    operator.ask("mgp/kernel/approvals/approve", &approval).unwrap();
    until_blocking("it is connected", || operator.server("made")["status"] == "connected");
    let reached = fs::read_to_string(served.path("work/reached")).unwrap();
    assert_eq!(reached, "reads notes/todo\nwrites notes/todo\n");
}

#[test]
fn an_entry_with_the_id_of_a_registered_server_adds_a_note() {
    let mut served = Served::new("");
    let params = served.asks("made");
    served.operator().ask("mgp/discovery/register", &params).unwrap();
    let config = served.path("mgp.toml");
    let add = |served: &Served, id: &str| {
        let arguments = ["--json", "servers", "add", id, "--config", config.to_str().unwrap()];
        let added = served.mgp(&[&arguments[..], &["--no-grant", "--", "/bin/cat"]].concat());
        assert!(added.status.success(), "{added:?}");
        let added: Value = serde_json::from_slice(&added.stdout).unwrap();
        added["notes"].to_string()
    };
    assert!(!add(&served, "other").contains("registered"));
    let note = add(&served, "made");
    assert!(
        note.contains("`made` is also a registered server, which this entry replaces"),
        "{note}"
    );
    // The configured entry replaces the registered server until the entry is removed.
    until_blocking("the expected state", || {
        served.operator().server("made")["source"] == config.to_str().unwrap()
    });
    let remove = ["servers", "rm", "made", "--config", config.to_str().unwrap()];
    assert!(served.mgp(&remove).status.success());
    until_blocking("the expected state", || {
        served.operator().server("made")["source"] == "registered"
    });
    // `mgp servers add` prints the note even if no kernel runs.
    served.kill();
    assert!(add(&served, "made").contains("is also a registered server"));
}

#[test]
fn a_kernel_killed_between_approval_and_start_loses_nothing() {
    let mut served = Served::new("");
    served.operator().grant("ada", "mgp", "mgp.discovery.register");
    for id in ["one", "two", "three"] {
        // The server's script waits as long as this file exists.
        let late = served.path(&format!("work/{id}.late"));
        fs::write(&late, "").unwrap();
        let params = served.asks(id);
        let reply = served.agent("ada").ask("mgp/discovery/register", &params).unwrap();
        let approval = json!({"id": reply["approval_id"], "permissions": ["filesystem.write"]});
        // Pending registrations must survive a kill too.
        served.kill();
        served.restart();
        let mut operator = served.operator();
        let reply = operator.ask("mgp/kernel/approvals/approve", &approval).unwrap();
        assert_eq!((&reply["status"], served.runs(id)), (&json!("connecting"), 0), "{reply}");
        served.kill();
        served.restart();
        fs::remove_file(late).unwrap();
        let mut operator = served.operator();
        until_blocking("the expected state", || operator.server(id)["status"] == "connected");
        assert_eq!(served.runs(id), 1);
        // After a kill, the next kernel must not know a deregistered server.
        if id == "two" {
            operator.ask("mgp/discovery/deregister", &json!({"id": id})).unwrap();
            served.kill();
            served.restart();
            let mut operator = served.operator();
            until_blocking("the expected state", || operator.server(id).is_null());
            let all = operator.ask("mgp/kernel/approvals", &json!({})).unwrap();
            assert_eq!(all["approvals"], json!([]));
        }
    }
    // The kernel still knows the other servers after the restarts.
    let mut operator = served.operator();
    assert_eq!(operator.server("one")["source"], "registered");
    assert_eq!(operator.server("three")["status"], "connected");
}
