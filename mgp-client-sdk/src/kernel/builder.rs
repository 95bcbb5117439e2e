//! Puts a kernel together.
//!
//! Applies to: both.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{Config, Expander, ServerMgp};
use mgp_security::{Elicit, Governance, GovernanceBuilder, Policies};
use mgp_server_sdk::{Herald, Server};
use mgp_toolindex::{MetaTool, MetaTools, Pins, SessionLimits, Sessions, ToolIndex};
use mgp_types::mgp::ContextBudget;
use mgp_types::service::ServerId;

use super::callers::Callers;
use super::error::KernelError;
use super::fleet::{Fleet, Ground, News, manifests};
use super::handle::{Inner, Kernel};
use super::hops;
use super::policy::policy;
use super::seen::Seen;
use super::switch::Switch;
use super::watch::Watching;
use crate::supervised::Make;

/// Puts a [`Kernel`] together.
#[must_use = "nothing runs until it is built"]
pub struct KernelBuilder {
    config: Config,
    expander: Expander,
    within: HashMap<ServerId, Make>,
}

impl Default for KernelBuilder {
    fn default() -> Self {
        Self { config: Config::default(), expander: Expander::of_process(), within: HashMap::new() }
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

    /// Fills in `${…}` with this one instead of the environment.
    pub fn expander(mut self, expander: Expander) -> Self {
        self.expander = expander;
        self
    }

    /// Runs a server in this process, made anew whenever it is started; it is governed like any other.
    ///
    /// ```
    /// use mgp_client_sdk::Kernel;
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
    pub async fn build(self) -> Result<Kernel, KernelError> {
        let governance = self.governance().build();
        governance.open().await?;
        self.with(governance, ToolIndex::new()).await
    }

    /// A kernel whose state is in a folder that only its owner may use: grants, permissions, pins, the tool index and
    /// the audit log.
    ///
    /// # Errors
    /// [`KernelError`].
    ///
    /// # Cancel safety
    /// As [`build`](Self::build).
    pub async fn in_folder(self, folder: impl AsRef<Path>) -> Result<Kernel, KernelError> {
        let (governance, db) = self.governance().in_folder_with_db(folder).await?;
        let index = ToolIndex::builder().open(db).await?;
        self.with(governance, index).await
    }

    fn governance(&self) -> GovernanceBuilder {
        let policies = Policies::default();
        for server in &self.config.servers {
            policies.set(server.id.clone(), policy(&self.config.kernel, server));
        }
        let interactive: Vec<String> = self
            .config
            .agents
            .iter()
            .filter(|(_, agent)| agent.interactive)
            .map(|(name, _)| name.clone())
            .collect();
        let sits_there = move |principal: &mgp_types::service::Principal| {
            principal
                .as_agent()
                .is_some_and(|agent| interactive.iter().any(|name| name == agent.as_str()))
        };
        Governance::builder().policies(policies).approver(Elicit::new(sits_there))
    }

    async fn with(self, governance: Governance, index: ToolIndex) -> Result<Kernel, KernelError> {
        let depth = hops::depth();
        if hops::is_too_deep(depth) {
            return Err(KernelError::TooDeep(depth));
        }
        let Config { servers, kernel, agents, .. } = self.config;
        let budget = kernel.tool_context_budget;
        let context = ContextBudget::new(
            budget.max_tokens,
            budget.pinned_reserve,
            budget.discovery_reserve,
            budget.cache_limit,
        );
        let mut pins = Pins::new();
        for (name, agent) in &agents {
            pins = pins.agent(name.as_str(), agent.pinned.iter().cloned());
        }
        let sessions = Sessions::configured(context, pins, SessionLimits::default());
        let seen = Seen::new(&governance);
        for known in index.entries() {
            if !servers.iter().any(|server| server.id.as_str() == known.server_id) {
                index.remove(&known.server_id)?;
            }
        }
        let ground = Ground {
            governance,
            index,
            expander: self.expander,
            news: News::default(),
            within: Arc::new(self.within),
            herald: Herald::new(),
            callers: Callers::default(),
            watching: Watching::default(),
        };
        let kept = manifests(ground.governance.store()).await?;
        let fleet = Fleet::new(ground, kept);
        for server in servers {
            let id = server.id.as_str().to_owned();
            let added = fleet.add(server).await;
            added.map_err(|why| KernelError::Server { server: id, why })?;
        }
        fleet.forget_others().await;
        let meta = MetaTools::new().without(MetaTool::Request);
        let switch = Switch::new(fleet.clone(), seen, sessions, meta);
        Ok(Kernel(Arc::new(Inner { fleet, switch })))
    }
}

impl fmt::Debug for KernelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
