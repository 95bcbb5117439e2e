//! The administration of permissions by operators: approve, deny, revoke, reset, list (MGP §3.6).

use std::time::SystemTime;

use mgp_types::mgp::{Actor, KernelPermissionChangeParams, Permission, PermissionScope};
use mgp_types::service::{Authority, Principal, ServerId, TenantId};
use mgp_types::{RpcError, Timestamp};

use super::entry::{Approval, ApprovalDecision, ApprovalOwner, ApprovalSource};
use super::permissions::{PermissionCore, Permissions};
use super::refused::PermissionRefused;
use super::rule::{PermissionState, nameable};
use super::stored_approvals::ChangeCause;
use crate::Refusal;
use crate::audit::Event;
use crate::policy::ConfirmRule;

/// The maximum number of permissions, and of tools, in one change.
const NAMES_MAX: usize = 64;

/// The maximum length of a tool name, in bytes.
const TOOL_MAX: usize = 256;

/// The maximum length of a justification, in bytes.
const JUSTIFICATION_MAX: usize = 1024;

/// An operator's change of permissions of one server.
#[derive(Clone, Debug)]
#[must_use = "a change does nothing until it is made"]
pub struct PermissionChange {
    server: Option<ServerId>,
    permissions: Vec<Permission>,
    tools: Vec<String>,
    scope: Option<PermissionScope>,
    confirm: Option<ConfirmRule>,
    expires_at: Option<Timestamp>,
    justification: Option<String>,
}

impl PermissionChange {
    /// Creates a change of permissions of a server, without limits. If the server is `None`, the change is for the
    /// tools of this process.
    pub fn new(
        server: Option<ServerId>,
        permissions: impl IntoIterator<Item = Permission>,
    ) -> Self {
        Self {
            server,
            permissions: permissions.into_iter().collect(),
            tools: Vec::new(),
            scope: None,
            confirm: None,
            expires_at: None,
            justification: None,
        }
    }

    /// Creates a change of permissions of the server with an id, without limits.
    ///
    /// ```
    /// use mgp_security::PermissionChange;
    /// use mgp_types::mgp::Permission;
    ///
    /// let change = PermissionChange::of("files", [Permission::FilesystemRead]).because("it indexes them");
    /// # drop(change);
    /// ```
    pub fn of(
        server: impl Into<ServerId>,
        permissions: impl IntoIterator<Item = Permission>,
    ) -> Self {
        Self::new(Some(server.into()), permissions)
    }

    /// Restricts an approval to these tools.
    pub fn tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the limits of an approval.
    pub fn scope(mut self, scope: PermissionScope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Sets the confirmation rule for calls of the named tools.
    pub fn confirm(mut self, word: ConfirmRule) -> Self {
        self.confirm = Some(word);
        self
    }

    /// Sets the time at which the decision expires.
    pub fn until(mut self, end: impl Into<Timestamp>) -> Self {
        self.expires_at = Some(end.into());
        self
    }

    /// Sets the operator's justification of the change.
    pub fn because(mut self, justification: impl Into<String>) -> Self {
        self.justification = Some(justification.into());
        self
    }

    /// Returns an error if the change has no meaning, e.g. contains no permission or has already expired.
    fn check(&self, now: SystemTime) -> Result<(), PermissionRefused> {
        let unfit = |why: String| Err(PermissionRefused::unfit(why));
        if self.permissions.is_empty() || self.permissions.len() > NAMES_MAX {
            return unfit(format!("name 1 to {NAMES_MAX} permissions"));
        }
        if let Some(why) = self.permissions.iter().find_map(|permission| nameable(permission).err())
        {
            return unfit(format!("a permission cannot be decided: {why}"));
        }
        if self.tools.len() > NAMES_MAX
            || self.tools.iter().any(|tool| tool.is_empty() || tool.len() > TOOL_MAX)
        {
            return unfit(format!(
                "name at most {NAMES_MAX} tools, each with 1 to {TOOL_MAX} bytes"
            ));
        }
        if self.confirm.is_some() && self.tools.is_empty() {
            return unfit("`confirm` needs the tools it is for".to_owned());
        }
        if let Some((unknown, _)) = self.scope.as_ref().and_then(|scope| scope.extra.iter().next())
        {
            return unfit(format!("the limit `{unknown}` is not known"));
        }
        if self.justification.as_ref().is_some_and(|text| text.len() > JUSTIFICATION_MAX) {
            return unfit(format!("`justification` has more than {JUSTIFICATION_MAX} bytes"));
        }
        match self.expires_at.as_ref().map(Timestamp::to_system_time) {
            Some(None) => unfit("`expires_at` is not an RFC 3339 time".to_owned()),
            Some(Some(end)) if end <= now => unfit("`expires_at` has passed".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns the decisions that the change makes, one for each permission.
    fn approvals(
        &self,
        place: &ApprovalOwner,
        decision: ApprovalDecision,
        source: ApprovalSource,
        by: &Principal,
    ) -> Vec<Approval> {
        let decided = Permission::canonical(&self.permissions);
        let decided = decided.iter().map(|permission| {
            let mut approval =
                Approval::new(place, permission.clone(), decision, source, by.name());
            approval.scope.clone_from(&self.scope);
            approval.tools.clone_from(&self.tools);
            approval.confirm = self.confirm;
            approval.expires_at.clone_from(&self.expires_at);
            approval.justification.clone_from(&self.justification);
            approval
        });
        decided.collect()
    }

    /// Checks a denial or a revocation: returns an error if it has limits, because only an approval can be limited.
    fn check_unlimited(&self) -> Result<(), PermissionRefused> {
        if self.scope.is_some() || !self.tools.is_empty() {
            return Err(PermissionRefused::unfit("only an approval has limits"));
        }
        Ok(())
    }
}

impl From<KernelPermissionChangeParams> for PermissionChange {
    /// Creates the change that an operator requests. If it names tools, it leaves the confirmation of their calls as it
    /// is, because limiting a permission to tools must not make their calls run without confirmation.
    fn from(params: KernelPermissionChangeParams) -> Self {
        Self {
            server: Some(params.server_id.into()),
            permissions: params.permissions,
            confirm: (!params.tools.is_empty()).then_some(ConfirmRule::Usual),
            tools: params.tools.into_vec(),
            scope: params.scope,
            expires_at: params.until,
            justification: params.because,
        }
    }
}

impl Permissions {
    /// Grants permissions, which are in force when this method returns. Earlier decisions are replaced.
    ///
    /// Under the policy `config_only` the approval is stored but has no effect.
    ///
    /// # Errors
    /// Code 1000 (permission denied) unless `by` is an operator; code −32602 (invalid params) if the change is
    /// meaningless; another code if it could not be stored or recorded.
    ///
    /// # Cancel safety
    /// If the future is dropped, the change may or may not have been made.
    pub async fn approve(
        &self,
        by: &Principal,
        change: PermissionChange,
    ) -> Result<Vec<Approval>, RpcError> {
        self.change(by, change, ApprovalDecision::Approved).await
    }

    /// Denies permissions. Approvers are not asked about them again, and only the configuration can still grant them,
    /// under the policy `config_only`.
    ///
    /// # Errors
    /// The same errors as [`approve`](Self::approve).
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn deny(
        &self,
        by: &Principal,
        change: PermissionChange,
    ) -> Result<Vec<Approval>, RpcError> {
        self.change(by, change, ApprovalDecision::Denied).await
    }

    /// Revokes decisions about permissions: approvals, denials, and grants of the configuration or a policy.
    ///
    /// A revoked permission stays revoked until a new decision; approvers can be asked about it again. Returns the
    /// revoked decisions, or an empty list if there was nothing to revoke.
    ///
    /// # Errors
    /// The same errors as [`approve`](Self::approve).
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn revoke(
        &self,
        by: &Principal,
        change: PermissionChange,
    ) -> Result<Vec<Approval>, RpcError> {
        self.change(by, change, ApprovalDecision::Revoked).await
    }

    /// Removes decisions about permissions: approvals, denials and revocations. Afterwards the configuration and the
    /// policy of the server decide, as if no decision had been made. Returns the removed decisions.
    ///
    /// # Errors
    /// The same errors as [`approve`](Self::approve). Some of the decisions may have been removed.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn reset(
        &self,
        by: &Principal,
        change: PermissionChange,
    ) -> Result<Vec<Approval>, RpcError> {
        self.operators_only(by, change.server.as_ref(), "reset").await?;
        let removed = self.inner.remove(by, &change).await;
        removed.map_err(|refused| Refusal::from(Box::new(refused)).into())
    }

    /// Removes the decisions about a server that is no longer registered. Checks no authority: the caller of this
    /// method must have done that.
    ///
    /// # Errors
    /// An error if the change could not be stored or recorded; some of the decisions may have been removed.
    ///
    /// # Cancel safety
    /// The same as for [`approve`](Self::approve).
    pub async fn remove_server(&self, server: &ServerId) -> Result<(), RpcError> {
        let inner = &self.inner;
        let _changing = inner.entries.begin_change().await;
        let is_meant = |approval: &Approval| approval.server.as_deref() == Some(server.as_str());
        let event_of = |approval: &Approval| {
            let event =
                Event::permission_revoked(Actor::kernel(), Some(server), &approval.permission)
                    .tenant(&approval.tenant)
                    .before(approval.decision.as_str())
                    .cause("deregistered");
            (approval.decision == ApprovalDecision::Approved).then(|| event.build())
        };
        let gone = inner.entries.state().take_out(is_meant, event_of).await;
        gone.map_err(|error| Refusal::from(Box::new(PermissionRefused::unwritten(error))))?;
        inner.declared.set(server, &[]);
        Ok(())
    }

    /// Removes the decisions of a tenant. Checks no authority: the caller of this method must have done that.
    ///
    /// # Errors
    /// An error if the change could not be stored or recorded; some of the decisions may have been removed.
    pub(crate) async fn remove_tenant(
        &self,
        by: &Principal,
        tenant: &TenantId,
    ) -> Result<(), RpcError> {
        let inner = &self.inner;
        let _changing = inner.entries.begin_change().await;
        let is_meant = |approval: &Approval| approval.tenant == tenant.as_str();
        let event_of = |approval: &Approval| {
            let server = approval.server.as_deref().map(ServerId::from);
            let event = Event::permission_revoked(by, server.as_ref(), &approval.permission)
                .tenant(&approval.tenant)
                .before(approval.decision.as_str())
                .cause("tenant_removed");
            Some(event.build())
        };
        let gone = inner.entries.state().take_out(is_meant, event_of).await;
        gone.map_err(|error| Refusal::from(Box::new(PermissionRefused::unwritten(error))).into())
    }

    /// Returns the decisions that apply in the operator's tenant, about one server or about all servers.
    ///
    /// # Errors
    /// Code 1000 (permission denied) unless `by` is an operator; another code if the approvals cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
    ) -> Result<Vec<Approval>, RpcError> {
        self.operators_only(by, server, "list").await?;
        let inner = &self.inner;
        let book =
            inner.entries.state().now().map_err(|error| PermissionRefused::unreadable(&error));
        let book = book.map_err(|refused| Refusal::from(Box::new(refused)))?;
        let all = book.of_tenant(by.tenant()).map(|held| &*held.approval);
        let wanted = all.filter(|approval| {
            server.is_none_or(|server| approval.server.as_deref() == Some(server.as_str()))
        });
        Ok(wanted.cloned().collect())
    }

    /// Stores an operator's answer to a question about permissions, except for permissions that were decided meanwhile,
    /// e.g. by the call that waited for this answer. Checks no authority: the caller of this method must have done
    /// that.
    pub(crate) async fn keep_answer(
        &self,
        by: &Principal,
        change: &PermissionChange,
        decision: ApprovalDecision,
        cause: &ChangeCause<'_>,
    ) -> Result<(), RpcError> {
        let place = PermissionCore::place(by, change.server.as_ref());
        let answers = change.approvals(&place, decision, ApprovalSource::Answer, by);
        let kept = self.inner.write_answers(&place, answers, &Actor::of(by), cause).await;
        kept.map_err(|refused| Refusal::from(Box::new(refused)).into())
    }

    async fn change(
        &self,
        by: &Principal,
        change: PermissionChange,
        decision: ApprovalDecision,
    ) -> Result<Vec<Approval>, RpcError> {
        let operation = match decision {
            ApprovalDecision::Approved => "approve",
            ApprovalDecision::Denied => "deny",
            ApprovalDecision::Revoked => "revoke",
        };
        self.operators_only(by, change.server.as_ref(), operation).await?;
        let made = self.inner.make(by, change, decision).await;
        made.map_err(|refused| Refusal::from(Box::new(refused)).into())
    }

    /// Checks that a caller is an operator. If not, returns an error and records the attempt.
    async fn operators_only(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
        operation: &'static str,
    ) -> Result<(), RpcError> {
        if by.authority() >= Authority::TenantOperator {
            return Ok(());
        }
        let refused = PermissionRefused::not_operator(operation);
        let error = RpcError::from(Refusal::from(Box::new(refused)));
        let event = Event::administration_refused(by, server, operation, &error).build();
        if let Err(unaudited) = self.inner.entries.state().audit().record(event).await {
            tracing::error!(error = %unaudited, "a refusal could not be recorded");
        }
        Err(error)
    }
}

impl PermissionCore {
    /// Removes the decisions that a change names, each together with an event, and returns them.
    async fn remove(
        &self,
        by: &Principal,
        change: &PermissionChange,
    ) -> Result<Vec<Approval>, PermissionRefused> {
        change.check(self.entries.now())?;
        change.check_unlimited()?;
        if change.expires_at.is_some() {
            return Err(PermissionRefused::unfit("a reset has no end"));
        }
        let place = Self::place(by, change.server.as_ref());
        let named = Permission::canonical(&change.permissions);
        let is_meant =
            |approval: &Approval| approval.place() == place && named.contains(&approval.permission);
        let event_of = |approval: &Approval| {
            let (by, server) = (Actor::of(by), change.server.as_ref());
            let event = Event::permission_revoked(by, server, &approval.permission)
                .tenant(&approval.tenant)
                .justification(change.justification.as_deref())
                .before(approval.decision.as_str())
                .cause("reset");
            Some(event.build())
        };
        let _changing = self.entries.begin_change().await;
        let found = self.entries.state().latest(is_meant).await;
        let found = found.map_err(|error| PermissionRefused::unreadable(&error))?;
        let removed = self.entries.state().take_out(is_meant, event_of).await;
        removed.map_err(PermissionRefused::unwritten)?;
        Ok(found.iter().map(|found| Approval::clone(&found.entry)).collect())
    }

    async fn make(
        &self,
        by: &Principal,
        change: PermissionChange,
        decision: ApprovalDecision,
    ) -> Result<Vec<Approval>, PermissionRefused> {
        change.check(self.entries.now())?;
        if decision != ApprovalDecision::Approved {
            change.check_unlimited()?;
        }
        let place = Self::place(by, change.server.as_ref());
        let approvals = change.approvals(&place, decision, ApprovalSource::Operator, by);
        let policy = self.policies.get(change.server.as_ref());
        let stood = |permission: &Permission| {
            let stand =
                self.stand(&policy, change.server.as_ref(), &[], permission, self.entries.now());
            matches!(
                stand,
                PermissionState::Granted(_)
                    | PermissionState::Listed(_)
                    | PermissionState::ByPolicy
            )
        };
        // A revocation is stored only if it revokes something: an earlier decision, or a grant of the configuration or
        // policy.
        self.write(
            &place,
            approvals,
            |before, approval| match (decision, before) {
                (ApprovalDecision::Revoked, Some(before)) => before.entry.decision != decision,
                (ApprovalDecision::Revoked, None) => stood(&approval.permission),
                _ => true,
            },
            &Actor::of(by),
            &ChangeCause::default(),
        )
        .await
    }
}
