//! Runs a tool's function where it belongs; dropping the call drops the function.
//!
//! Applies to: inbound.

use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Reply};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use super::extract::ToolRequest;
use super::{Place, Tool};
use mgp_lifecycle::{panicked, spawn_watched};

impl Tool {
    pub(crate) fn start(&self, request: ToolRequest) -> Running {
        let asking = request.cx.asking.clone();
        match self.place {
            Place::Inline => {
                let function = (self.run)(request);
                Running::Inline(Box::pin(async move { asking.drive(function).await }))
            }
            Place::Task => {
                let function = (self.run)(request);
                // The questions of a round are taken where the function is polled, so that a round is one poll.
                // It should not block its thread, but pings are answered also when it does.
                Running::Task(AbortOnDrop(spawn_watched(
                    async move { asking.drive(function).await },
                )))
            }
            Place::Blocking => {
                let run = std::sync::Arc::clone(&self.run);
                let runtime = Handle::current();
                Running::Task(AbortOnDrop(tokio::task::spawn_blocking(move || {
                    runtime.block_on(run(request))
                })))
            }
        }
    }
}

/// A tool's function on its way.
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
                let joined = ready!(Pin::new(&mut handle.0).poll(task));
                Poll::Ready(joined.unwrap_or_else(|error| Err(failed(error))))
            }
        }
    }
}

fn failed(error: JoinError) -> RpcError {
    if error.is_panic() {
        return panicked(&*error.into_panic());
    }
    RpcError::internal("the tool was stopped with its runtime")
}

/// A task that ends with the call it runs for.
pub(crate) struct AbortOnDrop(JoinHandle<Result<Reply, RpcError>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
