//! The command `mgp tools`: shows, calls, pins and approves tools of all servers.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_types::method::{KernelServers, KernelTools, KernelToolsTokens};
use mgp_types::mgp::{
    KernelServer, KernelServersParams, KernelTokensParams, KernelTokensResult, KernelTool,
    KernelToolsParams, RiskLevel, ServerState, ToolStanding,
};
use serde::Serialize;

use super::kernel::RESULT_TYPE;
use super::known_names::{DISABLED, check_running, disabled, no_tool};
use crate::args::Global;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render, first_line, print, print_note};
use crate::state_option;

mod agent;
mod approve;
mod call;
mod pin;
mod risk;
mod search;

pub(super) use agent::agents_in_access;
#[cfg(test)]
pub(crate) use call::CallOutput;
pub(super) use call::pairs_to_arguments;
#[cfg(test)]
pub(crate) use risk::RiskProposals;
#[cfg(test)]
pub(crate) use search::SearchResult;

use agent::operator_viewed_agent;
use approve::Approve;
use call::Call;
use pin::Pin;
use risk::Risk;
use search::Search;

/// `mgp tools`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Tools {
    /// List tools, and why an agent does not see a tool
    #[command(
        after_help = "Example:\n  mgp tools ls --agent cursor\n  mgp tools ls --waiting      # definitions that need a decision"
    )]
    Ls(Ls),
    /// Show a tool with its whole definition; if a definition waits for a decision, that definition
    #[command(after_help = "Example:\n  mgp tools show files.read_file")]
    Show {
        /// Tool, as SERVER.TOOL
        tool: String,
    },
    /// Search tools by purpose, as an agent does
    #[command(after_help = "Example:\n  mgp tools search read a file")]
    Search(Search),
    /// Call a tool as an agent, under the rules for that agent
    #[command(
        after_help = "Example:\n  mgp tools call files.read_file path=/etc/hosts\n  mgp tools call clock.now --agent cursor\n  mgp tools call writer.think topic=rust --stream\n  echo '{\"path\":\"/etc/hosts\"}' | mgp tools call files.read_file --arguments -"
    )]
    Call(Call),
    /// Always list a tool to an agent
    #[command(
        after_help = "Example:\n  mgp tools pin files.read_file --agent cursor\n  mgp tools pin files.read_file --agent cursor --remove"
    )]
    Pin(Pin),
    /// Approve or reject definitions that are suspicious or have changed
    #[command(
        after_help = "Example:\n  mgp tools approve files               # all definitions of a server that wait, e.g. after an upgrade\n  mgp tools approve files.read_file 'git.*'\n  mgp tools approve files.read_file --reject --because 'it asks for secrets'"
    )]
    Approve(Approve),
    /// Set the risk of a tool, or of tools that only read although their servers do not declare this
    #[command(
        after_help = "Example:\n  mgp tools risk                        # proposals for tools whose servers declare nothing\n  mgp tools risk github --yes           # sets those of one server\n  mgp tools risk files.move_file dangerous\n  mgp tools risk files.move_file --remove"
    )]
    Risk(Risk),
    /// Show how many tokens an agent's tool list costs, and how many a list of all its tools would cost
    Tokens {
        /// Agent; the default is `default`, or the first agent with access if `default` has none
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
}

/// `mgp tools ls`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Ls {
    /// Only tools of this server
    server: Option<String>,
    /// Agent whose view is shown; the default is `default`, or the first agent with access if `default` has none
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only definitions that need a decision
    #[arg(long)]
    waiting: bool,
}

/// All tools.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ToolList {
    tools: Vec<KernelTool>,
    /// The remedy for each id that several tools have.
    #[serde(skip)]
    shared: BTreeMap<String, String>,
}

/// One tool, with its whole definition.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WholeTool(KernelTool);

/// The tokens of tool lists.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TokenReport(KernelTokensResult);

fn risk(risk: &RiskLevel) -> Cell {
    let color = match risk {
        RiskLevel::Safe => Color::Green,
        RiskLevel::Moderate => Color::Yellow,
        _ => Color::Red,
    };
    Cell::from(risk.as_str()).color(color)
}

impl Render for ToolList {
    fn render(&self, out: &mut Output) {
        if self.tools.is_empty() {
            return out.hint("no tools; see `mgp servers ls`");
        }
        let rows = self.tools.iter().map(|tool| {
            let sees = match (tool.seen_by_agent, &tool.hidden_because) {
                (_, Some(reason)) => Cell::from(format!("no: {reason}")),
                (Some(true), None) => Cell::from("yes").color(Color::Green),
                (Some(false), None) => "no".into(),
                (None, None) => "-".into(),
            };
            let definition = match tool.standing {
                ToolStanding::Pinned => Cell::from("pinned"),
                ToolStanding::Unseen => Cell::from("not recorded yet").color(Color::Dim),
                ref other => Cell::from(other.as_str()).color(Color::Red),
            };
            [
                tool.tool_id.as_str().into(),
                risk(&tool.risk_level),
                definition,
                Cell::number(tool.tokens),
                sees,
                first_line(tool.description.as_deref().unwrap_or_default(), 60).into(),
            ]
        });
        out.table(["TOOL", "RISK", "DEFINITION", "TOKENS", "USABLE", "DESCRIPTION"], rows);
        for tool in self.tools.iter().filter(|tool| needs_decision(tool)) {
            let reasons: Vec<String> = tool.reasons.iter().cloned().collect();
            let reasons = reasons.join("; ");
            let shared = self.shared.get(&tool.tool_id).cloned();
            let fix = shared.unwrap_or_else(|| format!("run `mgp tools approve {}`", tool.tool_id));
            let fix = state_option::add_to(&fix);
            out.line(format!("{} needs a decision: {reasons}; {fix}", tool.tool_id));
        }
    }
}

impl Render for WholeTool {
    fn render(&self, out: &mut Output) {
        let Self(tool) = self;
        out.line(format!("tool        {}", tool.tool_id));
        out.line(format!("risk        {}", tool.risk_level));
        out.line(format!("definition  {}", tool.standing.as_str()));
        if let Some(fingerprint) = &tool.fingerprint {
            out.line(format!("fingerprint {fingerprint}"));
        }
        for reason in &tool.reasons {
            out.line(format!("reason      {reason}"));
        }
        let Some(definition) = &tool.definition else { return };
        let readable = serde_json::from_str::<serde_json::Value>(definition)
            .and_then(|value| serde_json::to_string_pretty(&value));
        out.block(readable.as_deref().unwrap_or(definition));
    }
}

impl Render for TokenReport {
    fn render(&self, out: &mut Output) {
        let KernelTokensResult { listed, all, saved_percent, servers, days, unmet, .. } = &self.0;
        out.line(if listed < all {
            format!(
                "the list of tools costs {listed} tokens instead of {all}: {saved_percent} % less"
            )
        } else {
            format!("the list of tools costs {listed} tokens, and all of them {all}")
        });
        let rows = servers.iter().map(|server| {
            [
                server.server_id.as_str().into(),
                Cell::number(server.tools),
                Cell::number(server.tokens),
            ]
        });
        if !servers.is_empty() {
            out.table(["SERVER", "TOOLS", "TOKENS"], rows);
        }
        if !days.is_empty() {
            let rows = days.iter().map(|day| {
                [day.day.as_str().into(), Cell::number(day.lists), Cell::number(day.saved)]
            });
            out.table(["DAY", "LISTS", "TOKENS SAVED (ESTIMATED)"], rows);
        }
        if !unmet.is_empty() {
            let rows = unmet.iter().map(|search| {
                let counts = [search.found_nothing, search.not_called].map(Cell::number);
                let [nothing, uncalled] = counts;
                [search.query.as_str().into(), nothing, uncalled]
            });
            out.table(["SEARCH", "FOUND NOTHING", "CALLED NONE"], rows);
        }
    }
}

pub(crate) fn needs_decision(tool: &KernelTool) -> bool {
    matches!(tool.standing, ToolStanding::Changed | ToolStanding::Flagged)
}

pub(crate) async fn run(global: &Global, tools: &Tools) -> CliResult {
    match tools {
        Tools::Ls(ls) => {
            let client = control::connect_or_start(global).await?;
            if let Some(server) = &ls.server
                && check_running(&client, server).await?.status.as_str() == DISABLED
            {
                return Err(disabled(server));
            }
            let agent = operator_viewed_agent(global, ls.agent.as_deref()).await?;
            let mut all = fetch_tools(&client, None, Some(&agent)).await?;
            let shared = shared_ids(&all);
            all.retain(|tool| ls.server.as_ref().is_none_or(|server| tool.server_id == *server));
            if ls.waiting {
                all.retain(needs_decision);
                if all.is_empty() && !global.json {
                    print_note(global, "no definition needs a decision");
                    return Ok(());
                }
            }
            let starting = starting(&client, ls.server.as_deref()).await?;
            print_list(global, &ToolList { tools: all, shared }, &agent)?;
            if let Some(starting) = starting {
                print_note(global, &starting);
            }
            Ok(())
        }
        Tools::Show { tool } => {
            let client = control::connect_or_start(global).await?;
            let all = fetch_tools(&client, None, None).await?;
            let mut params = KernelToolsParams::new();
            params.tool_id = Some(find_tool(&all, tool)?.tool_id.clone());
            let found = client.request::<KernelTools>(&params).await?.tools.into_iter().next();
            // Report an unknown tool if the server has removed it between the two requests.
            let found = found.ok_or_else(|| no_tool(tool, []))?;
            print(global, &WholeTool(found))
        }
        Tools::Search(search) => search::run(global, search).await,
        Tools::Call(call) => call::run(global, call).await,
        Tools::Pin(pin) => pin::run(global, pin).await,
        Tools::Approve(approve) => approve::run(global, approve).await,
        Tools::Risk(risk) => risk::run(global, risk).await,
        Tools::Tokens { agent } => {
            let client = control::connect_or_start(global).await?;
            let mut params = KernelTokensParams::new();
            let viewed = operator_viewed_agent(global, agent.as_deref()).await?;
            params.agent_id = Some(viewed.clone());
            let mut tokens = client.request::<KernelToolsTokens>(&params).await?;
            tokens.extra.remove(RESULT_TYPE);
            print(global, &TokenReport(tokens))?;
            if agent.is_none() {
                let note = format!("the list of the agent `{viewed}`; --agent NAME shows another");
                print_note(global, &note);
            }
            Ok(())
        }
    }
}

/// Returns a note about the servers that are still being started, because their tools are missing in a list.
async fn starting(client: &Client, server: Option<&str>) -> CliResult<Option<String>> {
    let mut params = KernelServersParams::new();
    params.server_id = server.map(str::to_owned);
    let servers = client.request::<KernelServers>(&params).await?.servers.into_iter();
    let is_starting = |one: &KernelServer| one.tools == 0 && one.status == ServerState::Connecting;
    let ids: Vec<String> = servers.filter(is_starting).map(|one| one.id).collect();
    Ok((!ids.is_empty()).then(|| {
        let ids = ids.join(", ");
        format!("still starting, so their tools are not known yet: {ids}; run this again soon")
    }))
}

fn print_list(global: &Global, list: &ToolList, agent: &str) -> CliResult {
    print(global, list)?;
    if list.tools.is_empty() {
        return Ok(());
    }
    let note =
        format!("USABLE is what the agent `{agent}` may find and call; --agent NAME shows another");
    print_note(global, &note);
    Ok(())
}

/// Requests the tools from the kernel; with an agent, as the agent sees them.
pub(crate) async fn fetch_tools(
    client: &Client,
    server: Option<&str>,
    agent: Option<&str>,
) -> CliResult<Vec<KernelTool>> {
    let mut params = KernelToolsParams::new();
    params.server_id = server.map(str::to_owned);
    params.agent_id = agent.map(str::to_owned);
    Ok(client.request::<KernelTools>(&params).await?.tools)
}

/// Returns the name that a tool has at its server, i.e. without the id of the server.
fn own_name(tool: &KernelTool) -> &str {
    let own = tool.tool_id.strip_prefix(&tool.server_id).and_then(|rest| rest.strip_prefix('.'));
    own.unwrap_or(&tool.name)
}

/// Returns the ids that tools of several servers have, e.g. `c` of `a.b` and `b.c` of `a`. Each comes with a remedy,
/// because a command cannot name just one of these tools.
fn shared_ids(all: &[KernelTool]) -> BTreeMap<String, String> {
    let mut servers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for tool in all {
        servers.entry(&tool.tool_id).or_default().insert(&tool.server_id);
    }
    servers.retain(|_, servers| servers.len() > 1);
    let remedy = |servers: BTreeSet<&str>| {
        let servers: Vec<String> = servers.iter().map(|id| format!("`{id}`")).collect();
        let servers = servers.join(" and ");
        format!(
            "tools of {servers} have the same id; give one of these servers another id, or remove it with `mgp servers rm`"
        )
    };
    servers.into_iter().map(|(id, servers)| (id.to_owned(), remedy(servers))).collect()
}

/// Finds a tool by its id, or by its name if no other tool has that name.
///
/// The name of a tool can contain dots, so it can equal the id of another server's tool. Therefore a text with dots is
/// only accepted as an id.
fn find_tool<'a>(all: &'a [KernelTool], wanted: &str) -> CliResult<&'a KernelTool> {
    if let Some(tool) = all.iter().find(|tool| tool.tool_id == wanted) {
        return Ok(tool);
    }
    let named: Vec<&KernelTool> = all.iter().filter(|tool| tool.name == wanted).collect();
    match named[..] {
        [tool] if !wanted.contains('.') => Ok(tool),
        [] => Err(no_tool(wanted, all.iter().map(|tool| tool.tool_id.as_str()))),
        _ => {
            let ids: Vec<String> = named.iter().map(|tool| format!("`{}`", tool.tool_id)).collect();
            Err(Failure::failed(format!(
                "no tool has the id `{wanted}`; give the id of the one you mean: {}",
                ids.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_whose_permission_is_denied_is_not_shown_as_usable() {
        let standing = ToolStanding::Pinned;
        let mut tool = KernelTool::new("a.fetch", "fetch", "a", RiskLevel::Safe, 1_u64, standing);
        tool.seen_by_agent = Some(true);
        let printed = |tool: &KernelTool| {
            let mut out = Output::default();
            let shared = BTreeMap::new();
            ToolList { tools: vec![tool.clone()], shared }.render(&mut out);
            out.text().to_owned()
        };
        assert!(printed(&tool).contains(" yes"));
        tool.hidden_because = Some("network.outbound: ops denied it".to_owned());
        let denied = printed(&tool);
        assert!(denied.contains("no: network.outbound: ops denied it"), "{denied}");
    }
}
