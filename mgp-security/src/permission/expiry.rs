//! Approvals whose time is over: out of force at that moment by themselves, then told once (MGP §3.6, §6.4).
//!
//! Whichever process of those that share a store comes first notes on the approval that its end was told.
//!
//! Applies to: both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use mgp_types::store::{Change, StoreError};
use tokio::runtime::Handle;

use super::entry::{Approval, ApprovalDecision};
use super::permissions::Inner;
use super::writing::{end_event, put};
use crate::state::ChangeError;

/// How many ends one commit tells; further ones follow in the next.
const AT_ONCE: usize = 256;

/// How often is tried again when another process changes the same approvals.
const ATTEMPTS: usize = 8;

/// Tells what has ended, in a task of its own; without a runtime it is told with the next change.
pub(super) fn sweep_soon(inner: &Arc<Inner>) {
    let any = inner.state.now().is_ok_and(|book| book.any_ended(SystemTime::now()));
    let Ok(runtime) = Handle::try_current() else { return };
    if !any || inner.sweeping.swap(true, Ordering::AcqRel) {
        return;
    }
    let inner = Arc::clone(inner);
    runtime.spawn(async move {
        let turn = inner.turn.lock().await;
        if let Err(error) = sweep(&inner).await {
            // They are out of force all the same, and the next change tries again.
            tracing::warn!(%error, "it could not be told that permissions ended");
        }
        drop(turn);
        inner.sweeping.store(false, Ordering::Release);
    });
}

async fn sweep(inner: &Inner) -> Result<(), ChangeError> {
    let mut attempts = 0;
    loop {
        let now = SystemTime::now();
        let mut ended = inner.state.latest(|approval| is_untold(approval, now)).await?;
        ended.truncate(AT_ONCE);
        if ended.is_empty() {
            return Ok(());
        }
        let mut change = Change::new();
        let mut events = Vec::with_capacity(ended.len());
        for found in ended {
            let mut approval = Approval::clone(&found.entry);
            approval.end_told = true;
            change = put(change, &approval, Some(found.revision))?;
            events.push(end_event(&approval));
        }
        match inner.state.commit_end(change, events).await {
            // Somebody else was first.
            Err(ChangeError::Store(StoreError::Conflict { .. })) if attempts < ATTEMPTS => {
                attempts += 1;
            }
            done => done?,
        }
    }
}

/// Whether it has ended, and that was not told yet.
pub(super) fn is_untold(approval: &Approval, at: SystemTime) -> bool {
    approval.decision == ApprovalDecision::Approved
        && !approval.end_told
        && approval.until().is_some_and(|until| until <= at)
}
