//! A counter of calls that are still running.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of the calls, or other values, that have begun and not ended yet. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Alive(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    now: AtomicUsize,
    ever: AtomicUsize,
    ended: AtomicUsize,
}

/// The mark of one counted call. The call counts as alive until its mark is dropped.
#[derive(Debug)]
pub struct Life(Arc<Counts>);

impl Alive {
    /// Counts a call as alive until the returned mark is dropped.
    #[must_use = "the call counts until the mark is dropped"]
    pub fn begin(&self) -> Life {
        self.0.now.fetch_add(1, Ordering::SeqCst);
        self.0.ever.fetch_add(1, Ordering::SeqCst);
        Life(Arc::clone(&self.0))
    }

    /// Returns the number of calls that are alive.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    /// Returns the number of calls that began.
    #[must_use]
    pub fn ever(&self) -> usize {
        self.0.ever.load(Ordering::SeqCst)
    }

    /// Returns the number of calls that ended.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.0.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}
