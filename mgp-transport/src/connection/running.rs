//! Calls that did not complete where they were dispatched.
//!
//! Applies to: inbound.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};

use mgp_types::service::{BoxFuture, Reply};
use mgp_types::{Id, RpcError};

use super::batch::Batch;

/// A call that runs.
pub(super) struct Running {
    pub(super) id: Option<Id>,
    pub(super) size: usize,
    pub(super) batch: Option<Batch>,
    pub(super) future: BoxFuture<'static, Result<Reply, RpcError>>,
}

pub(super) struct Finished {
    pub(super) id: Id,
    pub(super) size: usize,
    pub(super) batch: Option<Batch>,
    pub(super) outcome: Result<Reply, RpcError>,
}

impl Future for Running {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Finished> {
        let outcome = ready!(self.future.as_mut().poll(task));
        Poll::Ready(Finished {
            id: self.id.take().unwrap_or(Id::Number(0)),
            size: self.size,
            batch: self.batch.take(),
            outcome,
        })
    }
}
