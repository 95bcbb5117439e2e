//! Closes, changes or removes requests of the inbox for reasons other than an answer: decisions about the permissions
//! themselves, revocations, and the removal of a server or of a tenant.

use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::RpcError;
use mgp_types::mgp::{Actor, Permission};
use mgp_types::service::{Principal, ServerId, TenantId};

use super::super::request::{ApprovalRequest, RequestState};
use super::Inbox;
use super::beside::changed_by_others;
use crate::approval::CallApproval;
use crate::entries::MAX_ATTEMPTS;
use crate::error::Refusal;
use crate::permission::{Approval, ApprovalDecision};

impl Inbox {
    /// Removes unused approvals of permissions that an operator is revoking, because such an approval would grant a
    /// permission again. Returns the revoked permissions that these approvals named. Also removes denials of these
    /// permissions, because such a denial would answer the next question about them.
    ///
    /// The caller of this method must have checked that `by` is an operator.
    ///
    /// # Errors
    /// An error if the removal cannot be stored or recorded; some approvals may have been removed.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn forget_approvals(
        &self,
        by: &Principal,
        server: &ServerId,
        permissions: &[Permission],
    ) -> Result<Vec<Permission>, RpcError> {
        let _turn = self.0.turn.lock().await;
        let revoked = Permission::canonical(permissions);
        let is_approved = |request: &ApprovalRequest| request.state == RequestState::Approved;
        let is_affected = |request: &ApprovalRequest| {
            let is_denial = request.state == RequestState::Denied && request.arguments.is_none();
            (is_approved(request) || is_denial)
                && request.tenant == by.tenant().as_str()
                && request.server_id.as_deref() == Some(server.as_str())
                && request.permissions.iter().any(|permission| revoked.contains(permission))
        };
        let requests = self.0.state.now()?;
        let removed = requests.all().filter(|request| is_approved(request) && is_affected(request));
        let removed: Vec<_> = removed.flat_map(|request| request.permissions.clone()).collect();
        let event_of = |request: &ApprovalRequest| {
            let event = request.decided_event(by, "denied").cause("revoked");
            is_approved(request).then(|| event.build())
        };
        self.0.state.take_out(is_affected, event_of).await.map_err(Refusal::from)?;
        Ok(removed.into_iter().filter(|permission| revoked.contains(permission)).collect())
    }

    /// Revokes approvals of later calls of a server's tools, selected by their ids or by a permission that they grant;
    /// returns the revoked approvals. Also removes unused answers about calls that these approvals cover, because
    /// otherwise such a call would still run once.
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator; other codes if the change cannot be stored or
    /// recorded. Then some approvals and answers may have been removed already; call the method again to remove the
    /// remaining approvals and answers.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn revoke_calls(
        &self,
        by: &Principal,
        server: &ServerId,
        names: &[Permission],
    ) -> Result<Vec<CallApproval>, RpcError> {
        let _turn = self.0.turn.lock().await;
        let revoked = self.0.calls.meant(by, server, names).await?;
        let is_affected = |request: &ApprovalRequest| {
            request.state == RequestState::Approved
                && revoked.iter().any(|approval| approval.covers_request(request))
        };
        let event_of = |request: &ApprovalRequest| {
            Some(request.decided_event(by, "denied").cause("revoked").build())
        };
        // Remove the answers first: if that fails, the approvals are still stored, and a repeated request finds the
        // answers by them.
        self.0.state.take_out(is_affected, event_of).await.map_err(Refusal::from)?;
        self.0.calls.remove(by, &revoked).await?;
        Ok(revoked)
    }

    /// Applies decisions about permissions of a server, which an operator made outside this inbox, to the open
    /// requests. A request for permissions is closed once all of them are decided, and the call that waits for it is
    /// decided again. From a request about a call, this method removes the permissions that are now approved for every
    /// call of the tool.
    ///
    /// The caller of this method must have checked that `by` is an operator.
    ///
    /// # Errors
    /// An error if the change cannot be stored or recorded.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn settle(
        &self,
        by: &Principal,
        server: &ServerId,
        decisions: &[Approval],
    ) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            if self.try_settle(by, server, decisions).await? {
                return Ok(());
            }
        }
        Err(changed_by_others())
    }

    /// Applies decisions as [`settle`](Self::settle) does. Returns `false` if another process changed one of the
    /// requests meanwhile, so that they must be read again.
    async fn try_settle(
        &self,
        by: &Principal,
        server: &ServerId,
        decisions: &[Approval],
    ) -> Result<bool, RpcError> {
        let (requests, now) = (self.0.state.now()?, SystemTime::now());
        let is_meant = |request: &&Arc<ApprovalRequest>| {
            !request.permissions.is_empty()
                && request.tenant == by.tenant().as_str()
                && request.server_id.as_deref() == Some(server.as_str())
        };
        let (mut writes, mut events) = (Vec::new(), Vec::new());
        for request in requests.open(now).filter(is_meant) {
            if request.arguments.is_some() {
                let is_granted = |permission: &Permission| {
                    decisions.iter().any(|one| is_grant(one, permission, request, now))
                };
                let fewer = request.only(|permission| !is_granted(permission));
                writes.extend(fewer.map(|fewer| (Arc::clone(request), fewer)));
                continue;
            }
            let is_decided = |permission: &Permission| {
                decisions.iter().any(|one| is_decision(one, now) && one.permission == *permission)
            };
            if !request.permissions.iter().all(is_decided) {
                continue;
            }
            let mut settled = ApprovalRequest::clone(request);
            settled.state = RequestState::Settled;
            settled.decided_by = Some(by.name().to_owned());
            settled.expires_at = (now + self.0.config.answer_ttl).into();
            events.push(settled.decided_event(by, settled.state.as_str()).build());
            writes.push((Arc::clone(request), settled));
        }
        if writes.is_empty() {
            return Ok(true);
        }
        self.replace(writes, events).await
    }

    /// Removes the requests and answers about a deregistered server; the caller of this method must have checked the
    /// authority.
    ///
    /// # Errors
    /// An error if the removal cannot be stored or recorded; some requests may have been removed.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn forget_server(&self, server: &ServerId) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let is_affected =
            |request: &ApprovalRequest| request.server_id.as_deref() == Some(server.as_str());
        let event_of = |request: &ApprovalRequest| {
            let is_open = matches!(request.state, RequestState::Open | RequestState::Approved);
            let event = request.decided_event(Actor::kernel(), "denied").cause("deregistered");
            is_open.then(|| event.build())
        };
        Ok(self.0.state.take_out(is_affected, event_of).await.map_err(Refusal::from)?)
    }

    /// Removes the requests and answers of a tenant; the caller of this method must have checked the authority.
    ///
    /// # Errors
    /// An error if the removal cannot be stored or recorded; some requests may have been removed.
    pub(crate) async fn forget_tenant(
        &self,
        by: &Principal,
        tenant: &TenantId,
    ) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let is_affected = |request: &ApprovalRequest| request.tenant == tenant.as_str();
        let event_of = |request: &ApprovalRequest| {
            let is_open = matches!(request.state, RequestState::Open | RequestState::Approved);
            let event = request.decided_event(by, "denied").cause("tenant_removed");
            is_open.then(|| event.build())
        };
        Ok(self.0.state.take_out(is_affected, event_of).await.map_err(Refusal::from)?)
    }
}

fn is_decision(approval: &Approval, now: SystemTime) -> bool {
    matches!(approval.decision, ApprovalDecision::Approved | ApprovalDecision::Denied)
        && !approval.is_over(now)
}

/// Returns whether an approval grants a permission to every call of the tool that a request is about. Returns `false`
/// for an approval with limits, because it might not cover every call.
fn is_grant(
    approval: &Approval,
    permission: &Permission,
    request: &ApprovalRequest,
    now: SystemTime,
) -> bool {
    approval.decision == ApprovalDecision::Approved
        && approval.permission == *permission
        && approval.scope.is_none()
        && (approval.tools.is_empty()
            || request.tool.as_ref().is_some_and(|tool| approval.tools.contains(tool)))
        && !approval.is_over(now)
}
