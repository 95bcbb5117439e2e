//! Builds a kernel: loads its configuration, opens its stores and logs, and adds its servers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_contract::LockFile;
use mgp_discovery::{
    CodeJudge, Config, Expander, GovernanceConfig, KernelConfig, LoadedConfig, RegistrationConfig,
    SecretFile, Sources, Trust,
};
use mgp_lifecycle::TaskTables;
use mgp_security::{
    ElicitApprover, EventSource, Governance, GovernanceBuilder, InboxConfig, Policies, Scopes,
    StandardValidators,
};
use mgp_server_sdk::{ChangeNotifier, Server};
use mgp_toolindex::{SessionLimits, Sessions, ToolIndex};
use mgp_types::service::{BoxFuture, MemoryAudit, Principal, ServerId};
use mgp_types::store::{Db, MemoryStore, Store};

use super::active_config::{
    ActiveConfig, ConfigOrigin, InteractiveAgents, SharedConfig, audit_config, context_plan,
    log_config,
};
use super::audit_sinks::AuditSinks;
use super::bounds::CallBounds;
use super::call_proposals::{CallProposals, LiveKeys};
use super::caller_view::CallerView;
use super::callers::Callers;
use super::dispatch::{Dispatcher, MetaToolConfig};
use super::error::KernelError;
use super::events::{DeliveryContext, KernelEvents, OpenDecisions, follow_audit};
use super::fleet::{
    self, ChangedLists, CreateServer, FleetContext, KnownServers, ResourceSubscriptions,
    StaleLists, StartPermits, StoppedOwners, load_stored_lists,
};
use super::handle::{Kernel, KernelParts};
use super::kernel_hops;
use super::lock::{ActiveLock, check_definition};
use super::lock_reload;
use super::logins::Logins;
use super::operator_questions::ServerQuestions;
use super::policy::policy;
use super::process_info::ProcessInfo;
use super::proposals::ProposalState;
use super::references::References;
use super::registration::{RegisteredServers, named_paths};
use super::reload;
use super::script_judge::StrictJudge;
use super::url_sink::UrlSink;
use super::{search, telemetry};

/// The folder for the scripts of servers that agents register, relative to the state folder.
const SCRIPTS_FOLDER: &str = "scripts";

/// A builder of a [`Kernel`].
#[must_use = "nothing runs until it is built"]
pub struct KernelBuilder {
    config: Config,
    expander: Expander,
    local: HashMap<ServerId, CreateServer>,
    sources: Option<Sources>,
    interactive: InteractiveAgents,
    judge: Arc<dyn CodeJudge>,
    registration: RegistrationConfig,
    logins: Logins,
    /// A handle of the active configuration, which the kernel fills when it is built.
    shared: SharedConfig,
    lock: Option<LockFile>,
    /// The path of the lock file; the kernel reads the file again when it changes.
    lock_path: Option<PathBuf>,
    live_keys: Option<LiveKeys>,
}

/// The stores that are opened before a kernel is assembled: the audit log with its sinks and, for a kernel whose state
/// is in a folder, the database.
#[derive(Default)]
struct KernelStores {
    audit: Option<Arc<dyn EventSource>>,
    db: Option<Db>,
    sinks: AuditSinks,
    /// The reason why the configured sentence encoder is not used.
    encoder_failure: Option<String>,
}

impl Default for KernelBuilder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            expander: Expander::from_env(),
            local: HashMap::new(),
            sources: None,
            interactive: InteractiveAgents::default(),
            judge: Arc::new(StrictJudge),
            registration: RegistrationConfig::default(),
            logins: Logins::default(),
            shared: SharedConfig::default(),
            lock: None,
            lock_path: None,
            live_keys: None,
        }
    }
}

mgp_types::opaque_debug!(KernelBuilder { config });

impl Kernel {
    /// Returns a builder with the default configuration and no servers.
    pub fn builder() -> KernelBuilder {
        KernelBuilder::default()
    }
}

impl KernelBuilder {
    /// Sets the configuration, which names the servers to run. [Local](Self::local) servers that were added before
    /// are kept.
    pub fn config(mut self, config: Config) -> Self {
        let before = std::mem::replace(&mut self.config, config);
        let local = |server: &mgp_discovery::ServerConfig| self.local.contains_key(&server.id);
        self.config.servers.retain(|server| !local(server));
        self.config.servers.extend(before.servers.into_iter().filter(local));
        self
    }

    /// Sets the configuration files, which name the servers to run. Each change of a file is applied as by
    /// [`Kernel::reload`], unless the configuration requires operators to prove their presence.
    ///
    /// The configuration of a project is used only after its approval; approvals are stored with the rest of the
    /// state.
    pub fn sources(mut self, sources: Sources) -> Self {
        self.sources = Some(sources);
        self
    }

    /// Sets the judge of the code of sandboxed servers that agents register. Default: the level `strict` of
    /// [`StandardValidators::check_script`].
    pub fn judge(mut self, judge: Arc<dyn CodeJudge>) -> Self {
        self.judge = judge;
        self
    }

    /// Sets the lock file. Configured servers start only if they match it, and the kernel refuses tools whose
    /// definitions differ from it.
    pub fn locked(mut self, lock: LockFile) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Sets the path of the [lock file](Self::locked). The running kernel reads the file again when it changes, and
    /// restarts the servers whose entries changed. If the configuration requires operators to prove their presence, the
    /// kernel reads the file again only at [`Kernel::reload`].
    pub fn lock_path(mut self, file: impl Into<PathBuf>) -> Self {
        self.lock_path = Some(file.into());
        self
    }

    /// Sets a function that returns whether the API key with this id is valid now. The kernel calls it before it rolls
    /// back a transaction that a caller with a key began. Without this function, such a rollback waits for an operator.
    pub fn live_keys(
        mut self,
        is_live: impl Fn(String) -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) -> Self {
        self.live_keys = Some(Box::new(is_live));
        self
    }

    /// Sets the limits for servers that agents register at run time.
    pub fn registration(mut self, config: RegistrationConfig) -> Self {
        self.registration = config;
        self
    }

    /// Adds a server that runs in this process under the same rules as any other server: callers need access, and
    /// tools that declare no risk a confirmation. `make` creates the server for each start.
    ///
    /// ```
    /// use mgp_kernel::Kernel;
    /// use mgp_server_sdk::{Server, Tool};
    ///
    /// let clock = || Server::new("clock", "1.0").tool(Tool::new("now", "The time", || async { "noon" }));
    /// let builder = Kernel::builder().local("clock", clock);
    /// # drop(builder);
    /// ```
    pub fn local(
        self,
        id: impl Into<ServerId>,
        make: impl Fn() -> Server + Send + Sync + 'static,
    ) -> Self {
        self.local_with(id, GovernanceConfig::default(), make)
    }

    /// Adds a server that runs in this process, with settings as in the section `[servers.mgp]` of a configuration
    /// file.
    pub fn local_with(
        mut self,
        id: impl Into<ServerId>,
        mgp: GovernanceConfig,
        make: impl Fn() -> Server + Send + Sync + 'static,
    ) -> Self {
        let id = id.into();
        self.config.servers.retain(|server| server.id != id);
        self.config.servers.push(mgp_discovery::ServerConfig::in_process(id.clone(), mgp));
        self.local.insert(id, Arc::new(make));
        self
    }

    /// Builds a kernel that keeps its state only in memory: the state is lost when the kernel is dropped.
    ///
    /// # Errors
    /// [`KernelError`] if the kernel cannot be built.
    ///
    /// # Cancel safety
    /// Dropping the future stops the servers that were started.
    pub async fn build(mut self) -> Result<Kernel, KernelError> {
        kernel_hops::check_depth()?;
        let audit = MemoryAudit::new();
        let governance = self.governance().audit(Arc::new(audit.clone())).build();
        governance.open().await?;
        let loaded = self.load(&governance).await?;
        let stores = KernelStores { audit: Some(Arc::new(audit)), ..KernelStores::default() };
        // Box the future, so that the futures of the code that calls this method remain small.
        Box::pin(self.assemble(governance, ToolIndex::new(), loaded, stores)).await
    }

    /// Builds a kernel that keeps its state in a folder; only the folder's owner has access to it.
    ///
    /// The state includes grants, permissions, pinned definitions, the tool index and the audit log.
    ///
    /// # Errors
    /// [`KernelError`] if the kernel cannot be built.
    ///
    /// # Cancel safety
    /// Dropping the future stops the servers that were started, as with [`build`](Self::build).
    pub async fn in_folder(mut self, folder: impl AsRef<Path>) -> Result<Kernel, KernelError> {
        kernel_hops::check_depth()?;
        if let Some(sources) = &self.sources {
            // Only the user's own file configures the log. So read the files here as if no project's file were
            // approved.
            let no_projects = Trust::new(Arc::new(MemoryStore::new()));
            self.config.kernel = sources.load(&no_projects).await?.config.kernel;
        }
        let folder = folder.as_ref();
        if self.registration.scripts.is_none() {
            // A script runs in another working directory, so its path must be absolute.
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
            self.registration.scripts = Some(folder.join(SCRIPTS_FOLDER));
        }
        self.registration.secrets = Some(SecretFile::in_folder(folder));
        if let Some(own) = self.sources.as_ref().and_then(Sources::own_file) {
            self.registration.config_file = Some(own.to_owned());
        }
        self.registration.closed.extend(named_paths(&self.config.kernel, folder));
        self.registration.closed.extend(self.lock_path.clone());
        self.logins = Logins::in_folder(folder);
        self.expander = self.expander.secrets(SecretFile::in_folder(folder));
        let search = self.config.kernel.search.clone();
        let index =
            move |db: Db| async move { (search::open(&search, folder, db.clone()).await, db) };
        let (governance, (index, db)) = self.governance().in_folder_beside(folder, index).await?;
        let (index, encoder_failure) = index?;
        let proxy = crate::logins::proxy(&self.config.kernel);
        let sinks = &self.config.kernel.audit.sinks;
        let sinks = AuditSinks::start(sinks, &governance, &self.expander, &proxy, folder)?;
        let loaded = self.load(&governance).await?;
        let audit = governance.log().cloned().map(|log| Arc::new(log) as Arc<dyn EventSource>);
        let stores = KernelStores { audit, db: Some(db), sinks, encoder_failure };
        Box::pin(self.assemble(governance, index, loaded, stores)).await
    }

    /// Reads the configuration files, if any; the stored approvals decide which project files are used.
    async fn load(&mut self, governance: &Governance) -> Result<Option<LoadedConfig>, KernelError> {
        let Some(sources) = &self.sources else { return Ok(None) };
        let loaded = sources.load(&Trust::new(Arc::clone(governance.store()))).await?;
        reload::log_findings(&loaded);
        let config = loaded.config.clone();
        let builder = std::mem::take(self);
        *self = builder.config(config);
        let policies = governance.policies();
        for server in &self.config.servers {
            policies.set(server.id.clone(), policy(&self.config.kernel, server));
        }
        Ok(Some(loaded))
    }

    fn governance(&self) -> GovernanceBuilder {
        let policies = Policies::default();
        for server in &self.config.servers {
            policies.set(server.id.clone(), policy(&self.config.kernel, server));
        }
        let (interactive, shared) = (self.interactive.clone(), self.shared.clone());
        let has_person = move |principal: &Principal| interactive.contains(principal);
        let may_confirm = has_person.clone();
        let audit = &self.config.kernel.audit;
        let mut inbox = InboxConfig::default();
        inbox.wait = self.config.kernel.approval_timeout;
        Governance::builder()
            .policies(policies)
            .approver(
                ElicitApprover::new(has_person)
                    .wait_by(move || shared.config().kernel.form_timeout),
            )
            .confirmed_by_caller(may_confirm)
            .inbox(inbox)
            .standard_validators(&StandardValidators::new())
            .recording(audit_config(audit))
            .logging(log_config(audit.clone()))
    }

    async fn assemble(
        self,
        governance: Governance,
        index: ToolIndex,
        loaded: Option<LoadedConfig>,
        KernelStores { audit, db, sinks, encoder_failure }: KernelStores,
    ) -> Result<Kernel, KernelError> {
        let Self { config, expander, local, sources, interactive, judge, .. } = self;
        let (registration, logins, shared) = (self.registration, self.logins, self.shared);
        let collector = collector(&config.kernel, &expander)?;
        let sessions = Sessions::with_plan(context_plan(&config), SessionLimits::default());
        set_groups(&governance, &config);
        let (servers, meta_tools) = (config.servers.clone(), MetaToolConfig::new(&config));
        let (view, store) = (CallerView::new(&governance), Arc::clone(governance.store()));
        let origin = sources.map(|sources| origin(sources, &store));
        let calls = CallProposals::open(&store, &config, self.live_keys).await?;
        let events = start_events(&governance, &view, &calls, db, &expander, &config).await?;
        shared.set(config, loaded.iter().flat_map(reserved_ids));
        let context = FleetContext {
            events,
            config: shared.clone(),
            calls,
            bounds: CallBounds::load(&governance, &shared.config()).await?,
            lock: restrict_definitions(&governance, self.lock, self.lock_path),
            scopes: open_scopes(&governance, &shared).await?,
            governance,
            index,
            expander,
            logins,
            stale: StaleLists::default(),
            known: KnownServers::load(Arc::clone(&store)).await?,
            start_permits: StartPermits::new(),
            local: Arc::new(local),
            notifications: ChangeNotifier::new(),
            changed_lists: ChangedLists::default(),
            callers: Callers::default(),
            subscriptions: ResourceSubscriptions::default(),
            tasks: TaskTables::default(),
            stopped: StoppedOwners::default(),
            references: References::start(&shared.config().kernel).await?,
            questions: ServerQuestions::default(),
            proposals: ProposalState::load(&shared.config().kernel).await,
        };
        let fleet = fleet::start(context, load_stored_lists(&store).await?);
        add_servers(&fleet, servers)?;
        let servers = RegisteredServers::new(fleet.clone(), shared.clone(), sessions.clone());
        let registrations = crate::registration::registrations(servers, &view, judge, registration);
        registrations.open().await?;
        fleet.forget_others(&registrations.approved()).await?;
        let dispatcher = Dispatcher::new(fleet.clone(), view, sessions, meta_tools, registrations);
        let config = ActiveConfig::new(shared, interactive, origin.clone(), encoder_failure);
        let process = ProcessInfo::default();
        let parts = KernelParts { fleet, dispatcher, process, config, audit, sinks };
        let kernel = start_tasks(parts, collector);
        if let (Some(origin), Some(loaded)) = (origin, loaded) {
            reload::follow_files(&kernel, origin, &loaded);
        }
        Ok(kernel)
    }
}

/// Returns the ids of the configured servers that do not run, because their entries are invalid or switched off. No
/// other server can use these ids.
fn reserved_ids(loaded: &LoadedConfig) -> impl Iterator<Item = String> {
    loaded.broken.iter().chain(&loaded.disabled).cloned()
}

/// Returns the sources of the configuration, together with the stored approvals of project files.
fn origin(sources: Sources, store: &Arc<dyn Store>) -> ConfigOrigin {
    ConfigOrigin { sources, trust: Trust::new(Arc::clone(store)) }
}

fn add_servers(
    fleet: &fleet::Fleet,
    servers: Vec<mgp_discovery::ServerConfig>,
) -> Result<(), KernelError> {
    for server in servers {
        let id = server.id.as_str().to_owned();
        fleet.add(server).map_err(|why| KernelError::Server { server: id, why })?;
    }
    Ok(())
}

fn start_tasks(parts: KernelParts, collector: Option<UrlSink>) -> Kernel {
    let kernel = Kernel(Arc::new(parts));
    tokio::spawn(follow_audit(Arc::downgrade(&kernel.0)));
    telemetry::start(&kernel, collector);
    kernel.start_transactions();
    lock_reload::follow_file(&kernel);
    kernel
}

/// Returns the collector that receives telemetry, if one is configured.
fn collector(config: &KernelConfig, expander: &Expander) -> Result<Option<UrlSink>, KernelError> {
    let Some(url) = &config.telemetry.otlp else { return Ok(None) };
    let proxy = crate::logins::proxy(config);
    let headers = &config.telemetry.headers.0;
    let timeout = telemetry::EXPORT_TIMEOUT;
    let sink = UrlSink::new(url, headers, expander, &proxy, Path::new(""), timeout);
    sink.map(Some).map_err(KernelError::Telemetry)
}

/// If there is a lock file, makes the kernel refuse tools whose definitions differ from it, and returns the lock file.
fn restrict_definitions(
    governance: &Governance,
    lock: Option<LockFile>,
    path: Option<PathBuf>,
) -> Option<ActiveLock> {
    let lock = ActiveLock::new(lock?, path);
    let own = lock.clone();
    let check = move |server: &ServerId, raw: &_| check_definition(&own.current(), server, raw);
    governance.definitions().restrict(check);
    Some(lock)
}

/// Opens the stored sessions that limit callers to scopes. The current configuration determines which scopes an agent
/// can obtain.
async fn open_scopes(
    governance: &Governance,
    config: &SharedConfig,
) -> Result<Scopes, KernelError> {
    let (config, store) = (config.clone(), Arc::clone(governance.store()));
    let audit = Arc::clone(governance.audit());
    let scopes = Scopes::new(store, audit, move |principal| config.scopes(principal));
    scopes.open().await?;
    Ok(scopes)
}

fn set_groups(governance: &Governance, config: &Config) {
    let tenant = Principal::local().tenant().clone();
    for (name, agent) in config.agents.iter().filter(|(_, agent)| !agent.groups.is_empty()) {
        governance.access().groups().set(tenant.as_str(), name, agent.groups.iter().cloned());
    }
}

/// Creates the handle of a kernel's events. A kernel in a folder, which has a database, also gets durable
/// subscriptions, webhooks and messages to people.
async fn start_events(
    governance: &Governance,
    view: &CallerView,
    calls: &CallProposals,
    db: Option<Db>,
    expander: &Expander,
    config: &Config,
) -> Result<KernelEvents, KernelError> {
    let events = KernelEvents::new(governance, view);
    if let Some(db) = db {
        events.hub().keep_in_db(db).await?;
        let open = OpenDecisions {
            definitions: Some(governance.definitions().clone()),
            transactions: calls.transactions.clone(),
        };
        events.deliveries.enable(DeliveryContext::new(governance.store(), expander, open));
        events.apply_deliveries(&config.kernel).await;
    }
    Ok(events)
}
