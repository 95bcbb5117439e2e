//! A home of one's own, and the program in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::schema;

/// A home, with a folder to work in; both are gone at the end.
pub(crate) struct Home(PathBuf);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mgp-cli-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("work")).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The folder that commands run in.
    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// The user's own configuration.
    pub(crate) fn own(&self) -> PathBuf {
        self.path(".config/mgp/servers.toml")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.0)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must do what it is told.
    #[track_caller]
    pub(crate) fn well(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        ended.out
    }

    /// Runs a command that must say nothing.
    #[track_caller]
    pub(crate) fn quietly(&self, arguments: &[&str]) {
        let ended = self.run(arguments);
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(0), "", ""), "{arguments:?}");
    }

    /// Runs a command that must end so; what it says is one line.
    #[track_caller]
    pub(crate) fn ill(&self, code: i32, arguments: &[&str], why: &str) {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        let last = ended.err.lines().last().unwrap_or_default();
        assert!(ended.err.contains(why), "{arguments:?}: {ended:?}");
        assert!(code == 2 || last.starts_with("mgp: "), "{arguments:?}: {ended:?}");
    }

    /// What a command answers in JSON, which must fit its schema.
    #[track_caller]
    pub(crate) fn json(&self, name: &str, arguments: &[&str]) -> Value {
        let (value, code) = self.any_json(name, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {value}");
        value
    }

    /// The same, of a command that may fail.
    #[track_caller]
    pub(crate) fn any_json(&self, name: &str, arguments: &[&str]) -> (Value, Option<i32>) {
        let mut all = arguments.to_vec();
        // In front of `--`, behind which everything is the program's.
        all.insert(0, "--json");
        let ended = self.run(&all);
        let value = serde_json::from_str(&ended.out);
        let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {ended:?}"));
        schema::check(name, &value);
        (value, ended.code)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server of this workspace, built if it is not there.
pub(crate) fn example(name: &str) -> String {
    let mut path = Path::new(env!("CARGO_BIN_EXE_mgp")).to_owned();
    path.pop();
    path.push("examples");
    path.push(name);
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "mgp-server-sdk", "--example", name])
            .args(path.iter().any(|part| part == "release").then_some("--release"))
            .status()
            .unwrap();
        assert!(built.success() && path.exists(), "{}", path.display());
    }
    path.to_str().unwrap().to_owned()
}
