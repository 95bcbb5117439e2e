//! Hooks that run after each change, as long as their owner exists.

use std::sync::Arc;

use mgp_types::sync::Mutex;

/// The return value of a hook, which determines whether the hook stays registered.
///
/// A hook that returns `()` stays registered. A hook that has a [`Weak`](std::sync::Weak) reference to its owner can
/// return `upgrade().map(…)`; when this is `None`, the hook is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookState {
    /// The hook stays registered.
    On,
    /// The hook is removed, because its owner no longer exists.
    Over,
}

impl From<()> for HookState {
    fn from((): ()) -> Self {
        Self::On
    }
}

impl From<Option<()>> for HookState {
    fn from(owner: Option<()>) -> Self {
        owner.map_or(Self::Over, |()| Self::On)
    }
}

type Hook = Arc<dyn Fn() -> HookState + Send + Sync>;

/// Hooks in the order in which they were added. A hook whose owner no longer exists is removed the next time that the
/// hooks run.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Vec<Hook>>);

impl Hooks {
    pub(crate) fn add<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.0.lock().push(Arc::new(move || hook().into()));
    }

    /// Runs all hooks. The lock of the list is released meanwhile, so a hook can add another hook.
    pub(crate) fn run(&self) {
        let hooks = self.0.lock().clone();
        let over: Vec<Hook> = hooks.into_iter().filter(|hook| hook() == HookState::Over).collect();
        if !over.is_empty() {
            self.0.lock().retain(|hook| !over.iter().any(|gone| Arc::ptr_eq(gone, hook)));
        }
    }
}

mgp_types::opaque_debug!(Hooks);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_hook_is_removed_once_its_owner_is_gone() {
        let (hooks, runs) = (Hooks::default(), Arc::new(AtomicUsize::new(0)));
        let weak = Arc::downgrade(&runs);
        let count = |runs: Arc<AtomicUsize>| {
            runs.fetch_add(1, Ordering::Relaxed);
        };
        hooks.add(move || weak.upgrade().map(count));
        hooks.add(|| {});
        hooks.run();
        assert_eq!((runs.load(Ordering::Relaxed), hooks.0.lock().len()), (1, 2));
        drop(runs);
        hooks.run();
        assert_eq!(hooks.0.lock().len(), 1, "the hook without an owner");
    }
}
