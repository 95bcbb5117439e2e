//! Drives the future of a call after it became a task, and keeps the task until its time to live is over.
//!
//! Applies to: inbound.

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
use crate::error::Refusal;
use crate::handshake::veil::{Seen, veil};

/// Spawns what is left of a call.
///
/// The table is held weakly: a server that is gone drops its tasks.
pub(super) fn spawn(
    table: &Arc<Table>,
    entry: &Arc<Entry>,
    future: BoxFuture<'static, Result<Reply, RpcError>>,
) {
    let (running, broken) = (table.enter(), Broken(Arc::clone(entry)));
    let (held, asked_for) = (table.hold(), table.config().poll_interval.saturating_mul(2));
    let (weak, own) = (Arc::downgrade(table), Arc::clone(entry));
    let driver = async move {
        let mut cut = held.as_ref().map(|held| Box::pin(held.cut()) as BoxFuture<'static, ()>);
        let outcome = run(&own, future, &mut cut).await;
        drop(running);
        if let Some(outcome) = outcome {
            own.end(Outcome::of(veil(outcome, &own.caller, Seen::TOOL_CALL)));
        }
        if let Some(cut) = &mut cut {
            // A server that ends at once would take the outcome with it, before its caller asks the next time.
            let kept = own.expires.saturating_duration_since(Instant::now());
            let fetched = timeout(asked_for.min(kept), own.delivered());
            tokio::select! {
                _ = fetched => {}
                () = cut => {}
            }
        }
        drop((cut, held));
        // Time over and still without an outcome: nobody reads one any more.
        sleep_until(own.expires).await;
        if let Some(table) = weak.upgrade() {
            table.forget(&own.id);
        }
        drop(broken);
    };
    let handle = tokio::spawn(driver.in_current_span()).abort_handle();
    // Set once: a task is spawned once.
    entry.driver.set(handle).ok();
    if entry.is_gone() {
        entry.let_go();
    }
}

/// Polls the call until it ends, its task is cancelled or its time is over; it is dropped before this returns.
async fn run(
    entry: &Entry,
    mut future: BoxFuture<'static, Result<Reply, RpcError>>,
    cut: &mut Option<BoxFuture<'static, ()>>,
) -> Option<Result<Reply, RpcError>> {
    let mut expired = pin!(sleep_until(entry.expires));
    poll_fn(|task| {
        if entry.has_ended_or_wakes(task.waker()) {
            return Poll::Ready(None);
        }
        if let Poll::Ready(outcome) = future.as_mut().poll(task) {
            return Poll::Ready(Some(outcome));
        }
        if cut.as_mut().is_some_and(|cut| cut.as_mut().poll(task).is_ready()) {
            *cut = None;
            return Poll::Ready(Some(Err(Refusal::DrainTimedOut.into())));
        }
        expired.as_mut().poll(task).map(|()| None)
    })
    .await
}

/// Ends a task whose driver panicked or was stopped.
struct Broken(Arc<Entry>);

impl Drop for Broken {
    fn drop(&mut self) {
        self.0.end(Outcome::Failed(Refusal::TaskAborted.into()));
    }
}
