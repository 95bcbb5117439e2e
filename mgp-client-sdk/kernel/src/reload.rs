//! Another configuration while the kernel runs: it touches only what changed (MGP §15.2).
//!
//! Applies to: both.

use std::sync::{Arc, Weak};

use futures_util::future::{join, join_all};
use mgp_discovery::{Change, Config, Effect, Finding, Loaded, Reach, Reload, Reloaded, Server};
use mgp_types::mgp::{KernelChange, KernelFinding, KernelReloadResult, ShutdownReason};
use mgp_types::service::{Principal, ServerId};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;

use super::current::{Origin, plan};
use super::error::KernelError;
use super::handle::{Inner, Kernel};
use super::policy::{policy, registered, supervision};

impl Kernel {
    /// Reads the files of its [sources](super::KernelBuilder::sources) again and puts in force what they say now.
    ///
    /// Policies, agents and budgets hold from the next message on.
    /// Servers that are gone or not as they were are drained before they are stopped; all others are not touched.
    /// A kernel with sources does the same by itself whenever a file changes.
    ///
    /// # Errors
    /// [`KernelError`] when the files cannot be used: then the configuration before stays in force.
    ///
    /// # Cancel safety
    /// Once the files are read it is seen through, whoever asked: dropping the future then only says nothing of it.
    pub async fn reload(&self) -> Result<KernelReloadResult, KernelError> {
        self.reload_by(&by_file()).await
    }

    pub(super) async fn reload_by(
        &self,
        by: &Principal,
    ) -> Result<KernelReloadResult, KernelError> {
        let Some(Origin { sources, trust }) = &self.0.current.origin else {
            return Err(KernelError::NoSources);
        };
        let mut loaded = sources.load(trust).await?;
        self.keep_broken(&mut loaded);
        self.put_in_force(loaded, by).await
    }

    /// Puts another configuration in force, as [`reload`](Self::reload) does.
    ///
    /// Servers that run in this process stay.
    ///
    /// ```
    /// use mgp_kernel::Kernel;
    /// use mgp_discovery::Config;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let kernel = Kernel::builder().build().await.unwrap();
    /// let text = "servers = [{ id = 'files', command = 'mcp-files' }]";
    /// let changed = kernel.configure(Config::parse("mgp.toml", text).unwrap().config).await.unwrap();
    /// assert_eq!(changed[0].change, "added");
    /// assert_eq!(kernel.servers()[0].id, "files");
    /// # kernel.stop().await;
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`KernelError`] when a policy cannot be recorded, or a server cannot be set up.
    ///
    /// # Cancel safety
    /// As [`reload`](Self::reload).
    pub async fn configure(&self, config: Config) -> Result<Vec<KernelChange>, KernelError> {
        self.apply(config, Vec::new(), &by_file()).await
    }

    /// A typing error in the entry of a server does not end it: its entry before stays in force.
    fn keep_broken(&self, loaded: &mut Loaded) {
        let before = self.0.current.config();
        for id in &loaded.broken {
            if loaded.config.server(id).is_none() {
                loaded.config.servers.extend(before.server(id).cloned());
            }
        }
    }

    async fn put_in_force(
        &self,
        loaded: Loaded,
        by: &Principal,
    ) -> Result<KernelReloadResult, KernelError> {
        let mut result = KernelReloadResult::new();
        log(&loaded);
        let findings = findings_of(&loaded);
        self.0.current.set_findings(findings.clone());
        result.findings = findings.into();
        let audit = self.0.current.config().kernel.audit != loaded.config.kernel.audit;
        result.changed = self.apply(loaded.config, loaded.broken, by).await?;
        if audit {
            let what = "`kernel.audit` holds from the next start of the kernel on";
            result.findings.push(KernelFinding::new("warning", what));
        }
        Ok(result)
    }

    /// Seen through by a task of its own: a server that was taken out comes back, wherever whoever asked has gone.
    async fn apply(
        &self,
        config: Config,
        broken: Vec<String>,
        by: &Principal,
    ) -> Result<Vec<KernelChange>, KernelError> {
        let (kernel, by) = (self.clone(), by.clone());
        let applied = tokio::spawn(async move { kernel.apply_now(config, broken, &by).await });
        applied.await.unwrap_or_else(|error| {
            Err(KernelError::Governed(RpcError::internal("it was cut short").because(error)))
        })
    }

    async fn apply_now(
        &self,
        mut config: Config,
        broken: Vec<String>,
        by: &Principal,
    ) -> Result<Vec<KernelChange>, KernelError> {
        let _turn = self.0.current.turn.lock().await;
        let before = self.0.current.config();
        // No file says anything of the servers in this process.
        let within = before.servers.iter().filter(|server| matches!(server.reach, Reach::Within));
        config.servers.retain(|server| !within.clone().any(|own| own.id == server.id));
        config.servers.extend(within.cloned());
        let change = Change::between(&before, &config);
        let registrations = &self.0.switch.parts().registrations;
        if change.is_empty() {
            self.0.current.in_force.set(config, broken);
            registrations.reconfigured().await?;
            return Ok(Vec::new());
        }
        // What an agent registered never runs by the rules of a file.
        let taken = change.added.iter().map(|server| &server.id);
        join_all(taken.map(|id| self.0.fleet.remove(id, ShutdownReason::OperatorRequest))).await;
        self.govern(&before, &config, by).await?;
        self.0.switch.parts().sessions.replan(plan(&config));
        self.0.current.interactive.set(&config.agents);
        if self.0.switch.parts().offers.set(&config) {
            self.0.fleet.ground().herald.tools_changed(|_| true);
        }
        let told = changes(&change);
        let fleet = &self.0.fleet;
        let replaced = change.changed.iter().filter(|changed| {
            changed.effect == Effect::Restart
                || before
                    .server(changed.server.id.as_str())
                    .is_some_and(|old| supervision(old) != supervision(&changed.server))
        });
        let replaced: Vec<Server> = replaced.map(|changed| changed.server.clone()).collect();
        for changed in &change.changed {
            if replaced.iter().all(|server| server.id != changed.server.id) {
                fleet.reconfigure(changed.server.clone());
            }
        }
        // From here on it is what the next one is compared with, however this one ends.
        self.0.current.in_force.set(config, broken);
        // What is new waits for nobody's calls to end, and what changed for its own only.
        let leave = async |id: &ServerId| fleet.remove(id, ShutdownReason::OperatorRequest).await;
        let put = async |server: Server| {
            leave(&server.id).await;
            self.put(server)
        };
        // Under another name a program is started once it has ended under the one before.
        let gone = before.servers.iter().filter(|old| change.removed.contains(&old.id));
        let gone: Vec<&Reach> = gone.map(|old| &old.reach).collect();
        let (renamed, new): (Vec<_>, Vec<_>) =
            change.added.into_iter().partition(|server| gone.contains(&&server.reach));
        let leaving = join_all(change.removed.iter().map(leave));
        let (_, all) = join(leaving, join_all(new.into_iter().chain(replaced).map(put))).await;
        let renamed = join_all(renamed.into_iter().map(put)).await;
        // What fails holds up no other server; the first of it is told.
        let mut done = all.into_iter().chain(renamed).fold(Ok(()), Result::and);
        for id in &change.removed {
            if let Err(error) = self.governance().remove_policy(by, id, None).await {
                done = done.and(Err(KernelError::Governed(error)));
            }
        }
        // It took ids of what was registered, or gave them back.
        if let Err(error) = registrations.reconfigured().await {
            done = done.and(Err(error.into()));
        }
        done.map(|()| told)
    }

    /// Puts a server of the configuration in its place.
    fn put(&self, server: Server) -> Result<(), KernelError> {
        let id = server.id.to_string();
        self.0.fleet.add(server).map(drop).map_err(|why| KernelError::Server { server: id, why })
    }

    /// Puts policies and groups in force, on the record.
    async fn govern(
        &self,
        before: &Config,
        after: &Config,
        by: &Principal,
    ) -> Result<(), KernelError> {
        let governance = self.governance();
        for server in &after.servers {
            let policy = policy(&after.kernel, server);
            if *governance.policies().of(Some(&server.id)) != policy
                || before.server(server.id.as_str()).is_none()
            {
                let set = governance.set_policy(by, &server.id, policy, None);
                set.await.map_err(KernelError::Governed)?;
            }
        }
        for node in self.0.fleet.all().values() {
            let Some(approved) = node.approved() else { continue };
            let policy = registered(&after.kernel, approved);
            if *governance.policies().of(Some(node.id())) != policy {
                let set = governance.set_policy(by, node.id(), policy, None);
                set.await.map_err(KernelError::Governed)?;
            }
        }
        let groups = |config: &Config, name: &str| {
            config.agents.get(name).map(|agent| agent.groups.clone()).unwrap_or_default()
        };
        for name in before.agents.keys().chain(after.agents.keys()) {
            let now = groups(after, name);
            if groups(before, name) != now {
                let set = governance.set_groups(by, name, now, None);
                set.await.map_err(KernelError::Governed)?;
            }
        }
        Ok(())
    }
}

/// Follows the files of a kernel until it is gone.
async fn follow(kernel: Weak<Inner>, mut reload: Reload, mut life: watch::Receiver<()>) {
    loop {
        let reloaded = tokio::select! {
            reloaded = reload.next() => reloaded,
            // It holds the state of the kernel, which somebody else may want now.
            _ = life.changed() => return,
        };
        let Some(kernel) = kernel.upgrade().map(Kernel) else { return };
        let mut loaded = match reloaded {
            Reloaded::Changed(_, loaded) => loaded,
            Reloaded::Kept(error) => {
                kernel.0.current.set_findings(unusable(&error));
                continue;
            }
            _ => continue,
        };
        kernel.keep_broken(&mut loaded);
        match kernel.put_in_force(*loaded, &by_file()).await {
            Ok(result) => tracing::info!(changes = result.changed.len(), "another configuration"),
            Err(error) => {
                tracing::error!(%error, "another configuration is in force in parts only");
            }
        }
    }
}

/// Begins to follow the files a kernel was configured by.
pub(super) fn begin(kernel: &Kernel, origin: Origin, loaded: &Loaded) {
    kernel.0.current.set_findings(findings_of(loaded));
    let reload = Reload::new(origin.sources, origin.trust, loaded);
    tokio::spawn(follow(Arc::downgrade(&kernel.0), reload, kernel.0.current.life()));
}

/// Who changes something when a file does: whoever may write it.
fn by_file() -> Principal {
    Principal::new(Principal::local().tenant().clone(), "configuration").operator()
}

/// Writes to the log what is wrong or doubtful in files.
pub(super) fn log(loaded: &Loaded) {
    for finding in &loaded.findings {
        tracing::warn!("{finding}");
    }
    if let Some(unapproved) = &loaded.unapproved {
        tracing::warn!("{unapproved}");
    }
}

/// What is wrong or doubtful in files that can be used.
fn findings_of(loaded: &Loaded) -> Vec<KernelFinding> {
    let mut findings: Vec<_> = loaded.findings.iter().map(told).collect();
    if let Some(unapproved) = &loaded.unapproved {
        let mut finding = KernelFinding::new("warning", unapproved.to_string());
        finding.file = Some(unapproved.file.display().to_string());
        findings.push(finding);
    }
    findings
}

/// Why the files cannot be used.
fn unusable(error: &mgp_discovery::Error) -> Vec<KernelFinding> {
    match error {
        mgp_discovery::Error::Faults(faults) => faults.findings().iter().map(told).collect(),
        error => vec![KernelFinding::new("error", error.to_string())],
    }
}

fn told(finding: &Finding) -> KernelFinding {
    let mut told = KernelFinding::new(
        finding.severity.to_string(),
        match &finding.remedy {
            Some(remedy) => format!("{}; {remedy}", finding.what),
            None => finding.what.clone(),
        },
    );
    told.file = Some(finding.file.display().to_string());
    told.line = Some(finding.line as u64);
    told.server_id.clone_from(&finding.server);
    told
}

fn changes(change: &Change) -> Vec<KernelChange> {
    let one = |kind: &str, id: Option<&str>, what: &str| {
        let mut told = KernelChange::new(kind, what);
        told.id = id.map(str::to_owned);
        told
    };
    let mut all = Vec::new();
    all.extend(change.added.iter().map(|server| one("server", Some(server.id.as_str()), "added")));
    all.extend(change.removed.iter().map(|id| one("server", Some(id.as_str()), "removed")));
    let changed = change.changed.iter();
    all.extend(changed.map(|changed| one("server", Some(changed.server.id.as_str()), "changed")));
    for (name, agent) in &change.agents {
        let what = if agent.is_some() { "changed" } else { "removed" };
        all.push(one("agent", Some(name), what));
    }
    all.extend(change.kernel.as_ref().map(|_| one("kernel", None, "changed")));
    all.extend(change.tool_creation.map(|_| one("tool_creation", None, "changed")));
    all
}

impl From<KernelError> for RpcError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Governed(error) => error,
            error => Self::new(ErrorCode::INVALID_PARAMS, error.to_string()),
        }
    }
}
