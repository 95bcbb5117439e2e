//! Gives a checker control before each lock is taken and after it is released.
//!
//! The checker runs the threads of a model one at a time and chooses the next one at each of these places, so that it
//! finds orders in which the data behind the locks is wrong. Threads without a checker use the locks as usual.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// The functions of a checker.
#[derive(Clone, Copy, Debug)]
pub struct Checker {
    /// Lets another thread of the model run, or the same one go on.
    pub switch: fn(),
    /// Lets another thread of the model run, because this one waits for it.
    pub wait: fn(),
}

thread_local! {
    static CHECKER: Cell<Option<Checker>> = const { Cell::new(None) };
}

/// Runs a function whose locks a checker controls, as long as they are used on this thread of the system; with `None`,
/// they are used as usual.
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

/// Takes a lock; under a checker, without blocking the thread that all threads of the model share.
pub(super) fn lock<G>(
    attempt: impl Fn() -> TryLockResult<G>,
    block: impl FnOnce() -> LockResult<G>,
) -> Guard<G> {
    let Some(checker) = CHECKER.get() else {
        return Guard::new(block().unwrap_or_else(PoisonError::into_inner));
    };
    let has_failed = std::thread::panicking();
    if !has_failed {
        (checker.switch)();
    }
    loop {
        match attempt() {
            Ok(guard) => return Guard::new(guard),
            Err(TryLockError::Poisoned(error)) => return Guard::new(error.into_inner()),
            Err(TryLockError::WouldBlock) => {
                assert!(!has_failed, "the model failed while another thread held a lock");
                (checker.wait)();
            }
        }
    }
}

/// A lock that is held; the checker gets control after its release.
#[derive(Debug)]
pub struct Guard<G> {
    guard: G,
    /// Dropped after the lock.
    _release: Release,
}

/// The guard of a [`Mutex`](super::Mutex).
pub type MutexGuard<'a, T> = Guard<std::sync::MutexGuard<'a, T>>;
/// The guard of a reader of an [`RwLock`](super::RwLock).
pub type RwLockReadGuard<'a, T> = Guard<std::sync::RwLockReadGuard<'a, T>>;
/// The guard of a writer of an [`RwLock`](super::RwLock).
pub type RwLockWriteGuard<'a, T> = Guard<std::sync::RwLockWriteGuard<'a, T>>;

impl<G> Guard<G> {
    fn new(guard: G) -> Self {
        Self { guard, _release: Release }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[derive(Debug)]
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(checker) = CHECKER.get().filter(|_| !std::thread::panicking()) {
            (checker.switch)();
        }
    }
}
