//! Locks that remain usable after a thread panicked while it held a lock.
//!
//! The data that these locks protect must be consistent between any two statements. Lock poisoning, which refuses
//! access after a panic, would therefore not add safety.

#[cfg(feature = "interleave")]
pub mod interleave;

use std::fmt;
use std::sync::PoisonError;
pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A [`std::sync::Mutex`] that ignores poisoning, i.e. that can still be locked after a thread has panicked while it
/// held the lock.
///
/// ```
/// use mgp_types::sync::Mutex;
///
/// let count = Mutex::new(1);
/// *count.lock() += 1;
/// assert_eq!(*count.lock(), 2);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Consumes the mutex and returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(feature = "interleave")]
        return interleave::lock(|| self.0.try_lock(), || self.0.lock());
        #[cfg(not(feature = "interleave"))]
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value without locking; the exclusive borrow proves that no other thread holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A [`std::sync::RwLock`] that ignores poisoning, i.e. that can still be locked after a thread has panicked while it
/// held the lock.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        #[cfg(feature = "interleave")]
        return interleave::lock(|| self.0.try_read(), || self.0.read());
        #[cfg(not(feature = "interleave"))]
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for exclusive access.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        #[cfg(feature = "interleave")]
        return interleave::lock(|| self.0.try_write(), || self.0.write());
        #[cfg(not(feature = "interleave"))]
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_the_lock_leaves_it_usable() {
        let lock = Mutex::new(0);
        std::thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _held = lock.lock();
                panic!("while the lock is held");
            });
            assert!(panicked.join().is_err());
        });
        *lock.lock() += 1;
        assert_eq!(lock.into_inner(), 1);
    }
}
