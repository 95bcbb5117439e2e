//! Puts a kernel together.
//!
//! Applies to: both.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{
    Config, Expander, Judge, Loaded, RegistrationConfig, ServerMgp, Sources, Trust,
};
use mgp_security::{Elicit, Governance, GovernanceBuilder, InboxConfig, Policies};
use mgp_server_sdk::{Herald, Server};
use mgp_toolindex::{SessionLimits, Sessions, ToolIndex};
use mgp_types::service::{Principal, ServerId};
use mgp_types::store::MemoryStore;
use tokio::sync::Semaphore;

use super::callers::Callers;
use super::current::{Current, InForce, Interactive, Origin, logging, plan, recording};
use super::error::KernelError;
use super::fleet::CreateServer;
use super::fleet::{Fleet, Ground, Met, News, manifests};
use super::handle::{Inner, Kernel};
use super::hops;
use super::host::Host;
use super::policy::policy;
use super::registered::{self, Runner};
use super::reload;
use super::seen::Seen;
use super::switch::{Offers, Switch};
use super::watch::Watching;

/// How many servers start at once.
const STARTS: usize = 8;

/// The folder of scripts that came with registrations, below that of the state.
const SCRIPTS: &str = "scripts";

/// Puts a [`Kernel`] together.
#[must_use = "nothing runs until it is built"]
pub struct KernelBuilder {
    config: Config,
    expander: Expander,
    within: HashMap<ServerId, CreateServer>,
    sources: Option<Sources>,
    interactive: Interactive,
    judge: Option<Arc<dyn Judge>>,
    registering: RegistrationConfig,
}

impl Default for KernelBuilder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            expander: Expander::of_process(),
            within: HashMap::new(),
            sources: None,
            interactive: Interactive::default(),
            judge: None,
            registering: RegistrationConfig::default(),
        }
    }
}

impl KernelBuilder {
    /// Runs the servers of this configuration.
    pub fn config(mut self, config: Config) -> Self {
        let local = std::mem::replace(&mut self.config, config).servers.into_iter();
        let local = local.filter(|server| self.within.contains_key(&server.id));
        let local: Vec<_> = local.collect();
        self.config.servers.retain(|server| !self.within.contains_key(&server.id));
        self.config.servers.extend(local);
        self
    }

    /// Runs the servers that these files say, and follows the files: what changes there is put in force as by
    /// [`Kernel::reload`].
    ///
    /// The configuration of a project counts once it was approved; approvals are kept with the rest of the state.
    pub fn sources(mut self, sources: Sources) -> Self {
        self.sources = Some(sources);
        self
    }

    /// Fills in `${…}` with this one instead of the environment.
    pub fn expander(mut self, expander: Expander) -> Self {
        self.expander = expander;
        self
    }

    /// Has this one judge the code of sandboxed servers that agents register; without a judge such code is refused.
    pub fn judge(mut self, judge: Arc<dyn Judge>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Bounds what is registered while the kernel runs.
    pub fn registering(mut self, config: RegistrationConfig) -> Self {
        self.registering = config;
        self
    }

    /// Runs a server in this process, made anew whenever it is started; it is governed like any other.
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
        self.local_as(id, ServerMgp::default(), make)
    }

    /// The same with what `[servers.mgp]` says of a server in a file.
    pub fn local_as(
        mut self,
        id: impl Into<ServerId>,
        mgp: ServerMgp,
        make: impl Fn() -> Server + Send + Sync + 'static,
    ) -> Self {
        let id = id.into();
        self.config.servers.retain(|server| server.id != id);
        self.config.servers.push(mgp_discovery::Server::within(id.clone(), mgp));
        self.within.insert(id, Arc::new(make));
        self
    }

    /// A kernel that keeps nothing beyond its life.
    ///
    /// # Errors
    /// [`KernelError`].
    ///
    /// # Cancel safety
    /// Dropping the future stops what was started.
    pub async fn build(mut self) -> Result<Kernel, KernelError> {
        let governance = self.governance().build();
        governance.open().await?;
        let loaded = self.load(&governance).await?;
        self.with(governance, ToolIndex::new(), loaded).await
    }

    /// A kernel whose state is in a folder that only its owner may use: grants, permissions, pins, the tool index and
    /// the audit log.
    ///
    /// # Errors
    /// [`KernelError`].
    ///
    /// # Cancel safety
    /// As [`build`](Self::build).
    pub async fn in_folder(mut self, folder: impl AsRef<Path>) -> Result<Kernel, KernelError> {
        if let Some(sources) = &self.sources {
            // How the log is kept is for the user's own file to say: whatever project is approved says nothing of it.
            let nobody = Trust::new(Arc::new(MemoryStore::new()));
            self.config.kernel = sources.load(&nobody).await?.config.kernel;
        }
        let folder = folder.as_ref();
        if self.registering.scripts.is_none() {
            // Whoever runs one has another folder.
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
            self.registering.scripts = Some(folder.join(SCRIPTS));
        }
        let index = |db| ToolIndex::builder().open(db);
        let (governance, index) = self.governance().in_folder_beside(folder, index).await?;
        let index = index?;
        let loaded = self.load(&governance).await?;
        self.with(governance, index, loaded).await
    }

    /// Reads the files, with the approvals that the state has.
    async fn load(&mut self, governance: &Governance) -> Result<Option<Loaded>, KernelError> {
        let Some(sources) = &self.sources else { return Ok(None) };
        let loaded = sources.load(&Trust::new(Arc::clone(governance.store()))).await?;
        reload::log(&loaded);
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
        let interactive = self.interactive.clone();
        let sits_there = move |principal: &Principal| interactive.has(principal);
        let audit = &self.config.kernel.audit;
        Governance::builder()
            .policies(policies)
            .approver(Elicit::new(sits_there))
            .inbox(InboxConfig::default())
            .recording(recording(audit))
            .logging(logging(audit.clone()))
    }

    async fn with(
        self,
        governance: Governance,
        index: ToolIndex,
        loaded: Option<Loaded>,
    ) -> Result<Kernel, KernelError> {
        let depth = hops::depth();
        if hops::is_too_deep(depth) {
            return Err(KernelError::TooDeep(depth));
        }
        let Self { config, expander, within, sources, interactive, judge, registering } = self;
        let sessions = Sessions::planned(plan(&config), SessionLimits::default());
        let tenant = Principal::local().tenant().clone();
        for (name, agent) in config.agents.iter().filter(|(_, agent)| !agent.groups.is_empty()) {
            governance.access().groups().set(tenant.as_str(), name, agent.groups.iter().cloned());
        }
        let servers = config.servers.clone();
        let seen = Seen::new(&governance);
        let store = Arc::clone(governance.store());
        let trust = Trust::new(Arc::clone(&store));
        let origin = sources.map(|sources| Origin { sources, trust });
        let ground = Ground {
            governance,
            index,
            expander,
            news: News::default(),
            within: Arc::new(within),
            met: Met::load(Arc::clone(&store)).await?,
            starts: Arc::new(Semaphore::new(STARTS)),
            herald: Herald::new(),
            callers: Callers::default(),
            watching: Watching::default(),
        };
        let kept = manifests(ground.governance.store()).await?;
        let fleet = Fleet::new(ground, kept);
        for server in servers {
            let id = server.id.as_str().to_owned();
            fleet.add(server).map_err(|why| KernelError::Server { server: id, why })?;
        }
        let offers = Offers::of(&config);
        let broken = loaded.iter().flat_map(|loaded| loaded.broken.iter().cloned());
        let in_force = InForce::new(config, broken);
        let runner = Runner::new(fleet.clone(), in_force.clone(), sessions.clone());
        let registrations = registered::registrations(runner, &seen, judge, registering);
        registrations.open().await?;
        fleet.forget_others(&registrations.approved()).await?;
        let switch = Switch::new(fleet.clone(), seen, sessions, offers, registrations);
        let current = Current::new(in_force, interactive, origin.clone());
        let kernel = Kernel(Arc::new(Inner { fleet, switch, host: Host::default(), current }));
        if let (Some(origin), Some(loaded)) = (origin, loaded) {
            reload::begin(&kernel, origin, &loaded);
        }
        Ok(kernel)
    }
}

impl fmt::Debug for KernelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
