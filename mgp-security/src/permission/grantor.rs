//! Decides about the permissions that servers request, and creates the messages that inform the servers (MGP §3.4 to
//! §3.6).

use std::collections::BTreeMap;
use std::time::SystemTime;

use async_trait::async_trait;
use mgp_types::mgp::{Grant, GrantDecision, Permission, PermissionDecision, ScopedGrant};
use mgp_types::service::{Context, PermissionAuthority, ServerId};
use mgp_types::{Timestamp, random_name};
use tokio::sync::watch;

use super::permissions::{Permissions, standard};
use super::rule::{PermissionState, is_listed};

#[async_trait]
impl PermissionAuthority for Permissions {
    async fn decide(
        &self,
        cx: &Context,
        server: &ServerId,
        permissions: Vec<Permission>,
    ) -> PermissionDecision {
        let wait = self.connect_wait;
        if let Err(refused) = self.obtain(cx, Some(server), None, &permissions, wait).await {
            tracing::warn!(%server, error = %refused, "deciding about permissions failed");
        }
        self.message_to_server(cx, server, &standard(&permissions))
    }

    fn declared(&self, server: &ServerId, permissions: &[Permission]) {
        self.inner.declared.set(server, permissions);
    }

    fn asks_operator(&self, cx: &Context, server: &ServerId, permissions: &[Permission]) -> bool {
        let at = self.inner.entries.now();
        let policy = self.inner.policies.get(Some(server));
        let Ok(book) = self.inner.entries.state().now() else { return true };
        let held = book.held(cx.principal.tenant(), Some(server));
        let is_open = |permission: &Permission| {
            let state = self.inner.stand(&policy, Some(server), held, permission, at);
            matches!(state, PermissionState::Open(..))
        };
        standard(permissions).iter().any(is_open)
    }

    fn standing(
        &self,
        cx: &Context,
        server: &ServerId,
        permissions: &[Permission],
    ) -> PermissionDecision {
        let policy = self.inner.policies.get(Some(server));
        let mut known: Vec<Permission> = Permission::KNOWN.to_vec();
        known.retain(|permission| {
            is_listed(&policy, permission) || self.inner.is_configured(Some(server), permission)
        });
        known.extend(standard(&policy.permissions).iter().cloned());
        // Also add the requested permissions, because a policy can deny a permission that is neither configured nor
        // stored.
        known.extend(standard(permissions).iter().cloned());
        if let Ok(book) = self.inner.entries.state().now() {
            let held = book.held(cx.principal.tenant(), Some(server));
            known.extend(held.iter().map(|held| held.approval.permission.clone()));
        }
        known.retain(|permission| !permission.as_str().contains('*'));
        self.message_to_server(cx, server, &known)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes()
    }
}

impl Permissions {
    /// Converts decisions about permissions to a message for the server; decisions that cannot be read count as
    /// deferred.
    fn message_to_server(
        &self,
        cx: &Context,
        server: &ServerId,
        permissions: &[Permission],
    ) -> PermissionDecision {
        let at = self.inner.entries.now();
        let policy = self.inner.policies.get(Some(server));
        let book = self.inner.entries.state().now();
        let held =
            book.as_ref().map_or(&[][..], |book| book.held(cx.principal.tenant(), Some(server)));
        let mut grants = BTreeMap::new();
        let mut by: Vec<&str> = Vec::new();
        let mut ends: Vec<(SystemTime, &Timestamp)> = Vec::new();
        for permission in permissions {
            if book.is_err() {
                grants.insert(permission.clone(), Grant::Plain(GrantDecision::Deferred));
                continue;
            }
            let grant = match self.inner.stand(&policy, Some(server), held, permission, at) {
                PermissionState::Granted(None) => {
                    by.push("configuration");
                    GrantDecision::Approved.into()
                }
                PermissionState::Listed(limits) => {
                    by.push("configuration");
                    approved(Some(&limits))
                }
                PermissionState::Granted(Some(held)) => {
                    let approval = &held.approval;
                    by.push(&approval.approved_by);
                    ends.extend(approval.until().zip(approval.expires_at.as_ref()));
                    approved(approval.scope.as_ref())
                }
                // The permission is not granted yet: the policy's grant could not be recorded, or nothing is decided.
                // So it is reported as deferred.
                PermissionState::ByPolicy | PermissionState::Open(..) => {
                    GrantDecision::Deferred.into()
                }
                PermissionState::Closed(..) => GrantDecision::Denied.into(),
            };
            grants.insert(permission.clone(), grant);
        }
        by.sort_unstable();
        by.dedup();
        // A random id, because the key of the call would show the server how many calls this process has handled.
        let id = random_name().unwrap_or_else(|_| cx.key.to_string());
        let mut decision = PermissionDecision::new(format!("permissions-{id}"), grants);
        decision.approved_by = (!by.is_empty()).then(|| by.join(", "));
        let earliest = ends.into_iter().min_by_key(|(end, _)| *end);
        decision.expires_at = earliest.map(|(_, text)| text.clone());
        decision
    }
}

fn approved(scope: Option<&mgp_types::mgp::PermissionScope>) -> Grant {
    let Some(scope) = scope else { return GrantDecision::Approved.into() };
    let mut grant = ScopedGrant::new(GrantDecision::Approved);
    grant.scope = Some(scope.clone());
    Grant::Scoped(Box::new(grant))
}
