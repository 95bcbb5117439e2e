//! A fixture: a folder with a configuration and a state, hosts that run `mgp serve --stdio`, and commands of an
//! operator.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use mgp_client_sdk::{Client, ClientBuilder, EraChoice};
use mgp_testkit::{TempDir, until};
use mgp_transport::ChildCommand;
use mgp_types::mcp::Era;
use serde_json::Value;

use crate::host::host_args;

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Configuration of the two servers that the tests use; calls of their tools need no approval.
pub(crate) const DESK: &str = r#"
[[servers]]
id = "tool.terminal"
command = "{DESK}"
args = ["terminal"]
[servers.mgp]
default_policy = "opt-out"
permissions = ["filesystem.read", "filesystem.write"]
risk = { write_report = "moderate" }

[[servers]]
id = "tool.data_processing"
command = "{DESK}"
args = ["data"]
[servers.mgp]
default_policy = "opt-out"
"#;

/// The file of the user's certificate authority, which need not exist.
pub(crate) const AUTHORITY: &str = "authority.pem";

/// The folder of a kernel; dropping this value kills the kernel.
pub(crate) struct World {
    folder: TempDir,
}

impl World {
    /// Creates a folder with a configuration, in which `{DIR}` is replaced with the folder, and `{DESK}` and `{MGP}`
    /// with the paths of programs.
    pub(crate) fn new(config: &str) -> Self {
        let this = Self { folder: mgp_testkit::temp_dir() };
        fs::create_dir(this.path("work")).unwrap();
        this.configure(config);
        this
    }

    /// Replaces the configuration.
    pub(crate) fn configure(&self, config: &str) {
        let config = config
            .replace("{DIR}", self.folder.path().to_str().unwrap())
            .replace("{DESK}", mgp_testkit::program("desk").to_str().unwrap())
            .replace("{MGP}", env!("CARGO_BIN_EXE_mgp"));
        // The file is replaced in one step, so that the kernel never reads a half-written one.
        let new = self.write("mgp.toml.new", &config);
        fs::rename(new, self.path("mgp.toml")).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts a host of an era that acts as an agent.
    pub(crate) async fn host(&self, agent: &str, era: Era, builder: ClientBuilder) -> Client {
        let era = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
        let command = ChildCommand::new("/bin/sh")
            .args(host_args(env!("CARGO_BIN_EXE_mgp")))
            .args(["serve", "--stdio", "--linger", "1", "--agent", agent])
            .args(["--config".into(), self.path("mgp.toml")])
            .args(["--state".into(), self.path("state")])
            .env("HOME", self.folder.path())
            .env("PATH", self.search_path())
            .env("NODE_EXTRA_CA_CERTS", self.path(AUTHORITY))
            .cwd(self.path("work"));
        builder.era(era).spawn(command).await.unwrap()
    }

    /// Returns the folders in which programs are found: the folder `bin` of this world, then the folders in the test's
    /// own `PATH`.
    fn search_path(&self) -> String {
        format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default())
    }

    /// Builds a command of `mgp` that runs as an operator.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", self.search_path())
            .env("HOME", self.folder.path())
            .env("MGP_STATE", self.path("state"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed and print at most one line.
    #[track_caller]
    pub(crate) fn quietly(&self, arguments: &[&str]) {
        let printed = self.stdout(arguments);
        assert!(printed.lines().count() <= 1, "{arguments:?}: {printed}");
    }

    /// Runs a command that must succeed, and returns its JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(arguments);
        serde_json::from_str(&self.stdout(&all)).unwrap()
    }

    #[track_caller]
    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {printed}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the kernel knows `tools` tools.
    pub(crate) async fn knows(&self, tools: usize) {
        let known = || self.json(&["tools", "ls"]).as_array().unwrap().len() == tools;
        until("its tools are known", async || known()).await;
    }

    /// Returns the id of the process that uses the state folder.
    fn kernel(&self) -> Option<String> {
        let lock = fs::read_to_string(self.path("state/kernel.lock")).ok()?;
        let pid = lock.lines().next()?.to_owned();
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let state = self.path("state");
        let state = state.as_os_str().as_encoded_bytes();
        line.windows(state.len()).any(|part| part == state).then_some(pid)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(pid) = self.kernel() {
            let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
        }
    }
}
