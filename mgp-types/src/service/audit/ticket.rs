//! A call that may run: whatever becomes of the ticket, a record is written.

use std::fmt;
use std::sync::Arc;

use super::{Ended, Outcome, Start};
use crate::wire::ErrorCode;

/// Takes what becomes of tickets; the inner side of an [`AuditSink`](super::AuditSink).
///
/// Exactly one of the two is called for each ticket, and neither may wait or fail: `begin` reserved the room.
pub trait Ledger: Send + Sync {
    /// Writes the final record of a call.
    fn close(&self, ended: Ended);

    /// Takes note that a round ended with questions: the next `begin` with the same logical id goes on with it.
    ///
    /// A call without a logical id cannot be found again; its next round is a call of its own.
    fn suspend(&self, start: Arc<Start>);
}

/// The right to run one call, and the duty to say how it ended.
///
/// Dropping it records the call as cancelled, or as failed while a panic unwinds.
#[must_use = "dropping a ticket records the call as cancelled"]
pub struct Ticket {
    start: Arc<Start>,
    ledger: Arc<dyn Ledger>,
    open: bool,
}

impl Ticket {
    /// A ticket that reports to a ledger.
    pub fn new(start: impl Into<Arc<Start>>, ledger: Arc<dyn Ledger>) -> Self {
        Self { start: start.into(), ledger, open: true }
    }

    /// The facts of the call.
    #[must_use]
    pub fn start(&self) -> &Arc<Start> {
        &self.start
    }

    /// Records how the call ended.
    pub fn finish(mut self, outcome: Outcome) {
        self.close(outcome);
    }

    /// Ends a round whose questions must be answered first: the final record belongs to the round that completes.
    pub fn suspend(mut self) {
        self.open = false;
        self.ledger.suspend(Arc::clone(&self.start));
    }

    fn close(&mut self, outcome: Outcome) {
        self.open = false;
        self.ledger.close(Ended::now(Arc::clone(&self.start), outcome));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            let panicking = std::thread::panicking();
            self.close(if panicking {
                Outcome::Failed(ErrorCode::INTERNAL_ERROR)
            } else {
                Outcome::Cancelled
            });
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.start.key)
    }
}
