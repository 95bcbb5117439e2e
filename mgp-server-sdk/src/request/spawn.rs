//! Runs a handler on a task of its own: the connection reads on, and dropping the call drops the handler.
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_lifecycle::{Refusal, panicked};
use mgp_types::RpcError;
use mgp_types::service::{Context, Reply};
use tokio::task::JoinHandle;

/// Runs a handler until it answers, its time is over, or the caller is dropped.
pub(crate) async fn spawned(
    cx: &Context,
    after: Duration,
    handler: impl Future<Output = Result<Reply, RpcError>> + Send + 'static,
) -> Result<Reply, RpcError> {
    let asking = cx.asking.clone();
    // The questions of a round are taken where the handler is polled, so that a round is one poll.
    let running = async move { asking.drive(handler).await };
    let mut task = AbortOnDrop(tokio::spawn(tokio::time::timeout(after, running)));
    match (&mut task.0).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Refusal::TimedOut(after).into()),
        Err(error) if error.is_panic() => Err(panicked(&*error.into_panic())),
        Err(_) => Err(RpcError::internal("the handler was stopped with its runtime")),
    }
}

/// A task that ends with the call it runs for.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
