//! What all functions behind prompts, resources and completions share, and how they run.
//!
//! Each runs on a task of its own: the connection reads on, and dropping the call drops the handler.
//!
//! Applies to: inbound.

use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{Refusal, panicked, spawn_watched};
use mgp_types::RpcError;
use mgp_types::service::{Context, Extensions, Reply};
use tokio::task::JoinHandle;

/// What a server gives the functions behind its prompts, resources and completions.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    /// How long one may take.
    pub(crate) timeout: Duration,
    /// The server's state.
    pub(crate) state: Arc<Extensions>,
}

impl Serving {
    /// Runs a handler until it answers, its time is over, or the caller is dropped.
    pub(crate) async fn run(
        &self,
        cx: &Context,
        handler: impl Future<Output = Result<Reply, RpcError>> + Send + 'static,
    ) -> Result<Reply, RpcError> {
        let asking = cx.asking.clone();
        // The questions of a round are taken where the handler is polled, so that a round is one poll.
        let running = async move { asking.drive(handler).await };
        let mut task = AbortOnDrop(spawn_watched(tokio::time::timeout(self.timeout, running)));
        match (&mut task.0).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Refusal::TimedOut(self.timeout).into()),
            Err(error) if error.is_panic() => Err(panicked(&*error.into_panic())),
            Err(_) => Err(RpcError::internal("the handler was stopped with its runtime")),
        }
    }
}

/// A task that ends with the call it runs for.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
