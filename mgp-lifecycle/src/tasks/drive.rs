//! Drives the future of a call that has become a task, and removes the task after its time to live.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Reply};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument;

use super::entry::{Entry, Outcome};
use super::table::Table;
use crate::error::LifecycleError;
use crate::handshake::plain_errors::adapt_to_caller;

/// Spawns the tokio task that drives a call which has become a task.
///
/// The driver has only a weak reference to the table, so that tasks end when their server is dropped.
pub(super) fn spawn(
    table: &Arc<Table>,
    entry: &Arc<Entry>,
    future: BoxFuture<'static, Result<Reply, RpcError>>,
) {
    let (running, abort_guard) = (table.enter(), AbortGuard(Arc::clone(entry)));
    let drain_hold = table.hold_drain();
    let (weak, own) = (Arc::downgrade(table), Arc::clone(entry));
    let driver = async move {
        let mut cut =
            drain_hold.as_ref().map(|hold| Box::pin(hold.cut()) as BoxFuture<'static, ()>);
        let outcome = run(&own, future, &mut cut).await;
        drop(running);
        if let Some(outcome) = outcome {
            own.end(Outcome::of(adapt_to_caller(outcome, &own.caller, &own.info)));
        }
        if let Some(cut) = &mut cut {
            // Delay the drain until the caller has polled the outcome: if the server stopped now, the outcome would be
            // lost.
            let fetch_timeout = own.poll_interval().saturating_mul(2);
            let remaining = own.expires.saturating_duration_since(Instant::now());
            let fetched = timeout(fetch_timeout.min(remaining), own.delivered());
            tokio::select! {
                _ = fetched => {}
                () = cut => {}
            }
        }
        drop((cut, drain_hold));
        // Keep the task until it expires, whether or not it has an outcome.
        sleep_until(own.expires).await;
        if let Some(table) = weak.upgrade() {
            table.remove(&own.id);
        }
        drop(abort_guard);
    };
    let handle = tokio::spawn(driver.in_current_span()).abort_handle();
    // A task is spawned only once, so setting the handle cannot fail.
    entry.driver.set(handle).ok();
    if entry.is_removed() {
        entry.on_removed();
    }
}

/// Polls the call until it ends, the drain's time is up (`cut`), or the task is cancelled or expires; returns `None` for
/// the last two. The future is dropped before this returns.
async fn run(
    entry: &Entry,
    mut future: BoxFuture<'static, Result<Reply, RpcError>>,
    cut: &mut Option<BoxFuture<'static, ()>>,
) -> Option<Result<Reply, RpcError>> {
    let mut expired = pin!(sleep_until(entry.expires));
    poll_fn(|task| {
        if entry.poll_ended(task.waker()) {
            return Poll::Ready(None);
        }
        if let Poll::Ready(outcome) = future.as_mut().poll(task) {
            return Poll::Ready(Some(outcome));
        }
        if cut.as_mut().is_some_and(|cut| cut.as_mut().poll(task).is_ready()) {
            *cut = None;
            return Poll::Ready(Some(Err(LifecycleError::DrainTimedOut.into())));
        }
        expired.as_mut().poll(task).map(|()| None)
    })
    .await
}

/// A guard that ends a task if its driver panics or is stopped.
struct AbortGuard(Arc<Entry>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        self.0.end(Outcome::Failed(LifecycleError::TaskAborted.into()));
    }
}
