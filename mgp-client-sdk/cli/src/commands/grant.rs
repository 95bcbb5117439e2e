//! The first grants for a new server: access for an agent, and the permissions that the server's tools need, except
//! dangerous permissions.
//!
//! `mgp connect`, `mgp import` and `mgp servers add` make these grants. They are ordinary decisions, which are in the
//! audit log, and which `mgp access` and `mgp permissions` show and revoke.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mgp_discovery::import::ToolLimit;
use mgp_discovery::{Config, KernelConfig, ServerConfig};
use mgp_security::{Assessment, DefinitionState, Governance, ServerPolicy};
use mgp_types::mcp::Tool;
use mgp_types::mgp::{AccessQueryParams, KernelPermissionChangeParams, Permission, RiskLevel};
use mgp_types::service::ServerId;
use serde::Serialize;

use super::default_policy;
use super::probe::{ProbeError, ProbedServer, Prober};
use crate::args::Global;
use crate::backend::{Backend, PermissionDecision};
use crate::exit::{CliResult, Failure};
use crate::output::{Output, plural};
use crate::signals::Signals;
use crate::socket_hello::{Intent, check_agent_name};
use crate::state;

mod first_lists;
mod limit;

/// The grants for a server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GrantResult {
    /// The server.
    server: String,
    /// The agent that got access.
    agent: String,
    /// The only tools of the server that the agent got, if it did not get all.
    #[serde(skip_serializing_if = "Option::is_none")]
    only_tools: Option<BTreeSet<String>>,
    /// The tools of the server that the agent did not get, if it got all other tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    withheld_tools: Option<BTreeSet<String>>,
    /// The reason why the agent can use more tools than these grants give it, and the command that changes this.
    #[serde(skip_serializing_if = "Option::is_none")]
    excess: Option<String>,
    /// The approved permissions.
    permissions: Vec<String>,
    /// Dangerous permissions. They are not approved; a person is asked at the first use of each.
    asked: Vec<String>,
    /// The number of dangerous tools; a person confirms each of their calls.
    confirmed: usize,
    /// The number of dangerous tools whose names and arguments suggest that they only read; `mgp tools risk` proposes a
    /// lower risk for them.
    proposed: usize,
    /// The number of the server's tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    /// `true` if the definitions of the tools were recorded. If a kernel runs, it records them when it connects.
    #[serde(skip)]
    is_recorded: bool,
    /// The number of the server's tools whose definition waits for a review.
    waiting: usize,
    /// The reason why the server's tools are unknown, why the agent can use none of them, or why no permission was
    /// approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl GrantResult {
    /// Returns the id of the server if the server could not be started.
    pub(super) fn failed_server(&self) -> Option<&str> {
        self.tools.is_none().then_some(&*self.server)
    }

    /// Writes a line about the servers that are not ready. Some did not start for the grants; the servers in `later`
    /// were not ready afterwards. The line names the command that will show the permissions that these servers need.
    pub(super) fn render_failed(all: &[Self], later: &BTreeSet<String>, out: &mut Output) {
        let later = later.iter().map(String::as_str);
        let failed: BTreeSet<&str> =
            all.iter().filter_map(Self::failed_server).chain(later).collect();
        if !failed.is_empty() {
            let names = failed.into_iter().collect::<Vec<_>>().join(", ");
            out.hint(format!(
                "not ready: {names}; once it is, `mgp approvals ls` shows the permissions that it needs"
            ));
        }
    }

    /// Returns whether the host of this agent allows none of the tools of this server.
    pub(super) fn bars(&self, agent: &str, server: &str) -> bool {
        self.agent == agent && self.server == server && self.error.as_deref() == Some(NO_TOOL)
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    /// Writes the results; agents that got the same grants for a server share an entry.
    pub(super) fn render_all(all: &[Self], out: &mut Output) {
        let mut groups: Vec<(&Self, Vec<&Self>)> = Vec::new();
        for one in all {
            match groups.iter_mut().find(|(first, _)| first.is_like(one)) {
                Some((_, group)) => group.push(one),
                None => groups.push((one, vec![one])),
            }
        }
        for (first, group) in groups {
            first.render(&group, out);
        }
    }

    /// Returns whether another agent got the same grants. The approved permissions are not compared, because each is
    /// approved only once for all agents.
    fn is_like(&self, other: &Self) -> bool {
        self.server == other.server
            && self.limits() == other.limits()
            && self.asked == other.asked
            && (self.confirmed, self.proposed) == (other.confirmed, other.proposed)
            && self.error == other.error
    }

    /// Writes this result, together with the results of other agents that got the same grants.
    fn render(&self, group: &[&Self], out: &mut Output) {
        let agents: Vec<&str> = group.iter().map(|one| one.agent()).collect();
        let mut parts = vec![format!("access for {}", agents.join(", "))];
        parts.extend(self.limits());
        if let Some(tools) = self.tools {
            parts.push(if self.is_recorded {
                format!("{} recorded", plural(tools, "tool definition"))
            } else {
                plural(tools, "tool")
            });
        }
        let approved: BTreeSet<&str> =
            group.iter().flat_map(|one| &one.permissions).map(String::as_str).collect();
        if !approved.is_empty() {
            let approved = approved.into_iter().collect::<Vec<_>>().join(" ");
            parts.push(format!("approved {approved}"));
        }
        out.hint(format!("{}: {}", self.server, parts.join("; ")));
        for finding in self.findings() {
            out.hint(format!("    {finding}"));
        }
    }

    /// Returns what a person still has to do or decide, and the failures.
    fn findings(&self) -> Vec<String> {
        let Self { server, asked, confirmed, proposed, tools, waiting, error, .. } = self;
        let mut findings = Vec::new();
        if *waiting > 0 {
            let wait = if *waiting == 1 { "waits" } else { "wait" };
            let waiting = plural(*waiting, "tool definition");
            findings.push(format!("{waiting} {wait} for a review: `mgp tools approve {server}`"));
        }
        if !asked.is_empty() {
            let asked = asked.join(" ");
            findings.push(format!(
                "a person is asked before the first use of {asked}; to answer now: `mgp permissions approve {server} {asked}`"
            ));
        }
        if *confirmed > 0 {
            let tools = plural(*confirmed, "dangerous tool");
            let mut parts = vec![format!("a person confirms each call of {tools}")];
            if *proposed > 0 {
                let reads = match *proposed {
                    1 => "only reads by its name",
                    _ => "only read by their names",
                };
                parts.push(format!(
                    "{proposed} of them {reads}, but the server does not declare it: `mgp tools risk {server}`"
                ));
            }
            findings.push(parts.join("; "));
        }
        findings.extend(error.clone());
        if tools.is_none() {
            findings.push("its permissions are asked for once it is ready".to_owned());
        }
        findings
    }

    /// Returns descriptions of the access that the agent did not get.
    fn limits(&self) -> Vec<String> {
        let limit = match &self.only_tools {
            Some(tools) => ToolLimit::Only(tools.clone()),
            None => ToolLimit::Except(self.withheld_tools.clone().unwrap_or_default()),
        };
        if let Some(excess) = &self.excess {
            return vec![format!("the host allows {limit}, but {excess}")];
        }
        let tools = (!limit.is_all()).then(|| format!("its tools: {limit}"));
        let others = self.only_tools.is_some().then(|| NO_RESOURCES.to_owned());
        tools.into_iter().chain(others).collect()
    }
}

/// The note on a grant of single tools; only a grant of the whole server includes its resources and prompts.
const NO_RESOURCES: &str = "its resources and prompts are not granted";

/// The finding that the agent's host allows none of a server's tools, e.g. because the host's list of allowed tools has
/// old names.
const NO_TOOL: &str = "the host allows none of the tools that the server has";

/// An agent, and the servers and tools to which it gets access.
pub(super) struct NewAccess<'a> {
    pub(super) agent: String,
    pub(super) servers: Vec<&'a ServerConfig>,
    /// The tools that the agent gets, by the id of the server; all tools of a server that is not in the map.
    pub(super) tools: BTreeMap<String, ToolLimit>,
    /// The reason for the grants, which the audit log records.
    pub(super) because: String,
}

impl NewAccess<'_> {
    /// Returns the tools of a server that the agent gets.
    fn limit(&self, server: &str) -> ToolLimit {
        self.tools.get(server).cloned().unwrap_or_default()
    }
}

/// Grants agents access to servers, and approves the permissions that the servers' tools need.
///
/// The function starts the servers before `write` changes the configuration, and no signal interrupts the changes. So a
/// command that is ended early has changed nothing. If an operator has decided about the agent and a server, the
/// decision stays. If an earlier command has made the entries, the function changes them to the tools that the agent
/// gets now.
///
/// `switch` makes hosts start mgp. It runs last: if a grant fails, or if the process is killed, each host still starts
/// its own servers, and the same command can be repeated.
pub(super) async fn grant_access(
    global: &Global,
    config: &Config,
    mut wanted: Vec<NewAccess<'_>>,
    write: impl FnOnce() -> CliResult,
    switch: impl FnOnce() -> CliResult,
) -> CliResult<Vec<GrantResult>> {
    wanted.iter().try_for_each(|wanted| check_agent(&wanted.agent))?;
    let backend = Backend::open(global, Intent::Change).await?;
    for wanted in &mut wanted {
        wanted.servers = limit::to_change(global, &backend, wanted).await?;
    }
    // Release the state folder while servers are being started, because a kernel must be able to lock it.
    backend.close().await?;
    let governance = Governance::builder().build();
    let probed = probe_each(global, &config.kernel, &governance, &wanted).await?;
    // From this line on, no signal of `Signals` ends the process, so that all changes are completed.
    let _signals = Signals::new()?;
    let backend = Backend::open(global, Intent::Change).await?;
    let granted = grant_all(&backend, &governance, &wanted, &probed, write).await;
    if granted.is_ok() {
        first_lists::store(global, &backend, config, &probed).await;
    }
    // Close the backend even after a failure, because closing writes the changes to disk.
    backend.close().await?;
    let granted = granted?;
    switch()?;
    Ok(granted)
}

/// Refuses a name that no access entry can have. Accepts `*`, which means every agent, and `group:NAME`, which means a
/// group.
fn check_agent(agent: &str) -> CliResult {
    match agent.strip_prefix("group:").unwrap_or(agent) {
        "*" => Ok(()),
        name => check_agent_name(name).map(drop).map_err(Failure::usage),
    }
}

/// The results of starting servers to read their tools, by the ids of the servers.
type Probes = HashMap<ServerId, Result<ProbedServer, ProbeError>>;

/// Calls `write`, and then grants the agents access to the servers.
async fn grant_all(
    backend: &Backend,
    governance: &Governance,
    wanted: &[NewAccess<'_>],
    probed: &Probes,
    write: impl FnOnce() -> CliResult,
) -> CliResult<Vec<GrantResult>> {
    write()?;
    // Reload the configuration, because a running kernel must know the new servers before it can decide about them.
    backend.reload().await;
    let mut all = Vec::new();
    for wanted in wanted {
        for server in &wanted.servers {
            if let Some(probed) = probed.get(&server.id) {
                all.push(grant_server(backend, governance, wanted, server, probed).await?);
            }
        }
    }
    Ok(all)
}

/// Returns the servers that the agent may not use although no operator decided this: no access entry applies, and the
/// `default_policy` does not allow the server.
pub(super) async fn not_granted(
    global: &Global,
    agent: &str,
    config: &Config,
) -> CliResult<Vec<String>> {
    let backend = Backend::open(global, Intent::Read).await?;
    let mut left = Vec::new();
    for server in &config.servers {
        let id = server.id.as_str();
        let result = backend.query(AccessQueryParams::new(agent, id)).await?;
        if !result.entries.is_empty() {
            continue;
        }
        let decided = default_policy::of_kernel(id, None, &backend).await?;
        let decided = decided.unwrap_or_else(|| default_policy::of_config(config, id, None));
        if !["allow", default_policy::EXCLUDED].contains(&decided) {
            left.push(id.to_owned());
        }
    }
    backend.close().await?;
    Ok(left)
}

/// Starts each server once to read its tools, several servers at a time.
async fn probe_each(
    global: &Global,
    kernel: &KernelConfig,
    governance: &Governance,
    wanted: &[NewAccess<'_>],
) -> CliResult<Probes> {
    let servers = wanted.iter().flat_map(|wanted| &wanted.servers);
    let servers: BTreeMap<&str, &ServerConfig> =
        servers.map(|server| (server.id.as_str(), *server)).collect();
    for server in servers.values() {
        governance.policies().set(server.id.clone(), policy(server));
    }
    let servers: Vec<&ServerConfig> = servers.into_values().collect();
    let prober = Prober::new(None, kernel, &state::folder(global)?).reading_lists();
    let probed = prober.probe_all(global, &servers, governance.definitions()).await;
    let ids = servers.iter().map(|server| server.id.clone());
    Ok(ids.zip(probed).filter_map(|(id, probed)| Some((id, probed?))).collect())
}

async fn grant_server(
    backend: &Backend,
    governance: &Governance,
    wanted: &NewAccess<'_>,
    server: &ServerConfig,
    probed: &Result<ProbedServer, ProbeError>,
) -> CliResult<GrantResult> {
    let id = server.id.as_str();
    let limit = wanted.limit(id);
    let excess = limit::grant_tools(backend, wanted, server).await?;
    let (needed, confirmed, proposed, tools, mut error) = match probed {
        Ok(probed) => {
            // Record the tool definitions if no kernel runs. A running kernel does so when it connects to the server.
            if let Backend::Folder(state, _) = backend {
                state.definitions().observe(&server.id, &probed.raw).await?;
            }
            let tools: Vec<&Tool> =
                probed.tools.iter().filter(|tool| limit.allows(&tool.name)).collect();
            let needed = needed_permissions(governance, &server.id, &tools);
            let dangerous = assessments(governance, &server.id, &tools)
                .filter(|assessment| assessment.effective_risk == RiskLevel::Dangerous);
            let proposed = proposals(governance, &server.id, &tools);
            let error = (tools.is_empty() && !probed.tools.is_empty()).then(|| NO_TOOL.to_owned());
            (needed, dangerous.count(), proposed, Some(probed.tools.len()), error)
        }
        Err(error) => {
            // Ignore a failure: a kernel with another configuration does not know the server, and its first calls then
            // ask for the permissions.
            let _ = backend.review_later(id).await;
            (Vec::new(), 0, 0, None, Some(format!("not started: {error}")))
        }
    };
    let waiting = probed.as_ref().map_or(0, |probed| held(backend, governance, &server.id, probed));
    let (asked, mut granted): (Vec<_>, Vec<_>) =
        needed.into_iter().partition(|permission| permission.risk() == RiskLevel::Dangerous);
    if let Err(failure) = approve(backend, server, &mut granted, &wanted.because).await? {
        error = Some(format!("its permissions were not approved: {failure}"));
        granted.clear();
    }
    let (only_tools, withheld_tools) = match limit {
        ToolLimit::Only(tools) => (Some(tools), None),
        ToolLimit::Except(tools) => (None, Some(tools).filter(|tools| !tools.is_empty())),
    };
    let names = |permissions: &[Permission]| permissions.iter().map(ToString::to_string).collect();
    Ok(GrantResult {
        server: id.to_owned(),
        agent: wanted.agent.clone(),
        only_tools,
        withheld_tools,
        excess,
        permissions: names(&granted),
        asked: names(&asked),
        confirmed,
        proposed,
        tools,
        is_recorded: tools.is_some() && matches!(backend, Backend::Folder(..)),
        waiting,
        error,
    })
}

/// Approves permissions for a server. First removes from the list the permissions that were decided before, or that the
/// configuration grants. The inner error is the reason why no permission was approved.
async fn approve(
    backend: &Backend,
    server: &ServerConfig,
    permissions: &mut Vec<Permission>,
    because: &str,
) -> CliResult<CliResult> {
    // Leave out permissions about which the operator has already decided, so that these decisions stay.
    let decided = decided(backend, &server.id).await?;
    permissions
        .retain(|permission| !decided.contains(permission) && !is_configured(server, permission));
    if permissions.is_empty() {
        return Ok(Ok(()));
    }
    let mut params = KernelPermissionChangeParams::new(server.id.as_str(), permissions.clone());
    params.because = Some(because.to_owned());
    // Return a failure as the inner error: a kernel with another configuration does not know the server.
    Ok(backend.decide(PermissionDecision::Approve, params).await.map(drop))
}

/// Returns whether the configuration grants a permission to a server. An approval would replace that grant, and so lift
/// its limits.
fn is_configured(server: &ServerConfig, permission: &Permission) -> bool {
    let mut listed = server.mgp.iter().flat_map(|mgp| &mgp.permissions).map(Permission::as_str);
    listed.any(|name| {
        let group = name.strip_suffix(".*").unwrap_or(name);
        let rest = permission.as_str().strip_prefix(group);
        name == "*" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Returns the number of tools whose definition waits for a review, because of its content or because it has changed.
/// Only the state of the kernel contains the earlier definitions.
fn held(
    backend: &Backend,
    governance: &Governance,
    server: &ServerId,
    probed: &ProbedServer,
) -> usize {
    let stored = if let Backend::Folder(stored, _) = backend { stored } else { governance };
    // Count names in a set, because a server may list a tool twice.
    let names: BTreeSet<&String> = probed.listed.iter().collect();
    let is_held = |name: &&String| {
        [governance, stored].iter().any(|known| {
            let state = known.definitions().state(Some(server), name);
            matches!(state, DefinitionState::Flagged(_) | DefinitionState::Changed(_))
        })
    };
    names.into_iter().filter(is_held).count()
}

fn assessments(
    governance: &Governance,
    server: &ServerId,
    tools: &[&Tool],
) -> impl Iterator<Item = Arc<Assessment>> {
    let tools = tools.iter();
    tools.map(|tool| governance.definitions().assessment(Some(server), &tool.name))
}

/// Returns the number of these tools of a server that have a proposal for a lower risk.
pub(super) fn proposals(governance: &Governance, server: &ServerId, tools: &[&Tool]) -> usize {
    let is_proposed = |tool: &&&Tool| governance.proposed_risk(server, &tool.name).is_some();
    tools.iter().filter(is_proposed).count()
}

/// Returns the permissions that the kernel will require for calls of these tools of a server.
fn needed_permissions(
    governance: &Governance,
    server: &ServerId,
    tools: &[&Tool],
) -> Vec<Permission> {
    let each = assessments(governance, server, tools);
    let mut needed: Vec<Permission> =
        each.flat_map(|assessment| assessment.permissions.clone()).collect();
    needed.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    needed.dedup();
    needed
}

async fn decided(backend: &Backend, server: &ServerId) -> CliResult<Vec<Permission>> {
    Ok(backend
        .permissions(Some(server.as_str()))
        .await?
        .into_iter()
        .map(|decision| decision.permission)
        .collect())
}

/// Returns the part of a server's policy that determines the risks of its tools.
pub(super) fn policy(server: &ServerConfig) -> ServerPolicy {
    let Some(mgp) = &server.mgp else { return ServerPolicy::default() };
    let policy = ServerPolicy::default().trust(mgp.trust_level.clone());
    mgp.risk.iter().fold(policy, |policy, (tool, risk)| policy.risk(tool.as_str(), risk.clone()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn agents_that_got_the_same_share_one_entry() {
        let result = |agent: &str, permissions: &[&str], error: Option<&str>| GrantResult {
            server: "files".to_owned(),
            agent: agent.to_owned(),
            only_tools: None,
            withheld_tools: None,
            excess: None,
            permissions: permissions.iter().map(|&name| name.to_owned()).collect(),
            asked: vec!["shell.execute".to_owned()],
            confirmed: 2,
            proposed: 1,
            tools: Some(7),
            is_recorded: agent != "bob",
            waiting: 0,
            error: error.map(str::to_owned),
        };
        let held = GrantResult { waiting: 2, ..result("di", &[], None) };
        let expected = "2 tool definitions wait for a review: `mgp tools approve files`";
        assert_eq!(held.findings()[0], expected);
        let all = [
            result("ada", &["filesystem.read"], None),
            result("bob", &[], Some("its permissions were not approved: x")),
            result("cy", &[], None),
        ];
        let mut out = Output::default();
        GrantResult::render_all(&all, &mut out);
        let lines: Vec<&str> = out.text().lines().collect();
        let first =
            "files: access for ada, cy; 7 tool definitions recorded; approved filesystem.read";
        assert_eq!((lines.len(), lines[0]), (7, first), "{lines:?}");
        assert!(lines[2].starts_with("    a person confirms each call of 2 dangerous tools; 1 of"));
        assert_eq!(lines[3], "files: access for bob; 7 tools");
        assert_eq!(lines[6], "    its permissions were not approved: x");
    }

    #[test]
    fn permissions_that_the_configuration_grants_get_no_approval() {
        let is_granted = |listed: &str, permission: Permission| {
            let text = format!(
                "[[servers]]\nid = 'files'\ncommand = 'x'\n[servers.mgp]\npermissions = ['{listed}']\n"
            );
            let config = Config::parse(Path::new("mgp.toml"), &text).unwrap().config;
            is_configured(&config.servers[0], &permission)
        };
        for listed in ["filesystem.read", "filesystem", "filesystem.*", "*"] {
            assert!(is_granted(listed, Permission::FilesystemRead), "{listed}");
        }
        for listed in ["filesystem.write", "file", "network.outbound"] {
            assert!(!is_granted(listed, Permission::FilesystemRead), "{listed}");
        }
    }
}
