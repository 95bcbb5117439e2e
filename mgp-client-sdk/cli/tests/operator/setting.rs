//! The fixture of these tests: a kernel that serves HTTP, a governed server `files`, and commands of an operator.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::program::program;
use crate::world::{World, kill, text, within};

/// The arguments of the change that the tests attempt: access to `files` for the agent `eve`.
pub(crate) const GRANT: [&str; 4] = ["access", "grant", "eve", "files"];

/// A running kernel and its folder.
pub(crate) struct Setting {
    pub(crate) world: World,
    kernel: Child,
}

impl Setting {
    /// Starts a kernel with the server `files` and further lines of configuration.
    pub(crate) fn new(more: &str) -> Self {
        let world = World::empty();
        Self::configured(world, more)
    }

    pub(crate) fn configured(world: World, more: &str) -> Self {
        let files = world.server("files", &format!("exec {}", program("echo")));
        world.config(&(more.to_owned() + &files.replace("opt-out", "opt-in")));
        let kernel = start(&world);
        Self { world, kernel }
    }

    /// Returns a command of `mgp` with the state and configuration of this kernel.
    pub(crate) fn mgp(&self, args: &[&str]) -> Command {
        mgp(&self.world, args)
    }

    /// Runs a command that must succeed, and returns its standard output.
    #[track_caller]
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that the kernel must refuse, and returns the reason.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output.stderr));
        text(&output.stderr)
    }

    fn output(&self, args: &[&str]) -> Output {
        self.mgp(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Returns whether the agent `eve` may use the server `files`.
    #[track_caller]
    pub(crate) fn is_granted(&self) -> bool {
        let query = self.succeed(&["--json", "access", "query", "eve", "files"]);
        let query: Value = serde_json::from_str(&query).unwrap();
        query["entries"].as_array().unwrap().iter().any(|entry| entry["permission"] == "allow")
    }

    /// Returns the recorded audit events of a type.
    #[track_caller]
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let found = self.succeed(&["--json", "audit", "query", "--type", kind]);
        serde_json::from_str::<Value>(&found).unwrap().as_array().unwrap().clone()
    }

    /// Returns the cause and the program of each refused attempt in the audit log.
    #[track_caller]
    pub(crate) fn refusals(&self) -> Vec<(String, String)> {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let refused = self.events("PERMISSION_DENIED");
        let causes = refused.iter().map(|event| &event["details"]);
        let causes =
            causes.map(|details| (word(&details["cause"]), word(&details["process"]["program"])));
        causes.collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.folder.join(name)
    }

    /// Waits until the last line of a file is an exit code or JSON, and returns the file's text.
    pub(crate) fn wait_for(&self, name: &str) -> String {
        let path = self.path(name);
        let is_whole = |text: &String| {
            let last = text.lines().last().unwrap_or_default();
            text.ends_with('\n') && (last.starts_with('{') || last.parse::<u8>().is_ok())
        };
        within(|| fs::read_to_string(&path).ok().filter(is_whole))
    }

    /// Starts a shell as a host: it starts `mgp serve --stdio` as its child, then runs a script.
    pub(crate) fn host(&self, script: &str) -> Child {
        let mgp = env!("CARGO_BIN_EXE_mgp");
        let (folder, state) = (self.world.folder.display(), self.world.state());
        let script = format!(
            "exec 3<&0 </dev/null; cd {folder}; export MGP_STATE={} MGP_CONFIG_PATH={folder}/mgp.toml\n\
             {mgp} serve --stdio --agent ada --ready-file {folder}/shim.json <&3 3<&- >/dev/null &\n\
             shim=$!; exec 3<&-; until [ -e {folder}/shim.json ]; do sleep 0.05; done\n{script}\n",
            state.display()
        );
        let script = script.replace("MGP ", &format!("{mgp} "));
        let mut host = Command::new("/bin/sh");
        host.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null());
        host.spawn().unwrap()
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        kill("-TERM", self.kernel.id());
        let _ = self.kernel.wait();
    }
}

pub(crate) fn mgp(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.args(args).env("MGP_STATE", world.state());
    command.env("MGP_CONFIG_PATH", world.config_file()).env_remove("MGP_LOG");
    command
}

fn start(world: &World) -> Child {
    let ready = world.ready_file();
    let options = ["--http", "127.0.0.1:0", "--no-auth", "--ready-file", ready.to_str().unwrap()];
    let kernel = world.mgp(&options).stderr(Stdio::null()).spawn().unwrap();
    world.ready();
    kernel
}
