//! The lists whose changes have not been announced to clients yet.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use mgp_types::service::ServerId;
use mgp_types::sync::Mutex;
use tokio::sync::Notify;

use super::refresh_queue::ListGroup;

/// The changes of lists that are not announced yet. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ChangedLists(Arc<Pending>);

#[derive(Default)]
struct Pending {
    changes: Mutex<Changes>,
    marked: Notify,
}

/// The changes that were recorded since the last announcement.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) of_servers: BTreeSet<(ListGroup, ServerId)>,
    /// `true` if the rules that decide what callers see have changed.
    pub(super) of_rules: bool,
}

impl ChangedLists {
    pub(super) fn add(&self, server: &ServerId, group: ListGroup) {
        self.0.changes.lock().of_servers.insert((group, server.clone()));
        self.0.marked.notify_one();
    }

    pub(super) fn add_rules(&self) {
        self.0.changes.lock().of_rules = true;
        self.0.marked.notify_one();
    }

    /// Waits until a change of a list or of the rules is recorded.
    pub(super) async fn marked(&self) {
        self.0.marked.notified().await;
    }

    /// Removes and returns all recorded changes.
    pub(super) fn take(&self) -> Changes {
        mem::take(&mut *self.0.changes.lock())
    }
}
