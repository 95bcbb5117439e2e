//! Puts a kernel together.
//!
//! Applies to: both.

use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{Config, Expander};
use mgp_security::{Elicit, Governance, GovernanceBuilder, Policies};
use mgp_toolindex::{MetaTool, MetaTools, Pins, SessionLimits, Sessions, ToolIndex};
use mgp_types::mgp::ContextBudget;

use super::error::KernelError;
use super::fleet::{Fleet, Ground};
use super::handle::{Inner, Kernel};
use super::host::Host;
use super::policy::policy;
use super::seen::Seen;
use super::switch::Switch;

/// Puts a [`Kernel`] together.
#[derive(Debug)]
#[must_use = "nothing runs until it is built"]
pub struct KernelBuilder {
    config: Config,
    expander: Expander,
}

impl Default for KernelBuilder {
    fn default() -> Self {
        Self { config: Config::default(), expander: Expander::of_process() }
    }
}

impl KernelBuilder {
    /// Runs the servers of this configuration.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Fills in `${…}` with this one instead of the environment.
    pub fn expander(mut self, expander: Expander) -> Self {
        self.expander = expander;
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
        let ground =
            Ground { governance, index, expander: self.expander, news: Default::default() };
        let fleet = Fleet::new(ground);
        for server in servers {
            let id = server.id.as_str().to_owned();
            let added = fleet.add(server).await;
            added.map_err(|why| KernelError::Server { server: id, why })?;
        }
        let meta = MetaTools::new().without(MetaTool::Request);
        let switch = Switch::new(fleet.clone(), seen, sessions, meta);
        Ok(Kernel(Arc::new(Inner { fleet, switch, host: Host::default() })))
    }
}
