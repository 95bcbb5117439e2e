//! A kernel with five foreign servers, which is started once and shared by all conversations that need a kernel.

use super::super::{Stage, install::Places, relay::Traffic, relayed, servers};
use crate::{
    accept::kernel::Kernel,
    run::{Context, Outcome},
    serving::Served,
};
use serde_json::Value;
use std::{collections::BTreeMap, ffi::OsString, fmt::Write, fs, path::Path};

/// The id of the server that requests roots and keeps state. For this reason, each agent gets its own instance of the
/// server.
pub(super) const EVERYTHING: &str = "everything";

/// The running kernel and its API keys.
#[derive(Debug)]
pub(in super::super) struct World {
    kernel: Kernel,
    served: Served,
    keys: BTreeMap<String, String>,
}

impl World {
    /// Starts the kernel over HTTP with API keys, and waits until it knows the tools of all servers.
    pub(in super::super) fn start(stage: &Stage) -> Outcome<Self> {
        let places = &stage.places;
        places.emptied("kernel")?;
        let mut kernel = Kernel::new("interop/kernel")?;
        kernel.env.push(("HOME", places.home().into()));
        kernel.env.push(("PYTHONIOENCODING", "utf-8".into()));
        let agents = super::inspector::agents();
        kernel.configure(&configuration(places, &kernel.place, &agents)?)?;
        let mut keys = BTreeMap::new();
        for agent in super::with_keys() {
            let made = kernel.json(&["keys", "add", &agent])?;
            keys.insert(agent, made["key"].as_str().context("a key")?.to_owned());
        }
        let served = kernel.serve(&[])?;
        kernel.tools(|tools| {
            servers::collection().all(|(id, ..)| tools.iter().any(|tool| tool["server_id"] == id))
        })?;
        Ok(Self { kernel, served, keys })
    }

    pub(super) fn port(&self) -> u16 {
        self.served.port()
    }

    /// Runs a command of `mgp` for this kernel; returns its output as JSON.
    pub(super) fn ask(&self, words: &[&str]) -> Outcome<Value> {
        self.kernel.json(words)
    }

    pub(super) fn key(&self, agent: &str) -> Outcome<&str> {
        Ok(self.keys.get(agent).context(format!("a key for {agent}"))?)
    }

    /// Returns the command that a host starts to connect to this kernel over stdio.
    pub(super) fn shim(&self, agent: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.kernel.program.clone().into(), "serve".into()];
        words.extend(["--stdio", "--agent", agent].map(OsString::from));
        let (config, state) = (self.kernel.config(), self.kernel.place.join("state"));
        let flags: [OsString; 4] =
            ["--config".into(), config.into(), "--state".into(), state.into()];
        words.extend(flags);
        words
    }

    /// Returns the command that a host starts for a kernel of its own, with a separate state folder.
    pub(super) fn alone(&self, places: &Places, agent: &str) -> Outcome<Vec<OsString>> {
        let mut words = self.shim(agent);
        // Remove the last word of the command, which is the state folder.
        words.pop();
        words.push(places.emptied("kernel-alone")?.into());
        words.push("--standalone".into());
        Ok(words)
    }

    /// Returns the recorded traffic between the kernel and each process of a server.
    pub(super) fn below(&self, server: &str) -> Outcome<Vec<Traffic>> {
        let folder = self.kernel.place.join(server);
        let files = fs::read_dir(&folder).context(folder.display())?;
        files.map(|file| Traffic::read(&file?.path())).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Ignores errors: dropping `served` kills a kernel that does not stop by itself.
        let _ = self.kernel.run(&["stop"]);
    }
}

/// Returns a configuration with five servers that are open to every agent. A relay records the messages of each server,
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
            // Declares a tool safe, as an operator would: the name of the tool suggests a risk, although the server
            // declares it read-only.
            text.push_str("risk = { trigger-long-running-operation = \"safe\" }\n");
            text.push_str("isolation = \"per_agent\"\n");
        }
    }
    Ok(text)
}

/// Returns a word as a TOML string, escaped as in JSON. Doubles each `$`, because a single `$` would begin a variable.
fn quoted(word: &std::ffi::OsStr) -> String {
    Value::from(word.to_string_lossy().replace('$', "$$")).to_string()
}
