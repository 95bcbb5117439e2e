//! Approvals of calls that hold for later calls, too (MGP §3.6, §4.4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::{Actor, KernelPermission, Permission, PermissionScope};
use mgp_types::service::{AgentId, AuditSink, Principal, ServerId};
use mgp_types::store::{Store, StoreError};
use mgp_types::{ErrorCode, RpcError, Timestamp, canonical, random_name};
use serde::{Deserialize, Serialize};

use super::ApprovalRequest;
use crate::access::{About as Whom, AdminCheck, Need};
use crate::audit::Event;
use crate::error::Refusal;
use crate::permission::scope;
use crate::state::{Snapshot, State, Writes};

/// The number of approvals of one tenant.
const MAX_APPROVALS: usize = 1024;

/// The calls that an approval of a call is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalTerm {
    /// This call, once.
    #[default]
    Once,
    /// All calls of the tool by the same caller.
    Tool {
        /// The end.
        until: Timestamp,
    },
    /// Calls of the tool by the same caller, with arguments like these.
    Like {
        /// The end; `None` if it holds until it is revoked.
        until: Option<Timestamp>,
    },
}

impl ApprovalTerm {
    /// Returns the term of a word: `once`, `tool` or `like`.
    ///
    /// # Errors
    /// −32602 for another word, or if `tool` has no end.
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
/// A member that this version does not know makes it unreadable: it might be a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CallApproval {
    /// The id, with which it is revoked; it begins with `call-`.
    pub id: String,
    /// The tenant of the caller.
    pub tenant: String,
    /// The caller.
    pub subject: String,
    /// The calling agent, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The tool.
    pub tool: String,
    /// The limits of the arguments, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<PermissionScope>,
    /// The only arguments, as canonical JSON, if nothing else is like them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The permissions that these calls have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// The person who approved.
    pub approved_by: String,
    /// The time of the approval.
    pub approved_at: Timestamp,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

impl CallApproval {
    /// Creates the approval that follows from an approved request; `None` if it is for one call.
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
            ApprovalTerm::Like { until } => match scope::like(arguments) {
                Some(scope) => (Some(scope), None, until.clone()),
                None => (None, Some(arguments.to_owned()), until.clone()),
            },
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

    /// Returns it as the kernel's methods list it.
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

    /// Returns the limits of the arguments in words.
    #[must_use]
    pub fn limits(&self) -> String {
        match (&self.scope, &self.arguments) {
            (Some(scope), _) => scope::scope_words(scope),
            (None, Some(exact)) => format!("exactly {}", mgp_types::clip(exact, 200)),
            (None, None) => "any arguments".to_owned(),
        }
    }

    fn is_over(&self, at: SystemTime) -> bool {
        self.expires_at.as_ref().is_some_and(|end| end.is_before(at).unwrap_or(true))
    }

    fn covers(&self, by: &Principal, tool: &str, arguments: Option<&str>, at: SystemTime) -> bool {
        let is_callers = self.tool == tool
            && self.subject == by.subject().as_str()
            && self.agent_id.as_deref() == by.as_agent().map(AgentId::as_str)
            && !self.is_over(at);
        is_callers
            && match (&self.scope, &self.arguments) {
                (Some(scope), _) => scope::check(scope, arguments).is_ok(),
                (None, Some(exact)) => {
                    canonical(arguments.unwrap_or("{}")).is_ok_and(|own| own == *exact)
                }
                (None, None) => true,
            }
    }
}

/// The beginning of each id; no permission has such a name.
const ID_PREFIX: &str = "call-";

/// Returns what an approval of "calls like this" would be for, in words.
pub(crate) fn like_words(arguments: &str) -> String {
    scope::like(arguments)
        .map_or_else(|| "exactly these arguments".to_owned(), |like| scope::scope_words(&like))
}

/// The approvals of later calls; a cheap handle.
#[derive(Clone)]
pub struct CallApprovals(State<CallBook>);

mgp_types::opaque_debug!(CallApprovals);

impl CallApprovals {
    pub(crate) fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        Self(State::new(store, audit))
    }

    pub(crate) async fn open(&self) -> Result<(), StoreError> {
        self.0.open().await
    }

    /// Returns whether an id is one of these approvals, not the name of a permission.
    #[must_use]
    pub fn is_id(name: &str) -> bool {
        name.starts_with(ID_PREFIX)
    }

    /// Returns the approvals in force of the operator's tenant, of one server or of all.
    ///
    /// # Errors
    /// 1000 if `by` is not an operator; other codes if the store cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
    ) -> Result<Vec<CallApproval>, RpcError> {
        self.admit(by, Need::Read, "approvals").await?;
        let (book, now) = (self.0.now()?, SystemTime::now());
        let own = book.0.values().filter(|one| {
            one.tenant == by.tenant().as_str()
                && !one.is_over(now)
                && server.is_none_or(|server| one.server_id.as_deref() == Some(server.as_str()))
        });
        Ok(own.map(|one| CallApproval::clone(one)).collect())
    }

    /// Revokes approvals of a server by their ids, and those that grant a named permission; returns them.
    ///
    /// # Errors
    /// 1000 if `by` is not an operator; other codes if the change cannot be stored or recorded.
    ///
    /// # Cancel safety
    /// Dropping the future revokes some or none.
    pub async fn revoke(
        &self,
        by: &Principal,
        server: &ServerId,
        names: &[Permission],
    ) -> Result<Vec<CallApproval>, RpcError> {
        self.admit(by, Need::Write, "approvals.decide").await?;
        let book = self.0.now()?;
        let is_meant = |one: &CallApproval| {
            one.tenant == by.tenant().as_str()
                && one.server_id.as_deref() == Some(server.as_str())
                && (names.iter().any(|name| name.as_str() == one.id)
                    || one.permissions.iter().any(|permission| names.contains(permission)))
        };
        let gone: Vec<_> = book.0.values().filter(|one| is_meant(one)).cloned().collect();
        let event = |one: &CallApproval| Some(event(Actor::of(by), one, "revoked").build());
        self.0.take_out(is_meant, event).await.map_err(Refusal::from)?;
        Ok(gone.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// Removes the approvals of a deregistered server; the caller must have checked the authority.
    pub(crate) async fn forget_server(&self, server: &ServerId) -> Result<(), RpcError> {
        let is_meant = |one: &CallApproval| one.server_id.as_deref() == Some(server.as_str());
        let event = |one: &CallApproval| Some(event(Actor::kernel(), one, "revoked").build());
        Ok(self.0.take_out(is_meant, event).await.map_err(Refusal::from)?)
    }

    /// Keeps an approval for later calls, as far as its term is longer than one call.
    pub(crate) async fn keep(
        &self,
        request: &ApprovalRequest,
        term: &ApprovalTerm,
        by: Actor,
        reason: Option<&str>,
    ) -> Result<(), RpcError> {
        let Some(kept) = CallApproval::of(request, term, &by, reason) else { return Ok(()) };
        let (book, now) = (self.0.now()?, SystemTime::now());
        let own = book.0.values().filter(|one| one.tenant == kept.tenant && !one.is_over(now));
        if own.count() >= MAX_APPROVALS {
            let message =
                format!("there are {MAX_APPROVALS} approvals of calls; revoke some first");
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        let over = book.0.values().filter(|one| one.is_over(now));
        let mut writes: Writes<CallApproval> = over.map(|one| (one.id.clone(), None)).collect();
        let event = event(by, &kept, "approved")
            .trace(request.trace_id.as_deref())
            .scope(kept.scope.as_ref())
            .justification(reason)
            .expires_at(kept.expires_at.as_ref());
        writes.push((kept.id.clone(), Some(kept)));
        self.0.write(writes, vec![event.build()]).await.map_err(Refusal::from)?;
        Ok(())
    }

    /// Returns the approval in force that covers a call.
    pub(crate) fn find(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        arguments: Option<&str>,
        at: SystemTime,
    ) -> Option<Arc<CallApproval>> {
        let book = self.0.now().ok()?;
        let mut all = book.0.values().filter(|one| {
            one.tenant == by.tenant().as_str()
                && one.server_id.as_deref() == server.map(ServerId::as_str)
        });
        all.find(|one| one.covers(by, tool, arguments, at)).cloned()
    }

    async fn admit(
        &self,
        by: &Principal,
        need: Need<'_>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        let caller = AdminCheck::without_call(by).within_tenant();
        match caller.check(need, method, Whom::All) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                Err(caller.record_refusal(&**self.0.audit(), None, method, refusal).await)
            }
        }
    }
}

fn event(by: Actor, approval: &CallApproval, decision: &str) -> Event {
    Event::approval_decided(by, &approval.id, decision)
        .server(approval.server_id.as_deref().map(ServerId::from).as_ref())
        .tool(approval.tool.as_str())
}

/// All approvals by their ids; there are few.
#[derive(Debug, Default)]
struct CallBook(BTreeMap<String, Arc<CallApproval>>);

impl Snapshot for CallBook {
    type Entry = CallApproval;
    const SPACE: &'static str = "call_approvals";

    fn of(entries: &BTreeMap<String, Arc<CallApproval>>) -> Self {
        Self(entries.clone())
    }
}
