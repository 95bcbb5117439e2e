//! How many calls are in flight and whether more may come, in one word: nothing slips in between.
//!
//! Applies to: inbound.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// No new call enters.
const CLOSED: usize = 1;
/// Nothing enters.
const OVER: usize = 2;
/// One call.
const ONE: usize = 4;

/// The count and the two flags.
#[derive(Debug, Default)]
pub(super) struct Gate {
    word: AtomicUsize,
    /// Tells whoever waits for the end that the last call left a closed gate.
    empty: Notify,
}

impl Gate {
    /// Lets a new call in, and counts it; `false` once the gate is closed.
    pub(super) fn enter(&self) -> bool {
        // The look keeps a flood of refused calls from the count that the end waits for.
        if self.word.load(Ordering::Relaxed) & CLOSED != 0 {
            return false;
        }
        self.count_unless(CLOSED)
    }

    /// Lets in what belongs to a call that entered before; `false` once everything is over.
    pub(super) fn enter_again(&self) -> bool {
        self.count_unless(OVER)
    }

    /// Counts first and looks then: of a call and the closing of the gate, one sees the other.
    fn count_unless(&self, flag: usize) -> bool {
        if self.word.fetch_add(ONE, Ordering::AcqRel) & flag == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Counts another part of a call that is counted.
    pub(super) fn hold(&self) {
        self.word.fetch_add(ONE, Ordering::AcqRel);
    }

    /// A call ended.
    pub(super) fn leave(&self) {
        let before = self.word.fetch_sub(ONE, Ordering::AcqRel);
        if before & CLOSED != 0 && before / ONE == 1 {
            self.empty.notify_one();
        }
    }

    /// Closes the gate to new calls; `true` for the first who does.
    pub(super) fn close(&self) -> bool {
        self.word.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// How many calls are in flight.
    pub(super) fn count(&self) -> usize {
        self.word.load(Ordering::Acquire) / ONE
    }

    /// Waits until nothing is in flight behind a closed gate, and lets nothing in from that moment on.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the gate as it is.
    pub(super) async fn emptied(&self) {
        let end = || {
            let (from, to) = (CLOSED, CLOSED | OVER);
            let ended = self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
            ended.map_or_else(|word| word & OVER != 0, |_| true)
        };
        while !end() {
            // A word of it that came meanwhile is kept for the first who waits.
            self.empty.notified().await;
        }
    }

    /// Lets nothing in from now on, whatever is in flight.
    pub(super) fn end(&self) {
        self.word.fetch_or(OVER, Ordering::AcqRel);
    }
}
