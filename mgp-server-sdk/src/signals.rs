//! SIGTERM and SIGINT: the first signal drains the servers, a second one ends the process (MGP §11.4).
//!
//! When a program handles a signal, the system no longer ends the process at this signal. So this module must end the
//! process itself: at the second signal, or at the first signal after all servers have ended.

#[cfg(unix)]
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(unix)]
use std::task::Poll;
use std::time::Duration;

use mgp_lifecycle::Drain;
use mgp_types::mgp::ShutdownReason;
use mgp_types::sync::Mutex;
use tokio::runtime::{Handle, Id};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The time in which further signals count as the first one. GNU `timeout` sends its signal to the process and to the
/// group of the process, and many programs answer Ctrl-C, which reaches the whole group, by SIGTERM to their children.
const REPETITION: Duration = Duration::from_secs(1);

/// The number of servers in this process that drain on signals.
static ACTIVE_SERVERS: AtomicUsize = AtomicUsize::new(0);

/// The tasks of servers that have ended, at most one for each runtime. They still end the process at a signal.
static IDLE_TASKS: Mutex<Vec<(Id, AbortHandle)>> = Mutex::new(Vec::new());

/// A guard that makes a server drain at the first signal. After the guard is dropped, signals do not drain the server.
#[derive(Debug)]
pub(crate) struct SignalGuard {
    is_active: Arc<AtomicBool>,
    /// The task that waits for signals, and its runtime; `None` if the signals cannot be handled.
    task: Option<(Id, AbortHandle)>,
}

impl SignalGuard {
    /// Begins to wait for signals; the first one drains the server.
    pub(crate) fn drain(drain: &Drain) -> Self {
        ACTIVE_SERVERS.fetch_add(1, Ordering::AcqRel);
        let is_active = Arc::new(AtomicBool::new(true));
        let task = match SignalStream::new() {
            // The task does not end with the server, because a later signal must still end the process.
            Ok(signals) => {
                let task = tokio::spawn(signals.follow(drain.clone(), Arc::clone(&is_active)));
                let runtime = Handle::current().id();
                end_idle_tasks(runtime);
                Some((runtime, task.abort_handle()))
            }
            Err(error) => {
                tracing::warn!(%error, "signal handler failed; signals end the process at once");
                None
            }
        };
        Self { is_active, task }
    }
}

/// Ends the tasks of servers of a runtime that have ended, because another task of this runtime handles signals now.
/// Forgets the tasks of runtimes that have ended.
fn end_idle_tasks(runtime: Id) {
    IDLE_TASKS.lock().retain(|(of, task)| {
        if *of == runtime {
            task.abort();
        }
        *of != runtime && !task.is_finished()
    });
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.is_active.store(false, Ordering::Release);
        ACTIVE_SERVERS.fetch_sub(1, Ordering::AcqRel);
        IDLE_TASKS.lock().extend(self.task.take());
    }
}

/// The signals to wait for.
#[cfg(unix)]
struct SignalStream([(Signal, i32); 2]);

#[cfg(unix)]
impl SignalStream {
    fn new() -> std::io::Result<Self> {
        let received =
            |kind: SignalKind| signal(kind).map(|received| (received, kind.as_raw_value()));
        Ok(Self([received(SignalKind::terminate())?, received(SignalKind::interrupt())?]))
    }

    /// Waits for the next signal, and returns its number.
    async fn next(&mut self) -> i32 {
        poll_fn(|task| {
            let number = self
                .0
                .iter_mut()
                .find_map(|(signal, number)| signal.poll_recv(task).is_ready().then_some(*number));
            number.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// The signals to wait for; on this system, Ctrl-C is the only one.
#[cfg(not(unix))]
struct SignalStream;

#[cfg(not(unix))]
impl SignalStream {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        2
    }
}

impl SignalStream {
    async fn follow(mut self, drain: Drain, is_active: Arc<AtomicBool>) {
        let mut first: Option<Instant> = None;
        loop {
            let number = self.next().await;
            let (is_active, other_servers) =
                (is_active.load(Ordering::Acquire), ACTIVE_SERVERS.load(Ordering::Acquire) > 0);
            if !is_active && other_servers {
                // Do nothing: this server has ended, but another server in this process is still running, and its task
                // handles the signal.
                continue;
            }
            if first.is_some_and(|at| at.elapsed() < REPETITION) {
                continue;
            }
            if !is_active || first.is_some() {
                tracing::warn!(number, "ending the process on a signal");
                // Use the exit status that shells report for a process that was ended by this signal.
                std::process::exit(128 + number);
            }
            first = Some(Instant::now());
            tracing::info!(number, "draining on a signal; a second one ends the process");
            drain.begin(ShutdownReason::OperatorRequest, drain.config().timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: each server that was served left a task that waited for signals.
    #[tokio::test]
    async fn servers_that_have_ended_leave_one_task() {
        for _ in 0..10 {
            drop(SignalGuard::drain(&Drain::default()));
            tokio::task::yield_now().await;
        }
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    }
}
