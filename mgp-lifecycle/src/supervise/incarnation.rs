//! The futures of one incarnation (one run of the process or connection) of a supervised server: its start, readiness,
//! end and stop (MGP §11.5).

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mgp_types::mgp::ShutdownReason;
use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
use tokio::time::timeout;

use crate::catch_panic::panic_error;

/// The time to wait for the server's exit after a failed handshake; if it exits, that is reported as the cause.
const EXIT_TIMEOUT: Duration = Duration::from_millis(250);

/// The futures of one incarnation; dropping this value kills the server.
pub(super) struct Incarnation<T: Spawned> {
    server: Option<Arc<T>>,
    starting: Running<Result<T, SpawnError>>,
    preparing: Running<Result<T::Client, SpawnError>>,
    ending: Running<Exit>,
    stopping: Running<()>,
}

type Running<T> = Option<BoxFuture<'static, T>>;

pub(super) enum Outcome<C> {
    Ready(C),
    StartFailed(SpawnError),
    Exited(Exit),
    Stopped,
}

impl<T: Spawned> Incarnation<T> {
    pub(super) const fn new() -> Self {
        Self { server: None, starting: None, preparing: None, ending: None, stopping: None }
    }

    /// Starts a server. The previous server must have ended or been killed.
    pub(super) fn start<S: Spawn<Server = T>>(&mut self, spawn: &Arc<S>) {
        let spawn = Arc::clone(spawn);
        self.starting = Some(Box::pin(async move {
            let started = catch_panic(async move { spawn.start().await }).await;
            started.unwrap_or_else(|| Err(SpawnError::new("starting it panicked")))
        }));
    }

    /// Returns whether the attempt to start that has just failed is followed by another attempt, made in a different
    /// way.
    pub(super) fn continues_start(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.continues_start())
    }

    /// Stops the server with its process tree, whatever it is doing.
    pub(super) fn stop(&mut self, reason: Option<ShutdownReason>) {
        self.clear();
        let server = self.server.clone();
        self.stopping = Some(Box::pin(async move {
            if let Some(server) = server {
                let stop = catch_panic(async { server.stop(reason.as_ref()).await });
                if stop.await.is_none() {
                    server.kill();
                }
            }
        }));
    }

    /// Kills the server, and does not wait for its end.
    pub(super) fn kill(&mut self) {
        self.clear();
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Waits for the next outcome of the futures of this incarnation; never completes if no future is running. Cancel
    /// safe.
    pub(super) async fn next(&mut self) -> Outcome<T::Client> {
        loop {
            let started = poll_fn(|task| {
                if let Some(started) = poll(&mut self.starting, task) {
                    return Poll::Ready(Err(started));
                }
                // Poll the future of the server's end first, because an end explains a failure of the handshake.
                let exited = poll(&mut self.ending, task);
                let outcome = match (exited, poll(&mut self.preparing, task)) {
                    // Report this error even if the server has ended too: many servers end when their handshake fails,
                    // and another start would fail in the same way.
                    (_, Some(Err(error))) if error.is_permanent() => {
                        Some(Outcome::StartFailed(error))
                    }
                    (Some(exit), _) => Some(Outcome::Exited(exit)),
                    (None, Some(Ok(client))) => Some(Outcome::Ready(client)),
                    // The server might have ended since its end was polled above.
                    (None, Some(Err(error))) => Some(
                        poll(&mut self.ending, task)
                            .map_or(Outcome::StartFailed(error), Outcome::Exited),
                    ),
                    (None, None) => poll(&mut self.stopping, task).map(|()| Outcome::Stopped),
                };
                outcome.map_or(Poll::Pending, |outcome| Poll::Ready(Ok(outcome)))
            });
            match started.await {
                Ok(outcome) => {
                    if let Outcome::Stopped = outcome {
                        self.server = None;
                    }
                    return outcome;
                }
                Err(Ok(server)) => self.prepare(server),
                Err(Err(error)) => return Outcome::StartFailed(error),
            }
        }
    }

    /// Begins to wait for two events: that the server is ready, and that it ends.
    fn prepare(&mut self, server: T) {
        let server = self.server.insert(Arc::new(server));
        let (ready, ended) = (Arc::clone(server), Arc::clone(server));
        self.preparing = Some(Box::pin(async move {
            let outcome = catch_panic(async {
                let outcome = ready.ready().await;
                if outcome.as_ref().is_err_and(|error| !error.is_permanent()) {
                    // If the handshake failed because the server is exiting, this leaves time to notice the exit.
                    let _ = timeout(EXIT_TIMEOUT, ready.wait()).await;
                }
                outcome
            });
            outcome.await.unwrap_or_else(|| Err(SpawnError::new("the handshake panicked")))
        }));
        self.ending = Some(Box::pin(async move {
            let exit = catch_panic(async { ended.wait().await }).await;
            exit.unwrap_or_else(|| Exit::failure("waiting for its end panicked"))
        }));
    }

    fn clear(&mut self) {
        self.starting = None;
        self.preparing = None;
        self.ending = None;
        self.stopping = None;
    }
}

impl<T: Spawned> Drop for Incarnation<T> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Polls a future if there is one, and removes it once it has completed.
fn poll<T>(running: &mut Running<T>, task: &mut std::task::Context<'_>) -> Option<T> {
    let Poll::Ready(done) = running.as_mut()?.as_mut().poll(task) else {
        return None;
    };
    *running = None;
    Some(done)
}

/// Runs a future of a spawner; returns `None` if the future panics.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|task| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
        Ok(polled) => polled.map(Some),
        Err(panic) => {
            // The panic is only logged, because no caller waits for the error.
            let _ = panic_error(&*panic);
            Poll::Ready(None)
        }
    })
    .await
}
