//! A kernel for the checks of `accept`, `conformance` and `interop`: its folder, its configuration, and the `mgp`
//! commands that use it.

use crate::{
    exchange,
    run::{Context, Failure, Outcome, debug_programs, now, target},
    serving::Served,
};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// The time within which the kernel must list the tools of its servers.
const LIST_TIMEOUT: Duration = Duration::from_secs(90);

/// A kernel and the `mgp` commands for it, with their own configuration and state in a folder below the target folder.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) place: PathBuf,
    pub(crate) program: PathBuf,
    /// Environment variables for all commands, which the kernel and its servers inherit.
    pub(crate) env: Vec<(&'static str, OsString)>,
}

impl Kernel {
    /// Builds `mgp`, and creates the folder with an empty state.
    pub(crate) fn new(name: &str) -> Outcome<Self> {
        let place = target()?.join(name);
        let state = place.join("state");
        if state.exists() {
            fs::remove_dir_all(&state).context(state.display())?;
        }
        fs::create_dir_all(place.join("home")).context(place.display())?;
        let program = debug_programs(&["conformance_server"])?.join("mgp");
        Ok(Self { place, program, env: Vec::new() })
    }

    /// Creates an empty home folder for a person who uses the kernel. Returns this folder, and the folder in which the
    /// person works.
    pub(crate) fn person(&mut self) -> Outcome<(PathBuf, PathBuf)> {
        let folder = self.place.join("person");
        if folder.exists() {
            fs::remove_dir_all(&folder).context(folder.display())?;
        }
        let work = folder.join("work");
        fs::create_dir_all(&work).context(work.display())?;
        self.env.push(("HOME", folder.clone().into_os_string()));
        self.env.push(("XDG_CONFIG_HOME", folder.join(".config").into_os_string()));
        let work = work.canonicalize().context("the folder of the person")?;
        Ok((folder, work))
    }

    /// Returns the folder that package installers get as their home folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.place.join("home")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.place.join("mgp.toml")
    }

    pub(crate) fn configure(&self, text: &str) -> Outcome {
        fs::write(self.config(), text).context("mgp.toml")
    }

    /// Returns a command of `mgp` with these arguments, which uses the state in this folder.
    pub(crate) fn mgp(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null()).current_dir(&self.place);
        self.inherit(&mut command);
        command
    }

    /// Sets the environment of a program so that it, and the commands of `mgp` that it starts, use the state in this
    /// folder.
    pub(crate) fn inherit(&self, command: &mut Command) {
        command.env("MGP_STATE", self.place.join("state"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
    }

    /// Starts `mgp serve` on a free port.
    pub(crate) fn serve(&self, more: &[&str]) -> Outcome<Served> {
        let command = |port: u16| {
            let mut command = self.mgp(&["serve", "--http", &format!("127.0.0.1:{port}")]);
            command.args(more).arg("--config").arg(self.config());
            Ok(command)
        };
        Served::start(command, &self.place.join("kernel.log"))
    }

    /// Runs a command that must succeed, and returns what it prints.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome<String> {
        let (success, printed, errors) = self.outcome(args)?;
        if success {
            Ok(printed)
        } else {
            Err(Failure::new(format!("mgp {}: {errors}", args.join(" "))))
        }
    }

    /// Runs a command, and returns whether it succeeded, its output and its errors.
    pub(crate) fn outcome(&self, args: &[&str]) -> Outcome<(bool, String, String)> {
        let output = self.mgp(args).output().context(args.join(" "))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.success(), text(&output.stdout), text(&output.stderr)))
    }

    /// Runs a command that must succeed, and returns the JSON that it prints.
    pub(crate) fn json(&self, args: &[&str]) -> Outcome<Value> {
        let printed = self.run(&[&["--json"], args].concat())?;
        serde_json::from_str(&printed).context(args.join(" "))
    }

    /// Waits up to [`LIST_TIMEOUT`] until the listed tools meet the condition, and returns them.
    pub(crate) fn tools(&self, is_ready: impl Fn(&[Value]) -> bool) -> Outcome<Vec<Value>> {
        let end = now() + LIST_TIMEOUT;
        loop {
            // Ignores failures, because the kernel might still be starting.
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

pub(crate) fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// Sends a request over HTTP in the protocol revision 2026-07-28, with these client capabilities; returns its result.
pub(crate) fn ask(port: u16, capabilities: &Value, method: &str, params: Value) -> Outcome<Value> {
    let answer = exchange::ask(port, capabilities, method, params, Duration::from_mins(1));
    let mut message = answer.message().context(method)?;
    if message["result"].is_null() {
        return Err(Failure::new(format!("{method}: {message}")));
    }
    Ok(message["result"].take())
}
