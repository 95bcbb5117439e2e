//! The active configuration, and the files from which the kernel read it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{AgentConfig, Config, Sources, Trust, path_in};
use mgp_security::{Arguments, AuditConfig, FileRetention, Fsync, LogConfig};
use mgp_toolindex::{ContextPlan, Pins};
use mgp_types::mgp::{ContextBudget, KernelFinding};
use mgp_types::service::Principal;
use mgp_types::sync::RwLock;
use tokio::sync::watch;

/// The active configuration, with everything that a change of the configuration needs.
pub(super) struct ActiveConfig {
    pub(super) shared: SharedConfig,
    pub(super) interactive: InteractiveAgents,
    pub(super) origin: Option<ConfigOrigin>,
    /// The findings about the configuration files, from the last time when they were read or applied.
    findings: RwLock<Vec<KernelFinding>>,
    /// The finding about the lock file (`mgp.lock`), from the last time when it was read.
    lock_finding: RwLock<Option<KernelFinding>>,
    /// A problem that occurred when the kernel was started. It is reported until the kernel is started again.
    start_finding: Option<KernelFinding>,
    started: Arc<Config>,
    /// The ids of the servers that were switched off in the configuration files when these were last read.
    disabled: RwLock<Vec<String>>,
    /// A sender that is dropped together with the kernel. Its drop ends the task that exports telemetry.
    lifetime: watch::Sender<()>,
    /// Ends the tasks that watch the configuration files and the lock file, by a message or by its drop.
    watches: watch::Sender<()>,
    /// A lock that a task holds while it applies a configuration, so that only one configuration is applied at a time.
    pub(super) applying: tokio::sync::Mutex<()>,
}

/// The current configuration. This handle is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedConfig(Arc<RwLock<ConfigState>>);

#[derive(Clone, Debug, Default)]
struct ConfigState {
    config: Arc<Config>,
    /// The ids of servers whose configuration entries are invalid or switched off. No other server can use these ids.
    reserved: Arc<HashSet<String>>,
}

/// The files of the configuration, and the approvals of project configurations.
#[derive(Clone, Debug)]
pub(super) struct ConfigOrigin {
    pub(super) sources: Sources,
    pub(super) trust: Trust,
}

/// The agents whose user can be asked questions. This handle is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct InteractiveAgents(Arc<RwLock<HashSet<String>>>);

impl ActiveConfig {
    pub(super) fn new(
        shared: SharedConfig,
        interactive: InteractiveAgents,
        origin: Option<ConfigOrigin>,
        start_failure: Option<String>,
    ) -> Self {
        let start_finding = start_failure.map(|what| {
            tracing::warn!("{what}");
            KernelFinding::new("warning", what)
        });
        interactive.set(&shared.config().agents);
        let (lifetime, watches) = (watch::Sender::new(()), watch::Sender::new(()));
        let (findings, applying) = (RwLock::default(), tokio::sync::Mutex::default());
        let (disabled, started) = (RwLock::default(), shared.config());
        Self {
            shared,
            interactive,
            origin,
            findings,
            lock_finding: RwLock::default(),
            start_finding,
            started,
            disabled,
            lifetime,
            watches,
            applying,
        }
    }

    pub(super) fn findings(&self) -> Vec<KernelFinding> {
        let pending = self.pending_findings();
        self.findings.read().iter().chain(&self.start_finding).chain(&pending).cloned().collect()
    }

    /// Returns the finding about the lock file, and a warning for each configuration key whose change since the start
    /// applies only after a restart.
    pub(super) fn pending_findings(&self) -> Vec<KernelFinding> {
        let (old, new) = (&self.started.kernel, &self.config().kernel);
        let keys = [
            ("kernel.audit", old.audit != new.audit),
            ("kernel.extensions", old.extensions != new.extensions),
            ("kernel.http", old.http != new.http),
            ("kernel.metrics", old.metrics != new.metrics),
            ("kernel.references", old.references != new.references),
            ("kernel.registry.file", old.registry != new.registry),
            ("kernel.search", old.search != new.search),
            ("kernel.telemetry", old.telemetry != new.telemetry),
        ];
        let changed = keys.into_iter().filter(|(_, is_changed)| *is_changed);
        let finding = |key| {
            let what = format!("`{key}` takes effect at the next start of the kernel");
            KernelFinding::new("warning", what)
        };
        let lock = self.lock_finding.read().clone();
        lock.into_iter().chain(changed.map(|(key, _)| finding(key))).collect()
    }

    pub(super) fn set_findings(&self, findings: Vec<KernelFinding>) {
        *self.findings.write() = findings;
    }

    pub(super) fn set_lock_finding(&self, finding: Option<KernelFinding>) {
        *self.lock_finding.write() = finding;
    }

    pub(super) fn disabled(&self) -> Vec<String> {
        self.disabled.read().clone()
    }

    pub(super) fn set_disabled(&self, disabled: &[String]) {
        *self.disabled.write() = disabled.to_vec();
    }

    /// Returns a channel that is closed when the kernel is dropped.
    pub(super) fn lifetime(&self) -> watch::Receiver<()> {
        self.lifetime.subscribe()
    }

    /// Returns a channel that gets a message when the files must not be watched any more, and is closed when the kernel
    /// is dropped.
    pub(super) fn watches(&self) -> watch::Receiver<()> {
        self.watches.subscribe()
    }

    /// Ends the tasks that watch the configuration files and the lock file.
    pub(super) fn end_watches(&self) {
        self.watches.send_replace(());
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.shared.config()
    }

    pub(super) fn agents(&self) -> Vec<String> {
        self.config().agents.keys().cloned().collect()
    }
}

impl SharedConfig {
    pub(super) fn set(&self, config: Config, reserved: impl IntoIterator<Item = String>) {
        let reserved = Arc::new(reserved.into_iter().collect());
        *self.0.write() = ConfigState { config: Arc::new(config), reserved };
    }

    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.0.read().config)
    }

    /// Returns whether the configuration has an entry for a server with this id, even if the entry is invalid or
    /// switched off.
    pub(super) fn has_server(&self, id: &str) -> bool {
        let state = self.0.read();
        state.reserved.contains(id) || state.config.server(id).is_some()
    }

    /// Returns the scopes that the configuration allows to a local agent; `None` if the agent has no key `scopes`.
    pub(super) fn scopes(&self, principal: &Principal) -> Option<Arc<[String]>> {
        let config = self.config();
        let scopes = config.agent(principal)?.scopes.as_ref()?;
        Some(scopes.iter().cloned().collect())
    }
}

impl InteractiveAgents {
    pub(super) fn set(&self, agents: &BTreeMap<String, AgentConfig>) {
        let interactive = agents.iter().filter(|(_, agent)| agent.interactive);
        *self.0.write() = interactive.map(|(name, _)| name.clone()).collect();
    }

    /// Returns whether this principal is an agent whose user can be asked questions.
    pub(super) fn contains(&self, principal: &Principal) -> bool {
        let agent = principal.as_agent();
        // Compare the tenant too: the configuration belongs to the local user, and agents of other tenants can have the
        // same names.
        principal.tenant() == Principal::local().tenant()
            && agent.is_some_and(|agent| self.0.read().contains(agent.as_str()))
    }
}

/// Returns the token budgets and pinned tools of agents; those of `[agents.NAME]` are for agents of the local tenant.
pub(super) fn context_plan(config: &Config) -> ContextPlan {
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
    let budgets = config.agents.iter().filter_map(|(name, agent)| Some((name, agent.budget?)));
    budgets.fold(ContextPlan::new(budget, pins), |plan, (name, max)| plan.agent(name.as_str(), max))
}

/// Returns the configured settings that decide what the audit log records of a call, e.g. of its arguments.
pub(super) fn audit_config(audit: &mgp_discovery::AuditLogConfig) -> AuditConfig {
    use mgp_discovery::RecordedArguments as Recorded;
    AuditConfig::new().intent(audit.intent).arguments(match audit.arguments {
        Recorded::Names => Arguments::Names,
        Recorded::Full => Arguments::Full,
        _ => Arguments::Redacted,
    })
}

/// Returns a function that replaces the default settings of the audit log by the configured ones.
pub(super) fn log_config(
    audit: mgp_discovery::AuditLogConfig,
) -> impl FnOnce(LogConfig) -> LogConfig + Send {
    move |mut log| {
        if let Some(dir) = audit.dir {
            // Keep a relative path here; it is resolved against the state folder later.
            log.dir = path_in(Path::new(""), &dir);
        }
        let log = log.fsync(match audit.fsync {
            mgp_discovery::AuditFsync::Always => Fsync::Always,
            mgp_discovery::AuditFsync::Never => Fsync::Never,
            _ => Fsync::OnCheckpoint,
        });
        log.retention(audit.keep.map_or(FileRetention::All, FileRetention::Newest))
    }
}
