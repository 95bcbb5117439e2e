//! The subscriptions that are currently sending events, and the function that starts their tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_types::sync::Mutex;
use tokio::runtime::Handle;

/// A list of the subscriptions that are sending events. An entry is removed when its [`SendingGuard`] is dropped.
pub(super) struct SendingList<T>(Arc<Entries<T>>);

struct Entries<T> {
    all: Mutex<Vec<Arc<T>>>,
    /// The length of the list. It is atomic, so that the frequent check whether the list is empty does not need the
    /// lock.
    count: AtomicUsize,
}

impl<T> Default for SendingList<T> {
    fn default() -> Self {
        Self(Arc::new(Entries { all: Mutex::default(), count: AtomicUsize::new(0) }))
    }
}

impl<T> SendingList<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    pub(super) fn all(&self) -> Vec<Arc<T>> {
        if self.is_empty() { Vec::new() } else { self.0.all.lock().clone() }
    }

    /// Adds a subscription to the list. It is removed when the returned guard is dropped.
    pub(super) fn add(&self, entry: &Arc<T>) -> SendingGuard<T> {
        let mut all = self.0.all.lock();
        all.push(Arc::clone(entry));
        self.0.count.store(all.len(), Ordering::Release);
        SendingGuard { entries: Arc::clone(&self.0), entry: Arc::clone(entry) }
    }
}

/// The registration of a subscription in a [`SendingList`]; dropping it removes the subscription from the list.
pub(super) struct SendingGuard<T> {
    entries: Arc<Entries<T>>,
    entry: Arc<T>,
}

impl<T> Drop for SendingGuard<T> {
    fn drop(&mut self) {
        let mut all = self.entries.all.lock();
        if let Some(at) = all.iter().position(|one| Arc::ptr_eq(one, &self.entry)) {
            all.swap_remove(at);
        }
        self.entries.count.store(all.len(), Ordering::Release);
    }
}

/// Starts a task on a runtime. In a model test, starts it as a thread of the model instead.
pub(super) fn spawn(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(test)]
    let Some(task) = crate::model::spawn(task) else { return };
    runtime.spawn(task);
}
