//! Runs a tool's function; dropping the call drops the function.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, CallerAccess, Reply};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use super::extract::{Abandoned, ToolRequest};
use super::{ExecutionMode, Tool};
use mgp_lifecycle::{panic_error, spawn_watched};

impl Tool {
    pub(crate) fn start(&self, mut request: ToolRequest) -> Running {
        request.open_stream(self.mode == ExecutionMode::Blocking, self.max_stream_bytes);
        let asking = request.cx.caller_access.clone();
        match self.mode {
            ExecutionMode::Inline => {
                let function = (self.run)(request);
                Running::Inline(match asking {
                    // Only a modern caller needs this wrapper, because it answers questions with its next request. The
                    // additional box of the wrapper costs as much as the lookup of the tool.
                    CallerAccess::Channel(_) => {
                        Box::pin(async move { asking.run_round(function).await })
                    }
                    _ => function,
                })
            }
            ExecutionMode::Task => {
                let function = (self.run)(request);
                // Let `run_round` poll the function in the same task, so that it collects all questions that the
                // function asks during one poll. Because this task is separate from the connection's, pings are
                // answered even if the function blocks its thread, which it should not do.
                let task = spawn_watched(async move { asking.run_round(function).await });
                Running::Task(AbortOnDrop { task, abandoned: None })
            }
            ExecutionMode::Blocking => {
                let run = Arc::clone(&self.run);
                let runtime = Handle::current();
                // A thread cannot be stopped, so the function can only be notified that its call was dropped.
                let abandoned = Arc::<Abandoned>::default();
                request.cx.extensions.insert_shared(Arc::clone(&abandoned));
                let task = tokio::task::spawn_blocking(move || {
                    runtime.block_on(async move { asking.run_round(run(request)).await })
                });
                Running::Task(AbortOnDrop { task, abandoned: Some(abandoned) })
            }
        }
    }
}

/// A running tool function.
pub(crate) enum Running {
    Inline(BoxFuture<'static, Result<Reply, RpcError>>),
    Task(AbortOnDrop),
}

impl Future for Running {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Inline(future) => future.as_mut().poll(task),
            Self::Task(handle) => {
                let joined = ready!(Pin::new(&mut handle.task).poll(task));
                Poll::Ready(joined.unwrap_or_else(|error| Err(failed(error))))
            }
        }
    }
}

fn failed(error: JoinError) -> RpcError {
    if error.is_panic() {
        return panic_error(&*error.into_panic());
    }
    RpcError::internal("the tool was stopped with its runtime")
}

/// A task that is aborted when the call is dropped.
pub(crate) struct AbortOnDrop {
    task: JoinHandle<Result<Reply, RpcError>>,
    /// The notice that the call was dropped, for a function on the blocking pool, which cannot be aborted.
    abandoned: Option<Arc<Abandoned>>,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(abandoned) = &self.abandoned
            && !self.task.is_finished()
        {
            abandoned.set();
        }
    }
}
