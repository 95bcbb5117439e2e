//! The handle of a running child.
//!
//! It shuts servers down, as MGP §11 requires.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;
use tracing::{info, warn};

use super::pipes::{StdinHandle, pipes};
use super::stderr::StderrCallback;
use super::{ChildReader, ChildWriter, ExitReport, imp};

/// Maximum time a shutdown waits after SIGKILL before it gives up on the child.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The handle of a child process and its process group; dropping the handle kills both.
///
/// All methods except [`take_io`](Self::take_io) can be called from several tasks at the same time, and from a
/// different runtime than the one that started the child.
#[must_use = "dropping a child kills it"]
pub struct Child {
    process: Arc<imp::Process>,
    stdin: StdinHandle,
    io: Option<(ChildReader, ChildWriter)>,
    server: String,
    timeouts: ShutdownTimeouts,
    on_stray_stdout: Option<StderrCallback>,
}

/// Timeouts of the stages of a shutdown.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShutdownTimeouts {
    pub(super) close: Duration,
    pub(super) term: Duration,
}

impl Child {
    pub(super) fn new(
        process: Arc<imp::Process>,
        stdin: ChildStdin,
        stdout: ChildStdout,
        server: String,
        timeouts: ShutdownTimeouts,
    ) -> Self {
        let (handle, reader, writer) = pipes(stdin, stdout);
        let io = Some((reader, writer));
        Self { process, stdin: handle, io, server, timeouts, on_stray_stdout: None }
    }

    pub(super) fn on_stray_stdout(mut self, callback: Option<StderrCallback>) -> Self {
        self.on_stray_stdout = callback;
        self
    }

    /// Returns a function for lines of stdout that are not messages. The function logs a line like a line of stderr,
    /// and passes the line to the callback of the [command](super::ChildCommand::on_stray_stdout).
    pub fn stray_stdout_log(&self) -> impl Fn(&str) + Send + Sync + use<> {
        let (server, pid) = (self.server.clone(), self.pid());
        let callback = self.on_stray_stdout.clone();
        move |line| {
            info!(target: "mgp::child", server, pid, "stdout, not MCP: {line}");
            if let Some(callback) = &callback {
                callback(line);
            }
        }
    }

    /// Returns the child's stdout and stdin on the first call, and `None` afterwards.
    #[must_use]
    pub fn take_io(&mut self) -> Option<(ChildReader, ChildWriter)> {
        self.io.take()
    }

    /// Returns the child's process id, which is also the id of its group. If the child runs under a keeper, this is the
    /// id of the child, not of the keeper.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the exit report if the child and its group have ended.
    #[must_use]
    pub fn exit_report(&self) -> Option<ExitReport> {
        *self.process.done().borrow()
    }

    /// Waits until the child has ended and its group is empty.
    ///
    /// Processes that remain in the group after the child has ended are terminated, see
    /// [`ChildCommand::term_timeout`](super::ChildCommand::term_timeout).
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped and the method called again at any time.
    pub async fn wait(&self) -> ExitReport {
        let mut done = self.process.done();
        // The wait cannot fail, because `process` owns the sender.
        let report = done.wait_for(Option::is_some).await;
        report.ok().and_then(|report| *report).unwrap_or_default()
    }

    /// Ends the child in stages: closes stdin, waits, sends SIGTERM to the group, waits, sends SIGKILL to the group.
    ///
    /// The future completes when the child is reaped and its group is empty, but at the latest 5 s after both timeouts
    /// have passed. Bytes that the [`ChildWriter`] has not written yet are lost, so the caller should flush it first.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time: signals already sent are not undone, and no further stage follows. A
    /// second call starts again with the first stage, but does not send SIGTERM again.
    pub async fn shutdown(&self) -> ExitReport {
        self.stdin.close();
        if let Ok(report) = timeout(self.timeouts.close, self.wait()).await {
            return report;
        }
        self.process.terminate();
        if let Ok(report) = timeout(self.timeouts.term, self.wait()).await {
            return report;
        }
        self.process.kill();
        if let Ok(report) = timeout(KILL_TIMEOUT, self.wait()).await {
            return report;
        }
        warn!(target: "mgp::child", server = self.server, pid = self.pid(), "child outlived SIGKILL");
        ExitReport::default()
    }

    /// Kills the group immediately; [`wait`](Self::wait) completes when the group has ended.
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill();
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("server", &self.server)
            .field("pid", &self.pid())
            .field("exit_report", &self.exit_report())
            .finish_non_exhaustive()
    }
}

impl Default for ShutdownTimeouts {
    fn default() -> Self {
        Self { close: Duration::from_secs(3), term: Duration::from_secs(3) }
    }
}
