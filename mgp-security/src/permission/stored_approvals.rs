//! Stores approvals: each change in one commit with the events that record it.

use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::{Actor, AuditEvent};
use mgp_types::store::{Change, StoreError};

use super::book::{StoredApproval, put};
use super::entry::{Approval, ApprovalDecision, ApprovalOwner};
use super::permissions::PermissionCore;
use super::refused::PermissionRefused;
use super::rule::PermissionState;
use crate::audit::Event;
use crate::entries::MAX_ATTEMPTS;
use crate::state::{ChangeError, Found};

/// The maximum number of permissions stored per server and tenant; a limit is needed because a server chooses their
/// names.
///
/// At the limit no further permissions are stored, and a permission that is not stored is not granted.
pub(super) const OF_SERVER_MAX: usize = 256;

/// The call that led to a change of approvals. The events about the change contain its trace id and tool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChangeCause<'a> {
    pub(crate) trace: Option<&'a str>,
    pub(crate) tool: Option<&'a str>,
}

impl PermissionCore {
    /// Stores the decisions of an approver or of the policy. Leaves out permissions that were decided meanwhile.
    pub(super) async fn write_answers(
        &self,
        place: &ApprovalOwner,
        answers: Vec<Approval>,
        actor: &Actor,
        cause: &ChangeCause<'_>,
    ) -> Result<(), PermissionRefused> {
        let still_open = |before: Option<&Found<Approval>>, answer: &Approval| {
            let policy = self.policies.get(place.server.as_ref());
            let held: Vec<StoredApproval> =
                before.map(|found| StoredApproval::of(&found.entry)).into_iter().collect();
            let stand = self.stand(
                &policy,
                place.server.as_ref(),
                &held,
                &answer.permission,
                self.entries.now(),
            );
            matches!(stand, PermissionState::Open(..) | PermissionState::ByPolicy)
        };
        self.write(place, answers, still_open, actor, cause).await.map(drop)
    }

    /// Stores the approvals that `is_wanted` accepts in place of the earlier approvals, and returns the stored
    /// approvals.
    pub(super) async fn write(
        &self,
        place: &ApprovalOwner,
        approvals: Vec<Approval>,
        is_wanted: impl Fn(Option<&Found<Approval>>, &Approval) -> bool,
        actor: &Actor,
        cause: &ChangeCause<'_>,
    ) -> Result<Vec<Approval>, PermissionRefused> {
        let _changing = self.entries.begin_change().await;
        for _ in 0..MAX_ATTEMPTS {
            let found = self.entries.state().latest(|entry| entry.place() == *place).await;
            let found = found.map_err(|error| PermissionRefused::unreadable(&error))?;
            let before = |approval: &Approval| {
                found.iter().find(|found| found.entry.permission == approval.permission)
            };
            let wanted = approvals.iter().filter(|approval| is_wanted(before(approval), approval));
            let wanted: Vec<&Approval> = wanted.collect();
            let added = wanted.iter().filter(|approval| before(approval).is_none()).count();
            if added > 0 && found.len() + added > OF_SERVER_MAX {
                return Err(PermissionRefused::full(OF_SERVER_MAX));
            }
            let mut change = Change::new();
            let mut events = Vec::with_capacity(wanted.len());
            for approval in &wanted {
                let before = before(approval);
                change = put(change, approval, before.map(|found| found.revision))
                    .map_err(PermissionRefused::unwritten)?;
                let word = before.map(|found| standing(&found.entry, self.entries.now()));
                events.push(event(approval, word, actor, cause));
            }
            if events.is_empty() {
                return Ok(Vec::new());
            }
            match self.entries.state().commit(change, events).await {
                // Another process changed an approval at the same time: retry.
                Err(ChangeError::Store(StoreError::Conflict { .. })) => {}
                done => {
                    done.map_err(PermissionRefused::unwritten)?;
                    return Ok(wanted.into_iter().cloned().collect());
                }
            }
        }
        let busy = StoreError::Busy("others change the same permissions");
        Err(PermissionRefused::unwritten(ChangeError::Store(busy)))
    }
}

/// Returns the name of the decision in an earlier approval, or `expired`.
fn standing(before: &Arc<Approval>, now: SystemTime) -> &'static str {
    let is_over = StoredApproval::of(before).is_over(now);
    if is_over { "expired" } else { before.decision.as_str() }
}

/// Creates the audit event for a decision about a permission.
fn event(
    approval: &Approval,
    before: Option<&str>,
    actor: &Actor,
    cause: &ChangeCause<'_>,
) -> AuditEvent {
    let server = approval.server.as_deref().map(Into::into);
    let of = match approval.decision {
        ApprovalDecision::Approved => Event::permission_granted,
        ApprovalDecision::Denied => Event::permission_denied,
        ApprovalDecision::Revoked => Event::permission_revoked,
    };
    let mut event = of(actor.clone(), server.as_ref(), &approval.permission)
        .tenant(&approval.tenant)
        .tool(cause.tool)
        .trace(cause.trace)
        .scope(approval.scope.as_ref())
        .justification(approval.justification.as_deref())
        .expires_at(approval.expires_at.as_ref());
    if !approval.tools.is_empty() {
        event = event.detail("tools", &approval.tools);
    }
    if let Some(confirm) = &approval.confirm {
        event = event.detail("confirm", confirm);
    }
    match before {
        Some(before) => event.before(before).build(),
        None => event.build(),
    }
}
