//! A mutex that a thread cannot keep for itself by locking it again and again (MGP §16.4).

use mgp_types::sync::{Mutex, MutexGuard};

/// A mutex that serves threads in turn.
///
/// A plain mutex is nearly always locked again by the thread that has just released it, even if another thread waits.
/// So a query would wait until thousands of tools are embedded. In this mutex, the waiting thread already holds the
/// lock `next`, so the releasing thread must wait after it.
#[derive(Debug, Default)]
pub(super) struct FairMutex<T> {
    next: Mutex<()>,
    value: Mutex<T>,
}

impl<T> FairMutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self { next: Mutex::new(()), value: Mutex::new(value) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        let _next = self.next.lock();
        self.value.lock()
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
    fn a_busy_thread_lets_other_threads_in() {
        let mutex = FairMutex::new(0_u32);
        let (ended, rounds) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let mut value = mutex.lock();
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
                drop(mutex.lock());
            }
            let between = rounds.load(Ordering::Relaxed) - before;
            ended.store(true, Ordering::Relaxed);
            // The test expects about one round of the busy thread per lock, plus some rounds while the system did not
            // schedule this thread.
            assert!(between < 2_000, "{between}");
        });
    }
}
