//! Tickets: each permits one call to run, and reports the outcome of the call to the audit sink, even if it is dropped.

use std::sync::Arc;

use super::{AuditOutcome, CallRecord, EndedCall};
use crate::wire::ErrorCode;

/// The part of an [`AuditSink`](super::AuditSink) to which tickets report their outcomes.
///
/// A ticket calls exactly one of the methods, once. Neither method is allowed to wait or fail: `begin` has reserved the
/// room for the record.
pub trait TicketSink: Send + Sync {
    /// Writes the final record of a call.
    fn close(&self, ended: EndedCall);

    /// Registers that a round ended with questions. The next `begin` with the same logical id continues the record of
    /// this round.
    ///
    /// Without a logical id, the next round cannot be matched to this round, and counts as a separate call.
    fn suspend(&self, start: Arc<CallRecord>);
}

/// A permit to run one call; the owner of the ticket must report the outcome of the call.
///
/// A dropped ticket records the outcome [`AuditOutcome::of_cancelled`] or, while a panic unwinds, a failure.
#[must_use = "dropping a ticket records the call as cancelled"]
pub struct Ticket {
    start: Arc<CallRecord>,
    sink: Arc<dyn TicketSink>,
    open: bool,
}

impl Ticket {
    /// Creates a ticket that reports to `sink`.
    pub fn new(start: impl Into<Arc<CallRecord>>, sink: Arc<dyn TicketSink>) -> Self {
        Self { start: start.into(), sink, open: true }
    }

    /// Returns the record of the call, as created when the call began.
    #[must_use]
    pub fn start(&self) -> &Arc<CallRecord> {
        &self.start
    }

    /// Records the outcome of the call, which has ended.
    pub fn finish(mut self, outcome: AuditOutcome) {
        self.close(outcome);
    }

    /// Ends a round that asked the caller questions, without a final record. The last round of the call writes the
    /// final record.
    pub fn suspend(mut self) {
        self.open = false;
        self.sink.suspend(Arc::clone(&self.start));
    }

    fn close(&mut self, outcome: AuditOutcome) {
        self.open = false;
        self.sink.close(EndedCall::now(Arc::clone(&self.start), outcome));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            let panicking = std::thread::panicking();
            self.close(if panicking {
                AuditOutcome::Failed(ErrorCode::INTERNAL_ERROR)
            } else {
                AuditOutcome::of_cancelled(&self.start)
            });
        }
    }
}

crate::opaque_debug!(Ticket);
