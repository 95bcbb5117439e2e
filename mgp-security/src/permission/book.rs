//! All approvals as decisions read them.
//!
//! Applies to: both.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::Permission;
use mgp_types::service::{ServerId, TenantId};

use super::entry::Approval;
use super::expiry::is_untold;
use crate::state::Snapshot;

/// Approvals by tenant and server.
#[derive(Debug, Default)]
pub(super) struct Book {
    tenants: HashMap<TenantId, Shelf>,
    ends: Vec<SystemTime>,
}

/// The approvals of one tenant.
#[derive(Debug, Default)]
struct Shelf {
    own: Vec<Held>,
    servers: HashMap<ServerId, Vec<Held>>,
}

/// An approval, with its end as a number.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) approval: Arc<Approval>,
    until: Option<SystemTime>,
}

impl Held {
    pub(super) fn of(approval: &Arc<Approval>) -> Self {
        Self { approval: Arc::clone(approval), until: approval.until() }
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self, at: SystemTime) -> bool {
        self.until.is_some_and(|until| until <= at)
    }
}

impl Book {
    /// The approvals for a server; there are few.
    pub(super) fn held(&self, tenant: &TenantId, server: Option<&ServerId>) -> &[Held] {
        let Some(shelf) = self.tenants.get(tenant) else { return &[] };
        match server {
            Some(server) => shelf.servers.get(server).map_or(&[], Vec::as_slice),
            None => &shelf.own,
        }
    }

    /// The approval of one permission.
    pub(super) fn find<'a>(held: &'a [Held], permission: &Permission) -> Option<&'a Held> {
        held.iter().find(|held| held.approval.permission == *permission)
    }

    /// All approvals of a tenant.
    pub(super) fn of_tenant(&self, tenant: &TenantId) -> impl Iterator<Item = &Held> {
        let shelf = self.tenants.get(tenant);
        shelf.into_iter().flat_map(|shelf| shelf.own.iter().chain(shelf.servers.values().flatten()))
    }

    /// Whether an approval has ended, and that was not told yet.
    pub(super) fn any_ended(&self, at: SystemTime) -> bool {
        let mut all = self.tenants.keys().flat_map(|tenant| self.of_tenant(tenant));
        all.any(|held| is_untold(&held.approval, at))
    }
}

impl Snapshot for Book {
    type Entry = Approval;
    const SPACE: &'static str = "permissions";

    fn of(entries: &BTreeMap<String, Arc<Approval>>) -> Self {
        let mut book = Self::default();
        for (key, approval) in entries {
            // What stands under another name than its own was not written by us.
            if *key != approval.key() {
                tracing::error!(key, "an approval is not where it belongs; it is not used");
                continue;
            }
            let held = Held::of(approval);
            book.ends.extend(held.until);
            let place = approval.place();
            let shelf = book.tenants.entry(place.tenant).or_default();
            match place.server {
                Some(server) => shelf.servers.entry(server).or_default().push(held),
                None => shelf.own.push(held),
            }
        }
        book.ends.sort_unstable();
        book
    }

    fn next_expiry(&self, after: SystemTime) -> Option<SystemTime> {
        self.ends.get(self.ends.partition_point(|end| *end <= after)).copied()
    }
}
