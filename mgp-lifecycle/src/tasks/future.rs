//! The request of a call that may become a task.
//!
//! Applies to: inbound.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll};

use mgp_types::RpcError;
use mgp_types::mcp::Era;
use mgp_types::service::{BoxFuture, Reply};
use tokio::time::{Sleep, sleep};

use super::drive::spawn;
use super::entry::{Entry, Outcome};
use super::switch::{Switch, Turn};
use super::table::Table;
use crate::handshake::veil::{Seen, veil};

/// Polls a call within its request, and hands it over when it stays pending.
///
/// Dropping it before the hand-over drops the call; afterwards the call is the table's.
pub(super) struct ResponseFuture {
    /// None after the hand-over.
    inner: Option<BoxFuture<'static, Result<Reply, RpcError>>>,
    switch: Arc<Switch>,
    table: Arc<Table>,
    grace: Grace,
}

/// How long the call stays in its request.
enum Grace {
    // The timer is made when the call does not complete at once.
    Fresh,
    Running(Pin<Box<Sleep>>),
    Over,
}

impl ResponseFuture {
    pub(super) fn new(
        inner: BoxFuture<'static, Result<Reply, RpcError>>,
        switch: Arc<Switch>,
        table: Arc<Table>,
    ) -> Self {
        Self { inner: Some(inner), switch, table, grace: Grace::Fresh }
    }

    fn hand_over(&mut self, entry: &Arc<Entry>) -> Result<Reply, RpcError> {
        if let Some(inner) = self.inner.take() {
            spawn(&self.table, entry, inner);
        }
        tracing::debug!(task = entry.number, "a call became a task");
        entry.created()
    }

    /// The call ended within its request.
    fn ended(&mut self, outcome: Result<Reply, RpcError>) -> Result<Reply, RpcError> {
        self.inner = None;
        let begun = self.switch.close();
        if self.switch.plan().era == Era::Modern {
            if let Some(entry) = begun {
                // Nobody learned of the task.
                self.table.forget(&entry.id);
            }
            return outcome;
        }
        // A caller of 2025-11-25 asked for a task and reads nothing else, so a result becomes a task that has ended.
        // A failure is told as it is.
        let own = self.switch.own();
        match veil(outcome, &own.caller, Seen::TOOL_CALL) {
            Ok(reply @ Reply::Complete(_)) => {
                let entry = match begun {
                    Some(entry) => entry,
                    None => self.table.insert(own, self.switch.plan())?,
                };
                entry.end(Outcome::of(Ok(reply)));
                spawn(&self.table, &entry, Box::pin(std::future::ready(Ok(Reply::None))));
                entry.created()
            }
            other => {
                if let Some(entry) = begun {
                    self.table.forget(&entry.id);
                }
                other
            }
        }
    }

    /// Drops the call, and with it whatever its guards hold; after the hand-over there is nothing to drop.
    fn give_up(&mut self) {
        if self.inner.take().is_some()
            && let Some(entry) = self.switch.close()
        {
            // Nobody learned of the task.
            self.table.forget(&entry.id);
        }
    }

    fn poll_grace(&mut self, task: &mut Poller<'_>) -> Poll<()> {
        loop {
            match &mut self.grace {
                Grace::Fresh => {
                    self.grace = match self.switch.plan().grace {
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
}

impl Future for ResponseFuture {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Poller<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else { return Poll::Pending };
        this.switch.polling();
        if let Poll::Ready(outcome) = inner.as_mut().poll(task) {
            return Poll::Ready(this.ended(outcome));
        }
        let mut turn = this.switch.polled(task.waker());
        if matches!(turn, Turn::Wait) && this.poll_grace(task).is_ready() {
            turn = match this.switch.hand_over() {
                Ok(turn) => turn,
                Err(error) => {
                    this.give_up();
                    return Poll::Ready(Err(error));
                }
            };
        }
        match turn {
            // Its questions were taken where it runs; it ends with them.
            Turn::Wait => Poll::Pending,
            Turn::Answer(reply) => {
                this.give_up();
                Poll::Ready(Ok(reply))
            }
            Turn::Task(entry) => Poll::Ready(this.hand_over(&entry)),
        }
    }
}

impl Drop for ResponseFuture {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.switch.fmt(f)
    }
}
