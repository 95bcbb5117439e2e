//! The same over `mgp serve`: what is refused, what an operator types, and what a killed kernel does not lose.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{SERVER, asks, folder};

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// `mgp serve` on a folder that goes with it.
struct Served {
    folder: PathBuf,
    child: Child,
}

impl Served {
    fn new(config: &str) -> Self {
        let folder = folder("served");
        fs::write(folder.join("mgp.toml"), config).unwrap();
        let child = serve(&folder);
        Self { folder, child }
    }

    /// Kills the kernel as hard as can be.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_file(self.folder.join("ready.json")).unwrap();
    }

    fn again(&mut self) {
        self.child = serve(&self.folder);
    }

    fn join(&self, role: &str) -> Wire {
        let ready: Value =
            serde_json::from_slice(&fs::read(self.folder.join("ready.json")).unwrap()).unwrap();
        let mut stream = UnixStream::connect(ready["socket"].as_str().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{{\"mgp\":1,{role}}}\n").as_bytes()).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut wire = Wire { stream, reader, next: 0 };
        assert_eq!(wire.line()["ok"], true);
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"mgp": {"version": "0.6.0", "extensions": ["access_control", "discovery"]}},
            "clientInfo": {"name": "test", "version": "1"},
        });
        wire.ask("initialize", &hello).unwrap();
        let ready = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        wire.stream.write_all(ready.as_bytes()).unwrap();
        wire
    }

    fn operator(&self) -> Wire {
        self.join("\"as\":\"operator\"")
    }

    fn agent(&self, name: &str) -> Wire {
        self.join(&format!("\"as\":\"agent\",\"agent\":\"{name}\""))
    }

    /// The same command line as an operator types it.
    fn mgp(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command.arg("--state").arg(self.folder.join("state")).args(arguments);
        command.env("HOME", &self.folder).env_remove("XDG_CONFIG_HOME").current_dir(&self.folder);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn runs(&self, id: &str) -> usize {
        let runs = fs::read_to_string(self.folder.join(format!("{id}.runs")));
        runs.map_or(0, |runs| runs.lines().count())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn serve(folder: &std::path::Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.args(["serve", "--http", "127.0.0.1:0", "--no-auth", "--config"]);
    command.arg(folder.join("mgp.toml")).arg("--state").arg(folder.join("state"));
    command.arg("--ready-file").arg(folder.join("ready.json")).current_dir(folder);
    for name in ["MGP_STATE", "MGP_CONFIG", "MGP_CONFIG_PATH", "MGP_LOG"] {
        command.env_remove(name);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = child.spawn().unwrap();
    within(|| folder.join("ready.json").exists());
    child
}

/// A connection to the socket.
struct Wire {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    next: u64,
}

impl Wire {
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The result, or the error.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.stream.write_all((line.to_string() + "\n").as_bytes()).unwrap();
        loop {
            let mut answer = self.line();
            if answer["id"] == self.next && answer.get("method").is_none() {
                let is_error = answer.get("error").is_some();
                return if is_error {
                    Err(answer["error"].take())
                } else {
                    Ok(answer["result"].take())
                };
            }
        }
    }

    /// The code and the remedy of a refusal.
    #[track_caller]
    fn refused(&mut self, method: &str, params: &Value) -> (i64, Value) {
        let error = self.ask(method, params).unwrap_err();
        assert_eq!(error["data"]["_mgp"]["retryable"], false, "{error}");
        (error["code"].as_i64().unwrap(), error["data"]["_mgp"]["details"]["remedy"].clone())
    }

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

#[track_caller]
fn within(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it took too long");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_refusal_is_seen_on_the_wire() {
    let entry = |id: &str, folder: &str| {
        format!(
            "[[servers]]\nid = '{id}'\ncommand = '/bin/sh'\nargs = ['-c', '''{SERVER}''', '{id}', '{folder}']\n\
             [servers.mgp]\ndefault_policy = 'opt-out'\n"
        )
    };
    let place = std::env::temp_dir();
    let place = place.to_str().unwrap();
    let served = Served::new(&(entry("one", place) + &entry("two", place)));
    let (mut operator, mut ada) = (served.operator(), served.agent("ada"));
    let params = serde_json::to_value(asks(&served.folder, "made")).unwrap();
    assert_eq!(ada.refused("mgp/discovery/register", &params).0, 1000);
    assert_eq!(ada.refused("mgp/discovery/deregister", &json!({"id": "one"})).0, 1000);
    for tool in ["mgp.discovery.register", "mgp.discovery.deregister"] {
        operator.grant("ada", "mgp", tool);
    }
    within(|| operator.server("one")["tools"] == 2 && operator.server("two")["tools"] == 2);

    let conflict = ada.ask("tools/call", &json!({"name": "say", "arguments": {}})).unwrap_err();
    assert_eq!(conflict["code"], 4003, "{conflict}");
    let said = conflict["message"].as_str().unwrap();
    assert!(said.contains("one.say") && said.contains("two.say"), "{said}");
    assert_eq!(ada.refused("mgp/discovery/deregister", &json!({"id": "nothing"})).0, 4004);

    fs::write(served.folder.join("made.sh"), "exit 0\n").unwrap();
    let mut script = params.clone();
    (script["command"], script["args"]) = (json!("/bin/sh"), json!(["made.sh"]));
    let (code, remedy) = ada.refused("mgp/discovery/register", &script);
    assert!(code == 4100 && remedy.as_str().unwrap().contains("have an operator"), "{remedy}");
    let mut taken = params.clone();
    taken["id"] = json!("one");
    let (code, remedy) = ada.refused("mgp/discovery/register", &taken);
    assert!(code == 4101 && remedy.as_str().unwrap().contains("another id"), "{remedy}");
    let (code, remedy) = operator.refused("mgp/discovery/deregister", &json!({"id": "one"}));
    assert!(code == 4102 && remedy.is_string(), "{code} {remedy}");
    assert_eq!(served.runs("made"), 0);
}

#[test]
fn an_operator_sees_it_among_the_approvals_decides_and_removes_it() {
    let served = Served::new("");
    let mut ada = served.agent("ada");
    served.operator().grant("ada", "mgp", "mgp.discovery.register");
    let params = serde_json::to_value(asks(&served.folder, "made")).unwrap();
    let told = ada.ask("mgp/discovery/register", &params).unwrap();
    let id = told["approval_id"].as_str().unwrap();

    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = said(&served.mgp(&["approvals", "ls"]));
    for shown in [id, "registration", "ada", "made", "teller", "is denied", "to be told things"] {
        assert!(listed.contains(shown), "{shown}: {listed}");
    }
    assert!(said(&served.mgp(&["servers", "ls"])).contains("waits for an operator"));
    let approved = served.mgp(&["approvals", "approve", id, "--because", "it is mine"]);
    assert!(approved.status.success() && approved.stdout.is_empty(), "{approved:?}");
    assert!(said(&served.mgp(&["approvals", "ls"])).contains("nothing waits"));
    assert!(said(&served.mgp(&["servers", "ls", "made"])).contains("registered"));
    assert_eq!(served.runs("made"), 1);
    let audit = || said(&served.mgp(&["audit", "query", "--server", "made", "--json"]));
    within(|| audit().contains("it is mine") && audit().contains("dev.cloto.server_registered"));

    let removed = served.mgp(&["servers", "rm", "made"]);
    assert!(removed.status.success() && removed.stdout.is_empty(), "{removed:?}");
    assert!(said(&served.mgp(&["servers", "ls"])).contains("no servers"));
    let again = served.mgp(&["servers", "rm", "made"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stderr).contains("no server `made`"), "{again:?}");

    // One that does not start was approved all the same, and whoever did hears so.
    let mut broken = params.clone();
    broken["args"] = json!(["-c", "exit 3"]);
    broken["mgp"] = json!({"restart_policy": "never"});
    let told = ada.ask("mgp/discovery/register", &broken).unwrap();
    let approved = served.mgp(&["approvals", "approve", told["approval_id"].as_str().unwrap()]);
    assert_eq!(approved.status.code(), Some(1), "{approved:?}");
    assert!(String::from_utf8_lossy(&approved.stderr).contains("did not start"), "{approved:?}");
}

#[test]
fn an_entry_that_takes_the_id_of_a_registered_server_says_so() {
    let mut served = Served::new("");
    let params = serde_json::to_value(asks(&served.folder, "made")).unwrap();
    served.operator().ask("mgp/discovery/register", &params).unwrap();
    let config = served.folder.join("mgp.toml");
    let add = |served: &Served, id: &str| {
        let arguments = ["--json", "servers", "add", id, "--config", config.to_str().unwrap()];
        let added = served.mgp(&[&arguments[..], &["--no-grant", "--", "/bin/cat"]].concat());
        assert!(added.status.success(), "{added:?}");
        let added: Value = serde_json::from_slice(&added.stdout).unwrap();
        added["notes"].to_string()
    };
    assert!(!add(&served, "other").contains("registered"));
    let note = add(&served, "made");
    assert!(note.contains("`made` was registered while a kernel ran; that server rests"), "{note}");
    // It does, and comes back as the note says.
    within(|| served.operator().server("made")["source"] == config.to_str().unwrap());
    let remove = ["servers", "rm", "made", "--config", config.to_str().unwrap()];
    assert!(served.mgp(&remove).status.success());
    within(|| served.operator().server("made")["source"] == "registered");
    // Also where no kernel runs.
    served.kill();
    assert!(add(&served, "made").contains("was registered while a kernel ran"));
}

#[test]
fn a_kernel_that_is_killed_between_approval_and_start_loses_nothing() {
    let mut served = Served::new("");
    served.operator().grant("ada", "mgp", "mgp.discovery.register");
    for id in ["one", "two", "three"] {
        // It does not come up before it may.
        let late = served.folder.join(format!("{id}.late"));
        fs::write(&late, "").unwrap();
        let params = serde_json::to_value(asks(&served.folder, id)).unwrap();
        let told = served.agent("ada").ask("mgp/discovery/register", &params).unwrap();
        let approval = json!({"id": told["approval_id"]});
        // What waits is kept too.
        served.kill();
        served.again();
        let mut operator = served.operator();
        let told = operator.ask("mgp/kernel/approvals/approve", &approval).unwrap();
        assert_eq!((&told["status"], served.runs(id)), (&json!("connecting"), 0), "{told}");
        served.kill();
        served.again();
        fs::remove_file(late).unwrap();
        let mut operator = served.operator();
        within(|| operator.server(id)["status"] == "connected");
        assert_eq!(served.runs(id), 1);
        // Taken back and killed at once, it is gone.
        if id == "two" {
            operator.ask("mgp/discovery/deregister", &json!({"id": id})).unwrap();
            served.kill();
            served.again();
            let mut operator = served.operator();
            within(|| operator.server(id).is_null());
            let all = operator.ask("mgp/kernel/approvals", &json!({})).unwrap();
            assert_eq!(all["approvals"], json!([]));
        }
    }
    // The others are known, and nothing starts them but a call.
    let mut operator = served.operator();
    assert_eq!(operator.server("one")["source"], "registered");
    assert_eq!(operator.server("three")["status"], "connected");
}
