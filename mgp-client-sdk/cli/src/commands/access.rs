//! `mgp access`: which agent may use which tool (MGP §5).

use std::collections::BTreeSet;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_discovery::Trust;
use mgp_security::{ConfirmRule, NameFlaw, ServerHoldings};
use mgp_types::method::KernelServers;
use mgp_types::mgp::{
    AccessEntry, AccessGrantParams, AccessPermission, AccessQueryParams, AccessQueryResult,
    AccessRevokeParams, EntryType, KernelServersParams,
};
use serde::Serialize;
use std::sync::Arc;

use super::typo_hints::typo_hints;
use crate::args::ConfigArg;
use crate::args::Global;
use crate::backend::{Backend, operator};
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, Cell, Color, Output, Render, print};
use crate::socket_hello::Intent;
use crate::{state, time_args};

/// `mgp access`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Access {
    /// Allow an agent to use a server, or one of its tools
    #[command(
        after_help = "Example:\n  mgp access grant cursor files\n  mgp access grant cursor files read_file --expires 8h\n  mgp access grant cursor files write_file --no-confirm\n  mgp access grant cursor clock --no-confirm     # all of its tools\n  mgp access grant '*' clock        # everyone"
    )]
    Grant(Grant),
    /// Remove grants and denials
    #[command(
        after_help = "Example:\n  mgp access revoke cursor files            # the entries of the server and of its tools\n  mgp access revoke cursor files read_file"
    )]
    Revoke(Target),
    /// Show whether an agent may use a server or tool, and why
    #[command(after_help = "Example:\n  mgp access query cursor files write_file")]
    Query(Target),
    /// Show the access of all agents to all servers
    Matrix(Matrix),
}

/// An agent, a server, and optionally a tool.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// Agent; `group:NAME` is a group, `*` every agent
    agent: String,
    /// Server
    server: String,
    /// One tool of the server
    tool: Option<String>,
}

/// `mgp access grant`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Grant {
    #[command(flatten)]
    target: Target,
    /// Deny access instead
    #[arg(long)]
    deny: bool,
    /// Run calls of the tool, or of all tools of the server, without confirmation, whatever their risk
    #[arg(long, conflicts_with = "deny")]
    no_confirm: bool,
    /// Expiry: 30m, 8h, 90d, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = time_args::future)]
    expires: Option<SystemTime>,
    /// Reason for the audit log
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// `mgp access matrix`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Matrix {
    /// Also show this agent; may be given several times
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    #[command(flatten)]
    config: ConfigArg,
}

/// The access of an agent, and what decides it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct QueryResult {
    /// The agent.
    agent: String,
    /// The server.
    server: String,
    /// The tool, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// `allow` or `deny`, if a tool was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    permission: Option<String>,
    /// The source of the decision: `tool_grant`, `server_grant` or `default_policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The matching entries.
    entries: Vec<AccessEntry>,
}

/// The access of all agents to all servers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AccessMatrix {
    /// The servers.
    servers: Vec<String>,
    /// Those of the servers that do not exist: their entries would apply to a later server of the id.
    left: Vec<String>,
    /// The agents and their access.
    agents: Vec<MatrixRow>,
}

/// The access of an agent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MatrixRow {
    /// The agent.
    agent: String,
    /// One entry for each server, in order.
    access: Vec<ServerAccess>,
}

/// The access of an agent to a server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServerAccess {
    /// The server.
    server: String,
    /// `allow` or `deny` for the whole server, or `default`.
    whole: &'static str,
    /// Tools allowed by name.
    allowed: Vec<String>,
    /// Tools denied by name.
    denied: Vec<String>,
}

impl QueryResult {
    fn new(target: &Target, result: AccessQueryResult) -> Self {
        Self {
            agent: target.agent.clone(),
            server: target.server.clone(),
            tool: target.tool.clone(),
            permission: result.permission.map(|permission| permission.as_str().to_owned()),
            source: result.source.map(|source| source.as_str().to_owned()),
            entries: result.entries.into_iter().collect(),
        }
    }
}

impl Render for QueryResult {
    fn render(&self, out: &mut Output) {
        if let (Some(permission), Some(tool)) = (&self.permission, &self.tool) {
            let color = if permission == "allow" { Color::Green } else { Color::Red };
            let source = self.source.as_deref().unwrap_or("-").replace('_', " ");
            let reason = format!("{} for {} of {}, by {source}", self.agent, tool, self.server);
            out.status_line(&Cell::from(permission.as_str()).color(color), &reason);
            if permission != "allow" {
                out.line(format!(
                    "to allow it: mgp access grant {} {} {tool}",
                    self.agent, self.server
                ));
            }
            return;
        }
        if self.entries.is_empty() {
            out.line(format!(
                "no entry for {} and {}; the server's default_policy decides",
                self.agent, self.server
            ));
            return;
        }
        let rows = self.entries.iter().map(|entry| {
            let allows = entry.permission == AccessPermission::Allow;
            [
                entry.agent_id.as_str().into(),
                entry.tool_name.as_deref().unwrap_or("(all)").into(),
                Cell::from(entry.permission.as_str()).color(if allows {
                    Color::Green
                } else {
                    Color::Red
                }),
                entry.expires_at.as_ref().map(ToString::to_string).into(),
                entry.granted_by.as_deref().into(),
                entry.justification.as_deref().into(),
            ]
        });
        out.table(["AGENT", "TOOL", "ACCESS", "EXPIRES", "BY", "BECAUSE"], rows);
    }
}

impl Render for AccessMatrix {
    fn render(&self, out: &mut Output) {
        if self.servers.is_empty() || self.agents.is_empty() {
            return out.line("no servers or no agents; see `mgp servers ls`");
        }
        let rows = self.agents.iter().flat_map(|row| {
            row.access.iter().map(|access| {
                let color = match access.whole {
                    "allow" => Color::Green,
                    "deny" => Color::Red,
                    _ => Color::Dim,
                };
                let signed = |sign: char, names: &[String]| {
                    names.iter().map(|name| format!("{sign}{name}")).collect::<Vec<_>>()
                };
                let tools = [signed('+', &access.allowed), signed('-', &access.denied)].concat();
                [
                    row.agent.as_str().into(),
                    access.server.as_str().into(),
                    Cell::from(access.whole).color(color),
                    tools.join(" ").into(),
                ]
            })
        });
        out.table(["AGENT", "SERVER", "ACCESS", "TOOLS"], rows);
        for id in &self.left {
            out.line(format!(
                "there is no server `{id}`: a later one of that id has this access; to end it: mgp access revoke AGENT {id}"
            ));
        }
    }
}

pub(crate) async fn run(global: &Global, access: &Access) -> CliResult {
    let intent = match access {
        Access::Grant { .. } | Access::Revoke { .. } => Intent::Change,
        _ => Intent::Read,
    };
    let backend = Backend::open(global, intent).await?;
    let result = execute(global, access, &backend).await;
    // A change counts once it is on disk.
    backend.close().await?;
    result?.map_or(Ok(()), |report| report.print(global))
}

async fn execute(
    global: &Global,
    access: &Access,
    backend: &Backend,
) -> CliResult<Option<ActionReport>> {
    match access {
        Access::Grant(Grant { target, deny, no_confirm, expires, because }) => {
            let Target { agent, server, tool } = target;
            let mut params = match deny {
                true => AccessGrantParams::deny(agent, server),
                false => AccessGrantParams::allow(agent, server),
            };
            if let Some(tool) = tool {
                params = params.tool(tool);
            }
            if *no_confirm {
                params.extra.encode("confirm", &ConfirmRule::Never)?;
            }
            if let Some(end) = expires {
                params = params.until(*end);
            }
            if let Some(because) = because {
                params = params.because(because);
            }
            backend.grant(params).await?;
            let hints = typo_hints(global, backend, server, tool.as_slice()).await;
            let status = if *deny { "denied" } else { "granted" };
            return Ok(Some(target.report(status).with_notes(hints)));
        }
        Access::Revoke(target) => {
            revoke(backend, target).await?;
            return Ok(Some(target.report("revoked")));
        }
        Access::Query(target) => {
            let params = query_params(&target.agent, &target.server, target.tool.as_deref());
            let result = backend.query(params).await?;
            print(global, &QueryResult::new(target, result))?;
        }
        Access::Matrix(matrix) => print(global, &self::matrix(global, matrix, backend).await?)?,
    }
    Ok(None)
}

impl Target {
    fn report(&self, status: &str) -> ActionReport {
        let Self { agent, server, tool } = self;
        let tool = tool.iter().map(|tool| format!(" {tool}"));
        ActionReport::new(format!("{agent} {server}{}", tool.collect::<String>()), status)
    }
}

fn query_params(agent: &str, server: &str, tool: Option<&str>) -> AccessQueryParams {
    let mut params = AccessQueryParams::new(agent, server);
    params.tool_name = tool.map(str::to_owned);
    params
}

async fn revoke(backend: &Backend, target: &Target) -> CliResult {
    let revoke = |kind, tool: Option<String>| {
        let mut params = AccessRevokeParams::new(&*target.agent, &*target.server, kind);
        params.tool_name = tool;
        backend.revoke(params)
    };
    let mut deleted = revoke(EntryType::ToolGrant, target.tool.clone()).await?.deleted_count;
    if target.tool.is_none() {
        deleted += revoke(EntryType::ServerGrant, None).await?.deleted_count;
    }
    if deleted > 0 {
        return Ok(());
    }
    let Target { agent, server, .. } = target;
    Err(Failure::failed(format!(
        "there is no entry to revoke; see `mgp access query {agent} {server}`"
    )))
}

async fn matrix(global: &Global, matrix: &Matrix, backend: &Backend) -> CliResult<AccessMatrix> {
    let db = state::db(global).await?;
    let named = mgp_security::Access::named_in(&db, operator().tenant()).await;
    let held = ServerHoldings::read(&db).await?;
    let trust = Trust::new(Arc::new(db));
    let config = matrix.config.sources().load(&trust).await?.config;
    let mut agents: BTreeSet<String> = config.agents.keys().cloned().collect();
    agents.extend(named.map_err(|error| Failure::failed(error.to_string()))?);
    agents.extend(matrix.agent.iter().cloned());
    agents.extend(["*".to_owned(), "default".to_owned()]);
    let known = match backend {
        // It may have been started with other files, and has registered servers.
        Backend::Kernel(client) => {
            let all = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
            all.into_iter().map(|server| server.id).collect()
        }
        Backend::Folder(..) => {
            config.servers.iter().map(|server| server.id.to_string()).collect::<Vec<_>>()
        }
    };
    // The kernel's own tools belong to no server.
    let is_left = |id: &String| !known.contains(id) && NameFlaw::check_server(id, []).is_ok();
    let left = held.into_iter().filter(|(id, held)| !held.agents.is_empty() && is_left(id));
    let left: Vec<String> = left.map(|(id, _)| id).collect();
    let servers = [known, left.clone()].concat();
    let mut rows = Vec::new();
    for agent in agents {
        let mut access = Vec::new();
        for server in &servers {
            let result = backend.query(query_params(&agent, server, None)).await?;
            access.push(server_access(server, result.entries.into_iter()));
        }
        rows.push(MatrixRow { agent, access });
    }
    Ok(AccessMatrix { servers, left, agents: rows })
}

fn server_access(server: &str, entries: impl Iterator<Item = AccessEntry>) -> ServerAccess {
    let mut access = ServerAccess {
        server: server.to_owned(),
        whole: "default",
        allowed: vec![],
        denied: vec![],
    };
    for entry in entries {
        let allows = entry.permission == AccessPermission::Allow;
        match entry.tool_name {
            Some(tool) if allows => access.allowed.push(tool),
            Some(tool) => access.denied.push(tool),
            // A denial overrides a grant.
            None if access.whole == "deny" => {}
            None => access.whole = if allows { "allow" } else { "deny" },
        }
    }
    access
}
