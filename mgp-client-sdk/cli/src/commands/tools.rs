//! `mgp tools`: the tools behind the kernel, as agents see them.
//!
//! Applies to: outbound.

use std::io::Read as _;

use clap::{Args, Subcommand};
use mgp_client_sdk::ToolResult as _;
use mgp_types::mcp::CallToolResult;
use mgp_types::method::{KernelTools, KernelToolsApprove, KernelToolsReject, KernelToolsTokens};
use mgp_types::mgp::{
    DiscoverToolsParams, FoundTool, KernelTokensParams, KernelTokensResult, KernelTool,
    KernelToolDecisionParams, KernelToolsParams, RiskLevel, SearchStrategy, ToolStanding,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::kernel::RESULT_TYPE;
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Done, Page, Shown, Tone, brief, note, show};
use crate::own_file::{OwnFile, Pinned, check_agent};
use crate::places::Configured;
use crate::{ask, control};

/// The longest arguments that are read from standard input.
const LONGEST: u64 = 16 << 20;

/// `mgp tools`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Tools {
    /// List tools, and why an agent does not see one
    #[command(
        after_help = "Example:\n  mgp tools ls --agent cursor\n  mgp tools ls --waiting      # definitions that an operator must look at"
    )]
    Ls(Ls),
    /// Find tools by what they are for, as an agent would
    #[command(after_help = "Example:\n  mgp tools search 'read a file'")]
    Search(Search),
    /// Call a tool as an agent; the rules for that agent hold
    #[command(
        after_help = "Example:\n  mgp tools call files.read_file path=/etc/hosts\n  mgp tools call clock.now --agent cursor\n  echo '{\"path\":\"/etc/hosts\"}' | mgp tools call files.read_file --arguments -"
    )]
    Call(Call),
    /// Keep a tool in an agent's list at all times
    #[command(
        after_help = "Example:\n  mgp tools pin files.read_file --agent cursor\n  mgp tools pin files.read_file --agent cursor --remove"
    )]
    Pin(Pin),
    /// Decide about a definition that is new and doubtful, or no longer what it was
    #[command(
        after_help = "Example:\n  mgp tools approve files.read_file\n  mgp tools approve files.read_file --reject --because 'it asks for secrets'"
    )]
    Approve(Approve),
    /// Say what the list of tools costs an agent, and what all of them would
    Tokens {
        /// The agent
        #[arg(long, value_name = "NAME", default_value = "default")]
        agent: String,
    },
}

/// `mgp tools ls`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Ls {
    /// Of this server only
    server: Option<String>,
    /// Say what this agent sees
    #[arg(long, value_name = "NAME", default_value = "default")]
    agent: String,
    /// Only definitions that wait for an operator
    #[arg(long)]
    waiting: bool,
}

/// `mgp tools search`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Search {
    /// What is needed, in any words
    query: String,
    /// The agent that searches
    #[arg(long, value_name = "NAME", default_value = "default")]
    agent: String,
    /// How many at most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5)]
    most: u64,
    /// How: keyword, semantic, category or hybrid
    #[arg(long, value_name = "WORD")]
    strategy: Option<String>,
}

/// `mgp tools call`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Call {
    /// The tool, as `mgp tools ls` names it
    tool: String,
    /// Arguments as NAME=VALUE; a value that is JSON is taken as such
    #[arg(value_name = "NAME=VALUE")]
    pairs: Vec<String>,
    /// All arguments as one JSON object; `-` reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "pairs")]
    arguments: Option<String>,
    /// The agent that calls
    #[arg(long, value_name = "NAME", default_value = "default")]
    agent: String,
}

/// `mgp tools pin`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Pin {
    /// The tool, as server.tool
    tool: String,
    /// The agent
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Pin it no longer
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    configured: Configured,
}

/// `mgp tools approve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Approve {
    /// The tool, as server.tool
    tool: String,
    /// Refuse the definition instead
    #[arg(long)]
    reject: bool,
    /// Decide without asking
    #[arg(long, short)]
    yes: bool,
    /// The fingerprint of what was looked at; anything else is not decided
    #[arg(long, value_name = "HASH")]
    fingerprint: Option<String>,
    /// Why; it is recorded
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// All tools.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct All(Vec<KernelTool>);

/// Tools that were found, best first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Found(Vec<FoundTool>);

/// What a tool answered.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Answered(CallToolResult);

/// What lists cost.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Tokens(KernelTokensResult);

fn risk(risk: &RiskLevel) -> Cell {
    let tone = match risk {
        RiskLevel::Safe => Tone::Good,
        RiskLevel::Moderate => Tone::Doubtful,
        _ => Tone::Bad,
    };
    Cell::from(risk.as_str()).tone(tone)
}

impl Shown for All {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line("no tools; see `mgp servers ls`");
        }
        let rows = self.0.iter().map(|tool| {
            let sees = match (tool.seen_by_agent, &tool.hidden_because) {
                (Some(true), _) => Cell::from("yes").tone(Tone::Good),
                (_, Some(why)) => format!("no: {why}").into(),
                (Some(false), None) => "no".into(),
                (None, None) => "-".into(),
            };
            let standing = match tool.standing {
                ToolStanding::Pinned => Cell::from("pinned"),
                ref other => Cell::from(other.as_str()).tone(Tone::Bad),
            };
            [
                tool.tool_id.as_str().into(),
                risk(&tool.risk_level),
                standing,
                Cell::number(tool.tokens),
                sees,
                brief(tool.description.as_deref().unwrap_or_default(), 60).into(),
            ]
        });
        page.table(["TOOL", "RISK", "STANDING", "TOKENS", "SEEN", "WHAT IT DOES"], rows);
        for tool in self.0.iter().filter(|tool| waits(tool)) {
            let reasons: Vec<String> = tool.reasons.iter().cloned().collect();
            let reasons = reasons.join("; ");
            page.line(format!(
                "{} waits: {reasons}; decide with `mgp tools approve {}`",
                tool.tool_id, tool.tool_id
            ));
        }
    }
}

impl Shown for Found {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line("nothing was found that this agent may use");
        }
        let rows = self.0.iter().map(|tool| {
            let score = tool.relevance_score.as_ref().map(ToString::to_string);
            [
                tool.tool_id.as_deref().into(),
                score.map(|score| score.chars().take(4).collect::<String>()).into(),
                brief(tool.description.as_deref().unwrap_or_default(), 80).into(),
            ]
        });
        page.table(["TOOL", "FITS", "WHAT IT DOES"], rows);
    }
}

impl Shown for Answered {
    fn show(&self, page: &mut Page) {
        let text = self.0.to_text();
        if text.is_empty()
            && let Some(content) = &self.0.structured_content
        {
            return page.block(content.as_str());
        }
        page.block(&text);
        let others = self.0.content.iter().filter(|block| block.as_text().is_none()).count();
        if others > 0 {
            page.line(format!("and {others} parts that are no text; --json shows them"));
        }
    }
}

impl Shown for Tokens {
    fn show(&self, page: &mut Page) {
        let KernelTokensResult { listed, all, saved_percent, servers, .. } = &self.0;
        page.line(if listed < all {
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
            page.table(["SERVER", "TOOLS", "TOKENS"], rows);
        }
    }
}

fn waits(tool: &KernelTool) -> bool {
    matches!(tool.standing, ToolStanding::Changed | ToolStanding::Flagged)
}

pub(crate) async fn run(global: &Global, tools: &Tools) -> Ended {
    match tools {
        Tools::Ls(ls) => {
            let mut all = listed(global, ls.server.as_deref(), Some(&ls.agent)).await?;
            if ls.waiting {
                all.retain(waits);
                if all.is_empty() && !global.json {
                    note(global, "no definition waits");
                    return Ok(());
                }
            }
            show(global, &All(all))
        }
        Tools::Search(search) => {
            let client = control::connect_as(global, &search.agent).await?;
            let mut params = DiscoverToolsParams::new();
            params.query = Some(search.query.clone());
            params.max_results = Some(search.most);
            params.strategy = search.strategy.as_deref().map(SearchStrategy::from);
            let mut tools = client.mgp().tools_discover(&params).await?.tools;
            for tool in &mut tools {
                let id = format!("{}.{}", tool.server_id, tool.name);
                tool.tool_id.get_or_insert(id);
            }
            show(global, &Found(tools))
        }
        Tools::Call(call) => self::call(global, call).await,
        Tools::Pin(pin) => self::pin(global, pin),
        Tools::Approve(approve) => self::approve(global, approve).await,
        Tools::Tokens { agent } => {
            let client = control::connect(global).await?;
            let mut params = KernelTokensParams::new();
            params.agent_id = Some(agent.clone());
            let mut tokens = client.request::<KernelToolsTokens>(&params).await?;
            tokens.extra.remove(RESULT_TYPE);
            show(global, &Tokens(tokens))
        }
    }
}

async fn listed(
    global: &Global,
    server: Option<&str>,
    agent: Option<&str>,
) -> Ended<Vec<KernelTool>> {
    let client = control::connect(global).await?;
    let mut params = KernelToolsParams::new();
    params.server_id = server.map(str::to_owned);
    params.agent_id = agent.map(str::to_owned);
    Ok(client.request::<KernelTools>(&params).await?.tools)
}

async fn call(global: &Global, call: &Call) -> Ended {
    let arguments = arguments(call)?;
    let client = control::connect_as(global, &call.agent).await?;
    let answered = client.call_tool(&call.tool, arguments).await?;
    let failed = answered.is_error == Some(true);
    if failed && !global.json {
        return Err(Failure::failed(answered.to_text()));
    }
    show(global, &Answered(answered))?;
    if failed { Err(Failure::failed("the tool says that it failed")) } else { Ok(()) }
}

fn arguments(call: &Call) -> Ended<Map<String, Value>> {
    let Some(text) = &call.arguments else {
        let mut arguments = Map::new();
        for pair in &call.pairs {
            let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                let pair = brief(pair, 20);
                return Err(Failure::usage(format!(
                    "`{pair}` is not NAME=VALUE; or give a JSON object with --arguments"
                )));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            arguments.insert(name.to_owned(), value);
        }
        return Ok(arguments);
    };
    let text = if text == "-" {
        let mut read = String::new();
        std::io::stdin().lock().take(LONGEST).read_to_string(&mut read)?;
        read
    } else {
        text.clone()
    };
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("--arguments is no JSON object: {error}")))
}

fn pin(global: &Global, pin: &Pin) -> Ended {
    check_agent(&pin.agent)?;
    if pin.tool.split_once('.').is_none_or(|(server, tool)| server.is_empty() || tool.is_empty()) {
        return Err(Failure::usage(format!(
            "`{}` is not server.tool; see `mgp tools ls`",
            pin.tool
        )));
    }
    let pinned = if pin.remove { Pinned::No } else { Pinned::Yes };
    let own = OwnFile::open(pin.configured.own_file()?)?;
    let changed = own.pin(&pin.agent, &pin.tool, pinned)?;
    let status = match pinned {
        Pinned::Yes => "pinned",
        Pinned::No if !changed => {
            return Err(Failure::failed(format!("`{}` is not pinned for {}", pin.tool, pin.agent)));
        }
        Pinned::No => "unpinned",
    };
    Done::new(&*pin.tool, status).tell(global)
}

async fn approve(global: &Global, approve: &Approve) -> Ended {
    let all = listed(global, None, None).await?;
    let is_meant = |tool: &&KernelTool| tool.tool_id == approve.tool || tool.name == approve.tool;
    let Some(tool) = all.iter().find(is_meant) else {
        return Err(Failure::failed(format!(
            "there is no tool `{}`; see `mgp tools ls`",
            approve.tool
        )));
    };
    if !waits(tool) {
        let standing = tool.standing.as_str();
        return Err(Failure::failed(format!(
            "`{}` does not wait for anybody: it is {standing}",
            tool.tool_id
        )));
    }
    note(global, &format!("{} is {}", tool.tool_id, tool.standing.as_str()));
    for reason in &tool.reasons {
        note(global, &format!("  {reason}"));
    }
    if !approve.yes && approve.fingerprint.is_none() {
        let question = if approve.reject {
            "Refuse this definition?"
        } else {
            "Let agents use it as it is now?"
        };
        match ask::yes(global, question)? {
            Some(true) => {}
            Some(false) => return Err(Failure::failed("nothing was decided")),
            None => {
                return Err(Failure::usage(
                    "nobody can be asked here; read the reasons, then add --yes",
                ));
            }
        }
    }
    // What was looked at is what is decided, whatever the server says meanwhile.
    let name = tool.tool_id.strip_prefix(&format!("{}.", tool.server_id)).unwrap_or(&tool.name);
    let mut params = KernelToolDecisionParams::new(&*tool.server_id, name);
    params.fingerprint = approve.fingerprint.clone().or_else(|| tool.fingerprint.clone());
    params.because.clone_from(&approve.because);
    let client = control::connect(global).await?;
    if approve.reject {
        client.request::<KernelToolsReject>(&params).await?;
    } else {
        client.request::<KernelToolsApprove>(&params).await?;
    }
    let status = if approve.reject { "rejected" } else { "approved" };
    Done::new(&*tool.tool_id, status).tell(global)
}
