//! The snapshot of approvals that decisions read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::Payload;
use mgp_types::mgp::{Actor, AuditEvent, Permission};
use mgp_types::service::{ServerId, TenantId};
use mgp_types::store::Change;
use rustc_hash::FxHashMap;

use super::entry::{Approval, ApprovalDecision};
use crate::audit::Event;
use crate::entries::Expiring;
use crate::state::{ChangeError, Found, Snapshot};

/// The approvals of all tenants, by tenant and server.
#[derive(Debug, Default)]
pub(crate) struct Book {
    tenants: FxHashMap<TenantId, TenantApprovals>,
    ends: Vec<SystemTime>,
}

/// The approvals of one tenant.
#[derive(Debug, Default)]
struct TenantApprovals {
    own: Vec<StoredApproval>,
    servers: FxHashMap<ServerId, Vec<StoredApproval>>,
}

/// An approval with its expiry converted to a time.
#[derive(Clone, Debug)]
pub(super) struct StoredApproval {
    pub(super) approval: Arc<Approval>,
    until: Option<SystemTime>,
}

impl StoredApproval {
    pub(super) fn of(approval: &Arc<Approval>) -> Self {
        Self { approval: Arc::clone(approval), until: approval.until() }
    }

    pub(super) fn is_over(&self, at: SystemTime) -> bool {
        // Like `Approval::is_over`, without parsing the expiry again.
        self.approval.end_told || self.until.is_some_and(|until| until <= at)
    }
}

impl Book {
    /// Returns a tenant's approvals for a server, or for the tools of this process if `server` is `None`. The result is
    /// a slice, because a server has only a few approvals.
    pub(super) fn held(&self, tenant: &TenantId, server: Option<&ServerId>) -> &[StoredApproval] {
        let Some(shelf) = self.tenants.get(tenant) else { return &[] };
        match server {
            Some(server) => shelf.servers.get(server).map_or(&[], Vec::as_slice),
            None => &shelf.own,
        }
    }

    pub(super) fn find<'a>(
        held: &'a [StoredApproval],
        permission: &Permission,
    ) -> Option<&'a StoredApproval> {
        held.iter().find(|held| held.approval.permission == *permission)
    }

    pub(super) fn of_tenant(&self, tenant: &TenantId) -> impl Iterator<Item = &StoredApproval> {
        let shelf = self.tenants.get(tenant);
        shelf.into_iter().flat_map(|shelf| shelf.own.iter().chain(shelf.servers.values().flatten()))
    }
}

impl Snapshot for Book {
    type Entry = Approval;
    const SPACE: &'static str = "permissions";

    fn of(entries: &BTreeMap<String, Arc<Approval>>) -> Self {
        let mut book = Self::default();
        for (key, approval) in entries {
            // An approval that is stored under a wrong key was not written by this program, so it is ignored.
            if *key != approval.key() {
                tracing::error!(key, "ignoring an approval under a wrong key");
                continue;
            }
            let held = StoredApproval::of(approval);
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

impl Expiring for Book {
    fn any_ended(&self, at: SystemTime) -> bool {
        let mut all = self.tenants.keys().flat_map(|tenant| self.of_tenant(tenant));
        all.any(|held| Self::has_ended(&held.approval, at))
    }

    fn has_ended(approval: &Approval, at: SystemTime) -> bool {
        approval.decision == ApprovalDecision::Approved
            && !approval.end_told
            && approval.until().is_some_and(|until| until <= at)
    }

    fn end(change: Change, found: &Found<Approval>) -> Result<(Change, AuditEvent), ChangeError> {
        let mut approval = Approval::clone(&found.entry);
        approval.end_told = true;
        Ok((put(change, &approval, Some(found.revision))?, end_event(&approval)))
    }
}

/// Adds an approval to a change. The change fails if the stored approval has changed since `revision`. If `revision` is
/// `None`, it fails if any approval is stored under the key.
pub(super) fn put(
    change: Change,
    approval: &Approval,
    revision: Option<u64>,
) -> Result<Change, ChangeError> {
    let key = approval.key();
    let value = Payload::of(approval).map_err(ChangeError::Encode)?;
    Ok(change.expect_revision(Book::SPACE, key.as_str(), revision).put(Book::SPACE, key, value))
}

fn end_event(approval: &Approval) -> AuditEvent {
    let server = approval.server.as_deref().map(Into::into);
    Event::permission_revoked(Actor::kernel(), server.as_ref(), &approval.permission)
        .tenant(&approval.tenant)
        .scope(approval.scope.as_ref())
        .expires_at(approval.expires_at.as_ref())
        .before(approval.decision.as_str())
        .cause("expired")
        .build()
}
