//! Runs other programs for all commands of `xtask`: prints the command line and the time, and reports failures.
//!
//! Also returns the folders of the workspace and of its builds.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The result of a command, or of one of its steps.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The message of a failure, in one or more lines.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
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

/// Adds context to an error.
pub(crate) trait Context<T> {
    /// Adds `what` in front of the error message.
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

/// The way to treat checks that cannot run, e.g. because a program is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rigour {
    /// A check that cannot run is a failure.
    Strict,
    /// A check that cannot run is reported and skipped.
    Lenient,
}

impl Rigour {
    /// Returns the value for the flag `--strict`.
    pub(crate) fn from_strict(strict: bool) -> Self {
        if strict { Self::Strict } else { Self::Lenient }
    }

    /// Reports that a check was not run; in strict mode, returns a failure.
    pub(crate) fn skip(self, what: &str, why: &str) -> Outcome {
        println!("!! SKIPPED {what}: {why}");
        match self {
            Self::Strict => Err(Failure(format!("{what} was not run: {why} (--strict)"))),
            Self::Lenient => Ok(()),
        }
    }
}

/// A program to run, and its command line in the form in which it is printed.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    shown: String,
}

impl Program {
    /// Describes a run of the program in the workspace root.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.current_dir(root());
        Self { command, shown: program.to_string_lossy().into_owned() }
    }

    /// Describes a run of the cargo that started this process.
    pub(crate) fn cargo(arguments: &[&str]) -> Self {
        let mut program = Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        "cargo".clone_into(&mut program.shown);
        // Removes variables that describe the package `xtask`, so that build scripts do not read them.
        program.command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
        program.args(arguments)
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: &[S]) -> Self {
        for argument in arguments {
            self.shown.push(' ');
            self.shown.push_str(&argument.as_ref().to_string_lossy());
        }
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable, and includes it in the printed command line.
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.shown = format!("{key}={} {}", value.as_ref().to_string_lossy(), self.shown);
        self.command.env(key, value);
        self
    }

    /// Sets an environment variable, and omits it from the printed command line.
    pub(crate) fn quietly(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    pub(crate) fn dir(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Prints the command line to standard error, and runs the program with inherited input and output.
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

    /// Runs the program and returns its standard output; fails if the program fails. Standard error is inherited.
    pub(crate) fn output(mut self) -> Outcome<String> {
        let output = self.command.stderr(Stdio::inherit()).output().context(&self.shown)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(Failure(format!("`{}` failed: {}\n{text}", self.shown, output.status)))
    }

    /// Prints the command line, runs the program, prints its output, and returns whether it succeeded and its output.
    pub(crate) fn tee(mut self) -> Outcome<(bool, String)> {
        eprintln!("$ {}", self.shown);
        let output = self.command.stderr(Stdio::inherit()).output().context(&self.shown)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        print!("{text}");
        Ok((output.status.success(), text))
    }
}

/// Returns whether `PATH` contains a program of this name.
pub(crate) fn has(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or(manifest.clone(), Path::to_path_buf)
}

/// Returns the output of `cargo metadata` for the workspace members.
pub(crate) fn metadata() -> Outcome<serde_json::Value> {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    Ok(serde_json::from_str(&Program::cargo(&arguments).output()?)?)
}

pub(crate) fn target() -> Outcome<PathBuf> {
    let metadata = metadata()?;
    Ok(metadata["target_directory"].as_str().context("cargo metadata: target_directory")?.into())
}

/// Builds `mgp` and examples, and returns the folder of `mgp`. Uses the features of the workspace's tests, so that code
/// which the tests have compiled is not compiled again.
pub(crate) fn debug_programs(examples: &[&str]) -> Outcome<PathBuf> {
    let build = Program::cargo(&["build", "--quiet", "--workspace", "--bin", "mgp"]);
    let examples: Vec<_> = examples.iter().flat_map(|name| ["--example", name]).collect();
    build.args(&examples).run()?;
    Ok(target()?.join("debug"))
}

/// Builds a program of `xtask/programs` in the release profile, and returns its path.
pub(crate) fn release_program(name: &str) -> Outcome<PathBuf> {
    Program::cargo(&["build", "--quiet", "--release", "-p", "mgp-programs", "--bin", name])
        .run()?;
    let path = target()?.join("release").join(name);
    path.exists().then_some(path).context(name)
}

/// Builds an example of a package with `--release`, as users would, and returns its path.
pub(crate) fn release_example(package: &str, example: &str, more: &[&str]) -> Outcome<PathBuf> {
    let build = ["build", "--quiet", "--release", "-p", package, "--example", example];
    Program::cargo(&build).args(more).run()?;
    let path = target()?.join("release/examples").join(example);
    path.exists().then_some(path).context(example)
}

/// Creates an empty folder that only its owner can access, in place of an existing folder.
pub(crate) fn emptied(folder: PathBuf) -> Outcome<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context(folder.display())?;
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(&folder).context(folder.display())?;
    Ok(folder)
}

/// Returns the current instant, for measuring time.
#[expect(clippy::disallowed_methods, reason = "nothing here runs under a paused tokio clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Formats a duration in seconds.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Returns the number of seconds since 1970.
pub(crate) fn now_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}
