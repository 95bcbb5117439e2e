//! Runs functions that implement prompts, resources and completions.
//!
//! Each function runs on its own task, so that the connection continues to read. Dropping the call drops the function.

use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{LifecycleError, panic_error, spawn_watched};
use mgp_types::RpcError;
use mgp_types::service::{Context, Extensions, Reply};
use tokio::task::JoinHandle;

/// The settings for functions that implement prompts, resources and completions.
#[derive(Clone, Debug)]
pub(crate) struct HandlerConfig {
    /// The time limit of each call of such a function.
    pub(crate) timeout: Duration,
    pub(crate) state: Arc<Extensions>,
}

impl HandlerConfig {
    /// Runs a handler until it returns, its time limit expires, or the returned future is dropped.
    pub(crate) async fn run(
        &self,
        cx: &Context,
        handler: impl Future<Output = Result<Reply, RpcError>> + Send + 'static,
    ) -> Result<Reply, RpcError> {
        let asking = cx.caller_access.clone();
        // Run the handler and `run_round` in one task, because `run_round` itself must poll the handler: it collects
        // the questions that the handler asks during one poll.
        let running = async move { asking.run_round(handler).await };
        let mut task = AbortOnDrop(spawn_watched(tokio::time::timeout(self.timeout, running)));
        match (&mut task.0).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(timed_out(self.timeout)),
            Err(error) if error.is_panic() => Err(panic_error(&*error.into_panic())),
            Err(_) => Err(RpcError::internal("the handler was stopped with its runtime")),
        }
    }
}

/// Returns the error of a handler that exceeded its time limit; it names the method by which the server's author sets
/// the limit.
fn timed_out(limit: Duration) -> RpcError {
    let error = RpcError::from(LifecycleError::TimedOut(limit));
    let message = error.message();
    let text = format!("{message}; the server sets this limit in its code, with `Server::timeout`");
    error.with_message(text)
}

/// A task that is aborted when the call is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
