//! The command `mgp access`: shows and changes which agent may use which tool (MGP §5).

use std::fmt::Write as _;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_types::Timestamp;
use mgp_types::mgp::{
    AccessEntry, AccessGrantParams, AccessPermission, AccessQueryParams, AccessQueryResult,
    AccessRevokeParams, EntryType,
};
use serde::Serialize;

use super::default_policy;
use super::known_names::{
    AcceptedNames, DID_YOU_MEAN, KnownNames, elsewhere_remedy, without_force,
};
use super::tenants;
use crate::args::Global;
use crate::backend::{Backend, operator};
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, Cell, Color, Output, Render, print, print_note};
use crate::socket_hello::Intent;
use crate::state_option::shell_word_or;
use crate::time_args;

mod matrix;

use matrix::Matrix;
pub(crate) use matrix::{AccessMatrix, ServerAccess, matrix_of_all};

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
    #[command(
        after_help = "Example:\n  mgp access query cursor files write_file\n  mgp access query carl files --tenant acme"
    )]
    Query(Query),
    /// Show the access of all agents to all servers
    Matrix(Matrix),
}

/// An agent, a server, and optionally a tool.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// Agent; `group:NAME` is a group, `*` every agent
    agent: String,
    /// Server, or SERVER.TOOL
    pub(crate) server: String,
    /// One tool of the server
    pub(crate) tool: Option<String>,
}

/// `mgp access query`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Query {
    #[command(flatten)]
    target: Target,
    /// Tenant of the agent; the default is `local`
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
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
    #[command(flatten)]
    accept: AcceptedNames,
}

/// The access of an agent, and what decides it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct QueryResult {
    /// The agent that the query names.
    agent: String,
    /// The tenant of the agent; absent for the tenant `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The id of the server that the query names.
    server: String,
    /// The tool, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// `allow` or `deny`, if a tool was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    permission: Option<String>,
    /// The source of the decision: `tool_grant`, `server_grant`, `default_policy`, or `tenants` if the server is not
    /// for the tenant of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The access entries that match the agent, the server and the tool.
    entries: Vec<AccessEntry>,
    /// The decision of the server's `default_policy`, `allow` or `deny`; `excluded` if no entry can allow access,
    /// because the server is not for the agent's tenant; `?` if the configuration cannot be loaded.
    by_default: &'static str,
}

/// The part of a new access entry whose name seems to be mistyped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntryPart {
    Agent,
    Server,
    Tool,
}

impl QueryResult {
    fn new(
        target: &Target,
        tenant: Option<&str>,
        by_default: &'static str,
        result: AccessQueryResult,
    ) -> Self {
        Self {
            by_default,
            agent: target.agent.clone(),
            tenant: tenant.map(str::to_owned),
            server: target.server.clone(),
            tool: target.tool.clone(),
            permission: result.permission.map(|permission| permission.as_str().to_owned()),
            source: result.source.map(|source| source.as_str().to_owned()),
            entries: result.entries.into_iter().collect(),
        }
    }

    /// Returns the message that no entry can allow access, because the server is not for the agent's tenant.
    fn excluded(&self) -> String {
        let tenant = self.tenant.as_deref().unwrap_or("local");
        format!(
            "the `tenants` of `{}` in the configuration do not contain `{tenant}`, so no entry allows access",
            self.server
        )
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
                if self.by_default == default_policy::EXCLUDED {
                    return out.hint(self.excluded());
                }
                if let Some(tenant) = &self.tenant {
                    return out.hint(elsewhere_remedy(tenant));
                }
                let agent = shell_word_or("AGENT", &self.agent);
                let server = shell_word_or("SERVER", &self.server);
                let tool = shell_word_or("TOOL", tool);
                out.hint(format!("to allow it: `mgp access grant {agent} {server} {tool}`"));
            }
            return;
        }
        if self.by_default == default_policy::EXCLUDED {
            out.line(format!("deny: {}", self.excluded()));
        } else if self.entries.is_empty() {
            out.line(format!(
                "{}: no entry for {} and {}, so the server's default_policy decides",
                self.by_default, self.agent, self.server
            ));
        }
        if self.entries.is_empty() {
            return;
        }
        let rows = self.entries.iter().map(|entry| {
            let allows = entry.permission == AccessPermission::Allow;
            let access = if entry.is_unconfirmed() {
                "allow, without confirmation"
            } else {
                entry.permission.as_str()
            };
            [
                entry.agent_id.as_str().into(),
                entry.tool_name.as_deref().unwrap_or("(all)").into(),
                Cell::from(access).color(if allows { Color::Green } else { Color::Red }),
                entry.expires_at.as_ref().into(),
                entry.granted_by.as_deref().into(),
                entry.justification.as_deref().into(),
            ]
        });
        out.table(["AGENT", "TOOL", "ACCESS", "EXPIRES", "BY", "BECAUSE"], rows);
    }
}

pub(crate) async fn run(global: &Global, access: &Access) -> CliResult {
    let intent = match access {
        Access::Grant { .. } | Access::Revoke { .. } => Intent::Change,
        _ => Intent::Read,
    };
    let backend = Backend::open(global, intent).await?;
    let result = execute(global, access, &backend).await;
    // Print the report only after the backend is closed, because its close writes the change to disk.
    backend.close().await?;
    result?.map_or(Ok(()), |report| report.print(global))
}

async fn execute(
    global: &Global,
    access: &Access,
    backend: &Backend,
) -> CliResult<Option<ActionReport>> {
    match access {
        Access::Grant(Grant { target, deny, no_confirm, expires, because, accept }) => {
            let known = KnownNames::read(global, backend).await?;
            let target = &target.resolve(&known);
            let note = if accept.new_agent { None } else { known.check_agent(&target.agent)? };
            let mut notes: Vec<String> = note.into_iter().collect();
            if !accept.force {
                notes.extend(target.check(&known).await?);
            }
            let Target { agent, server, tool } = target;
            let mut params = match deny {
                true => AccessGrantParams::deny(agent, server),
                false => AccessGrantParams::allow(agent, server),
            };
            if let Some(tool) = tool {
                params = params.tool(tool);
            }
            if *no_confirm {
                params = params.without_confirmation();
            } else if tool.is_some() && !deny {
                params = params.with_usual_confirmation();
            }
            if let Some(end) = expires {
                params = params.until(*end);
            }
            if let Some(because) = because {
                params = params.because(because);
            }
            backend.grant(params).await?;
            let mut status = if *deny { "denied" } else { "granted" }.to_owned();
            if let Some(end) = expires {
                let _ = write!(status, " until {}", Timestamp::from(*end));
            }
            return Ok(Some(target.report(&status).with_notes(notes)));
        }
        Access::Revoke(target) => {
            let target = &target.resolve(&KnownNames::read(global, backend).await?);
            revoke(backend, target).await?;
            return Ok(Some(target.report("revoked")));
        }
        Access::Query(args) => query(global, args, backend).await?,
        Access::Matrix(matrix) => print(global, &matrix::read(global, matrix, backend).await?)?,
    }
    Ok(None)
}

/// Shows whether an agent may use a server or tool.
async fn query(global: &Global, args: &Query, backend: &Backend) -> CliResult {
    let tenant = args.tenant.as_deref().filter(|name| *name != operator().tenant().as_str());
    let known = KnownNames::read(global, backend).await?;
    let target = &args.target.resolve(&known);
    // Refuse a mistyped name, because an answer about it would mislead.
    if let Err(failure) = target.check(&known).await {
        let text = without_force(&failure);
        if text.contains(DID_YOU_MEAN) {
            return Err(Failure::failed(text));
        }
        print_note(global, &format!("mgp: {text}"));
    }
    let note = match tenant {
        Some(tenant) => known.note_on_tenant(tenant, &tenants::names(global).await?),
        None => known.note_on_agent(&target.agent),
    };
    if let Some(note) = note {
        print_note(global, &format!("mgp: {note}"));
    }
    let mut params = query_params(&target.agent, &target.server, target.tool.as_deref());
    if let Some(tenant) = tenant {
        params.extra.encode("tenant", tenant)?;
    }
    let result = backend.query(params).await?;
    let by_default = default_policy::resolve(global, &target.server, tenant, backend).await?;
    print(global, &QueryResult::new(target, tenant, by_default, result))
}

impl Target {
    pub(crate) fn new(agent: &str, server: &str, tool: Option<&str>) -> Self {
        Self { agent: agent.to_owned(), server: server.to_owned(), tool: tool.map(str::to_owned) }
    }

    /// Returns the target with `SERVER.TOOL` split into server and tool.
    fn resolve(&self, known: &KnownNames) -> Self {
        let (server, tool) = known.resolve(&self.server, self.tool.as_deref());
        Self { agent: self.agent.clone(), server, tool }
    }

    /// Refuses a server or tool that does not exist, because its name is probably mistyped. Returns a note if the tool
    /// cannot be checked.
    async fn check(&self, known: &KnownNames) -> CliResult<Option<String>> {
        if let Err(unknown) = known.check_server(&self.server).await {
            let is_server = known.servers().any(|server| server == self.agent);
            if !is_server || known.agents().any(|agent| agent == self.agent) {
                return Err(unknown);
            }
            let agent = shell_word_or("AGENT", &self.server);
            return Err(Failure::usage(format!(
                "`{0}` is a server; name the agent before it: `{agent} {0}`",
                self.agent
            )));
        }
        let tool = self.tool.as_ref().map(|tool| known.check_tool(&self.server, tool));
        Ok(tool.transpose()?.flatten())
    }

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

/// Revokes an agent's access to a server with all of its tools, or to a single tool.
async fn revoke(backend: &Backend, target: &Target) -> CliResult {
    let mut deleted = delete(backend, target, EntryType::ToolGrant).await?;
    if target.tool.is_none() {
        deleted += delete(backend, target, EntryType::ServerGrant).await?;
    }
    check_deleted(target, deleted)
}

/// Removes one entry: the one about the tool of the target, or about the whole server if the target names no tool.
/// Entries about single tools of the server then remain.
pub(crate) async fn revoke_entry(backend: &Backend, target: &Target) -> CliResult {
    let kind = if target.tool.is_some() { EntryType::ToolGrant } else { EntryType::ServerGrant };
    check_deleted(target, delete(backend, target, kind).await?)
}

/// Deletes the access entries of this type that are about the target, and returns their number.
async fn delete(backend: &Backend, target: &Target, kind: EntryType) -> CliResult<u64> {
    let mut params = AccessRevokeParams::new(&*target.agent, &*target.server, kind);
    params.tool_name.clone_from(&target.tool);
    Ok(backend.revoke(params).await?.deleted_count)
}

/// Returns an error if no entry about the target was deleted.
fn check_deleted(target: &Target, deleted: u64) -> CliResult {
    if deleted > 0 {
        return Ok(());
    }
    let agent = shell_word_or("AGENT", &target.agent);
    let server = shell_word_or("SERVER", &target.server);
    Err(Failure::failed(format!(
        "there is no entry to revoke; see `mgp access query {agent} {server}`"
    )))
}

/// Returns the server and the tool that a new access entry must name, e.g. with `SERVER.TOOL` split. Refuses an entry
/// whose server, tool or agent seems to be mistyped. The error is the mistyped part and the reason; the part is `None`
/// if the known names could not be read.
pub(crate) async fn check_new_entry(
    global: &Global,
    backend: &Backend,
    target: &Target,
) -> Result<Target, (Option<EntryPart>, Failure)> {
    let known = KnownNames::read(global, backend).await.map_err(|failure| (None, failure))?;
    let target = target.resolve(&known);
    let wrong =
        |part| move |failure: Failure| (Some(part), Failure::failed(without_force(&failure)));
    known.check_agent(&target.agent).map_err(wrong(EntryPart::Agent))?;
    known.check_server(&target.server).await.map_err(wrong(EntryPart::Server))?;
    if let Some(tool) = &target.tool {
        known.check_tool(&target.server, tool).map_err(wrong(EntryPart::Tool))?;
    }
    Ok(target)
}
