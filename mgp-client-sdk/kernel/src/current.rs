//! The configuration that is in force, and where another one would come from.
//!
//! Applies to: both.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use mgp_discovery::{Agent, Config, Sources, Trust};
use mgp_security::{Arguments, AuditConfig, Fsync, Keep, LogConfig};
use mgp_toolindex::{ContextPlan, Pins};
use mgp_types::mgp::{ContextBudget, KernelFinding};
use mgp_types::service::Principal;
use tokio::sync::watch;

/// What is in force.
pub(super) struct Current {
    pub(super) in_force: InForce,
    pub(super) interactive: Interactive,
    pub(super) origin: Option<Origin>,
    /// What was wrong in the files when they were last read.
    findings: RwLock<Vec<KernelFinding>>,
    /// Ends with the kernel, and with it whoever follows its files.
    lives: watch::Sender<()>,
    /// Configurations are put in force one after the other.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// The configuration that is in force; a cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct InForce(Arc<RwLock<Said>>);

#[derive(Clone, Debug, Default)]
struct Said {
    config: Arc<Config>,
    /// The servers whose entries cannot be read: their ids are taken all the same.
    broken: Arc<HashSet<String>>,
}

/// Where the configuration comes from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) sources: Sources,
    pub(super) trust: Trust,
}

/// The agents that have a person sitting there.
#[derive(Clone, Debug, Default)]
pub(super) struct Interactive(Arc<RwLock<HashSet<String>>>);

impl Current {
    pub(super) fn new(in_force: InForce, interactive: Interactive, origin: Option<Origin>) -> Self {
        interactive.set(&in_force.config().agents);
        let lives = watch::Sender::new(());
        let (findings, turn) = (RwLock::default(), tokio::sync::Mutex::default());
        Self { in_force, interactive, origin, findings, lives, turn }
    }

    /// What was wrong in the files when they were last read.
    pub(super) fn findings(&self) -> Vec<KernelFinding> {
        self.findings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_findings(&self, findings: Vec<KernelFinding>) {
        *self.findings.write().unwrap_or_else(PoisonError::into_inner) = findings;
    }

    /// Ends with the kernel.
    pub(super) fn life(&self) -> watch::Receiver<()> {
        self.lives.subscribe()
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.in_force.config()
    }

    /// The agents that are configured.
    pub(super) fn agents(&self) -> Vec<String> {
        self.config().agents.keys().cloned().collect()
    }
}

impl InForce {
    pub(super) fn new(config: Config, broken: impl IntoIterator<Item = String>) -> Self {
        let in_force = Self::default();
        in_force.set(config, broken);
        in_force
    }

    pub(super) fn set(&self, config: Config, broken: impl IntoIterator<Item = String>) {
        let broken = broken.into_iter().collect();
        let said = Said { config: Arc::new(config), broken: Arc::new(broken) };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = said;
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.said().config
    }

    /// Whether a server is the configuration's.
    pub(super) fn has(&self, id: &str) -> bool {
        let said = self.said();
        said.broken.contains(id) || said.config.server(id).is_some()
    }

    fn said(&self) -> Said {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Interactive {
    pub(super) fn set(&self, agents: &BTreeMap<String, Agent>) {
        let there = agents.iter().filter(|(_, agent)| agent.interactive);
        let there = there.map(|(name, _)| name.clone()).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = there;
    }

    /// Whether somebody sits there who can be asked.
    pub(super) fn has(&self, principal: &Principal) -> bool {
        let there = self.0.read().unwrap_or_else(PoisonError::into_inner);
        principal.as_agent().is_some_and(|agent| there.contains(agent.as_str()))
    }
}

/// What tools may cost whom, and what is pinned.
pub(super) fn plan(config: &Config) -> ContextPlan {
    let budget = config.kernel.tool_context_budget;
    let budget = ContextBudget::new(
        budget.max_tokens,
        budget.pinned_reserve,
        budget.discovery_reserve,
        budget.cache_limit,
    );
    let mut pins = Pins::new();
    for (name, agent) in &config.agents {
        pins = pins.agent(name.as_str(), agent.pinned.iter().cloned());
    }
    let own = config.agents.iter().filter_map(|(name, agent)| Some((name, agent.budget?)));
    own.fold(ContextPlan::new(budget, pins), |plan, (name, most)| plan.agent(name.as_str(), most))
}

/// How much of the arguments of calls is recorded.
pub(super) fn recording(audit: &mgp_discovery::Audit) -> AuditConfig {
    use mgp_discovery::RecordedArguments as Recorded;
    AuditConfig::new().arguments(match audit.arguments {
        Recorded::Names => Arguments::Names,
        Recorded::Full => Arguments::Full,
        _ => Arguments::Redacted,
    })
}

/// How the audit log is kept.
pub(super) fn logging(audit: mgp_discovery::Audit) -> impl FnOnce(LogConfig) -> LogConfig + Send {
    move |mut log| {
        if let Some(dir) = audit.dir {
            // The state folder is where what is relative is meant from.
            log.dir = match (dir.strip_prefix("~/"), std::env::home_dir()) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => dir.into(),
            };
        }
        let log = log.fsync(match audit.fsync {
            mgp_discovery::Fsync::Always => Fsync::Always,
            mgp_discovery::Fsync::Never => Fsync::Never,
            _ => Fsync::OnCheckpoint,
        });
        log.keep(audit.keep.map_or(Keep::All, Keep::Newest))
    }
}
