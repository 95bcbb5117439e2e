//! All of governance in one piece: the books that belong together, and their layers in the order that works (MGP §3–§6).
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mgp::Validator;
use mgp_types::service::{AuditSink, MemoryAudit, MgpService, Principal, Router, ServerId};
use mgp_types::store::{MemoryStore, Store, StoreError};
use tokio::sync::watch;
use tower::ServiceBuilder;
use tower_layer::Layer;

use crate::access::{Access, AccessLayer, Gated, KernelTools, KernelToolsLayer, NotOperator};
use crate::approval::{Approver, Elicit};
use crate::audit::{Audit, AuditConfig, AuditLayer, Event};
use crate::definition::{Definition, DefinitionLayer, Definitions};
use crate::error::Refusal;
use crate::permission::{PermissionGate, PermissionLayer, Permissions};
use crate::policy::{Policies, ServerPolicy};
use crate::tool::{Confirm, ConfirmLayer, Confirmations, Validate, ValidateLayer, Validated};

/// Who may use which tool, what each server may do, what was confirmed, and the record of it all; a cheap handle.
///
/// One of it serves any number of servers and callers.
/// Its [layer](Self::layer) stands before each server, or before the tools of one's own.
///
/// ```
/// use mgp_security::Governance;
/// use mgp_types::mgp::{AccessGrantParams, AccessPermission, EntryType};
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
/// let grant = AccessGrantParams::new(EntryType::ServerGrant, "local", "disk", AccessPermission::Allow);
/// governance.access().grant(&ann, grant).await.unwrap();
/// let refused = client.request("tools/call", r#"{"name":"wipe"}"#).await.unwrap_err();
/// assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
/// # });
/// ```
#[derive(Clone)]
pub struct Governance(Arc<Books>);

struct Books {
    audit: Arc<dyn AuditSink>,
    recording: AuditConfig,
    policies: Policies,
    access: Access,
    definitions: Definitions,
    permissions: Permissions,
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
    recording: AuditConfig,
    policies: Policies,
    approver: Arc<dyn Approver>,
    validators: Vec<(Validator, Arc<dyn Validate>)>,
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

    /// Provides the check behind a validator's name, in place of one of that name.
    pub fn validator(mut self, name: Validator, check: impl Validate + 'static) -> Self {
        self.validators.push((name, Arc::new(check)));
        self
    }

    /// Puts the books together; what the store holds is read by [`Governance::open`].
    #[must_use]
    pub fn build(self) -> Governance {
        let Self { store, audit, recording, policies, approver, validators } = self;
        let kept = || (Arc::clone(&store), Arc::clone(&audit), policies.clone());
        let (one, two, three) = kept();
        let access = Access::new(one, two, three);
        let (one, two, three) = kept();
        let definitions = Definitions::new(one, two, three);
        let (one, two, three) = kept();
        let permissions = Permissions::new(one, two, three, Some(Arc::clone(&approver)));
        let confirmations = Confirmations::new(policies.clone(), approver)
            .audit(Arc::clone(&audit))
            .named(access.clone())
            .named(permissions.clone());
        let books = Books {
            audit,
            recording,
            policies,
            access,
            definitions,
            permissions,
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
            recording: AuditConfig::new(),
            policies: Policies::default(),
            approver: Arc::new(Elicit::default()),
            validators: Vec::new(),
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
        NotOperator::unless(by, "set_policy").map_err(Refusal::from)?;
        let event = Event::policy_changed(by, Some(server))
            .before(&*self.0.policies.of(Some(server)))
            .after(&policy)
            .justification(justification);
        self.0.audit.record(event.into()).await.map_err(Refusal::Unaudited)?;
        self.0.policies.set(server.clone(), policy);
        Ok(())
    }

    /// The methods by which operators and agents ask and change: `mgp/access/*` (MGP §5.4).
    pub fn router(&self) -> Router {
        self.0.access.router()
    }

    /// All layers, before a server whose tools are somebody else's.
    pub fn layer(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), tools: Tools::Foreign }
    }

    /// All layers, before tools of one's own, which are what they are: nothing is pinned.
    ///
    /// What the tools need is known once they were [learned](Definitions::learn) under the same id.
    pub fn own(&self, server: impl Into<ServerId>) -> GovernLayer {
        GovernLayer { governance: self.clone(), server: server.into(), tools: Tools::Own }
    }

    /// Moves after each change that may change what somebody sees or may call.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Runs after each change that may change what somebody sees or may call; it must not wait.
    pub fn on_change(&self, hook: impl Fn() + Send + Sync + 'static) {
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

/// Layer of [`Governance::layer`] and [`Governance::own`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GovernLayer {
    governance: Governance,
    server: ServerId,
    tools: Tools,
}

/// Whose tools are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tools {
    Own,
    Foreign,
}

/// A service behind all layers.
pub type Governed<S> = Audit<KernelTools<Gated<Definition<PermissionGate<Validated<Confirm<S>>>>>>>;

impl<S: MgpService> Layer<S> for GovernLayer {
    type Service = Governed<S>;

    fn layer(&self, inner: S) -> Governed<S> {
        let books = &*self.governance.0;
        let server = || self.server.clone();
        let tools = || books.definitions.clone();
        ServiceBuilder::new()
            // Whatever becomes of a call, a record is written; its risk is known before any gate has seen it.
            .layer(self.recording())
            // The methods of operators under the names of tools are answered here: nobody grants access to them.
            .layer(KernelToolsLayer::new(self.kernel()))
            // Who may not use a tool learns nothing of it.
            .layer(AccessLayer::new(books.access.clone()).server(server()))
            // The gates below need to know the tool, and it must see lists as the server wrote them.
            .layer(self.pinning())
            // The server is not contacted without the permissions the tool needs.
            .layer(PermissionLayer::new(books.permissions.clone(), tools()).server(server()))
            // Nobody is asked to confirm what is blocked anyway.
            .layer(self.validating())
            // A person is asked last.
            .layer(ConfirmLayer::new(books.confirmations.clone(), tools()).server(server()))
            .service(inner)
    }
}

impl GovernLayer {
    fn recording(&self) -> AuditLayer {
        let books = &*self.governance.0;
        let (tools, own) = (books.definitions.clone(), self.server.clone());
        AuditLayer::new(Arc::clone(&books.audit))
            .config(&books.recording)
            .server(self.server.clone())
            .risk(move |call| {
                let server = call.cx().server.as_ref().unwrap_or(&own);
                let tool = call.tool()?;
                Some(tools.assessment(Some(server), tool.name).effective_risk.clone())
            })
    }

    /// The names of kernel tools belong to whoever serves the tools; another server has its own.
    fn kernel(&self) -> Router {
        match self.tools {
            Tools::Own => self.governance.router(),
            Tools::Foreign => Router::new(),
        }
    }

    /// Where the server has no name, its tools pass: they are one's own.
    fn pinning(&self) -> DefinitionLayer {
        let layer = DefinitionLayer::new(self.governance.0.definitions.clone());
        match self.tools {
            Tools::Own => layer,
            Tools::Foreign => layer.server(self.server.clone()),
        }
    }

    fn validating(&self) -> ValidateLayer {
        let books = &*self.governance.0;
        let layer = ValidateLayer::new(books.definitions.clone()).server(self.server.clone());
        let checks = books.validators.iter().cloned();
        checks.fold(layer, |layer, (name, check)| layer.validator(name, check))
    }
}
