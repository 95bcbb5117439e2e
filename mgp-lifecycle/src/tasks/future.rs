//! The response future of a call that can become a task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll};

use mgp_types::RpcError;
use mgp_types::mcp::Era;
use mgp_types::service::{BoxFuture, Reply};
use tokio::time::{Sleep, sleep};

use super::drive::spawn;
use super::entry::{Entry, Outcome};
use super::handover::{CallStage, NextStep};
use super::table::Table;
use crate::error::LifecycleError;
use crate::handshake::plain_errors::{CallInfo, adapt_to_caller};

/// Future that polls a call as a normal request, and converts the call to a task if it stays pending.
///
/// Until then, dropping this future drops the call; afterwards the task owns the call.
pub(super) struct ResponseFuture {
    /// The call; `None` after it has become a task.
    inner: Option<BoxFuture<'static, Result<Reply, RpcError>>>,
    stage: Arc<CallStage>,
    table: Arc<Table>,
    grace: Grace,
    /// The time limit of a call that stays a request because its caller cannot have another task. No other layer limits
    /// the time of such a call.
    limit: Option<Pin<Box<Sleep>>>,
}

/// The time limit of a call that can still complete as a normal request.
enum Grace {
    // No timer exists yet, because it is created only if the call does not complete at its first poll.
    Fresh,
    Running(Pin<Box<Sleep>>),
    Over,
}

impl ResponseFuture {
    pub(super) fn new(
        inner: BoxFuture<'static, Result<Reply, RpcError>>,
        stage: Arc<CallStage>,
        table: Arc<Table>,
    ) -> Self {
        Self { inner: Some(inner), stage, table, grace: Grace::Fresh, limit: None }
    }

    fn hand_over(&mut self, entry: &Arc<Entry>) -> Result<Reply, RpcError> {
        if let Some(inner) = self.inner.take() {
            spawn(&self.table, entry, inner);
        }
        tracing::debug!(task = entry.number, "call became a task");
        entry.created()
    }

    /// Returns the reply of a call that ended within its request.
    fn complete(&mut self, outcome: Result<Reply, RpcError>) -> Result<Reply, RpcError> {
        self.inner = None;
        let started = self.stage.close();
        if self.stage.plan().era == Era::Modern {
            if let Some(entry) = started {
                // Remove the task, because its id was never sent to the caller.
                self.table.remove(&entry.id);
            }
            return outcome;
        }
        // A caller of MCP 2025-11-25 has requested a task and expects a task, so a result becomes a task that has
        // already ended. An error is returned unchanged.
        let own = self.stage.own();
        match adapt_to_caller(outcome, &own.caller, &CallInfo::of_tool_call(own)) {
            Ok(reply @ Reply::Complete(_)) => {
                let entry = match started {
                    Some(entry) => entry,
                    None => self.table.insert(own, self.stage.plan())?,
                };
                entry.end(Outcome::of(Ok(reply)));
                spawn(&self.table, &entry, Box::pin(std::future::ready(Ok(Reply::None))));
                entry.created()
            }
            other => {
                if let Some(entry) = started {
                    self.table.remove(&entry.id);
                }
                other
            }
        }
    }

    /// Drops the call and its guards. Does nothing if the call has become a task.
    fn abandon(&mut self) {
        if self.inner.take().is_some()
            && let Some(entry) = self.stage.close()
        {
            // Remove the task, because its id was never sent to the caller.
            self.table.remove(&entry.id);
        }
    }

    fn poll_grace(&mut self, task: &mut Poller<'_>) -> Poll<()> {
        loop {
            match &mut self.grace {
                Grace::Fresh => {
                    self.grace = match self.stage.plan().grace {
                        Some(grace) => Grace::Running(Box::pin(sleep(grace))),
                        None => Grace::Over,
                    }
                }
                Grace::Running(timer) => match timer.as_mut().poll(task) {
                    Poll::Ready(()) => self.grace = Grace::Over,
                    Poll::Pending => return Poll::Pending,
                },
                Grace::Over => return Poll::Ready(()),
            }
        }
    }

    /// Waits for the time to live that the task would have had, and returns the error that then ends the call.
    fn poll_limit(&mut self, task: &mut Poller<'_>) -> Poll<RpcError> {
        let ttl = self.stage.plan().ttl;
        let limit = self.limit.get_or_insert_with(|| Box::pin(sleep(ttl)));
        limit.as_mut().poll(task).map(|()| LifecycleError::TimedOut(ttl).into())
    }
}

impl Future for ResponseFuture {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Poller<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else { return Poll::Pending };
        this.stage.begin_poll();
        if let Poll::Ready(outcome) = inner.as_mut().poll(task) {
            return Poll::Ready(this.complete(outcome));
        }
        let mut next = this.stage.end_poll(task.waker());
        if matches!(next, NextStep::Wait) && this.poll_grace(task).is_ready() {
            next = match this.stage.hand_over() {
                Ok(next) => next,
                // A call that need not become a task continues as a request, and becomes a task once there is room.
                Err(_) if !this.stage.plan().task_only => match this.poll_limit(task) {
                    Poll::Pending => NextStep::Wait,
                    Poll::Ready(error) => {
                        this.abandon();
                        return Poll::Ready(Err(error));
                    }
                },
                Err(error) => {
                    this.abandon();
                    return Poll::Ready(Err(error));
                }
            };
        }
        match next {
            NextStep::Wait => Poll::Pending,
            // Answer the request with the open questions of the call. They were collected on the tokio task that runs
            // the call.
            NextStep::Answer(reply) => {
                this.abandon();
                Poll::Ready(Ok(reply))
            }
            NextStep::Task(entry) => Poll::Ready(this.hand_over(&entry)),
        }
    }
}

impl Drop for ResponseFuture {
    fn drop(&mut self) {
        self.abandon();
    }
}

mgp_types::opaque_debug!(ResponseFuture);
