//! Jobs for the thread of a connection: closures, each with a channel for its result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::DbError;
use crate::service::BoxFuture;
use crate::store::StoreError;

pub(super) trait Job: Send {
    /// Runs the job within a transaction of `conn`. If the job fails, the caller of this method rolls back what the job
    /// wrote.
    fn run(&mut self, conn: &Connection) -> Result<(), StoreError>;

    /// Sends the result to the caller that waits for the job. `committed` is the outcome of the transaction that
    /// contained the job.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// The receiver of a queue of jobs. The thread that reads the queue ends when all senders are dropped.
pub(super) type Jobs = Receiver<Box<dyn Job>>;

pub(super) type Queue = SyncSender<Box<dyn Job>>;

/// Queues a closure immediately, and returns a future for the result of the closure.
pub(super) fn ask<T, F>(queue: Option<&Queue>, work: F) -> BoxFuture<'static, Result<T, StoreError>>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
{
    let (sender, answer) = oneshot::channel();
    let job = Box::new(ClosureJob { work: Some(work), outcome: None, sender });
    let sent = queue.ok_or(StoreError::Closed).and_then(|queue| {
        queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => {
                StoreError::Busy("too many operations wait for it; try again later")
            }
            TrySendError::Disconnected(_) => StoreError::Closed,
        })
    });
    Box::pin(async move {
        sent?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    })
}

struct ClosureJob<T, F> {
    work: Option<F>,
    outcome: Option<Result<T, StoreError>>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for ClosureJob<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let Some(work) = self.work.take() else { return Ok(()) };
        // Catch a panic of the closure, which must not end the thread, because the thread serves all callers.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(conn)))
            .unwrap_or_else(|_| Err(DbError::Panicked.into()));
        let ran = outcome.as_ref().map(drop).map_err(Clone::clone);
        self.outcome = Some(outcome);
        ran
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let outcome = match self.outcome {
            Some(Ok(value)) => committed.map(|()| value),
            Some(Err(error)) => Err(error),
            None => Err(committed.err().unwrap_or(StoreError::Closed)),
        };
        // Ignore the error, which only means that the caller has dropped the future.
        let _ = self.sender.send(outcome);
    }
}
