//! Governance: the state of all sections, and the layers that apply it (MGP §3–§6).
//!
//! Applies to: both.

mod builder;
#[cfg(feature = "sqlite")]
mod folder;
mod holdings;
mod layer;
mod leaving;
#[cfg(feature = "sqlite")]
mod place;

use std::fmt;
use std::sync::Arc;

use mgp_types::method::{Request, ToolsCall};
use mgp_types::service::{
    AuditSink, Call, Context, Hidden, MemoryAudit, Method, Params, Peer, Principal, Router, Scope,
    ScopeKind, ServerId, Visibility,
};
use mgp_types::store::{MemoryStore, Store, StoreError};
use mgp_types::{Payload, RpcError};
use tokio::sync::watch;

use crate::access::{About, Access, AdminCheck, Moment, Need, named_server};
use crate::approval::{ElicitApprover, Inbox};
use crate::audit::{AuditConfig, AuditLog, Event};
use crate::decision::{
    self, CallFacts, CallVerdict, Progress, ServerName, Snapshot, Sources, ToolOrigin,
};
use crate::definition::Definitions;
use crate::error::Refusal;
use crate::hooks::HookState;
use crate::permission::{MissingPermission, MissingStatus, Permissions};
use crate::policy::{Policies, ServerPolicy};
use crate::tool::{Confirmations, Validators};
pub use builder::GovernanceBuilder;
#[cfg(feature = "sqlite")]
pub use folder::FolderError;
pub use holdings::ServerHoldings;
pub use layer::{GovernLayer, Governed};

/// Access, permissions, definitions, confirmations and their audit log; a cheap handle.
///
/// One governance serves any number of servers and callers.
/// Its [layer](Self::layer) goes before each server, or before [our own](Self::own) tools.
///
/// ```
/// use mgp_security::Governance;
/// use mgp_types::mgp::AccessGrantParams;
/// use mgp_types::service::{Principal, Reply, Stack, mock};
/// use mgp_types::ErrorCode;
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let governance = Governance::builder().build();
/// let tools = Stack::from_fn(|call| async move {
///     assert_eq!(call.method().as_str(), "tools/list", "the call does not come this far");
///     Ok(Reply::raw(mgp_types::Payload::from_trusted(r#"{"tools":[{"name":"wipe","inputSchema":{}}]}"#)))
/// });
/// let mut client = mock::client(Stack::new(governance.layer("disk").layer(tools)));
///
/// // Nothing was granted.
/// let refused = client.request("tools/call", r#"{"name":"wipe"}"#).await.unwrap_err();
/// assert_eq!(refused.code(), ErrorCode::ACCESS_DENIED);
///
/// // Access alone does not confirm a dangerous call, and there is no approver to ask here.
/// let ann = Principal::new("local", "ann").operator();
/// governance.access().grant(&ann, AccessGrantParams::allow("local", "disk")).await.unwrap();
/// let refused = client.request("tools/call", r#"{"name":"wipe"}"#).await.unwrap_err();
/// assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
/// # });
/// ```
#[derive(Clone)]
pub struct Governance(Arc<Books>);

struct Books {
    store: Arc<dyn Store>,
    audit: Arc<dyn AuditSink>,
    log: Option<AuditLog>,
    recording: AuditConfig,
    policies: Policies,
    access: Access,
    definitions: Definitions,
    permissions: Permissions,
    inbox: Option<Inbox>,
    confirmations: Confirmations,
    validators: Validators,
    changed: Arc<watch::Sender<u64>>,
}

impl Governance {
    /// Returns a builder.
    pub fn builder() -> GovernanceBuilder {
        GovernanceBuilder {
            store: Arc::new(MemoryStore::new()),
            audit: Arc::new(MemoryAudit::new()),
            log: None,
            recording: AuditConfig::new(),
            policies: Policies::default(),
            approver: Arc::new(ElicitApprover::default()),
            inbox: None,
            validators: Validators::default(),
            #[cfg(feature = "sqlite")]
            logging: None,
        }
    }

    /// Reads the store and follows its changes from then on.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future leaves some of it unread; it can be called again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.access.open().await?;
        self.0.permissions.open().await?;
        if let Some(inbox) = &self.0.inbox {
            inbox.open().await?;
        }
        self.0.definitions.open().await
    }

    /// Returns the access entries.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// Returns the permissions of servers.
    #[must_use]
    pub fn permissions(&self) -> &Permissions {
        &self.0.permissions
    }

    /// Returns the definitions of tools.
    #[must_use]
    pub fn definitions(&self) -> &Definitions {
        &self.0.definitions
    }

    /// Returns the inbox of questions for operators, if there [is one](GovernanceBuilder::inbox).
    #[must_use]
    pub fn inbox(&self) -> Option<&Inbox> {
        self.0.inbox.as_ref()
    }

    /// Returns the policies; [`set_policy`](Self::set_policy) changes them on the record.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.0.policies
    }

    /// Returns the audit sink.
    #[must_use]
    pub fn audit(&self) -> &Arc<dyn AuditSink> {
        &self.0.audit
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Returns the audit log, to query, flush and forward it; `None` if another sink records.
    #[must_use]
    pub fn log(&self) -> Option<&AuditLog> {
        self.0.log.as_ref()
    }

    /// Sets the policy of a server, in force from the next message on.
    ///
    /// # Errors
    /// 1000 unless `by` is an operator; otherwise the change cannot be recorded, and was not made.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a record of a change that was not made.
    pub async fn set_policy(
        &self,
        by: &Principal,
        server: &ServerId,
        policy: ServerPolicy,
        justification: Option<&str>,
    ) -> Result<(), RpcError> {
        self.admit(by, Some(server), "set_policy").await?;
        let event = Event::policy_changed(by, Some(server))
            .before(&*self.0.policies.get(Some(server)))
            .after(&policy)
            .justification(justification);
        self.0.audit.record(event.into()).await.map_err(Refusal::Unaudited)?;
        self.0.policies.set(server.clone(), policy);
        Ok(())
    }

    /// Removes the policy of a server, which has the general one from the next message on.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy).
    ///
    /// # Cancel safety
    /// As [`set_policy`](Self::set_policy).
    pub async fn remove_policy(
        &self,
        by: &Principal,
        server: &ServerId,
        justification: Option<&str>,
    ) -> Result<(), RpcError> {
        self.admit(by, Some(server), "remove_policy").await?;
        let event = Event::policy_changed(by, Some(server))
            .before(&*self.0.policies.get(Some(server)))
            .after(&*self.0.policies.get(None))
            .justification(justification);
        self.0.audit.record(event.into()).await.map_err(Refusal::Unaudited)?;
        self.0.policies.remove(server);
        Ok(())
    }

    /// Sets the groups of an agent of the operator's tenant, in place of those it had, in force from the next message on.
    ///
    /// # Errors
    /// As [`set_policy`](Self::set_policy).
    ///
    /// # Cancel safety
    /// As [`set_policy`](Self::set_policy).
    pub async fn set_groups(
        &self,
        by: &Principal,
        agent: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
        justification: Option<&str>,
    ) -> Result<(), RpcError> {
        self.admit(by, None, "set_groups").await?;
        let (groups, tenant) = (self.0.access.groups(), by.tenant().as_str());
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let event = Event::policy_changed(by, None)
            .detail("agent_id", agent)
            .before(&groups.names(tenant, agent))
            .after(&names)
            .justification(justification);
        self.0.audit.record(event.into()).await.map_err(Refusal::Unaudited)?;
        groups.set(tenant, agent, names);
        Ok(())
    }

    /// Refuses and records attempts of callers that may not change anything.
    async fn admit(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        let check = AdminCheck::without_call(by);
        match check.check(Need::Write, method, About::All) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                Err(check.record_refusal(&*self.0.audit, server, method, refusal).await)
            }
        }
    }

    /// Refuses a call of a method for operators, before anything of it is read; the attempt is
    /// recorded, with the server its params name.
    ///
    /// # Errors
    /// 1000 unless an operator calls whose credentials permit what the method does.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the attempt unrecorded; nothing was done.
    pub async fn operators_only(
        &self,
        call: &Call,
        does: Administration,
        method: &'static str,
    ) -> Result<(), RpcError> {
        self.operators_only_at(call.cx(), named_server(call.params()), does, method).await
    }

    /// Refuses a call as [`operators_only`](Self::operators_only) does, once its params were read: `server` is the one
    /// they name.
    ///
    /// # Errors
    /// As [`operators_only`](Self::operators_only).
    ///
    /// # Cancel safety
    /// As [`operators_only`](Self::operators_only).
    pub async fn operators_only_at(
        &self,
        cx: &Context,
        server: Option<ServerId>,
        does: Administration,
        method: &'static str,
    ) -> Result<(), RpcError> {
        let check = AdminCheck::of(cx);
        let Err(refusal) = check.check(does.need(), method, About::All) else { return Ok(()) };
        Err(check.record_refusal(&*self.0.audit, server.as_ref(), method, refusal).await)
    }

    /// Returns whether the caller is an operator whose credentials permit this.
    #[must_use]
    pub fn is_operator(&self, cx: &Context, does: Administration) -> bool {
        AdminCheck::of(cx).check(does.need(), "", About::All).is_ok()
    }

    /// Returns the methods of access control, for operators and agents: `mgp/access/*` (MGP §5.4).
    #[must_use]
    pub fn router(&self) -> Router {
        self.0.access.router()
    }

    /// Returns the layer for another server.
    pub fn layer(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), origin: ToolOrigin::Foreign }
    }

    /// Returns the layer for our own tools, whose definitions are not pinned.
    ///
    /// The tools must be [learned](Definitions::learn) under the same id.
    pub fn own(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), origin: ToolOrigin::Own }
    }

    /// Decides about a call that is not made, and explains the decision; nothing is asked or recorded.
    ///
    /// The credentials of a real call may narrow it further.
    ///
    /// ```
    /// use mgp_security::{CallOutcome, Governance, Requirement};
    /// use mgp_types::mcp::Tool;
    /// use mgp_types::mgp::AccessGrantParams;
    /// use mgp_types::service::Principal;
    /// use mgp_types::{Payload, RawObject};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let governance = Governance::builder().build();
    /// let (ann, ada) = (Principal::new("acme", "ann").operator(), Principal::new("acme", "ada"));
    /// let disk = "disk".into();
    /// governance.definitions().learn(Some(&disk), &[Tool::new("wipe", RawObject::empty())]);
    /// governance.access().grant(&ann, AccessGrantParams::allow("ada", "disk")).await.unwrap();
    ///
    /// let verdict = governance.explain(&ada, &disk, "wipe", &Payload::empty_object());
    /// assert!(matches!(verdict.outcome(), CallOutcome::Ask(Requirement::Confirmation)));
    /// let steps: Vec<_> = verdict.steps().iter().map(|it| format!("{} {}: {}", it.stage, it.result, it.rule)).collect();
    /// assert_eq!(steps, [
    ///     "access passed: server_grant allow for ada on disk (by ann)",
    ///     "definition passed: own",
    ///     "confirmation asks: dangerous risk",
    /// ]);
    /// # });
    /// ```
    #[must_use]
    pub fn explain(
        &self,
        principal: &Principal,
        server: &ServerId,
        tool: &str,
        arguments: &Payload,
    ) -> CallVerdict {
        let scope = Scope::new(ScopeKind::Request);
        let cx = Context::new(Peer::none(), scope, principal.clone());
        let call = Call::request(Method::of(ToolsCall::METHOD), Params::tool(tool, arguments), cx);
        let sources = self.sources(server, self.origin_of(server));
        let clock = || sources.now();
        let (at, progress) = (Moment::of(&clock), Progress::default());
        let arguments = call.tool().and_then(|tool| tool.arguments);
        let (call, server) = (&call, Some(server));
        let facts = CallFacts { call, server, tool, arguments, at: &at, progress: &progress };
        decision::explain(&facts, &Snapshot::of(&sources, principal, server))
    }

    /// Returns whether a caller sees a tool, as [`Visibility`] decides it, by the name of its server.
    #[must_use]
    pub fn shows(&self, cx: &Context, server: &str, tool: &str) -> bool {
        decision::see(&self.0.access, &self.0.definitions, cx, Some(server), tool).is_ok()
    }

    /// Returns the permissions that every call of a tool would lack now.
    ///
    /// Limits of approvals count only if no arguments could be within them.
    #[must_use]
    pub fn missing_permissions(
        &self,
        principal: &Principal,
        server: &ServerId,
        tool: &str,
    ) -> Vec<MissingPermission> {
        let sources = self.sources(server, self.origin_of(server));
        let mut missing = decision::missing(&sources, principal, server, tool);
        // The arguments decide about these.
        missing.retain(|missing| missing.status != MissingStatus::OutOfScope);
        missing
    }

    /// Returns whether the tools of a server are our own.
    fn origin_of(&self, server: &ServerId) -> ToolOrigin {
        match self.0.definitions.tools(Some(server)) {
            Some(tools) if tools.are_own() => ToolOrigin::Own,
            _ => ToolOrigin::Foreign,
        }
    }

    fn sources(&self, server: &ServerId, origin: ToolOrigin) -> Sources {
        let books = &*self.0;
        Sources {
            server: ServerName::Always(server.clone()),
            origin,
            policies: books.policies.clone(),
            access: Some(books.access.clone()),
            definitions: Some(books.definitions.clone()),
            server_tools: None,
            tools: None,
            permissions: Some(books.permissions.clone()),
            validators: Some(books.validators.clone()),
            confirmations: Some(books.confirmations.clone()),
        }
    }

    /// Returns a receiver of a number that grows with each change of what a caller may see or call.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Runs a hook after each change of what a caller may see or call; it must not wait.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let again = Arc::clone(&hook);
        self.0.access.on_change(move || again());
        self.0.definitions.on_change(move || hook());
    }
}

/// A tool is seen if access allows it and its definition does not wait for an operator.
impl Visibility for Governance {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        let server = server.map(ServerId::as_str);
        decision::see(&self.0.access, &self.0.definitions, cx, server, tool)
    }
}

impl fmt::Debug for Governance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governance").field("policies", &self.0.policies).finish_non_exhaustive()
    }
}

/// The effect of a method for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Administration {
    /// A method that reads.
    Reads,
    /// A method that changes something.
    Changes,
}

impl Administration {
    const fn need(self) -> Need<'static> {
        match self {
            Self::Reads => Need::Read,
            Self::Changes => Need::Write,
        }
    }
}
