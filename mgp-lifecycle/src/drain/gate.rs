//! A gate that counts the running calls and can be closed for new calls. The count and the flags are in one atomic
//! value, so that no call is missed while the gate closes.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Flag: new calls are refused.
const CLOSED: usize = 1;
/// Flag: new calls are refused, and so are messages that belong to earlier calls.
const ENDED: usize = 2;
/// The value that one call adds to the state; the lower bits are flags.
const ONE: usize = 4;

/// The count of running calls, and the flags that refuse new calls. `state` is the count times [`ONE`], plus the flags.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: AtomicUsize,
    /// Notified when the last call ends after the gate was closed.
    empty: Notify,
}

impl Gate {
    /// Counts a new call; returns `false` if the gate is closed.
    pub(super) fn enter(&self) -> bool {
        // Without this check, refused calls would briefly be counted, and could keep `wait_empty` from ending.
        if self.state.load(Ordering::Relaxed) & CLOSED != 0 {
            return false;
        }
        self.count_unless(CLOSED)
    }

    /// Counts a message that belongs to an earlier call; returns `false` if the drain has ended.
    pub(super) fn enter_related(&self) -> bool {
        self.count_unless(ENDED)
    }

    /// Counts a call unless the flag is set.
    ///
    /// First counts the call and then checks the flag. Therefore, if a call enters while the gate closes, either the
    /// call sees the closed gate, or the closing side sees the call in the count.
    fn count_unless(&self, flag: usize) -> bool {
        if self.state.fetch_add(ONE, Ordering::AcqRel) & flag == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Counts a further part of a call that is already counted, e.g. its task, even if the gate is closed.
    pub(super) fn hold(&self) {
        self.state.fetch_add(ONE, Ordering::AcqRel);
    }

    pub(super) fn leave(&self) {
        let before = self.state.fetch_sub(ONE, Ordering::AcqRel);
        if before & CLOSED != 0 && before / ONE == 1 {
            self.empty.notify_one();
        }
    }

    /// Closes the gate for new calls; returns `true` the first time.
    pub(super) fn close(&self) -> bool {
        self.state.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Returns the number of running calls.
    pub(super) fn count(&self) -> usize {
        self.state.load(Ordering::Acquire) / ONE
    }

    /// Waits until the gate is closed and no call is running. From that moment on, the gate admits nothing.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future does not change the gate.
    pub(super) async fn wait_empty(&self) {
        let end = || {
            let (from, to) = (CLOSED, CLOSED | ENDED);
            let ended = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
            ended.map_or_else(|state| state & ENDED != 0, |_| true)
        };
        while !end() {
            // If the notification was sent before this call, `Notify` has stored it, so it is not lost.
            self.empty.notified().await;
        }
    }

    /// From now on, also refuses messages of earlier calls, even if some of these calls are still running. New calls
    /// have been refused since [`close`](Self::close).
    pub(super) fn end(&self) {
        self.state.fetch_or(ENDED, Ordering::AcqRel);
    }
}
