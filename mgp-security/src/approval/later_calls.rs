//! Approvals of calls that also apply to later calls (MGP §3.6, §4.4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::{Actor, AuditEvent, KernelPermission, Permission, PermissionScope};
use mgp_types::service::{AgentId, AuditSink, Principal, ServerId, TenantId};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{ErrorCode, RpcError, Timestamp, canonical, mcp, random_name};
use serde::{Deserialize, Serialize};

use super::ApprovalRequest;
use crate::access::{AdminCheck, Need};
use crate::audit::Event;
use crate::entries::{Entries, Expiring};
use crate::error::Refusal;
use crate::permission::scope;
use crate::state::{ChangeError, Found, Snapshot};

/// The maximum number of call approvals of each tenant.
const MAX_APPROVALS: usize = 1024;

/// The calls to which the approval of a call applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalTerm {
    /// The approval is only for this call, once.
    #[default]
    Once,
    /// All calls of the same tool by the same caller, until the approval expires.
    Tool {
        /// The time at which the approval expires.
        until: Timestamp,
    },
    /// Calls of the same tool by the same caller with similar arguments.
    Like {
        /// The time at which the approval expires; `None` if it applies until it is revoked.
        until: Option<Timestamp>,
    },
}

impl ApprovalTerm {
    /// Parses the name of a term: `once`, `tool` or `like`.
    ///
    /// # Errors
    /// Code −32602 (invalid params) for another name, for `tool` without an expiry, or for `once` with an expiry.
    pub fn parse(word: Option<&str>, until: Option<Timestamp>) -> Result<Self, RpcError> {
        match (word, until) {
            (None | Some("once"), None) => Ok(Self::Once),
            (Some("tool"), Some(until)) => Ok(Self::Tool { until }),
            (Some("like"), until) => Ok(Self::Like { until }),
            _ => Err(RpcError::invalid_params(
                "`term` is `once`, `tool` with `until`, or `like` with or without `until`",
            )),
        }
    }
}

/// An approval of later calls of one tool by one caller.
///
/// A stored approval with an unknown member is not read, because the member might be a limit that a newer version
/// wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CallApproval {
    /// The id by which an operator revokes the approval; it begins with `call-`.
    pub id: String,
    /// The tenant of the caller whose calls are approved.
    pub tenant: String,
    /// The subject of the caller whose calls are approved.
    pub subject: String,
    /// The agent of the caller, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The server of the tool, if it has an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The tool whose calls are approved.
    pub tool: String,
    /// The limits on the arguments of the approved calls, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<PermissionScope>,
    /// The arguments that the approved calls must have, as canonical JSON; `None` if other arguments are approved too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The permissions that this approval grants to the approved calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// The person who approved the calls.
    pub approved_by: String,
    /// The time at which the person approved the calls.
    pub approved_at: Timestamp,
    /// The time when the approval expires; `None` if it applies until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The reason that the person gave for the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

impl CallApproval {
    /// Creates the approval of later calls that follows from an approved request, or returns `None` if only one call
    /// was approved or the request is not about a call.
    fn of(
        request: &ApprovalRequest,
        term: &ApprovalTerm,
        by: &Actor,
        reason: Option<&str>,
    ) -> Option<Self> {
        let arguments = request.arguments.as_deref()?;
        let (scope, exact, expires_at) = match term {
            ApprovalTerm::Once => return None,
            ApprovalTerm::Tool { until } => (None, None, Some(until.clone())),
            // Also store the exact arguments: then the approval covers a call with equal arguments even if these do not
            // fit the limits, e.g. because the tool declares none of them.
            ApprovalTerm::Like { until } => {
                (scope::like(arguments), Some(arguments.to_owned()), until.clone())
            }
        };
        let name: String = random_name().ok()?.chars().take(10).collect();
        Some(Self {
            id: format!("{ID_PREFIX}{name}"),
            tenant: request.tenant.clone(),
            subject: request.subject.clone(),
            agent_id: request.agent_id.clone(),
            server_id: request.server_id.clone(),
            tool: request.tool.clone()?,
            scope,
            arguments: exact,
            permissions: request.permissions.clone(),
            approved_by: by.id.clone(),
            approved_at: Timestamp::now(),
            expires_at,
            justification: reason.map(str::to_owned),
        })
    }

    /// Returns the approval in the form in which the kernel's methods list it.
    #[must_use]
    pub fn to_listed(&self) -> KernelPermission {
        let mut listed = KernelPermission::new(
            self.id.as_str(),
            "approved",
            "answer",
            self.approved_by.clone(),
            self.approved_at.clone(),
        );
        listed.server_id.clone_from(&self.server_id);
        listed.agent_id = Some(self.agent_id.clone().unwrap_or_else(|| self.subject.clone()));
        listed.limits = Some(self.limits());
        listed.scope.clone_from(&self.scope);
        listed.tools = vec![self.tool.clone()].into();
        listed.expires_at.clone_from(&self.expires_at);
        listed.justification.clone_from(&self.justification);
        listed
    }

    /// Describes the limits on the arguments, for a person.
    #[must_use]
    pub fn limits(&self) -> String {
        match (&self.scope, &self.arguments) {
            (Some(scope), _) => scope::scope_words(scope),
            (None, Some(exact)) => format!("exactly {}", mgp_types::clip(exact, 200)),
            (None, None) => "any arguments".to_owned(),
        }
    }

    /// Returns whether the approval covers the call that a request asks about.
    pub(super) fn covers_request(&self, request: &ApprovalRequest) -> bool {
        self.tenant == request.tenant
            && self.subject == request.subject
            && self.agent_id == request.agent_id
            && self.server_id == request.server_id
            && request.tool.as_deref() == Some(&*self.tool)
            && request.permissions.iter().all(|needed| self.permissions.contains(needed))
            && request.arguments.is_some()
            && self.covers_arguments(request.arguments.as_deref(), None)
    }

    fn is_over(&self, at: SystemTime) -> bool {
        self.expires_at.as_ref().is_some_and(|end| end.is_before(at).unwrap_or(true))
    }

    fn covers(&self, by: &Principal, call: &CalledTool<'_>, at: SystemTime) -> bool {
        let is_callers = self.tool == call.tool
            && self.subject == by.subject().as_str()
            && self.agent_id.as_deref() == by.as_agent().map(AgentId::as_str)
            && !self.is_over(at);
        is_callers && self.covers_arguments(call.arguments, call.definition)
    }

    fn covers_arguments(&self, arguments: Option<&str>, definition: Option<&mcp::Tool>) -> bool {
        if self.scope.is_none() && self.arguments.is_none() {
            return true;
        }
        let is_exact =
            |exact: &String| canonical(arguments.unwrap_or("{}")).is_ok_and(|own| own == *exact);
        let is_like =
            |scope: &PermissionScope| scope::is_like(scope, arguments, definition).is_ok();
        self.scope.as_ref().is_some_and(is_like) || self.arguments.as_ref().is_some_and(is_exact)
    }
}

/// A call, with the data for finding an earlier approval that also covers this call.
pub(crate) struct CalledTool<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<&'a str>,
    /// The definition of the tool, if it is known. It shows which arguments the tool ignores.
    pub(crate) definition: Option<&'a mcp::Tool>,
}

/// The prefix of the id of every call approval. No permission has a name with this prefix.
const ID_PREFIX: &str = "call-";

/// Describes the calls that an approval of "calls like this" would cover, for a person.
pub(crate) fn like_words(arguments: &str) -> String {
    scope::like(arguments)
        .map_or_else(|| "exactly these arguments".to_owned(), |like| scope::scope_words(&like))
}

/// The approvals of later calls; a handle that is cheap to clone.
#[derive(Clone)]
pub struct CallApprovals(Entries<CallBook>);

mgp_types::opaque_debug!(CallApprovals);

impl CallApprovals {
    pub(crate) fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        Self(Entries::new(store, audit))
    }

    pub(crate) async fn open(&self) -> Result<(), StoreError> {
        self.0.state().open().await
    }

    /// Returns whether a name is the id of a call approval, and not the name of a permission.
    #[must_use]
    pub fn is_id(name: &str) -> bool {
        name.starts_with(ID_PREFIX)
    }

    /// Returns the call approvals of the operator's tenant that have not expired, for one server or for all servers.
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator; other codes if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
    ) -> Result<Vec<CallApproval>, RpcError> {
        self.admit(by, Need::Read, "approvals").await?;
        let (book, now) = (self.0.state().now()?, self.0.now());
        let own = book.0.values().filter(|one| {
            one.tenant == by.tenant().as_str()
                && !one.is_over(now)
                && server.is_none_or(|server| one.server_id.as_deref() == Some(server.as_str()))
        });
        Ok(own.map(|one| CallApproval::clone(one)).collect())
    }

    /// Returns the approvals of a server that an operator revokes, selected by their ids or by a permission that they
    /// grant.
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator; other codes if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub(super) async fn meant(
        &self,
        by: &Principal,
        server: &ServerId,
        names: &[Permission],
    ) -> Result<Vec<CallApproval>, RpcError> {
        self.admit(by, Need::Write, "approvals.decide").await?;
        let (book, revoked) = (self.0.state().now()?, Permission::canonical(names));
        let is_meant = |one: &&Arc<CallApproval>| {
            one.tenant == by.tenant().as_str()
                && one.server_id.as_deref() == Some(server.as_str())
                && (names.iter().any(|name| name.as_str() == one.id)
                    || one.permissions.iter().any(|permission| revoked.contains(permission)))
        };
        let meant = book.0.values().filter(is_meant);
        Ok(meant.map(|one| CallApproval::clone(one)).collect())
    }

    /// Removes approvals that [`meant`](Self::meant) has returned. Does not check any authority, because `meant` has
    /// checked it.
    ///
    /// # Errors
    /// An error if the change cannot be stored or recorded; some approvals may have been removed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the approvals may or may not have been removed.
    pub(super) async fn remove(
        &self,
        by: &Principal,
        revoked: &[CallApproval],
    ) -> Result<(), RpcError> {
        let is_revoked = |one: &CallApproval| revoked.iter().any(|revoked| revoked.id == one.id);
        let event = |one: &CallApproval| Some(event(Actor::of(by), one, "revoked").build());
        Ok(self.0.state().take_out(is_revoked, event).await.map_err(Refusal::from)?)
    }

    /// Removes the approvals of a deregistered server. Does not check any authority: the caller of this method must
    /// have done so.
    pub(crate) async fn forget_server(&self, server: &ServerId) -> Result<(), RpcError> {
        let is_meant = |one: &CallApproval| one.server_id.as_deref() == Some(server.as_str());
        let event = |one: &CallApproval| Some(event(Actor::kernel(), one, "revoked").build());
        Ok(self.0.state().take_out(is_meant, event).await.map_err(Refusal::from)?)
    }

    /// Removes the approvals of a tenant. Does not check any authority: the caller of this method must have done so.
    pub(crate) async fn forget_tenant(
        &self,
        by: &Principal,
        tenant: &TenantId,
    ) -> Result<(), RpcError> {
        let is_meant = |one: &CallApproval| one.tenant == tenant.as_str();
        let event = |one: &CallApproval| {
            Some(event(Actor::of(by), one, "revoked").cause("tenant_removed").build())
        };
        Ok(self.0.state().take_out(is_meant, event).await.map_err(Refusal::from)?)
    }

    /// Stores the approval of later calls that follows from an approved request, and returns it. Returns `None` if only
    /// one call was approved, or if the request is not about a call. Fails if the tenant has [`MAX_APPROVALS`]
    /// approvals already.
    pub(crate) async fn keep(
        &self,
        request: &ApprovalRequest,
        term: &ApprovalTerm,
        by: Actor,
        reason: Option<&str>,
    ) -> Result<Option<CallApproval>, RpcError> {
        let Some(kept) = CallApproval::of(request, term, &by, reason) else { return Ok(None) };
        let _changing = self.0.begin_change().await;
        self.0.record_ends().await.map_err(Refusal::from)?;
        let book = self.0.state().now()?;
        if book.0.values().filter(|one| one.tenant == kept.tenant).count() >= MAX_APPROVALS {
            let message =
                format!("there are {MAX_APPROVALS} approvals of calls; revoke some first");
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        let event = event(by, &kept, "approved")
            .trace(request.trace_id.as_deref())
            .scope(kept.scope.as_ref())
            .justification(reason)
            .expires_at(kept.expires_at.as_ref());
        let writes = vec![(kept.id.clone(), Some(kept.clone()))];
        self.0.state().write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(Some(kept))
    }

    /// Returns the approval in force that covers the call that a request asks about.
    pub(super) fn covering(
        &self,
        asked: &ApprovalRequest,
        at: SystemTime,
    ) -> Option<Arc<CallApproval>> {
        let book = self.0.state().now().ok()?;
        book.0.values().find(|one| !one.is_over(at) && one.covers_request(asked)).cloned()
    }

    /// Returns an approval in force that covers a call and for which `is_enough` returns `true`.
    pub(crate) fn find(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
        call: &CalledTool<'_>,
        at: SystemTime,
        is_enough: impl Fn(&CallApproval) -> bool,
    ) -> Option<Arc<CallApproval>> {
        let book = self.0.state().now().ok()?;
        let mut all = book.0.values().filter(|one| {
            one.tenant == by.tenant().as_str()
                && one.server_id.as_deref() == server.map(ServerId::as_str)
        });
        all.find(|one| is_enough(one) && one.covers(by, call, at)).cloned()
    }

    async fn admit(
        &self,
        by: &Principal,
        need: Need<'_>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        let caller = AdminCheck::without_call(by).within_tenant();
        caller.admit(&**self.0.state().audit(), None, need, method).await
    }
}

fn event(by: Actor, approval: &CallApproval, decision: &str) -> Event {
    Event::approval_decided(by, &approval.id, decision)
        .tenant(&approval.tenant)
        .asked_by(&approval.subject, approval.agent_id.as_deref())
        .server(approval.server_id.as_deref().map(ServerId::from).as_ref())
        .tool(approval.tool.as_str())
}

/// All call approvals, by their ids. A linear search is sufficient, because they are few.
#[derive(Debug, Default)]
pub(crate) struct CallBook(BTreeMap<String, Arc<CallApproval>>);

impl Snapshot for CallBook {
    type Entry = CallApproval;
    const SPACE: &'static str = "call_approvals";

    fn of(entries: &BTreeMap<String, Arc<CallApproval>>) -> Self {
        Self(entries.clone())
    }

    fn next_expiry(&self, after: SystemTime) -> Option<SystemTime> {
        let ends = self.0.values().filter_map(|one| one.expires_at.as_ref()?.to_system_time());
        ends.filter(|end| *end > after).min()
    }
}

/// An expired approval is removed, so that it does not apply again if the clock is set back.
impl Expiring for CallBook {
    fn any_ended(&self, at: SystemTime) -> bool {
        self.0.values().any(|one| one.is_over(at))
    }

    fn has_ended(approval: &CallApproval, at: SystemTime) -> bool {
        approval.is_over(at)
    }

    fn end(
        change: Change,
        found: &Found<CallApproval>,
    ) -> Result<(Change, AuditEvent), ChangeError> {
        let change = change
            .expect_revision(Self::SPACE, &found.key, Some(found.revision))
            .remove(Self::SPACE, &found.key);
        let event = event(Actor::kernel(), &found.entry, "revoked").cause("expired");
        Ok((change, event.build()))
    }
}
