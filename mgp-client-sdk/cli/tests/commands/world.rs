//! The fixture of these tests: a temporary home folder, and commands that run in it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use mgp_testkit::TempDir;
use serde_json::Value;

use crate::schema;

/// A temporary home folder that contains a working folder.
pub(crate) struct Home(TempDir);

/// The exit code and the output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(mgp_testkit::temp_dir());
        fs::create_dir(home.work()).unwrap();
        home
    }

    /// Creates a home whose configuration has servers with these ids.
    pub(crate) fn with_servers(ids: &[&str]) -> Self {
        let home = Self::new();
        let server = |id: &&str| format!("[[servers]]\nid = '{id}'\ncommand = '{id}'\n");
        home.configure(&ids.iter().map(server).collect::<String>());
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Returns the path of the user's own configuration.
    pub(crate) fn own(&self) -> PathBuf {
        self.path(".config/mgp/servers.toml")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes the user's own configuration, and returns its path.
    pub(crate) fn configure(&self, text: &str) -> PathBuf {
        self.write(".config/mgp/servers.toml", text)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.0.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with(arguments, &[])
    }

    /// Runs a command with these environment variables and waits for its end.
    pub(crate) fn run_with(&self, arguments: &[&str], env: &[(&str, &str)]) -> CommandOutput {
        CommandOutput::new(self.command(arguments).envs(env.iter().copied()).output().unwrap())
    }

    /// Runs a command with this text as its standard input, and waits for its end.
    pub(crate) fn run_fed(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        CommandOutput::new(child.wait_with_output().unwrap())
    }

    /// Runs a command in the process of a shell that first runs this line.
    #[cfg(unix)]
    pub(crate) fn run_after(&self, line: &str, arguments: &[&str]) -> CommandOutput {
        let command = self.command(arguments);
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("{line}; exec \"$0\" \"$@\""));
        shell.arg(command.get_program()).args(command.get_args()).current_dir(self.work());
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        CommandOutput::new(shell.env_clear().envs(set).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a command that must succeed, and returns its standard output.
    #[track_caller]
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        ended.out
    }

    /// Runs a command that must succeed and print at most one line.
    #[track_caller]
    pub(crate) fn silent(&self, arguments: &[&str]) {
        let ended = self.run(arguments);
        assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{arguments:?}");
        assert!(ended.out.lines().count() <= 1, "{arguments:?}: {}", ended.out);
    }

    /// Runs a command that must fail with this exit code, and with a message that contains this text.
    #[track_caller]
    pub(crate) fn fail(&self, code: i32, arguments: &[&str], error: &str) {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        let last = ended.err.lines().last().unwrap_or_default();
        assert!(ended.err.contains(error), "{arguments:?}: {ended:?}");
        assert!(code == 2 || last.starts_with("mgp: "), "{arguments:?}: {ended:?}");
    }

    /// Runs a command that must succeed, and returns its JSON after checking it against the schema `name`.
    #[track_caller]
    pub(crate) fn json(&self, name: &str, arguments: &[&str]) -> Value {
        let (value, code) = self.any_json(name, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {value}");
        value
    }

    /// Runs a command that may fail; returns its JSON after checking it against the schema `name`, and its exit code.
    #[track_caller]
    pub(crate) fn any_json(&self, name: &str, arguments: &[&str]) -> (Value, Option<i32>) {
        let mut all = arguments.to_vec();
        // Insert `--json` at the front, because arguments after `--` belong to another program.
        all.insert(0, "--json");
        let ended = self.run(&all);
        let value = serde_json::from_str(&ended.out);
        let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {ended:?}"));
        schema::check(name, &value);
        (value, ended.code)
    }
}
