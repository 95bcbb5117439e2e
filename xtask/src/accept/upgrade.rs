//! The acceptance check `day.upgrade`: a server of npm gets 17 months newer behind the kernel, and one command accepts
//! all its changed definitions.

use super::Verdict;
use crate::packages::Node;
use crate::run::{Context, Failure, Outcome, Program, now, target};
use crate::serving::Served;
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

const PACKAGE: &str = "@modelcontextprotocol/server-filesystem";
const VERSIONS: [&str; 2] = ["2025.3.28", "2026.8.31"];

/// The time in which the kernel must know the tools of a version.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the check; needs npm or `PyPI`.
pub(super) fn day_upgrade() -> Outcome<Verdict> {
    let day = Day::new()?;
    day.configure(VERSIONS[0])?;
    let log = day.place.join("kernel.log");
    let config = day.place.join("mgp.toml");
    let kernel = |port: u16| {
        let mut command = day.mgp(&["serve", "--no-auth", "--http", &format!("127.0.0.1:{port}")]);
        command.arg("--config").arg(&config);
        Ok(command)
    };
    let _kernel = Served::start(kernel, &log)?;
    let before = day.tools(|tools| !tools.is_empty())?;
    if waiting(&before) != 0 {
        return Err(Failure::new(format!("definitions of {} wait", VERSIONS[0])));
    }
    day.configure(VERSIONS[1])?;
    let held = waiting(&day.tools(|tools| waiting(tools) > 0)?);
    // The one command.
    day.run(&["tools", "approve", "files", "--yes"])?;
    let after = day.tools(|tools| waiting(tools) == 0)?;
    let called = day.run(&["--json", "tools", "call", "files.list_allowed_directories"])?;
    let works = called.contains(&*day.files.to_string_lossy());
    Ok(Verdict {
        pass: works && after.len() > before.len(),
        figure: format!(
            "{} tools, then {} of which {held} waited; one command, none waits, a call works: {works}",
            before.len(),
            after.len()
        ),
        bound: "one review, one command".to_owned(),
    })
}

/// The folder of the check, with both versions of the server installed.
struct Day {
    place: PathBuf,
    files: PathBuf,
    node: Node,
    program: PathBuf,
}

impl Day {
    fn new() -> Outcome<Self> {
        let place = target()?.join("upgrade");
        let node = Node::of_at_least(20)?;
        for version in VERSIONS {
            let (folder, home) = (place.join(version), place.join("home"));
            fs::create_dir_all(&home).context(home.display())?;
            node.install(&folder, &[format!("{PACKAGE}@{version}")], &home)?;
        }
        let state = place.join("state");
        if state.exists() {
            fs::remove_dir_all(&state).context(state.display())?;
        }
        let files = place.join("files");
        fs::create_dir_all(&files).context(files.display())?;
        let files = files.canonicalize().context("the served folder")?;
        Program::cargo(&["build", "--quiet", "-p", "mgp", "--bin", "mgp"]).run()?;
        let program = target()?.join("debug").join("mgp");
        Ok(Self { place, files, node, program })
    }

    fn configure(&self, version: &str) -> Outcome {
        let script = format!("{version}/node_modules/{PACKAGE}/dist/index.js");
        let text = format!(
            "[[servers]]\nid = \"files\"\ncommand = '{}'\nargs = ['{}', '{}']\n[servers.mgp]\n\
             default_policy = \"opt-out\"\npermissions = [\"filesystem.read\"]\n\
             risk = {{ list_allowed_directories = \"safe\" }}\n",
            self.node.program().display(),
            self.place.join(script).display(),
            self.files.display(),
        );
        fs::write(self.place.join("mgp.toml"), text).context("mgp.toml")
    }

    fn mgp(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("MGP_STATE", self.place.join("state")).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed, and returns what it prints.
    fn run(&self, args: &[&str]) -> Outcome<String> {
        let output = self.mgp(args).output().context(args.join(" "))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("mgp {}: {why}", args.join(" "))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until the tools are as expected, and returns them.
    fn tools(&self, is_ready: impl Fn(&[Value]) -> bool) -> Outcome<Vec<Value>> {
        let end = now() + LIST_TIMEOUT;
        loop {
            // The kernel may still be starting.
            let listed = self.run(&["--json", "tools", "ls"]).unwrap_or_else(|_| "[]".to_owned());
            let tools: Vec<Value> = serde_json::from_str(&listed).context("the list of tools")?;
            if is_ready(&tools) {
                return Ok(tools);
            }
            if now() > end {
                return Err(Failure::new(format!("the tools are not as expected: {listed}")));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Returns the number of definitions that wait for an operator.
fn waiting(tools: &[Value]) -> usize {
    tools.iter().filter(|tool| tool["standing"] != "pinned").count()
}
