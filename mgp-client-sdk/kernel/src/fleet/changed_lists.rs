//! The changes of lists that clients have not been notified of yet.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mgp_types::mcp::Era;
use mgp_types::service::{Context, Scope, ServerId};
use mgp_types::sync::Mutex;
use tokio::sync::Notify;

use super::refresh_queue::ListGroup;

/// The changes of lists that clients have not been notified of yet. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ChangedLists(Arc<Pending>);

#[derive(Default)]
struct Pending {
    changes: Mutex<Changes>,
    /// The version of the last recorded change. Each change increments it.
    version: AtomicU64,
    marked: Notify,
}

/// The changes that were recorded since the last announcement.
#[derive(Default)]
pub(super) struct Changes {
    /// For each list, the version of its last change.
    pub(super) lists: BTreeMap<(ListGroup, ServerId), u64>,
    /// The version of the last change of the rules that decide what callers of all tenants see.
    pub(super) shared_rules: Option<u64>,
    /// For each tenant, the version of the last change of its access entries.
    pub(super) access: BTreeMap<String, u64>,
}

/// The version of the last change that was recorded before the kernel composed the first list of a session. All lists
/// that the session has received contain this change and all earlier changes.
#[derive(Default)]
struct FirstList(OnceLock<u64>);

/// Returns whether a session has received lists that all contain the change with this version.
pub(super) fn is_in_all_lists(scope: &Scope, version: u64) -> bool {
    scope.state::<FirstList>().0.get().is_some_and(|first| *first >= version)
}

impl ChangedLists {
    pub(super) fn add(&self, server: &ServerId, group: ListGroup) {
        let mut changes = self.0.changes.lock();
        changes.lists.insert((group, server.clone()), self.next_version());
        drop(changes);
        self.0.marked.notify_one();
    }

    pub(super) fn add_rules(&self) {
        let mut changes = self.0.changes.lock();
        changes.shared_rules = Some(self.next_version());
        drop(changes);
        self.0.marked.notify_one();
    }

    pub(super) fn add_tenant(&self, tenant: &str) {
        let mut changes = self.0.changes.lock();
        changes.access.insert(tenant.to_owned(), self.next_version());
        drop(changes);
        self.0.marked.notify_one();
    }

    fn next_version(&self) -> u64 {
        self.0.version.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Records that a legacy session receives its first list. Call this before the list is composed, because the list
    /// may lack a change that is made meanwhile.
    ///
    /// Records nothing for modern clients, because the requests of one client need not share a scope.
    pub(crate) fn note_list(&self, cx: &Context) {
        if cx.caller.era == Era::Legacy {
            let first = cx.scope.state::<FirstList>();
            first.0.get_or_init(|| self.0.version.load(Ordering::SeqCst));
        }
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
