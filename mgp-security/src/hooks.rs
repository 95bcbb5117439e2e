//! What runs after a change, until whoever it is for is gone.
//!
//! Applies to: both.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether a hook wants to hear of the next change too.
///
/// A hook that answers nothing does; one that holds a [`Weak`](std::sync::Weak) answers what `upgrade().map(…)` gives
/// and is dropped once that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// It does.
    On,
    /// It is dropped: whoever it was for is gone.
    Over,
}

impl From<()> for Listening {
    fn from((): ()) -> Self {
        Self::On
    }
}

impl From<Option<()>> for Listening {
    fn from(heard: Option<()>) -> Self {
        heard.map_or(Self::Over, |()| Self::On)
    }
}

type Hook = Arc<dyn Fn() -> Listening + Send + Sync>;

/// Hooks, in the order they came; those that are over go at the next change.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Vec<Hook>>);

impl Hooks {
    pub(crate) fn add<L: Into<Listening>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.hooks().push(Arc::new(move || hook().into()));
    }

    /// Runs all of them, without holding anything: a hook may add another one.
    pub(crate) fn tell(&self) {
        let hooks = self.hooks().clone();
        let over: Vec<Hook> = hooks.into_iter().filter(|hook| hook() == Listening::Over).collect();
        if !over.is_empty() {
            self.hooks().retain(|hook| !over.iter().any(|gone| Arc::ptr_eq(gone, hook)));
        }
    }

    fn hooks(&self) -> MutexGuard<'_, Vec<Hook>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooks({})", self.hooks().len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_hook_goes_once_whoever_it_was_for_is_gone() {
        let (hooks, heard) = (Hooks::default(), Arc::new(AtomicUsize::new(0)));
        let weak = Arc::downgrade(&heard);
        let count = |heard: Arc<AtomicUsize>| {
            heard.fetch_add(1, Ordering::Relaxed);
        };
        hooks.add(move || weak.upgrade().map(count));
        hooks.add(|| {});
        hooks.tell();
        assert_eq!((heard.load(Ordering::Relaxed), hooks.hooks().len()), (1, 2));
        drop(heard);
        hooks.tell();
        assert_eq!(hooks.hooks().len(), 1, "the one that is for nobody in particular");
    }
}
