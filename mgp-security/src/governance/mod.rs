//! All of governance in one piece: the books that belong together, and their layers in the order that works (MGP §3–§6).
//!
//! Applies to: both.

mod bypass;
#[cfg(feature = "sqlite")]
mod folder;
mod leaving;
#[cfg(feature = "sqlite")]
mod place;

use std::fmt;
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mgp::Validator;
use mgp_types::service::{
    AuditSink, Call, Context, MemoryAudit, MgpService, Principal, Router, ServerId,
};
use mgp_types::store::{MemoryStore, Store, StoreError};
use tokio::sync::watch;
use tower::ServiceBuilder;
use tower_layer::Layer;

use crate::access::{
    About, Access, AccessLayer, Asker, Gated, KernelTools, KernelToolsLayer, Need, named_server,
};
use crate::approval::{Approver, Elicit, First, Inbox, InboxConfig};
use crate::audit::{Audit, AuditConfig, AuditLayer, AuditLog, Event};
use crate::definition::{Definition, DefinitionLayer, Definitions, Whose};
use crate::error::Refusal;
use crate::hooks::Listening;
use crate::permission::{PermissionGate, PermissionLayer, Permissions};
use crate::policy::{Policies, ServerPolicy};
use crate::still::{Still, StillGate};
use crate::tool::{Confirm, ConfirmLayer, Confirmations, Validate, ValidateLayer, Validated};
use bypass::BypassLayer;

pub use bypass::Bypass;
#[cfg(feature = "sqlite")]
pub use folder::FolderError;

/// Who may use which tool, what each server may do, what was confirmed, and the record of it all; a cheap handle.
///
/// One of it serves any number of servers and callers.
/// Its [layer](Self::layer) stands before each server, or before the tools of one's own.
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
/// // Nobody granted anything.
/// let refused = client.request("tools/call", r#"{"name":"wipe"}"#).await.unwrap_err();
/// assert_eq!(refused.code(), ErrorCode::ACCESS_DENIED);
///
/// // Access alone does not confirm a dangerous call, and nobody can be asked here.
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
    validators: Vec<(Validator, Arc<dyn Validate>)>,
    changed: Arc<watch::Sender<u64>>,
}

/// Builds a [`Governance`]; without a word it keeps everything in memory and asks the callers that offer elicitation
/// and whom somebody marked as interactive: nobody.
#[must_use = "nothing is governed until it is built"]
pub struct GovernanceBuilder {
    store: Arc<dyn Store>,
    audit: Arc<dyn AuditSink>,
    log: Option<AuditLog>,
    recording: AuditConfig,
    policies: Policies,
    approver: Arc<dyn Approver>,
    inbox: Option<InboxConfig>,
    validators: Vec<(Validator, Arc<dyn Validate>)>,
    #[cfg(feature = "sqlite")]
    logging: Option<folder::Logging>,
}

impl GovernanceBuilder {
    /// Keeps grants, permissions and pins in this store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// Records in this sink.
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.audit = sink;
        self.log = None;
        self
    }

    /// Records in this log, with digests of arguments under its key where it keeps one.
    pub fn log(mut self, log: AuditLog) -> Self {
        self.audit = Arc::new(log.clone());
        self.log = Some(log);
        self
    }

    /// Sets what is recorded of the arguments of calls.
    pub fn recording(mut self, config: AuditConfig) -> Self {
        self.recording = config;
        self
    }

    /// Sets what the operator configured for the servers.
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Asks this one where the rules leave it to somebody.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Arc::new(approver);
        self
    }

    /// Keeps questions that the [approver](Self::approver) can ask nobody about until an operator answers them; see
    /// [`Inbox`].
    pub fn inbox(mut self, config: InboxConfig) -> Self {
        self.inbox = Some(config);
        self
    }

    /// Provides the check behind a validator's name, in place of one of that name.
    pub fn validator(mut self, name: Validator, check: impl Validate + 'static) -> Self {
        self.validators.push((name, Arc::new(check)));
        self
    }

    /// Puts the books together; what the store holds is read by [`Governance::open`].
    #[must_use]
    pub fn build(self) -> Governance {
        let Self {
            store, audit, log, recording, policies, mut approver, inbox, validators, ..
        } = self;
        let key = log.as_ref().and_then(AuditLog::digest_key).filter(|_| !recording.has_key());
        let recording = match key {
            Some(key) => recording.key(key.clone()),
            None => recording,
        };
        let kept = || (Arc::clone(&store), Arc::clone(&audit), policies.clone());
        let (one, two, three) = kept();
        let access = Access::new(one, two, three);
        let inbox = inbox.map(|config| {
            let (store, audit, _) = kept();
            Inbox::configured(store, audit, config)
        });
        if let Some(inbox) = &inbox {
            approver = Arc::new(First::of(approver).then(inbox.clone()));
        }
        let (one, two, three) = kept();
        let definitions = Definitions::new(one, two, three);
        let (one, two, three) = kept();
        let permissions = Permissions::new(one, two, three, Some(Arc::clone(&approver)));
        let confirmations = Confirmations::new(policies.clone(), approver)
            .audit(Arc::clone(&audit))
            .named(access.clone())
            .named(permissions.clone());
        let books = Books {
            store,
            audit,
            log,
            recording,
            policies,
            access,
            definitions,
            permissions,
            inbox,
            confirmations,
            validators,
            changed: Arc::new(watch::Sender::new(0)),
        };
        let governance = Governance(Arc::new(books));
        let changed = Arc::clone(&governance.0.changed);
        governance.on_change(move || changed.send_modify(|count| *count = count.wrapping_add(1)));
        governance
    }
}

impl Governance {
    /// Begins to put one together.
    pub fn builder() -> GovernanceBuilder {
        GovernanceBuilder {
            store: Arc::new(MemoryStore::new()),
            audit: Arc::new(MemoryAudit::new()),
            log: None,
            recording: AuditConfig::new(),
            policies: Policies::default(),
            approver: Arc::new(Elicit::default()),
            inbox: None,
            validators: Vec::new(),
            #[cfg(feature = "sqlite")]
            logging: None,
        }
    }

    /// Reads what the store holds and follows it from then on.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future leaves some of it unread.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.access.open().await?;
        self.0.permissions.open().await?;
        if let Some(inbox) = &self.0.inbox {
            inbox.open().await?;
        }
        self.0.definitions.open().await
    }

    /// Who may use which tool.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// What each server may do.
    #[must_use]
    pub fn permissions(&self) -> &Permissions {
        &self.0.permissions
    }

    /// What each tool is.
    #[must_use]
    pub fn definitions(&self) -> &Definitions {
        &self.0.definitions
    }

    /// Where questions wait for an operator; none unless it was [asked for](GovernanceBuilder::inbox).
    #[must_use]
    pub fn inbox(&self) -> Option<&Inbox> {
        self.0.inbox.as_ref()
    }

    /// What the operator configured; [`set_policy`](Self::set_policy) changes it on the record.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.0.policies
    }

    /// Where it is recorded.
    #[must_use]
    pub fn audit(&self) -> &Arc<dyn AuditSink> {
        &self.0.audit
    }

    /// What keeps the state.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The audit log, to query, flush and forward it; none where another sink records.
    #[must_use]
    pub fn log(&self) -> Option<&AuditLog> {
        self.0.log.as_ref()
    }

    /// Changes the policy of a server, in force from the next message on.
    ///
    /// # Errors
    /// 1000 unless an operator does it; otherwise the change cannot be recorded, and was not made.
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
            .before(&*self.0.policies.of(Some(server)))
            .after(&policy)
            .justification(justification);
        self.0.audit.record(event.into()).await.map_err(Refusal::Unaudited)?;
        self.0.policies.set(server.clone(), policy);
        Ok(())
    }

    /// Takes away the policy of a server, which has the general one from the next message on.
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
            .before(&*self.0.policies.of(Some(server)))
            .after(&*self.0.policies.of(None))
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

    /// Refuses those who may not change anything, and records that they tried.
    async fn admit(
        &self,
        by: &Principal,
        server: Option<&ServerId>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        let asker = Asker::alone(by);
        match asker.may(Need::Write, method, About::All) {
            Ok(()) => Ok(()),
            Err(refusal) => Err(asker.refused(&*self.0.audit, server, method, refusal).await),
        }
    }

    /// Refuses a call of a method that is for operators, before anything of it is looked at; that it was tried is
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

    /// The same where the params were taken apart: `server` is the one they name.
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
        let asker = Asker::of(cx);
        let Err(refusal) = asker.may(does.need(), method, About::All) else { return Ok(()) };
        Err(asker.refused(&*self.0.audit, server.as_ref(), method, refusal).await)
    }

    /// Whether an operator calls whose credentials permit this.
    #[must_use]
    pub fn is_operator(&self, cx: &Context, does: Administration) -> bool {
        Asker::of(cx).may(does.need(), "", About::All).is_ok()
    }

    /// The methods by which operators and agents ask and change: `mgp/access/*` (MGP §5.4).
    #[must_use]
    pub fn router(&self) -> Router {
        self.0.access.router()
    }

    /// All layers, before a server whose tools are somebody else's.
    pub fn layer(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), tools: Whose::Foreign }
    }

    /// All layers, before tools of one's own, which are what they are: nothing is pinned.
    ///
    /// What the tools need is known once they were [learned](Definitions::learn) under the same id.
    pub fn own(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), tools: Whose::Own }
    }

    /// Moves after each change that may change what somebody sees or may call.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Runs after each change that may change what somebody sees or may call; it must not wait.
    pub fn on_change<L: Into<Listening>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        let again = Arc::clone(&hook);
        self.0.access.on_change(move || again());
        self.0.definitions.on_change(move || hook());
    }
}

impl fmt::Debug for Governance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governance").field("policies", &self.0.policies).finish_non_exhaustive()
    }
}

impl fmt::Debug for GovernanceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GovernanceBuilder")
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

/// What a method for operators does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Administration {
    /// It tells something.
    Reads,
    /// It changes something.
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

/// Layer of [`Governance::layer`] and [`Governance::own`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GovernLayer {
    governance: Governance,
    server: ServerId,
    tools: Whose,
}

/// A service behind all layers.
pub type Governed<S> = Audit<KernelTools<Gated<Bypass<S, AllGates<S>>>>>;

/// A service behind the gates that look at what a tool is.
type AllGates<S> = Definition<PermissionGate<Validated<Confirm<StillGate<S>>>>>;

impl<S: MgpService> Layer<S> for GovernLayer {
    type Service = Governed<S>;

    fn layer(&self, inner: S) -> Governed<S> {
        let books = &*self.governance.0;
        let server = || self.server.clone();
        let tools = || books.definitions.clone();
        let gates = ServiceBuilder::new()
            // The gates below need to know the tool, and it must see lists as the server wrote them.
            .layer(self.pinning())
            // The server is not contacted without the permissions the tool needs.
            .layer(PermissionLayer::new(books.permissions.clone(), tools()).server(server()))
            // Nobody is asked to confirm what is blocked anyway.
            .layer(self.validating())
            // A person is asked last.
            .layer(ConfirmLayer::new(books.confirmations.clone(), tools()).server(server()))
            // A gate above may have waited long; what it passed on before may have been taken back since.
            .layer(self.still());
        ServiceBuilder::new()
            // Whatever becomes of a call, a record is written; its risk is known before any gate has seen it.
            .layer(self.recording())
            // The methods of operators under the names of tools are answered here: nobody grants access to them.
            .layer(KernelToolsLayer::new(self.kernel()))
            // Who may not use a tool learns nothing of it.
            .layer(AccessLayer::new(books.access.clone()).server(server()))
            // Most tools need nothing: their calls need not go through each of the other gates.
            .layer(BypassLayer { gates, definitions: tools(), server: server(), tools: self.tools })
            .service(inner)
    }
}

impl GovernLayer {
    /// Decides anew about calls that [waited](mgp_types::service::Waited) below this layer: right before they run.
    ///
    /// The layer itself does so for calls that wait within it; whoever lets them wait further in asks this again.
    ///
    /// # Errors
    /// As the gates of the layer, once the call may not run any more.
    pub fn recheck(&self) -> impl Fn(&Call) -> Result<(), RpcError> + Send + Sync + use<> {
        let still = self.still();
        move |call| still.check(call)
    }

    fn still(&self) -> Still {
        let books = &*self.governance.0;
        Still {
            access: books.access.clone(),
            definitions: books.definitions.clone(),
            permissions: books.permissions.clone(),
            checks: self.validating(),
            server: self.server.clone(),
            are_pinned: self.tools == Whose::Foreign,
        }
    }

    fn recording(&self) -> AuditLayer {
        let books = &*self.governance.0;
        let (tools, own) = (books.definitions.clone(), self.server.clone());
        AuditLayer::new(Arc::clone(&books.audit))
            .config(&books.recording)
            .server(self.server.clone())
            .risk(move |call| {
                let tool = call.tool()?;
                Some(tools.assessment(Some(&own), tool.name).effective_risk.clone())
            })
    }

    /// The names of kernel tools belong to whoever serves the tools; another server has its own.
    fn kernel(&self) -> Router {
        match self.tools {
            Whose::Own => self.governance.router(),
            Whose::Foreign => Router::new(),
        }
    }

    fn pinning(&self) -> DefinitionLayer {
        let definitions = self.governance.0.definitions.clone();
        let layer = match self.tools {
            Whose::Own => DefinitionLayer::own(definitions),
            Whose::Foreign => DefinitionLayer::new(definitions),
        };
        layer.server(self.server.clone())
    }

    fn validating(&self) -> ValidateLayer {
        let books = &*self.governance.0;
        let layer = ValidateLayer::new(books.definitions.clone()).server(self.server.clone());
        let checks = books.validators.iter().cloned();
        checks.fold(layer, |layer, (name, check)| layer.validator(name, check))
    }
}
