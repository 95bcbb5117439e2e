//! A kernel with five foreign servers, which is started once and shared by all conversations that need a kernel.

use super::super::{
    Ours, Stage, clients::at_home, install::Places, relay::Traffic, relayed, servers,
};
use crate::{
    child,
    run::{Context, Failure, Outcome, now},
    serving::Served,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

/// The time within which the kernel must know the tools of all five servers, long enough for a busy machine.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(90);

/// The time limit of each command of `mgp` that administers the kernel.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The id of the server that requests roots and keeps state, so each agent gets its own instance of it.
pub(super) const EVERYTHING: &str = "everything";

/// The running kernel, its API keys, and the folder with its configuration and state.
#[derive(Debug)]
pub(in super::super) struct World {
    served: Served,
    keys: BTreeMap<String, String>,
    mgp: PathBuf,
    folder: PathBuf,
    home: PathBuf,
}

impl World {
    /// Starts the kernel over HTTP with API keys, and waits until it knows the tools of all servers.
    pub(in super::super) fn start(stage: &Stage) -> Outcome<Self> {
        let (places, mgp) = (&stage.places, stage.program(Ours::Mgp)?);
        let folder = places.emptied("kernel")?;
        fs::write(
            folder.join("mgp.toml"),
            configuration(places, &folder, &super::inspector::agents())?,
        )?;
        let mut keys = BTreeMap::new();
        for agent in super::with_keys() {
            let made = ask(&mgp, &folder, &places.home(), &["keys", "add", &agent])?;
            keys.insert(agent, made["key"].as_str().context("a key")?.to_owned());
        }
        let command = |port| {
            let mut command = Command::new(&mgp);
            command.arg("serve").args(["--http", &format!("127.0.0.1:{port}")]);
            command.args(of(&folder));
            at_home(&mut command, places);
            Ok(command)
        };
        let served = Served::start(command, &places.log("kernel", "server"))?;
        let world = Self { served, keys, folder, home: places.home(), mgp: mgp.clone() };
        let end = now() + DISCOVERY_TIMEOUT;
        while !world.knows_all()? {
            if now() > end {
                return Err(Failure::new("the kernel does not know the tools of all servers"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(world)
    }

    fn knows_all(&self) -> Outcome<bool> {
        let servers = self.ask(&["servers", "ls"])?;
        let known = |server: &Value| server["tools"].as_u64().is_some_and(|tools| tools > 0);
        let servers = servers.as_array().context("a list of servers")?;
        Ok(servers.len() == servers::collection().count() && servers.iter().all(known))
    }

    pub(super) fn port(&self) -> u16 {
        self.served.port()
    }

    /// Runs a command of `mgp` for this kernel; returns its output as JSON.
    pub(super) fn ask(&self, words: &[&str]) -> Outcome<Value> {
        ask(&self.mgp, &self.folder, &self.home, words)
    }

    /// Returns the API key of an agent.
    pub(super) fn key(&self, agent: &str) -> Outcome<&str> {
        Ok(self.keys.get(agent).context(format!("a key for {agent}"))?)
    }

    /// Returns the command that a host starts to connect to this kernel over stdio.
    pub(super) fn shim(&self, agent: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.mgp.clone().into(), "serve".into()];
        words.extend(["--stdio", "--agent", agent].map(OsString::from));
        words.extend(of(&self.folder));
        words
    }

    /// Returns the command that a host starts for a kernel of its own, with a separate state folder.
    pub(super) fn alone(&self, places: &Places, agent: &str) -> Outcome<Vec<OsString>> {
        let mut words = self.shim(agent);
        words.pop();
        words.push(places.emptied("kernel-alone")?.into());
        words.push("--standalone".into());
        Ok(words)
    }

    /// Returns the recorded traffic between the kernel and each process of a server.
    pub(super) fn below(&self, server: &str) -> Outcome<Vec<Traffic>> {
        let folder = self.folder.join(server);
        let files = fs::read_dir(&folder).context(folder.display())?;
        files.map(|file| Traffic::read(&file?.path())).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Ignores errors: dropping `served` kills a kernel that does not stop by itself.
        let _ = self.ask(&["stop"]);
    }
}

/// Runs a command of `mgp` on the state folder of a kernel.
fn ask(mgp: &Path, folder: &Path, home: &Path, words: &[&str]) -> Outcome<Value> {
    let mut command = Command::new(mgp);
    command.args(words).arg("--state").arg(folder.join("state")).arg("--json").env("HOME", home);
    let errors = folder.join("mgp.stderr");
    let ended = child::run(command, "", &errors, TIMEOUT)?;
    if !ended.success {
        let why = fs::read_to_string(&errors).unwrap_or_default();
        return Err(Failure::new(format!("mgp {}: {}", words.join(" "), why.trim())));
    }
    // Some commands print nothing on success.
    if ended.stdout.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&ended.stdout).context(&ended.stdout)
}

/// Returns the flags for a kernel's configuration and state folder; the state folder must be last, because
/// [`World::alone`] replaces it.
fn of(folder: &Path) -> [OsString; 4] {
    let (file, state) = (folder.join("mgp.toml"), folder.join("state"));
    ["--config".into(), file.into(), "--state".into(), state.into()]
}

/// Returns a configuration with five servers that are open to every agent. Each server runs behind a recording relay,
/// and the agents in `pinned` have a pinned tool.
fn configuration(places: &Places, folder: &Path, pinned: &[String]) -> Outcome<String> {
    let mut text =
        "[kernel]\nsurface = \"search\"\npermission_policy = \"auto_approve\"\n".to_owned();
    for agent in pinned {
        // Ignores the results of `write!`, because writing to a string cannot fail.
        let _ = write!(text, "\n[agents.{agent}]\npinned = [\"echo\"]\n");
    }
    for (id, _, command) in servers::collection() {
        let traffic = folder.join(id);
        fs::create_dir(&traffic).context(traffic.display())?;
        let [program, arguments @ ..] = relayed(&traffic)?;
        let all: Vec<_> = arguments.into_iter().chain(command(places)?).collect();
        let _ = write!(
            text,
            "\n[[servers]]\nid = \"{id}\"\ncommand = {}\nargs = [{}]\n[servers.mgp]\n\
             default_policy = \"opt-out\"\n",
            quoted(&program),
            all.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "),
        );
        if id == EVERYTHING {
            // Declares a tool safe as the operator: its name suggests a risk, although the server declares it
            // read-only.
            text.push_str("risk = { trigger-long-running-operation = \"safe\" }\n");
            text.push_str("isolation = \"per_agent\"\n");
        }
    }
    Ok(text)
}

/// Returns a word as a TOML string, escaped as in JSON; `$` is doubled, because a single one would begin a variable.
fn quoted(word: &std::ffi::OsStr) -> String {
    Value::from(word.to_string_lossy().replace('$', "$$")).to_string()
}
