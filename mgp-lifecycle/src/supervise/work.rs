//! What runs for a supervised server: at most a start, its readiness, its end and its stop (MGP §11.5).
//!
//! Applies to: outbound.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mgp_types::mgp::ShutdownReason;
use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
use tokio::time::timeout;

use crate::catch_panic::panicked;

/// How long a server that cannot be spoken to may take to end, so that its exit is what is told.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// The futures of one incarnation; dropped, it kills the server.
pub(super) struct Work<T: Spawned> {
    server: Option<Arc<T>>,
    starting: Running<Result<T, SpawnError>>,
    preparing: Running<Result<T::Client, SpawnError>>,
    ending: Running<Exit>,
    stopping: Running<()>,
}

type Running<T> = Option<BoxFuture<'static, T>>;

/// What became of one of them.
pub(super) enum Done<C> {
    Ready(C),
    StartFailed(SpawnError),
    Exited(Exit),
    Stopped,
}

impl<T: Spawned> Work<T> {
    pub(super) const fn new() -> Self {
        Self { server: None, starting: None, preparing: None, ending: None, stopping: None }
    }

    /// Starts a server; the one before is gone or was killed.
    pub(super) fn start<S: Spawn<Server = T>>(&mut self, spawn: &Arc<S>) {
        let spawn = Arc::clone(spawn);
        self.starting = Some(Box::pin(async move {
            let started = caught(async move { spawn.start().await }).await;
            started.unwrap_or_else(|| Err(SpawnError::new("starting it panicked")))
        }));
    }

    /// Stops the server with all its tree, whatever it is about.
    pub(super) fn stop(&mut self, reason: Option<ShutdownReason>) {
        self.forget();
        let server = self.server.clone();
        self.stopping = Some(Box::pin(async move {
            if let Some(server) = server {
                let stop = caught(async { server.stop(reason.as_ref()).await });
                if stop.await.is_none() {
                    server.kill();
                }
            }
        }));
    }

    /// Kills the server, and waits for nothing.
    pub(super) fn kill(&mut self) {
        self.forget();
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Waits until something is done; forever where nothing runs. May be dropped at any time.
    pub(super) async fn next(&mut self) -> Done<T::Client> {
        loop {
            let started = poll_fn(|task| {
                if let Some(started) = poll(&mut self.starting, task) {
                    return Poll::Ready(Err(started));
                }
                // The end before the handshake: it says why the handshake broke.
                let done = poll(&mut self.ending, task)
                    .map(Done::Exited)
                    .or_else(|| match poll(&mut self.preparing, task)? {
                        Ok(client) => Some(Done::Ready(client)),
                        // It may have ended since it was looked at a moment ago.
                        Err(error) => Some(
                            poll(&mut self.ending, task)
                                .map_or(Done::StartFailed(error), Done::Exited),
                        ),
                    })
                    .or_else(|| poll(&mut self.stopping, task).map(|()| Done::Stopped));
                done.map_or(Poll::Pending, |done| Poll::Ready(Ok(done)))
            });
            match started.await {
                Ok(done) => {
                    if let Done::Stopped = done {
                        self.server = None;
                    }
                    return done;
                }
                Err(Ok(server)) => self.prepare(server),
                Err(Err(error)) => return Done::StartFailed(error),
            }
        }
    }

    /// Waits for the server to be ready, and for its end.
    fn prepare(&mut self, server: T) {
        let server = self.server.insert(Arc::new(server));
        let (ready, ended) = (Arc::clone(server), Arc::clone(server));
        self.preparing = Some(Box::pin(async move {
            let outcome = caught(async {
                let outcome = ready.ready().await;
                if outcome.is_err() {
                    // A moment for the exit to be known.
                    let _ = timeout(LAST_WORDS, ready.ended()).await;
                }
                outcome
            });
            outcome.await.unwrap_or_else(|| Err(SpawnError::new("the handshake panicked")))
        }));
        self.ending = Some(Box::pin(async move {
            let exit = caught(async { ended.ended().await }).await;
            exit.unwrap_or_else(|| Exit::failure("waiting for its end panicked"))
        }));
    }

    fn forget(&mut self) {
        self.starting = None;
        self.preparing = None;
        self.ending = None;
        self.stopping = None;
    }
}

impl<T: Spawned> Drop for Work<T> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Polls what runs, if it does, and forgets it once it is done.
fn poll<T>(running: &mut Running<T>, task: &mut std::task::Context<'_>) -> Option<T> {
    let Poll::Ready(done) = running.as_mut()?.as_mut().poll(task) else {
        return None;
    };
    *running = None;
    Some(done)
}

/// Runs a future of somebody else's; nothing if it panics, so that the supervisor lives.
async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|task| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
        Ok(polled) => polled.map(Some),
        Err(panic) => {
            // It writes the log; there is no caller to answer.
            let _ = panicked(&*panic);
            Poll::Ready(None)
        }
    })
    .await
}
