//! One thing that many threads use by turns, so that a busy one cannot keep the others out (MGP §16.4).
//!
//! Applies to: both.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value for one thread at a time.
///
/// A plain mutex goes to whoever asks first after it is free, and that is nearly always the thread that just had it:
/// a query would wait until thousands of tools are embedded.
/// Here the thread that waits holds `next`, and the one that comes back queues behind it.
#[derive(Debug, Default)]
pub(super) struct Turns<T> {
    next: Mutex<()>,
    value: Mutex<T>,
}

impl<T> Turns<T> {
    /// A value nobody uses yet.
    pub(super) fn new(value: T) -> Self {
        Self { next: Mutex::new(()), value: Mutex::new(value) }
    }

    /// Waits for its turn.
    pub(super) fn take(&self) -> MutexGuard<'_, T> {
        let _next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicBool, AtomicU32, Ordering},
        thread,
    };

    #[test]
    fn a_thread_that_never_rests_lets_the_others_in() {
        let turns = Turns::new(0_u32);
        let (ended, rounds) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let mut value = turns.take();
                    for _ in 0..20_000 {
                        *value = std::hint::black_box(value.wrapping_add(1));
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
            while rounds.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let before = rounds.load(Ordering::Relaxed);
            for _ in 0..20 {
                drop(turns.take());
            }
            let between = rounds.load(Ordering::Relaxed) - before;
            ended.store(true, Ordering::Relaxed);
            // One round for each turn, and some while this thread was not running.
            assert!(between < 2_000, "{between}");
        });
    }
}
