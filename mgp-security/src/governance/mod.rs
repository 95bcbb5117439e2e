//! Governance: the rules about tool calls, the state on which they depend, and the layers that apply them (MGP §3–§6).
//!
//! Applies to: inbound and outbound.

mod builder;
#[cfg(feature = "sqlite")]
mod deferred_audit;
#[cfg(feature = "sqlite")]
mod folder;
mod holdings;
mod layer;
#[cfg(feature = "sqlite")]
mod place;
mod removal;
mod review;

use std::sync::Arc;

use mgp_types::method::{Request, ToolsCall};
use mgp_types::service::{
    AuditSink, Call, Context, Hidden, Method, Params, Peer, Principal, Router, Scope, ScopeKind,
    ServerId, Visibility,
};
use mgp_types::store::{MemoryStore, Store, StoreError};
use mgp_types::{Payload, RpcError};
use tokio::sync::watch;

use crate::access::{About, Access, AdminCheck, Need, Rules, named_server};
use crate::approval::{CallBook, ElicitApprover, Inbox, Requests};
use crate::audit::{AuditConfig, AuditLog, Event, check_positions};
use crate::decision::{
    self, CallOutcome, CallPreparations, CallVerdict, ListingState, Requirement, ServerName,
    Sources, ToolOrigin,
};
#[cfg(feature = "validators")]
use crate::definition::Severity;
use crate::definition::{Definitions, PinTable};
use crate::error::Refusal;
use crate::hooks::HookState;
use crate::permission::{Book, MissingPermission, MissingStatus, Permissions};
use crate::policy::{Policies, ServerPolicy};
use crate::state::check_entries;
use crate::tool::{Confirmations, Validators};
pub use builder::GovernanceBuilder;
#[cfg(feature = "sqlite")]
pub use deferred_audit::DeferredAudit;
#[cfg(feature = "sqlite")]
pub use folder::FolderError;
pub use holdings::{ServerHoldings, TenantHoldings};
pub use layer::{GovernLayer, Governed};

/// The rules about tool calls: access, permissions, definitions and confirmations, with the audit log that records the
/// decisions; a handle that is cheap to clone.
///
/// One governance serves any number of servers and callers. Put its [layer](Self::layer) in front of every foreign
/// server, and its [own layer](Self::own) in front of the tools of this process.
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
    shared_changed: Arc<watch::Sender<u64>>,
}

impl Governance {
    /// Returns a builder with default settings.
    pub fn builder() -> GovernanceBuilder {
        GovernanceBuilder {
            store: Arc::new(MemoryStore::new()),
            audit: None,
            log: None,
            recording: AuditConfig::new(),
            policies: Policies::default(),
            approver: Arc::new(ElicitApprover::default()),
            inbox: None,
            by_caller: None,
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
    /// If the future is dropped, a part of the store may be unread; call this method again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.access.open().await?;
        self.0.permissions.open().await?;
        if let Some(inbox) = &self.0.inbox {
            inbox.open().await?;
        }
        self.0.definitions.open().await
    }

    /// Checks that every entry in a store can be read, and changes nothing. A damaged entry prevents
    /// [`open`](Self::open), so that no rule is forgotten.
    ///
    /// # Errors
    /// [`StoreError`] if the store or an entry in it cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check_entries(store: &dyn Store) -> Result<(), StoreError> {
        check_entries::<Rules>(store).await?;
        check_entries::<Book>(store).await?;
        check_entries::<Requests>(store).await?;
        check_entries::<CallBook>(store).await?;
        check_entries::<PinTable>(store).await?;
        check_positions(store).await
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

    /// Returns the inbox of questions for operators; `None` unless [the builder added one](GovernanceBuilder::inbox).
    #[must_use]
    pub fn inbox(&self) -> Option<&Inbox> {
        self.0.inbox.as_ref()
    }

    /// Returns the policies. To change one, use [`set_policy`](Self::set_policy), which records the change.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.0.policies
    }

    /// Returns the sink that receives the audit events.
    #[must_use]
    pub fn audit(&self) -> &Arc<dyn AuditSink> {
        &self.0.audit
    }

    /// Returns the store of the governance's state.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Returns the audit log, to query, flush or forward it; `None` if events go to another sink.
    #[must_use]
    pub fn log(&self) -> Option<&AuditLog> {
        self.0.log.as_ref()
    }

    /// Sets the policy of a server; it applies from the next message on.
    ///
    /// # Errors
    /// Code 1000 (permission denied) unless `by` is an operator; another code if the change cannot be recorded, in
    /// which case it was not made.
    ///
    /// # Cancel safety
    /// If the future is dropped, the audit log may contain a change that was not made.
    pub async fn set_policy(
        &self,
        by: &Principal,
        server: &ServerId,
        policy: ServerPolicy,
        justification: Option<&str>,
    ) -> Result<(), RpcError> {
        self.admit(AdminCheck::without_call(by), Some(server), "set_policy").await?;
        let event = Event::policy_changed(by, Some(server))
            .before(&*self.0.policies.get(Some(server)))
            .after(&policy)
            .justification(justification);
        self.0.audit.record(event.into()).await.map_err(Refusal::Unaudited)?;
        self.0.policies.set(server.clone(), policy);
        Ok(())
    }

    /// Removes the policy of a server; the general policy applies to it from the next message on.
    ///
    /// # Errors
    /// The same errors as [`set_policy`](Self::set_policy).
    ///
    /// # Cancel safety
    /// The same as for [`set_policy`](Self::set_policy).
    pub async fn remove_policy(
        &self,
        by: &Principal,
        server: &ServerId,
        justification: Option<&str>,
    ) -> Result<(), RpcError> {
        self.admit(AdminCheck::without_call(by), Some(server), "remove_policy").await?;
        let event = Event::policy_changed(by, Some(server))
            .before(&*self.0.policies.get(Some(server)))
            .after(&*self.0.policies.get(None))
            .justification(justification);
        self.0.audit.record(event.into()).await.map_err(Refusal::Unaudited)?;
        self.0.policies.remove(server);
        Ok(())
    }

    /// Sets the groups of an agent in the operator's tenant, replacing its previous groups. They apply from the next
    /// message on.
    ///
    /// # Errors
    /// The same errors as [`set_policy`](Self::set_policy).
    ///
    /// # Cancel safety
    /// The same as for [`set_policy`](Self::set_policy).
    pub async fn set_groups(
        &self,
        by: &Principal,
        agent: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
        justification: Option<&str>,
    ) -> Result<(), RpcError> {
        self.admit(AdminCheck::without_call(by).within_tenant(), None, "set_groups").await?;
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

    /// Checks that a caller is an operator. If not, returns an error and records the attempt.
    async fn admit(
        &self,
        check: AdminCheck<'_>,
        server: Option<&ServerId>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        check.admit(&*self.0.audit, server, Need::Write, method).await
    }

    /// Checks that a call of a method for operators is permitted, before the call's params are parsed. Records a
    /// refused attempt, with the server that the params name.
    ///
    /// # Errors
    /// Code 1000 (permission denied) unless the caller is an operator whose credentials permit the method. An operator
    /// of another tenant than `local` may only call methods that are restricted to the caller's tenant.
    ///
    /// # Cancel safety
    /// If the future is dropped, a refused attempt may remain unrecorded.
    pub async fn operators_only(
        &self,
        call: &Call,
        does: Administration,
        method: &'static str,
    ) -> Result<(), RpcError> {
        self.operators_only_at(call.cx(), named_server(call.params()), does, method).await
    }

    /// Does the same as [`operators_only`](Self::operators_only) for params that were already parsed; `server` is the
    /// server that these params name.
    ///
    /// # Errors
    /// The same errors as [`operators_only`](Self::operators_only).
    ///
    /// # Cancel safety
    /// The same as for [`operators_only`](Self::operators_only).
    pub async fn operators_only_at(
        &self,
        cx: &Context,
        server: Option<ServerId>,
        does: Administration,
        method: &'static str,
    ) -> Result<(), RpcError> {
        does.check(cx).admit(&*self.0.audit, server.as_ref(), does.need(), method).await
    }

    /// Returns whether the caller is an operator whose credentials permit a method with this effect.
    #[must_use]
    pub fn is_operator(&self, cx: &Context, does: Administration) -> bool {
        does.check(cx).check(does.need(), "", About::All).is_ok()
    }

    /// Returns a router for the methods of access control, `mgp/access/*`, which operators and agents may call (MGP
    /// §5.4).
    #[must_use]
    pub fn router(&self) -> Router {
        self.0.access.router()
    }

    /// Returns the layer to put in front of another server.
    pub fn layer(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), origin: ToolOrigin::Foreign }
    }

    /// Returns the layer to put in front of the tools of this process. Their definitions are trusted, so they are not
    /// pinned.
    ///
    /// The tools must be [registered](Definitions::learn) under the same id.
    pub fn own(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), origin: ToolOrigin::Own }
    }

    /// Returns the decision about a hypothetical call, with an explanation. Asks no questions and records nothing.
    ///
    /// The credentials of a real call can restrict its access further.
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
        self.preview(cx, server, tool, Some(arguments), CallPreparations::default())
    }

    /// Does the same as [`explain`](Self::explain) for a caller with the credentials in `cx`. Assumes that an
    /// operator's override of the tool's risk is already recorded, because a real call records it first. For a server
    /// that has not listed its tools since this process started, uses the pinned definitions. For a server that has
    /// announced a change since its last list, uses that list. Both might be outdated. Without arguments, rules that
    /// depend on them are not applied.
    #[must_use]
    pub fn explain_pinned(
        &self,
        cx: &Context,
        server: &ServerId,
        tool: &str,
        arguments: Option<&Payload>,
    ) -> CallVerdict {
        let definitions = &self.0.definitions;
        let announced = definitions.announcements(server);
        let preparations = CallPreparations::of_preview(ListingState::Open, announced);
        let verdict = self.preview(cx.clone(), server, tool, arguments, preparations);
        let is_unlisted = matches!(verdict.outcome(), CallOutcome::Ask(Requirement::Listing))
            && definitions.definition(Some(server), tool).is_none();
        if is_unlisted && definitions.is_pinned(server, tool) {
            return self.explain_for(cx, server, tool, arguments);
        }
        verdict
    }

    /// Does the same as [`explain`](Self::explain) for the caller of a request, with the credentials of the caller and
    /// the scopes of its session. For a server that has announced a change since its last list, uses that list. Without
    /// arguments, rules that depend on them are not applied.
    #[must_use]
    pub fn explain_for(
        &self,
        cx: &Context,
        server: &ServerId,
        tool: &str,
        arguments: Option<&Payload>,
    ) -> CallVerdict {
        // Before a real call, the kernel itself lists the tools and records overrides, and asks the caller nothing. So
        // treat both as done.
        let announced = self.0.definitions.announcements(server);
        let preparations = CallPreparations::of_preview(ListingState::Done, announced);
        self.preview(cx.clone(), server, tool, arguments, preparations)
    }

    fn preview(
        &self,
        cx: Context,
        server: &ServerId,
        tool: &str,
        arguments: Option<&Payload>,
        preparations: CallPreparations,
    ) -> CallVerdict {
        let (none, any_arguments) = (Payload::empty_object(), arguments.is_none());
        let params = Params::tool(tool, arguments.unwrap_or(&none));
        let call = Call::request(Method::of(ToolsCall::METHOD), params, cx);
        let sources = self.sources(server, self.origin_of(server));
        decision::explain(&sources, &call, &CallPreparations { any_arguments, ..preparations })
    }

    /// Does the same as [`Visibility::sees`], with the server's id as a string; returns whether the caller sees the
    /// tool.
    #[must_use]
    pub fn shows(&self, cx: &Context, server: &str, tool: &str) -> bool {
        decision::see(&self.0.access, &self.0.definitions, cx, Some(server), tool).is_ok()
    }

    /// Returns the permissions that are missing now for every call of a tool.
    ///
    /// A permission that is approved with limits, or only for other tools, does not count as missing.
    #[must_use]
    pub fn missing_permissions(
        &self,
        principal: &Principal,
        server: &ServerId,
        tool: &str,
    ) -> Vec<MissingPermission> {
        let sources = self.sources(server, self.origin_of(server));
        let mut missing = decision::missing(&sources, principal, server, tool);
        // Without arguments it is unknown whether a call would be within the limits. So permissions with limits do not
        // count as missing here.
        missing.retain(|missing| missing.status != MissingStatus::OutOfScope);
        missing
    }

    /// Returns the reason for the risk of a server's tool, in words.
    #[must_use]
    pub fn risk_reason(&self, server: &ServerId, tool: &str) -> String {
        self.0.definitions.risk_reason(server, tool)
    }

    /// Returns the lower risk that an operator might want to set for a tool, if its server declares nothing about the
    /// effects of the tool, but the tool's name and arguments suggest that it only reads. Returns `None` for any other
    /// tool.
    #[cfg(feature = "validators")]
    #[must_use]
    pub fn proposed_risk(
        &self,
        server: &ServerId,
        tool: &str,
    ) -> Option<mgp_types::mgp::RiskLevel> {
        let (definition, findings) = self.0.definitions.reviewed(server, tool)?;
        if findings.iter().any(|one| one.severity >= Severity::Flagged) {
            return None;
        }
        crate::tool::proposed_risk(&definition, &self.0.policies.get(Some(server)), server.as_str())
    }

    /// Returns whether the tools of a server belong to this process or to another server.
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

    /// Returns a receiver of a counter that increases with each change of what callers may see or call.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Returns a receiver of a counter like that of [`changes`](Self::changes), except that it does not count changes
    /// of access entries and of definitions. These affect only the callers of one tenant or of one server; see
    /// [`Access::revisions`] and [`Definitions::revisions`].
    #[must_use]
    pub fn shared_changes(&self) -> watch::Receiver<u64> {
        self.0.shared_changed.subscribe()
    }

    /// Registers a hook that runs after each change of what callers may see or call; it must not block.
    pub fn on_change<L: Into<HookState>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let again = Arc::clone(&hook);
        self.0.access.on_change(move || again());
        self.0.definitions.on_change(move || hook());
    }
}

/// Shows a tool if the caller has access to it and its definition does not wait for an operator.
impl Visibility for Governance {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        let server = server.map(ServerId::as_str);
        decision::see(&self.0.access, &self.0.definitions, cx, server, tool)
    }
}

mgp_types::opaque_debug!(Governance);

/// The effect of a method for operators. It determines the authority and the permission that its caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Administration {
    /// The method only reads.
    Reads,
    /// The method changes something.
    Changes,
    /// The method only reads what belongs to the caller's tenant.
    ReadsOwnTenant,
    /// The method only changes what belongs to the caller's tenant.
    ChangesOwnTenant,
}

impl Administration {
    const fn need(self) -> Need<'static> {
        match self {
            Self::Reads | Self::ReadsOwnTenant => Need::Read,
            Self::Changes | Self::ChangesOwnTenant => Need::Write,
        }
    }

    fn check(self, cx: &Context) -> AdminCheck<'_> {
        match self {
            Self::Reads | Self::Changes => AdminCheck::of(cx),
            Self::ReadsOwnTenant | Self::ChangesOwnTenant => AdminCheck::of(cx).within_tenant(),
        }
    }
}
