//! A running child.
//!
//! MGP §11. *Applies to: outbound.*

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;
use tracing::warn;

use super::pipes::{StdinHandle, pipes};
use super::{ChildReader, ChildWriter, ExitReport, imp};

/// How long a shutdown waits after SIGKILL before it gives the child up.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Owns a child process and its group; dropping it kills both.
///
/// All methods but [`take_io`](Self::take_io) may be called from several tasks at once, and from
/// another runtime than the one that started the child.
#[must_use = "dropping a child kills it"]
pub struct Child {
    process: Arc<imp::Process>,
    stdin: StdinHandle,
    io: Option<(ChildReader, ChildWriter)>,
    server: String,
    graces: Graces,
}

/// How long each stage of a shutdown waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Graces {
    pub(super) close: Duration,
    pub(super) term: Duration,
}

// === impl Child ===

impl Child {
    pub(super) fn new(
        process: Arc<imp::Process>,
        stdin: ChildStdin,
        stdout: ChildStdout,
        server: String,
        graces: Graces,
    ) -> Self {
        let (handle, reader, writer) = pipes(stdin, stdout);
        Self { process, stdin: handle, io: Some((reader, writer)), server, graces }
    }

    /// Takes the two ends of the conversation; none the second time.
    #[must_use]
    pub fn take_io(&mut self) -> Option<(ChildReader, ChildWriter)> {
        self.io.take()
    }

    /// Returns the process number, which is also the number of its group; not that of its keeper, if it has one.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns how the child ended, if it and its group have.
    #[must_use]
    pub fn exit_report(&self) -> Option<ExitReport> {
        *self.process.done().borrow()
    }

    /// Waits until the child has ended and its group is empty.
    ///
    /// Processes left in the group are ended then, see the grace time of the command.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn wait(&self) -> ExitReport {
        let mut done = self.process.done();
        // The sender lives in `process`, so the wait cannot fail.
        let report = done.wait_for(Option::is_some).await;
        report.ok().and_then(|report| *report).unwrap_or_default()
    }

    /// Ends the child: closes stdin, waits, SIGTERM to the group, waits, SIGKILL to the group.
    ///
    /// Returns when the child is reaped and the group empty, at the latest both grace times and
    /// 5 s later. What is still unwritten in the [`ChildWriter`] is lost, so flush before.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time: what was sent was sent, and the escalation stops there. Called
    /// again it starts over, without a second SIGTERM.
    pub async fn shutdown(&self) -> ExitReport {
        self.stdin.close();
        if let Ok(report) = timeout(self.graces.close, self.wait()).await {
            return report;
        }
        self.process.terminate();
        if let Ok(report) = timeout(self.graces.term, self.wait()).await {
            return report;
        }
        self.process.kill();
        if let Ok(report) = timeout(KILL_GRACE, self.wait()).await {
            return report;
        }
        warn!(target: "mgp::child", server = self.server, pid = self.pid(), "child outlives SIGKILL");
        ExitReport::default()
    }

    /// Kills the group now; [`wait`](Self::wait) tells when it is gone.
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

// === impl Graces ===

impl Default for Graces {
    fn default() -> Self {
        Self { close: Duration::from_secs(3), term: Duration::from_secs(3) }
    }
}
