//! `mgp access`: which agent may use which tool (MGP §5).
//!
//! Applies to: both.

use std::collections::BTreeSet;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_discovery::Trust;
use mgp_security::ConfirmRule;
use mgp_types::mgp::{
    AccessEntry, AccessGrantParams, AccessPermission, AccessQueryParams, AccessQueryResult,
    AccessRevokeParams, EntryType,
};
use serde::Serialize;
use std::sync::Arc;

use super::doubt::doubts;
use crate::books::{Books, operator};
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Done, Page, Shown, Tone, show};
use crate::places::Configured;
use crate::{span, state};

/// `mgp access`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Access {
    /// Let an agent use a server, or one tool of it
    #[command(
        after_help = "Example:\n  mgp access grant cursor files\n  mgp access grant cursor files read_file --expires 8h\n  mgp access grant cursor files write_file --no-confirm\n  mgp access grant '*' clock        # everyone"
    )]
    Grant(Grant),
    /// Take grants and denials back
    #[command(
        after_help = "Example:\n  mgp access revoke cursor files            # what is said of the server and of its tools\n  mgp access revoke cursor files read_file"
    )]
    Revoke(Place),
    /// Say what an agent may do, and why
    #[command(after_help = "Example:\n  mgp access query cursor files write_file")]
    Query(Place),
    /// Show all agents and servers in one table
    Matrix(Matrix),
}

/// An agent, a server, and perhaps a tool.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// The agent; `group:NAME` is a group, `*` everyone
    agent: String,
    /// The server
    server: String,
    /// One tool of it
    tool: Option<String>,
}

/// `mgp access grant`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Grant {
    #[command(flatten)]
    place: Place,
    /// Forbid it instead
    #[arg(long)]
    deny: bool,
    /// Run calls of the tool without a confirmation, however dangerous it is
    #[arg(long, requires = "tool", conflicts_with = "deny")]
    no_confirm: bool,
    /// When it ends: 30m, 8h, 90d, or a time
    #[arg(long, value_name = "TIME", value_parser = span::end)]
    expires: Option<SystemTime>,
    /// Why; it is recorded
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// `mgp access matrix`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Matrix {
    /// Show these agents beside those of the configuration
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    #[command(flatten)]
    configured: Configured,
}

/// What is decided for an agent, and what it rests on.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Answer {
    /// The agent.
    agent: String,
    /// The server.
    server: String,
    /// The tool, where one was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// `allow` or `deny`, where a tool was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    permission: Option<String>,
    /// What decided: `tool_grant`, `server_grant` or `default_policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// What is said about it.
    entries: Vec<AccessEntry>,
}

/// All agents and servers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Table {
    /// The servers.
    servers: Vec<String>,
    /// The agents, each with what is said of it.
    agents: Vec<Row>,
}

/// What is said of an agent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// The agent.
    agent: String,
    /// For each server in order.
    access: Vec<Standing>,
}

/// What is said of an agent and a server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Standing {
    /// The server.
    server: String,
    /// `allow` or `deny` for the whole server, or `default`.
    whole: &'static str,
    /// The tools that are allowed by name.
    allowed: Vec<String>,
    /// The tools that are denied by name.
    denied: Vec<String>,
}

impl Answer {
    fn of(place: &Place, said: AccessQueryResult) -> Self {
        Self {
            agent: place.agent.clone(),
            server: place.server.clone(),
            tool: place.tool.clone(),
            permission: said.permission.map(|word| word.as_str().to_owned()),
            source: said.source.map(|word| word.as_str().to_owned()),
            entries: said.entries.into_iter().collect(),
        }
    }
}

impl Shown for Answer {
    fn show(&self, page: &mut Page) {
        if let (Some(permission), Some(tool)) = (&self.permission, &self.tool) {
            let tone = if permission == "allow" { Tone::Good } else { Tone::Bad };
            let source = self.source.as_deref().unwrap_or("-").replace('_', " ");
            let why = format!("{} for {} of {}, by {source}", self.agent, tool, self.server);
            page.marked(&Cell::from(permission.as_str()).tone(tone), &why);
            if permission != "allow" {
                page.line(format!(
                    "allow it: mgp access grant {} {} {tool}",
                    self.agent, self.server
                ));
            }
            return;
        }
        if self.entries.is_empty() {
            page.line(format!(
                "nothing is said about {} and {}; the server's default_policy decides",
                self.agent, self.server
            ));
            return;
        }
        let rows = self.entries.iter().map(|entry| {
            let allows = entry.permission == AccessPermission::Allow;
            [
                entry.agent_id.as_str().into(),
                entry.tool_name.as_deref().unwrap_or("(all)").into(),
                Cell::from(entry.permission.as_str()).tone(if allows {
                    Tone::Good
                } else {
                    Tone::Bad
                }),
                entry.expires_at.as_ref().map(ToString::to_string).into(),
                entry.granted_by.as_deref().into(),
                entry.justification.as_deref().into(),
            ]
        });
        page.table(["AGENT", "TOOL", "ACCESS", "EXPIRES", "BY", "BECAUSE"], rows);
    }
}

impl Shown for Table {
    fn show(&self, page: &mut Page) {
        if self.servers.is_empty() || self.agents.is_empty() {
            return page.line("no servers or no agents are known; see `mgp servers ls`");
        }
        let rows = self.agents.iter().flat_map(|row| {
            row.access.iter().map(|standing| {
                let tone = match standing.whole {
                    "allow" => Tone::Good,
                    "deny" => Tone::Bad,
                    _ => Tone::Quiet,
                };
                let signed = |sign: char, names: &[String]| {
                    names.iter().map(|name| format!("{sign}{name}")).collect::<Vec<_>>()
                };
                let tools =
                    [signed('+', &standing.allowed), signed('-', &standing.denied)].concat();
                [
                    row.agent.as_str().into(),
                    standing.server.as_str().into(),
                    Cell::from(standing.whole).tone(tone),
                    tools.join(" ").into(),
                ]
            })
        });
        page.table(["AGENT", "SERVER", "ACCESS", "TOOLS"], rows);
    }
}

pub(crate) async fn run(global: &Global, access: &Access) -> Ended {
    let books = Books::open(global).await?;
    let ended = on(global, access, &books).await;
    // Only what is on the disk is done.
    books.close().await?;
    ended?.map_or(Ok(()), |done| done.tell(global))
}

async fn on(global: &Global, access: &Access, books: &Books) -> Ended<Option<Done>> {
    match access {
        Access::Grant(Grant { place, deny, no_confirm, expires, because }) => {
            let Place { agent, server, tool } = place;
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
            books.grant(params).await?;
            let doubts = doubts(global, books, server, tool.as_slice()).await;
            let status = if *deny { "denied" } else { "granted" };
            return Ok(Some(place.done(status).notes(doubts)));
        }
        Access::Revoke(place) => {
            revoke(books, place).await?;
            return Ok(Some(place.done("revoked")));
        }
        Access::Query(place) => {
            let said =
                books.query(asked(&place.agent, &place.server, place.tool.as_deref())).await?;
            show(global, &Answer::of(place, said))?;
        }
        Access::Matrix(matrix) => show(global, &table(global, matrix, books).await?)?,
    }
    Ok(None)
}

impl Place {
    fn done(&self, status: &str) -> Done {
        let Self { agent, server, tool } = self;
        let tool = tool.iter().map(|tool| format!(" {tool}"));
        Done::new(format!("{agent} {server}{}", tool.collect::<String>()), status)
    }
}

fn asked(agent: &str, server: &str, tool: Option<&str>) -> AccessQueryParams {
    let mut params = AccessQueryParams::new(agent, server);
    params.tool_name = tool.map(str::to_owned);
    params
}

async fn revoke(books: &Books, place: &Place) -> Ended {
    let revoke = |kind, tool: Option<String>| {
        let mut params = AccessRevokeParams::new(&*place.agent, &*place.server, kind);
        params.tool_name = tool;
        books.revoke(params)
    };
    let mut gone = revoke(EntryType::ToolGrant, place.tool.clone()).await?.deleted_count;
    if place.tool.is_none() {
        gone += revoke(EntryType::ServerGrant, None).await?.deleted_count;
    }
    if gone > 0 {
        return Ok(());
    }
    let Place { agent, server, .. } = place;
    Err(Failure::failed(format!(
        "there is nothing to take back; see `mgp access query {agent} {server}`"
    )))
}

async fn table(global: &Global, matrix: &Matrix, books: &Books) -> Ended<Table> {
    let db = state::db(global).await?;
    let named = mgp_security::Access::named_in(&db, operator().tenant()).await;
    let trust = Trust::new(Arc::new(db));
    let config = matrix.configured.sources().load(&trust).await?.config;
    let mut agents: BTreeSet<String> = config.agents.keys().cloned().collect();
    agents.extend(named.map_err(|error| Failure::failed(error.to_string()))?);
    agents.extend(matrix.agent.iter().cloned());
    agents.extend(["*".to_owned(), "default".to_owned()]);
    let servers: Vec<String> = config.servers.iter().map(|server| server.id.to_string()).collect();
    let mut rows = Vec::new();
    for agent in agents {
        let mut access = Vec::new();
        for server in &servers {
            let said = books.query(asked(&agent, server, None)).await?;
            access.push(standing(server, said.entries.into_iter()));
        }
        rows.push(Row { agent, access });
    }
    Ok(Table { servers, agents: rows })
}

fn standing(server: &str, entries: impl Iterator<Item = AccessEntry>) -> Standing {
    let mut standing =
        Standing { server: server.to_owned(), whole: "default", allowed: vec![], denied: vec![] };
    for entry in entries {
        let allows = entry.permission == AccessPermission::Allow;
        match entry.tool_name {
            Some(tool) if allows => standing.allowed.push(tool),
            Some(tool) => standing.denied.push(tool),
            // Of several, a denial decides.
            None if standing.whole == "deny" => {}
            None => standing.whole = if allows { "allow" } else { "deny" },
        }
    }
    standing
}
