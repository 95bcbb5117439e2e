//! A folder with a configuration and a state, `mgp serve --stdio` on them, and the commands of an operator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice};
use mgp_transport::ChildCommand;
use mgp_types::mcp::Era;
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Both eras.
pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// The two servers of the flows; what a model may do with them is settled.
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

/// A kernel's folder; whatever runs on it ends with it.
pub(crate) struct World {
    folder: PathBuf,
}

impl World {
    /// With a configuration; `{DIR}` is the folder, `{DESK}` and `{MGP}` are programs.
    pub(crate) fn new(config: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mgp-flow-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("work")).unwrap();
        let this = Self { folder: folder.canonicalize().unwrap() };
        this.configure(config);
        this
    }

    /// Writes another configuration.
    pub(crate) fn configure(&self, config: &str) {
        let config = config
            .replace("{DIR}", self.folder.to_str().unwrap())
            .replace("{DESK}", &program("desk"))
            .replace("{MGP}", env!("CARGO_BIN_EXE_mgp"));
        // In one step, as whoever follows it never sees half of it.
        let new = self.write("mgp.toml.new", &config);
        fs::rename(new, self.path("mgp.toml")).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A host of an era that counts as an agent.
    pub(crate) async fn host(&self, agent: &str, era: Era, builder: ClientBuilder) -> Client {
        let era = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
        let command = ChildCommand::new(env!("CARGO_BIN_EXE_mgp"))
            .args(["serve", "--stdio", "--linger", "1", "--agent", agent])
            .args(["--config".into(), self.path("mgp.toml")])
            .args(["--state".into(), self.path("state")])
            .env("HOME", &self.folder)
            .cwd(self.path("work"));
        builder.era(era).spawn(command).await.unwrap()
    }

    /// A command of an operator.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.folder)
            .env("MGP_STATE", self.path("state"))
            .stdin(Stdio::null());
        command
    }

    /// Runs one that must do what it is told, and answers nothing.
    #[track_caller]
    pub(crate) fn quietly(&self, arguments: &[&str]) {
        assert_eq!(self.answer(arguments), "", "{arguments:?}");
    }

    /// What one tells in JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(arguments);
        serde_json::from_str(&self.answer(&all)).unwrap()
    }

    #[track_caller]
    fn answer(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the kernel knows so many tools of its servers.
    pub(crate) async fn knows(&self, tools: usize) {
        let known = || self.json(&["tools", "ls"]).as_array().unwrap().len() == tools;
        until("its tools are known", async || known()).await;
    }

    /// The process that has the state.
    fn kernel(&self) -> Option<String> {
        let pid = fs::read_to_string(self.path("state/kernel.lock")).ok()?.trim().to_owned();
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
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until something is so; a story that hangs fails.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < end, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A server of this workspace, built if it is not there.
pub(crate) fn program(name: &str) -> String {
    let mut path = Path::new(env!("CARGO_BIN_EXE_mgp")).to_owned();
    path.pop();
    path.push("examples");
    path.push(name);
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "mgp-server-sdk", "--example", name])
            .args(["--features", "macros"])
            .args(path.iter().any(|part| part == "release").then_some("--release"))
            .status()
            .unwrap();
        assert!(built.success() && path.exists(), "{}", path.display());
    }
    path.to_str().unwrap().to_owned()
}
