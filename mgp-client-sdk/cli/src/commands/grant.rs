//! First grants for a new server: access for an agent, and the permissions of its tools that are not dangerous.
//!
//! They are ordinary entries: recorded, shown and revoked by `mgp access` and `mgp permissions`.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mgp_discovery::ServerConfig;
use mgp_security::{Governance, ServerPolicy};
use mgp_transport::http::Proxy;
use mgp_types::mgp::{
    AccessGrantParams, AccessQueryParams, KernelPermissionChangeParams, Permission, RiskLevel,
};
use mgp_types::service::ServerId;
use serde::Serialize;

use super::probe::{ProbeError, ProbedServer, Prober};
use crate::args::Global;
use crate::backend::{Backend, PermissionDecision};
use crate::exit::CliResult;
use crate::output::{Output, Progress, plural};
use crate::socket_hello::Intent;
use crate::state;

/// The grants for a server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GrantResult {
    /// The server.
    server: String,
    /// The agent that got access.
    agent: String,
    /// The approved permissions.
    permissions: Vec<String>,
    /// Dangerous permissions, which are not approved; each first use asks for approval.
    asked: Vec<String>,
    /// The number of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    /// The reason its tools are unknown or no permission was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl GrantResult {
    pub(super) fn render(&self, out: &mut Output) {
        let Self { server, agent, permissions, asked, tools, error } = self;
        let mut parts = vec![format!("access for {agent}")];
        if let Some(tools) = tools {
            parts.push(format!("{} recorded", plural(*tools, "tool definition")));
        }
        if !permissions.is_empty() {
            parts.push(format!("approved {}", permissions.join(" ")));
        }
        if !asked.is_empty() {
            parts.push(format!("will ask for {}", asked.join(" ")));
        }
        if let Some(error) = error {
            parts.push(error.clone());
        }
        out.line(format!("{server}: {}", parts.join("; ")));
    }
}

/// Grants an agent access to servers, and the servers the permissions of their tools.
///
/// Servers for which the agent already has an entry are skipped.
pub(super) async fn grant_access(
    global: &Global,
    agent: &str,
    servers: &[&ServerConfig],
    because: &str,
) -> CliResult<Vec<GrantResult>> {
    let backend = Backend::open(global, Intent::Change).await?;
    let mut new = Vec::new();
    for server in servers.iter().copied() {
        let result = backend.query(AccessQueryParams::new(agent, server.id.as_str())).await?;
        if result.entries.into_iter().all(|entry| entry.agent_id != agent) {
            new.push(server);
        }
    }
    // Servers start slowly; a kernel must be able to lock the folder meanwhile.
    backend.close().await?;
    let governance = Governance::builder().build();
    for server in &new {
        governance.policies().set(server.id.clone(), policy(server));
    }
    let prober = Prober::new(None, &state::folder(global)?, Proxy::from_env());
    let mut probes: FuturesUnordered<_> = new
        .iter()
        .map(|server| async { (*server, prober.probe(server, governance.definitions()).await) })
        .collect();
    let mut progress = Progress::new(global, "checking servers", new.len());
    let mut probed = Vec::new();
    while let Some(one) = probes.next().await {
        progress.step();
        probed.push(one);
    }
    drop(progress);
    probed.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
    let backend = Backend::open(global, Intent::Change).await?;
    // A running kernel must know the new servers before it decides about them.
    backend.reload().await;
    let mut all = Vec::new();
    for (server, probed) in probed {
        all.push(grant_server(&backend, &governance, agent, server, probed, because).await?);
    }
    backend.close().await?;
    Ok(all)
}

async fn grant_server(
    backend: &Backend,
    governance: &Governance,
    agent: &str,
    server: &ServerConfig,
    probed: Result<ProbedServer, ProbeError>,
    because: &str,
) -> CliResult<GrantResult> {
    let id = server.id.as_str();
    backend.grant(AccessGrantParams::allow(agent, id).because(because)).await?;
    let (needed, tools, mut error) = match probed {
        Ok(probed) => {
            // A running kernel records definitions by itself.
            if let Backend::Folder(state, _) = backend {
                state.definitions().observe(&server.id, &probed.raw).await?;
            }
            (needed_permissions(governance, &server.id, &probed), Some(probed.tools.len()), None)
        }
        Err(error) => (Vec::new(), None, Some(format!("not started: {error}"))),
    };
    let (asked, mut granted): (Vec<_>, Vec<_>) =
        needed.into_iter().partition(|permission| permission.risk() == RiskLevel::Dangerous);
    // Earlier decisions are not changed.
    let decided = decided(backend, &server.id).await?;
    granted.retain(|permission| !decided.contains(permission));
    if !granted.is_empty() {
        let mut params = KernelPermissionChangeParams::new(id, granted.clone());
        params.because = Some(because.to_owned());
        let change = backend.decide(PermissionDecision::Approve, params);
        // A kernel with another configuration does not know the server.
        if let Err(failure) = change.await {
            error = Some(format!("its permissions were not approved: {failure}"));
            granted.clear();
        }
    }
    let names = |permissions: &[Permission]| permissions.iter().map(ToString::to_string).collect();
    Ok(GrantResult {
        server: id.to_owned(),
        agent: agent.to_owned(),
        permissions: names(&granted),
        asked: names(&asked),
        tools,
        error,
    })
}

/// Returns the permissions that the kernel will require for its tools.
fn needed_permissions(
    governance: &Governance,
    server: &ServerId,
    probed: &ProbedServer,
) -> Vec<Permission> {
    let tools = probed.tools.iter();
    let each = tools.map(|tool| governance.definitions().assessment(Some(server), &tool.name));
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

fn policy(server: &ServerConfig) -> ServerPolicy {
    let Some(mgp) = &server.mgp else { return ServerPolicy::default() };
    let policy = ServerPolicy::default().trust(mgp.trust_level.clone());
    mgp.risk.iter().fold(policy, |policy, (tool, risk)| policy.risk(tool.as_str(), risk.clone()))
}
