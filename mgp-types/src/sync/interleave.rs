//! Gives control to a checker before each lock is taken. Tests can thus try many orders in which threads take locks.
//!
//! The checker runs the threads of a model, i.e. of a small concurrent test, one at a time, and chooses at each lock
//! which thread runs next. It can thus find orders in which the data protected by the locks becomes wrong. Threads
//! without a checker use the locks as usual.

use std::cell::Cell;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// The functions with which a checker controls the threads of a model.
#[derive(Clone, Copy, Debug)]
pub struct Checker {
    /// Makes the checker choose which thread of the model runs next: another thread, or the same thread again.
    pub switch: fn(),
    /// Makes another thread of the model run, because the current thread waits for a lock.
    pub wait: fn(),
}

thread_local! {
    static CHECKER: Cell<Option<Checker>> = const { Cell::new(None) };
}

/// Runs a function on this thread and lets a checker control the locks that it takes; with `None`, the locks work as
/// usual.
pub fn with_checker<R>(checker: Option<Checker>, run: impl FnOnce() -> R) -> R {
    struct Restore(Option<Checker>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHECKER.set(self.0);
        }
    }
    let _restore = Restore(CHECKER.replace(checker));
    run()
}

/// Returns whether a checker controls the locks on this thread.
#[must_use]
pub fn is_checked() -> bool {
    CHECKER.get().is_some()
}

/// Acquires a lock. Without a checker, blocks the thread until the lock is free. Under a checker, all threads of a
/// model run on one system thread, so this function never blocks. Instead, it lets other threads of the model run until
/// the lock is free.
pub(super) fn lock<G>(
    attempt: impl Fn() -> TryLockResult<G>,
    block: impl FnOnce() -> LockResult<G>,
) -> G {
    let Some(checker) = CHECKER.get() else {
        return block().unwrap_or_else(PoisonError::into_inner);
    };
    let has_failed = std::thread::panicking();
    if !has_failed {
        (checker.switch)();
    }
    loop {
        match attempt() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(error)) => return error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                assert!(!has_failed, "the model failed while another thread held a lock");
                (checker.wait)();
            }
        }
    }
}
