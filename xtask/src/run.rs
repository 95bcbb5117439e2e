//! Runs other programs: says what it runs, times it, and fails with what failed.
//!
//! Also the few facts every command needs: where the workspace is and where it builds.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// What a command of ours returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command failed, in one or more lines for a person.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// Wraps a message.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Adds what was being done to an error.
pub(crate) trait Context<T> {
    /// Puts `what` in front of the error.
    fn context(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl fmt::Display) -> Outcome<T> {
        self.ok_or_else(|| Failure(format!("{what}: missing")))
    }
}

/// Whether a check that cannot be made counts as a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rigour {
    /// A missing tool is a failure.
    Strict,
    /// A missing tool is said loudly and passed over.
    Lenient,
}

impl Rigour {
    /// Reads the flag `--strict`.
    pub(crate) fn from_strict(strict: bool) -> Self {
        if strict { Self::Strict } else { Self::Lenient }
    }

    /// Says loudly that `what` was not run, and fails when strict.
    pub(crate) fn skip(self, what: &str, why: &str) -> Outcome {
        println!("!! SKIPPED {what}: {why}");
        match self {
            Self::Strict => Err(Failure(format!("{what} was not run: {why} (--strict)"))),
            Self::Lenient => Ok(()),
        }
    }
}

/// A program to run.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    shown: String,
}

impl Program {
    /// Prepares a program, to be run in the workspace root.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.current_dir(root());
        Self { command, shown: program.to_string_lossy().into_owned() }
    }

    /// Prepares the cargo that runs us.
    pub(crate) fn cargo(arguments: &[&str]) -> Self {
        let mut program = Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        "cargo".clone_into(&mut program.shown);
        // These describe the package `xtask`; a build script must not see them.
        program.command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
        program.args(arguments)
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: &[S]) -> Self {
        for argument in arguments {
            self.shown.push(' ');
            self.shown.push_str(&argument.as_ref().to_string_lossy());
        }
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.shown = format!("{key}={} {}", value.as_ref().to_string_lossy(), self.shown);
        self.command.env(key, value);
        self
    }

    /// Sets an environment variable that is not worth showing.
    pub(crate) fn quietly(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Removes an environment variable.
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    /// Sets the working directory.
    pub(crate) fn dir(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Says on standard error what it runs, and runs it with our own input and output.
    pub(crate) fn run(mut self) -> Outcome {
        eprintln!("$ {}", self.shown);
        let start = now();
        let status = self.command.status().context(&self.shown)?;
        if !status.success() {
            return Err(Failure(format!("`{}` failed: {status}", self.shown)));
        }
        eprintln!("  done in {}", seconds(start.elapsed()));
        Ok(())
    }

    /// Says on standard error what it runs, runs it, and returns the code it ended with.
    pub(crate) fn code(mut self) -> Outcome<i32> {
        eprintln!("$ {}", self.shown);
        let status = self.command.status().context(&self.shown)?;
        status.code().context(format!("`{}`: {status}", self.shown))
    }

    /// Runs it and returns what it printed; its standard error is ours.
    pub(crate) fn output(mut self) -> Outcome<String> {
        let output = self.command.stderr(Stdio::inherit()).output().context(&self.shown)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(Failure(format!("`{}` failed: {}\n{text}", self.shown, output.status)))
    }

    /// Says what it runs, runs it, shows what it printed and returns it with its success.
    pub(crate) fn tee(mut self) -> Outcome<(bool, String)> {
        eprintln!("$ {}", self.shown);
        let output = self.command.stderr(Stdio::inherit()).output().context(&self.shown)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        print!("{text}");
        Ok((output.status.success(), text))
    }
}

/// Whether a program of this name is on the search path.
pub(crate) fn has(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or(manifest.clone(), Path::to_path_buf)
}

/// What cargo says about the workspace members.
pub(crate) fn metadata() -> Outcome<serde_json::Value> {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    Ok(serde_json::from_str(&Program::cargo(&arguments).output()?)?)
}

/// Where cargo builds.
pub(crate) fn target() -> Outcome<PathBuf> {
    let metadata = metadata()?;
    Ok(metadata["target_directory"].as_str().context("cargo metadata: target_directory")?.into())
}

/// Builds an example of a package as users would, and returns its path.
pub(crate) fn release_example(package: &str, example: &str, more: &[&str]) -> Outcome<PathBuf> {
    let build = ["build", "--quiet", "--release", "-p", package, "--example", example];
    Program::cargo(&build).args(more).run()?;
    let path = target()?.join("release/examples").join(example);
    path.exists().then_some(path).context(example)
}

/// Returns an instant for measuring.
#[expect(clippy::disallowed_methods, reason = "nothing here runs under a paused tokio clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A duration for people.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Seconds since 1970.
pub(crate) fn now_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}
