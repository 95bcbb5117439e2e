//! Describes a child process, such as a server over stdio (MGP §11), and starts it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::runtime::Handle;
use tracing::instrument::WithSubscriber;

use super::handle::ShutdownTimeouts;
#[cfg(windows)]
use super::program;
use super::stderr::{StderrCallback, drain};
use super::{Child, ChildError, Confinement, Keeper, StderrLimits, confine, imp, inherited_env};

/// The description of a child process; each call of [`spawn`](Self::spawn) starts one child.
///
/// The child's environment consists of four groups of variables. First, from this process: `HOME`, `LANG`, `LC_*`,
/// `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ`, `USER` (on Windows `SystemRoot`, `PATH`, `PATHEXT`, `TEMP`, the
/// profile folders and similar ones). Second, those for proxies and certificate authorities (`HTTPS_PROXY`,
/// `SSL_CERT_FILE`, `NODE_EXTRA_CA_CERTS` and similar ones). Third, those that [`inherit_env`](Self::inherit_env)
/// names. Fourth, those that [`env`](Self::env) sets. `XDG_RUNTIME_DIR` is not inherited, because it gives access to
/// the sockets of the user's session.
///
/// ```no_run
/// # async fn run() -> Result<(), mgp_transport::ChildError> {
/// use mgp_transport::ChildCommand;
///
/// let mut child = ChildCommand::new("uvx")
///     .args(["mcp-server-git", "--repository", "."])
///     .env("GIT_PAGER", "cat")
///     .server("git")
///     .spawn()?;
/// let (reader, writer) = child.take_io().expect("taken once");
/// # drop((reader, writer));
/// // … send and receive messages …
/// let report = child.shutdown().await;
/// # let _ = report;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ChildCommand {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    inherit: Vec<OsString>,
    cwd: Option<PathBuf>,
    server: Option<String>,
    confinement: Option<Confinement>,
    stderr: StderrLimits,
    on_stderr: Option<StderrCallback>,
    on_stray_stdout: Option<StderrCallback>,
    timeouts: ShutdownTimeouts,
}

impl ChildCommand {
    /// Creates a command for a program: a path, or a name that is looked up in the child's `PATH`.
    ///
    /// Use an absolute path if you also set [`cwd`](Self::cwd): whether a relative path is resolved against the old
    /// or the new directory differs between operating systems.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            inherit: Vec::new(),
            cwd: None,
            server: None,
            confinement: None,
            stderr: StderrLimits::default(),
            on_stderr: None,
            on_stray_stdout: None,
            timeouts: ShutdownTimeouts::default(),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the child; it overrides an inherited variable of the same name.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets environment variables of the child.
    pub fn envs<K: Into<OsString>, V: Into<OsString>>(
        mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.env.extend(pairs.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Makes the child inherit these environment variables of this process, if they are set; a `*` at the end of a name
    /// matches any suffix.
    pub fn inherit_env<N: Into<OsString>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.inherit.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the child's working directory. Default: the working directory of this process.
    #[doc(alias = "current_dir")]
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// Restricts the child to these rights if children can be confined (see [`Confinement::is_available`]). If a path of
    /// the rights is not UTF-8, or if [`Confinement::obstacle`] returns a reason, the child does not start.
    pub fn confined(mut self, rights: Confinement) -> Self {
        self.confinement = Some(rights);
        self
    }

    /// Sets the server's name in log events. Default: the program's file name.
    pub fn server(mut self, id: impl Into<String>) -> Self {
        self.server = Some(id.into());
        self
    }

    /// Limits how much of the child's stderr is logged.
    pub fn stderr_cap(mut self, cap: StderrLimits) -> Self {
        self.stderr = cap;
        self
    }

    /// Sets a callback that receives each logged line of stderr, and messages with the number of
    /// lines that were not logged.
    ///
    /// The callback runs on the task that reads stderr, so it must not block.
    pub fn on_stderr(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(callback));
        self
    }

    /// Sets a callback that receives the first lines of stdout that are not messages, while a connection
    /// [for a child](crate::Connection::for_child) reads stdout.
    ///
    /// The callback runs on the task that reads stdout, so it must not block.
    pub fn on_stray_stdout(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stray_stdout = Some(Arc::new(callback));
        self
    }

    /// Sets how long a shutdown waits after closing stdin before it sends SIGTERM. Default: 3 s.
    pub fn close_timeout(mut self, grace: Duration) -> Self {
        self.timeouts.close = grace;
        self
    }

    /// Sets how long a shutdown waits after SIGTERM before it sends SIGKILL. Default: 3 s.
    ///
    /// On Linux, processes that remain in the child's group after the child has ended get the same time to end.
    pub fn term_timeout(mut self, grace: Duration) -> Self {
        self.timeouts.term = grace;
        self
    }

    /// Starts the child.
    ///
    /// Blocks the thread for a fork and an exec, about a millisecond, as tokio's own `spawn` does. The pipes are
    /// registered with the current runtime; the child itself does not depend on a runtime. The lines that the child
    /// writes to stderr are logged to the current tracing subscriber.
    ///
    /// # Errors
    ///
    /// Returns [`ChildError::NoRuntime`] outside a tokio runtime, [`ChildError::Start`] if the program does not exist
    /// or cannot be confined, [`ChildError::NoDirectory`] if its directory does not exist, and [`ChildError::Spawner`]
    /// or [`ChildError::Pipes`] if the system has no more threads or descriptors.
    ///
    /// # Panics
    ///
    /// Panics if the runtime has no I/O driver (`enable_io`). The shutdown and the limits for stderr also need the
    /// runtime's timer (`enable_time`).
    pub fn spawn(&self) -> Result<Child, ChildError> {
        let runtime = Handle::try_current().map_err(|_| ChildError::NoRuntime)?;
        let started = imp::start(self.build()?, self.timeouts.term);
        let started = started.map_err(|error| self.name_directory(error))?;
        let pipes = (|| {
            Ok((
                ChildStdin::from_std(started.stdin)?,
                ChildStdout::from_std(started.stdout)?,
                ChildStderr::from_std(started.stderr)?,
            ))
        })();
        let (stdin, stdout, stderr) = match pipes {
            Ok(pipes) => pipes,
            Err(error) => {
                started.process.kill();
                return Err(ChildError::Pipes(error));
            }
        };
        let server = self.server_name();
        let pid = started.process.pid();
        let draining =
            drain(stderr, self.stderr.clone(), self.on_stderr.clone(), server.clone(), pid);
        // Capture the current subscriber only if one is installed. Otherwise, a subscriber that is installed later
        // receives the lines.
        if tracing::dispatcher::has_been_set() {
            runtime.spawn(draining.with_current_subscriber());
        } else {
            runtime.spawn(draining);
        }
        let stray = self.on_stray_stdout.clone();
        Ok(Child::new(started.process, stdin, stdout, server, self.timeouts).on_stray_stdout(stray))
    }

    /// Returns the error of a failed start; if the directory does not exist, an error that names the directory instead
    /// of the program.
    fn name_directory(&self, error: ChildError) -> ChildError {
        match (&error, &self.cwd) {
            (ChildError::Start { .. }, Some(directory)) if !directory.is_dir() => {
                ChildError::NoDirectory(directory.clone())
            }
            _ => error,
        }
    }

    fn build(&self) -> Result<Command, ChildError> {
        if let Some(obstacle) = self.confinement.as_ref().and_then(Confinement::obstacle) {
            let source = io::Error::new(io::ErrorKind::Unsupported, obstacle);
            return Err(ChildError::Start { program: self.program.clone(), source });
        }
        let rights = self.confinement.as_ref().filter(|_| Confinement::is_available());
        let mut command = match rights.zip(Keeper::installed()) {
            Some((rights, keeper)) => {
                let confined = rights
                    .arguments(keeper)
                    .map_err(|source| ChildError::Start { program: self.program.clone(), source });
                let (launcher, arguments) = confined?;
                let mut command = Command::new(launcher);
                command.args(arguments).arg(&self.program);
                command
            }
            None => Command::new(self.found_program()),
        };
        // Variables of the dynamic loader must not have an effect on the programs that confine the child.
        let delayed = |name: OsString| match name.to_str() {
            Some(text) if rights.is_some() && text.starts_with("LD_") => {
                OsString::from(format!("{}{text}", confine::DELAYED))
            }
            _ => name,
        };
        command
            .args(&self.args)
            .env_clear()
            .envs(inherited_env(&self.inherit).map(|(name, value)| (delayed(name), value)))
            .envs(self.env.iter().map(|(name, value)| (delayed(name.clone()), value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        Ok(command)
    }

    /// Returns the program to start. On Windows, a name without an extension can also refer to a script such as
    /// `npx.cmd`, which the system itself does not find.
    fn found_program(&self) -> Cow<'_, OsStr> {
        #[cfg(windows)]
        {
            let own = self.env.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("PATH"));
            let path = own.map(|(_, path)| path.clone()).or_else(|| std::env::var_os("PATH"));
            let extensions = std::env::var("PATHEXT").ok();
            let extensions = extensions.as_deref().unwrap_or(program::PROGRAM_EXTENSIONS);
            let path = path.unwrap_or_default();
            if let Some(found) = program::find_program(&self.program, &path, extensions) {
                return Cow::Owned(found.into_os_string());
            }
        }
        Cow::Borrowed(&self.program)
    }

    fn server_name(&self) -> String {
        self.server.clone().unwrap_or_else(|| {
            let path = std::path::Path::new(&self.program);
            path.file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned()
        })
    }
}

impl fmt::Debug for ChildCommand {
    /// Omits the values of arguments and variables, because they might be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("ChildCommand")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &names)
            .field("inherit", &self.inherit)
            .field("cwd", &self.cwd)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
