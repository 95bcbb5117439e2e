//! The subscriptions that send events at this moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use mgp_types::sync::Mutex;

use super::hub::Hub;
use super::subscription::Subscription;

/// The subscriptions of a hub that have events to send.
#[derive(Default)]
pub(super) struct SendingList {
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
    /// The length of the list, read without a lock by each call that ends.
    count: AtomicUsize,
}

impl SendingList {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub(super) fn all(&self) -> Vec<Arc<Subscription>> {
        if self.is_empty() { Vec::new() } else { self.subscriptions.lock().clone() }
    }
}

/// An entry of a [`SendingList`], removed when dropped.
pub(super) struct SendingGuard {
    hub: Weak<Hub>,
    subscription: Arc<Subscription>,
}

impl SendingGuard {
    pub(super) fn new(hub: &Arc<Hub>, subscription: &Arc<Subscription>) -> Self {
        let mut list = hub.sending.subscriptions.lock();
        list.push(Arc::clone(subscription));
        hub.sending.count.store(list.len(), Ordering::Release);
        drop(list);
        Self { hub: Arc::downgrade(hub), subscription: Arc::clone(subscription) }
    }
}

impl Drop for SendingGuard {
    fn drop(&mut self) {
        let Some(hub) = self.hub.upgrade() else { return };
        let mut list = hub.sending.subscriptions.lock();
        if let Some(at) = list.iter().position(|one| Arc::ptr_eq(one, &self.subscription)) {
            list.swap_remove(at);
        }
        hub.sending.count.store(list.len(), Ordering::Release);
    }
}
