//! Applies a new configuration while the kernel runs. Only servers whose settings changed are affected (MGP §15.2).

use std::sync::{Arc, Weak};

use futures_util::future::{join, join_all};
use mgp_discovery::{
    ChangeEffect, Config, ConfigChange, ConfigFinding, ConfigWatcher, KernelConfig, LoadedConfig,
    OperatorProof, Reloaded, ServerConfig, TargetConfig,
};
use mgp_types::mgp::{KernelChange, KernelFinding, KernelReloadResult};
use mgp_types::service::Principal;
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;

use super::active_config::{ConfigOrigin, context_plan};
use super::error::KernelError;
use super::handle::{Kernel, KernelParts};
use super::lock_reload;
use super::policy::{policy, registered_policy, supervision};

impl Kernel {
    /// Reads the files of its [sources](super::KernelBuilder::sources) and its
    /// [lock file](super::KernelBuilder::lock_path) again, and applies the new configuration.
    ///
    /// New policies, agents and budgets apply from the next message on. The kernel drains servers that were removed or
    /// changed before it stops them; all other servers keep running. A kernel with sources also reloads whenever a file
    /// changes, unless operators must prove their presence.
    ///
    /// # Errors
    /// [`KernelError`] if the files cannot be used; then the previous configuration stays active. Also if a part of the
    /// new configuration cannot be applied; then the rest is active.
    ///
    /// # Cancel safety
    /// Once the files are read, the reload completes even if the future is dropped.
    pub async fn reload(&self) -> Result<KernelReloadResult, KernelError> {
        self.reload_by(&file_owner()).await
    }

    pub(super) async fn reload_by(
        &self,
        by: &Principal,
    ) -> Result<KernelReloadResult, KernelError> {
        let Some(ConfigOrigin { sources, trust }) = &self.0.config.origin else {
            return Err(KernelError::NoSources);
        };
        // Read the lock file first, because it decides whether added servers start.
        let relocked = lock_reload::reload(self).await;
        let mut loaded = sources.load(trust).await?;
        keep_broken_servers(self, &mut loaded);
        let mut result = apply_loaded(self, loaded, by).await?;
        result.changed.extend(relocked);
        Ok(result)
    }

    /// Applies the given configuration in the same way as [`reload`](Self::reload) applies files.
    ///
    /// Servers in this process are kept.
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
    /// [`KernelError`] if a policy cannot be recorded, or a server cannot be set up.
    ///
    /// # Cancel safety
    /// As [`reload`](Self::reload).
    pub async fn configure(&self, config: Config) -> Result<Vec<KernelChange>, KernelError> {
        apply_detached(self, config, IdleEntries::default(), &file_owner()).await
    }
}

/// The ids of entries in the configuration files whose servers do not run, because the entries are invalid or switched
/// off.
#[derive(Default)]
struct IdleEntries {
    broken: Vec<String>,
    disabled: Vec<String>,
}

/// Keeps the previous entry of each server whose new entry is invalid. So a mistake in a file stops no server.
fn keep_broken_servers(kernel: &Kernel, loaded: &mut LoadedConfig) {
    let before = kernel.0.config.config();
    for id in &loaded.broken {
        if loaded.config.server(id).is_none() {
            loaded.config.servers.extend(before.server(id).cloned());
        }
    }
}

async fn apply_loaded(
    kernel: &Kernel,
    loaded: LoadedConfig,
    by: &Principal,
) -> Result<KernelReloadResult, KernelError> {
    let mut result = KernelReloadResult::new();
    log_findings(&loaded);
    let mut findings = findings_of(&loaded);
    kernel.0.config.set_findings(findings.clone());
    let idle = IdleEntries { broken: loaded.broken, disabled: loaded.disabled };
    let applied = apply_detached(kernel, loaded.config, idle, by).await;
    if let Err(error) = &applied {
        let what = "the changed configuration was not applied completely";
        let message = format!("{what}: {error}; run `mgp reload` to apply it again");
        findings.push(KernelFinding::new("error", message));
        kernel.0.config.set_findings(findings.clone());
    }
    result.findings = findings.into();
    result.changed = applied?;
    for finding in kernel.0.config.pending_findings() {
        tracing::warn!("{}", finding.message);
        result.findings.push(finding);
    }
    Ok(result)
}

/// Applies a configuration in a separate task. The task completes even if the caller drops its future. So each server
/// that the task stops in order to replace it is also started again.
async fn apply_detached(
    kernel: &Kernel,
    config: Config,
    idle: IdleEntries,
    by: &Principal,
) -> Result<Vec<KernelChange>, KernelError> {
    let (kernel, by) = (kernel.clone(), by.clone());
    let applied = tokio::spawn(async move { apply(&kernel, config, idle, &by).await });
    applied.await.unwrap_or_else(|error| {
        let message = "the configuration was applied only in part";
        Err(KernelError::Governed(RpcError::internal(message).because(error)))
    })
}

async fn apply(
    kernel: &Kernel,
    mut config: Config,
    idle: IdleEntries,
    by: &Principal,
) -> Result<Vec<KernelChange>, KernelError> {
    let parts = &*kernel.0;
    let dispatch = parts.dispatcher.parts();
    let _applying = parts.config.applying.lock().await;
    let before = parts.config.config();
    // Keep the servers in this process: they are in no file, so the comparison below would treat them as removed.
    let local =
        before.servers.iter().filter(|server| matches!(server.target, TargetConfig::InProcess));
    config.servers.retain(|server| !local.clone().any(|local| local.id == server.id));
    config.servers.extend(local.cloned());
    let change = ConfigChange::between(&before, &config);
    if change.is_empty() {
        activate(parts, config, idle);
        // Set the policies that an earlier reload could not record.
        let config = parts.config.config();
        apply_governance(kernel, &config, &config, by).await?;
        dispatch.registrations.reconfigured().await?;
        return Ok(Vec::new());
    }
    // A configuration file can now define a server with the id of a registered server. Remove the registered server
    // first; otherwise it would run under the policy of the new server.
    let taken = change.added.iter().map(|server| &server.id);
    join_all(taken.map(|id| parts.fleet.remove(id))).await;
    apply_governance(kernel, &before, &limit_tenants(&before, &config, &change), by).await?;
    apply_settings(kernel, &config).await;
    let has_other_lists = dispatch.meta_tools.set(&config) || lists_other_tools(&before, &config);
    let changes = changes(&change);
    let replaced = reconfigure_servers(kernel, &before, &config, &change);
    // Store the configuration now, so that the next configuration is compared with it even if servers fail below.
    activate(parts, config, idle);
    // Notify the clients only now, so that they do not request the old lists again.
    if has_other_lists {
        parts.fleet.context().notifications.tools_changed(|_, _| true);
    }
    let mut outcome = replace_servers(kernel, &before, &change, replaced).await;
    // Now that the previous programs of the replaced servers have ended, admit the tenants that the change added to
    // these servers.
    let after = parts.config.config();
    outcome = outcome.and(apply_governance(kernel, &after, &after, by).await);
    for id in &change.removed {
        parts.fleet.context().events.forget_channels(id);
        if let Err(error) = kernel.governance().remove_policy(by, id, None).await {
            outcome = outcome.and(Err(KernelError::Governed(error)));
        }
    }
    // Update the registered servers, because the new configuration may use their ids, or may have released such ids.
    if let Err(error) = dispatch.registrations.reconfigured().await {
        outcome = outcome.and(Err(error.into()));
    }
    outcome.map(|()| changes)
}

/// Applies the settings that belong to no server.
async fn apply_settings(kernel: &Kernel, config: &Config) {
    let (dispatch, context) = (kernel.0.dispatcher.parts(), kernel.0.fleet.context());
    dispatch.sessions.set_plan(context_plan(config));
    kernel.0.config.interactive.set(&config.agents);
    dispatch.results.set(config);
    context.bounds.set(config);
    context.events.apply_deliveries(&config.kernel).await;
    if let Some(inbox) = kernel.governance().inbox() {
        inbox.set_wait(config.kernel.approval_timeout);
    }
}

fn activate(parts: &KernelParts, config: Config, idle: IdleEntries) {
    parts.config.set_disabled(&idle.disabled);
    parts.config.shared.set(config, idle.broken.into_iter().chain(idle.disabled));
}

/// Returns whether the change affects which tools the lists of agents contain, or the names of these tools.
fn lists_other_tools(before: &Config, after: &Config) -> bool {
    let of_kernel = |Config { kernel, .. }: &Config| {
        let budget = kernel.tool_context_budget;
        (kernel.surface, kernel.direct_tokens, kernel.portable_names, budget)
    };
    let of_agent = |config: &Config, name: &str| {
        let agent = config.agents.get(name).cloned().unwrap_or_default();
        (agent.surface, agent.portable_names, agent.pinned, agent.budget)
    };
    let mut names = before.agents.keys().chain(after.agents.keys());
    of_kernel(before) != of_kernel(after)
        || names.any(|name| of_agent(before, name) != of_agent(after, name))
}

/// Applies new settings to the servers that keep running. Returns the configured servers that must be restarted
/// instead.
fn reconfigure_servers(
    kernel: &Kernel,
    before: &Config,
    after: &Config,
    change: &ConfigChange,
) -> Vec<ServerConfig> {
    let mut replaced = Vec::new();
    for server in &after.servers {
        let Some(old) = before.server(server.id.as_str()) else { continue };
        let changed = change.changed.iter().find(|changed| changed.server.id == server.id);
        if changed.is_some_and(|changed| changed.effect == ChangeEffect::Restart)
            || supervision(old) != supervision(server)
            || reads_changed(&before.kernel, &after.kernel, server)
        {
            replaced.push(server.clone());
        } else if changed.is_some() {
            kernel.0.fleet.reconfigure(server.clone());
        }
    }
    replaced
}

/// Returns whether a setting of `[kernel]` has changed that this server receives only when it starts.
fn reads_changed(before: &KernelConfig, after: &KernelConfig, server: &ServerConfig) -> bool {
    match &server.target {
        TargetConfig::Program { .. } => before.pass_env != after.pass_env,
        TargetConfig::Url { .. } => {
            (&before.proxy, &before.no_proxy) != (&after.proxy, &after.no_proxy)
        }
        _ => false,
    }
}

/// Removes, replaces and adds servers at the same time. Only a server whose id changed first waits until its program
/// has ended under the old id. Returns the first error.
async fn replace_servers(
    kernel: &Kernel,
    before: &Config,
    change: &ConfigChange,
    replaced: Vec<ServerConfig>,
) -> Result<(), KernelError> {
    let fleet = &kernel.0.fleet;
    let replace = async |server: ServerConfig| {
        let id = server.id.to_string();
        fleet.replace(server).await.map_err(|why| KernelError::Server { server: id, why })
    };
    // If only the id of a program changed, the program under the old id must end before it is started under the new id.
    let removed = before.servers.iter().filter(|old| change.removed.contains(&old.id));
    let removed: Vec<&TargetConfig> = removed.map(|old| &old.target).collect();
    let (renamed, added): (Vec<_>, Vec<_>) =
        change.added.iter().cloned().partition(|server| removed.contains(&&server.target));
    let removing = join_all(change.removed.iter().map(|id| fleet.remove(id)));
    let adding = join_all(added.into_iter().chain(replaced).map(replace));
    let (_, added) = join(removing, adding).await;
    let renamed = join_all(renamed.into_iter().map(replace)).await;
    added.into_iter().chain(renamed).fold(Ok(()), Result::and)
}

/// Returns a configuration for the time until the replaced servers have ended: each of them is only for the tenants
/// that have it both before and after the change. Otherwise callers of added tenants would see the lists and events of
/// the previous program.
fn limit_tenants(before: &Config, after: &Config, change: &ConfigChange) -> Config {
    let mut limited = after.clone();
    for changed in change.changed.iter().filter(|one| one.effect == ChangeEffect::Restart) {
        let id = &changed.server.id;
        let old = before.server(id.as_str()).and_then(|old| old.tenants.as_ref());
        let new = limited.servers.iter_mut().find(|server| server.id == *id);
        if let (Some(old), Some(new)) = (old, new) {
            let tenants = new.tenants.get_or_insert_with(|| old.clone());
            tenants.retain(|tenant| old.contains(tenant));
        }
    }
    limited
}

/// Sets policies and groups, and records the change in the audit log.
async fn apply_governance(
    kernel: &Kernel,
    before: &Config,
    after: &Config,
    by: &Principal,
) -> Result<(), KernelError> {
    let governance = kernel.governance();
    for server in &after.servers {
        let policy = policy(&after.kernel, server);
        if *governance.policies().get(Some(&server.id)) != policy
            || before.server(server.id.as_str()).is_none()
        {
            let set = governance.set_policy(by, &server.id, policy, None);
            set.await.map_err(KernelError::Governed)?;
        }
    }
    for server in kernel.0.fleet.all().values() {
        let Some(approved) = server.approved() else { continue };
        let policy = registered_policy(&after.kernel, approved);
        if *governance.policies().get(Some(server.id())) != policy {
            let set = governance.set_policy(by, server.id(), policy, None);
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

/// Applies each change of the configuration files until the kernel stops, or only reports it if operators must
/// prove their presence.
pub(super) fn follow_files(kernel: &Kernel, origin: ConfigOrigin, loaded: &LoadedConfig) {
    kernel.0.config.set_findings(findings_of(loaded));
    kernel.0.config.set_disabled(&loaded.disabled);
    let reload = ConfigWatcher::new(origin.sources, origin.trust, loaded);
    tokio::spawn(follow(Arc::downgrade(&kernel.0), reload, kernel.0.config.watches()));
}

async fn follow(
    kernel: Weak<KernelParts>,
    mut reload: ConfigWatcher,
    mut watches: watch::Receiver<()>,
) {
    loop {
        let reloaded = tokio::select! {
            biased;
            // Stop waiting for `reload`, which keeps the state folder in use, because another kernel may need the
            // folder.
            _ = watches.changed() => return,
            reloaded = reload.next() => reloaded,
        };
        let Some(kernel) = kernel.upgrade().map(Kernel) else { return };
        let mut loaded = match reloaded {
            Reloaded::Changed(_, loaded) => loaded,
            Reloaded::Kept(error) => {
                kernel.0.config.set_findings(findings_of_error(&error));
                continue;
            }
            _ => continue,
        };
        keep_broken_servers(&kernel, &mut loaded);
        if kernel.operator_proof() != OperatorProof::None {
            hold(&kernel, &loaded);
            continue;
        }
        match apply_loaded(&kernel, *loaded, &file_owner()).await {
            Ok(result) => {
                tracing::info!(changes = result.changed.len(), "configuration reloaded");
            }
            Err(error) => tracing::error!(%error, "the configuration was reloaded only in part"),
        }
    }
}

/// Reports a change of the files that the kernel does not apply before an operator confirms it with `mgp reload`.
fn hold(kernel: &Kernel, loaded: &LoadedConfig) {
    let change = ConfigChange::between(&configured(kernel), &loaded.config);
    let mut findings = findings_of(loaded);
    if !change.is_empty() {
        let what = changes(&change).into_iter().map(|one| match one.id {
            Some(id) => format!("{} `{id}` {}", one.kind, one.change),
            None => format!("{} {}", one.kind, one.change),
        });
        let what = what.collect::<Vec<_>>().join(", ");
        let message = format!(
            "the configuration was changed and is not applied: {what}; run `mgp reload` to apply it"
        );
        tracing::warn!("{message}");
        findings.push(KernelFinding::new("warning", message));
    }
    kernel.0.config.set_findings(findings);
}

/// Returns the active configuration without the servers in this process, which are in no file.
fn configured(kernel: &Kernel) -> Config {
    let mut config = Config::clone(&kernel.0.config.config());
    config.servers.retain(|server| !matches!(server.target, TargetConfig::InProcess));
    config
}

/// Returns the principal in the records about changes of files: an operator, because the files belong to the user.
fn file_owner() -> Principal {
    Principal::new(Principal::local().tenant().clone(), "configuration").operator()
}

/// Logs the errors and warnings about the configuration files.
pub(super) fn log_findings(loaded: &LoadedConfig) {
    for finding in &loaded.findings {
        tracing::warn!("{finding}");
    }
    if let Some(unapproved) = &loaded.unapproved {
        tracing::warn!("{unapproved}");
    }
}

/// Returns the errors and warnings about the configuration files that could be loaded.
fn findings_of(loaded: &LoadedConfig) -> Vec<KernelFinding> {
    let mut findings: Vec<_> = loaded.findings.iter().map(kernel_finding).collect();
    if let Some(unapproved) = &loaded.unapproved {
        let mut finding = KernelFinding::new("warning", unapproved.to_string());
        finding.file = Some(unapproved.file.display().to_string());
        findings.push(finding);
    }
    findings
}

/// Returns the reasons why the configuration files could not be loaded.
fn findings_of_error(error: &mgp_discovery::DiscoveryError) -> Vec<KernelFinding> {
    match error {
        mgp_discovery::DiscoveryError::InvalidConfig(faults) => {
            faults.findings().iter().map(kernel_finding).collect()
        }
        error => vec![KernelFinding::new("error", error.to_string())],
    }
}

fn kernel_finding(finding: &ConfigFinding) -> KernelFinding {
    let text = match &finding.remedy {
        Some(remedy) => format!("{}; {remedy}", finding.what),
        None => finding.what.clone(),
    };
    let mut result = KernelFinding::new(finding.severity.to_string(), text);
    result.file = Some(finding.file.display().to_string());
    result.line = Some(finding.line as u64);
    result.server_id.clone_from(&finding.server);
    result
}

fn changes(change: &ConfigChange) -> Vec<KernelChange> {
    let one = |kind: &str, id: Option<&str>, what: &str| {
        let mut change = KernelChange::new(kind, what);
        change.id = id.map(str::to_owned);
        change
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
    all.extend(change.limits.as_ref().map(|_| one("limits", None, "changed")));
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OPEN: &str = "[[servers]]\nid = 'a'\ncommand = 'no-such-program'\n\
                        mgp = { default_policy = 'opt-out' }\n";

    #[tokio::test]
    async fn an_unchanged_configuration_sets_a_policy_that_could_not_be_set_before() {
        let config = || Config::parse("mgp.toml", OPEN).unwrap().config;
        let kernel = Kernel::builder().config(config()).build().await.unwrap();
        let (policies, id) = (kernel.governance().policies(), "a".into());
        let configured = policies.get(Some(&id));
        policies.remove(&id);
        assert_ne!(policies.get(Some(&id)), configured);
        assert!(kernel.configure(config()).await.unwrap().is_empty());
        assert_eq!(policies.get(Some(&id)), configured);
        kernel.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_data_of_a_server_are_not_forgotten_while_a_reload_may_add_the_server() {
        let kernel = Kernel::builder().build().await.unwrap();
        let (id, limit) = ("a".into(), Duration::from_secs(1));
        let applying = kernel.0.config.applying.lock().await;
        assert!(tokio::time::timeout(limit, kernel.forget_server(&id)).await.is_err());
        drop(applying);
        assert!(kernel.forget_server(&id).await.unwrap());
        kernel.stop().await;
    }

    #[test]
    fn a_server_is_only_for_the_tenants_of_both_entries_until_it_is_replaced() {
        let config = |command: &str, tenants: &str| {
            let text = format!("[[servers]]\nid = 'a'\ncommand = '{command}'\n{tenants}\n");
            Config::parse("mgp.toml", &text).unwrap().config
        };
        let before = config("old", "tenants = ['acme', 'beta']");
        for (command, tenants, expected) in [
            ("new", "", Some("acme beta")),
            ("new", "tenants = ['beta', 'local']", Some("beta")),
            ("new", "tenants = ['local']", Some("")),
            ("old", "", None),
        ] {
            let after = config(command, tenants);
            let limited = limit_tenants(&before, &after, &ConfigChange::between(&before, &after));
            let limited = limited.servers[0].tenants.as_ref().map(|names| names.join(" "));
            assert_eq!(limited.as_deref(), expected, "{command} {tenants}");
        }
    }
}
