//! Runs a tool's function; dropping the call drops the function.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_lifecycle::{ConcurrencyLimitLayer, RunningPermit, panic_error, spawn_watched};
use mgp_types::service::{BoxFuture, CallerAccess, Principal, Reply};
use mgp_types::sync::Mutex;
use mgp_types::{RpcError, mcp};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use super::extract::{Abandoned, ToolRequest};
use super::{ExecutionMode, Tool};

/// The server's limit of running calls. Tools find it in the server's state, because a function on the blocking pool
/// must count as running even after its call has ended.
#[derive(Debug)]
pub(crate) struct RunningLimit(pub(crate) ConcurrencyLimitLayer);

impl Tool {
    pub(crate) fn start(&self, mut request: ToolRequest) -> Running {
        request.open_stream(self.mode == ExecutionMode::Blocking, self.max_stream_bytes);
        let asking = request.cx.caller_access.clone();
        match self.mode {
            ExecutionMode::Inline => {
                let function = (self.run)(request);
                Running::Inline(match asking {
                    // Only a modern caller answers questions with its next request, which `run_round` handles. For
                    // other callers, avoid the box of this wrapper, which costs as much as the lookup of the tool.
                    CallerAccess::Channel(_) => {
                        Box::pin(async move { asking.run_round(function).await })
                    }
                    _ => function,
                })
            }
            ExecutionMode::Task => {
                let function = (self.run)(request);
                // Run the function and `run_round` in one task, because `run_round` itself must poll the function: it
                // collects the questions that the function asks during one poll. This task is not that of the
                // connection. So pings are answered even if the function blocks its thread, which it should not do.
                let task = spawn_watched(async move { asking.run_round(function).await });
                Running::Task(AbortOnDrop { task, blocking: None })
            }
            ExecutionMode::Blocking => {
                let run = Arc::clone(&self.run);
                let runtime = Handle::current();
                let blocking = BlockingFunction::of(&mut request);
                let running = EndOnDrop(Arc::clone(&blocking));
                let task = tokio::task::spawn_blocking(move || {
                    let _running = running;
                    runtime.block_on(async move { asking.run_round(run(request)).await })
                });
                Running::Task(AbortOnDrop { task, blocking: Some(blocking) })
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
    /// The function on the blocking pool, which cannot be aborted.
    blocking: Option<Arc<BlockingFunction>>,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(blocking) = &self.blocking {
            blocking.abandon();
        }
    }
}

/// A function on the blocking pool. A thread cannot be stopped, so the function is only notified that its call was
/// dropped, and it counts as running until it returns.
struct BlockingFunction {
    abandoned: Arc<Abandoned>,
    limit: Option<Arc<RunningLimit>>,
    principal: Principal,
    definition: Arc<mcp::Tool>,
    state: Mutex<FunctionState>,
}

enum FunctionState {
    /// The call still waits for the function; the permit of the call counts it as running.
    Called,
    /// The call and its permit were dropped; the function has a permit of its own until it returns.
    Abandoned {
        _permit: Option<RunningPermit>,
    },
    Ended,
}

impl BlockingFunction {
    /// Creates the record of a function that will run on the blocking pool. Adds a flag to the function's request, by
    /// which the function can later detect that its call was dropped.
    fn of(request: &mut ToolRequest) -> Arc<Self> {
        let abandoned = Arc::<Abandoned>::default();
        request.cx.extensions.insert_shared(Arc::clone(&abandoned));
        Arc::new(Self {
            abandoned,
            limit: request.state.get_shared(),
            principal: request.cx.principal.clone(),
            definition: Arc::clone(&request.definition),
            state: Mutex::new(FunctionState::Called),
        })
    }

    /// If the function has not ended, notifies it that its call was dropped, and gives it a permit with which it still
    /// counts as running.
    fn abandon(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, FunctionState::Called) {
            return;
        }
        let limit = self.limit.as_deref();
        let permit = limit
            .map(|RunningLimit(layer)| layer.keep_running(&self.principal, &self.definition.name));
        *state = FunctionState::Abandoned { _permit: permit };
        drop(state);
        self.abandoned.set();
    }
}

/// A guard that records that the function has ended. It is dropped when the function has returned, or if it never
/// starts.
struct EndOnDrop(Arc<BlockingFunction>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let ended = std::mem::replace(&mut *self.0.state.lock(), FunctionState::Ended);
        // Drop the permit after the lock is released, because a released permit wakes other calls.
        drop(ended);
    }
}
