//! The command `mgp tools search`: searches tools as an agent does.

use std::num::NonZeroU64;

use clap::Args;
use mgp_toolindex::Query;
use mgp_types::mgp::{DiscoverToolsParams, DiscoverToolsResult, FoundTool, SearchStrategy};
use serde::Serialize;

use super::agent::viewed_agent;
use crate::args::Global;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Output, Render, first_line, plural, print, print_note, print_stderr};
use crate::state_option;

/// `mgp tools search`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Search {
    /// Purpose of the tool, in your own words
    #[arg(required = true)]
    query: Vec<String>,
    /// Agent that searches; the default is `default`, or the first agent with access if `default` has none
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Maximum number of tools, at most 50
    #[arg(long, short = 'n', alias = "limit", value_name = "N", default_value = "5")]
    most: NonZeroU64,
    /// Search strategy: keyword, semantic, category or hybrid
    #[arg(long, value_name = "WORD")]
    strategy: Option<String>,
    /// Show why each tool was found instead of its description
    #[arg(long)]
    why: bool,
}

/// Search results, best first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SearchResult {
    tools: Vec<FoundTool>,
    /// For each tool, the part of the query for which it was found; `None` if the query has only one part.
    #[serde(skip)]
    parts: Vec<Option<String>>,
    /// The number of found tools that the answer leaves out.
    #[serde(skip)]
    omitted: u64,
    #[serde(skip)]
    agent: String,
}

impl Render for SearchResult {
    fn render(&self, out: &mut Output) {
        if self.tools.is_empty() {
            let agent = &self.agent;
            if self.omitted > 0 {
                let line = format!("no found tool fits the context budget of agent `{agent}`");
                return out.line(line);
            }
            let word = state_option::shell_word_or("AGENT", agent);
            return out.hint(format!(
                "no tool that agent `{agent}` may use fits; try another --agent, or `mgp access grant {word} SERVER`"
            ));
        }
        let has_parts = self.parts.iter().any(Option::is_some);
        let has_reasons = self.tools.iter().any(|tool| tool.reason.is_some());
        let rows = self.tools.iter().zip(&self.parts).map(|(tool, part)| {
            let score = tool.relevance_score.as_ref().map(ToString::to_string);
            let mut row: Vec<Cell> = vec![
                tool.tool_id.as_deref().into(),
                score.map(|score| score.chars().take(4).collect::<String>()).into(),
            ];
            if has_parts {
                row.push(part.as_deref().map(|part| first_line(part, 40)).into());
            }
            row.push(match &tool.reason {
                Some(reason) => reason.as_str().into(),
                None => first_line(tool.description.as_deref().unwrap_or_default(), 80).into(),
            });
            row
        });
        let last = if has_reasons { "WHY" } else { "DESCRIPTION" };
        let mut heads = vec!["TOOL", "SCORE"];
        heads.extend(has_parts.then_some("FOR"));
        heads.push(last);
        out.grid(&heads, rows);
    }
}

pub(super) async fn run(global: &Global, search: &Search) -> CliResult {
    let query = search.query.join(" ");
    // Refuse an empty query, which the kernel would answer with the first tools of the list, all with the same score.
    if query.trim().is_empty() {
        let what = "the purpose is empty; describe what the tool is for, e.g. `mgp tools search read a file`, or use `mgp tools ls` to list all tools";
        return Err(Failure::usage(what));
    }
    let agent = viewed_agent(global, search.agent.as_deref()).await?;
    let client = control::connect_or_start_as(global, &agent).await?;
    let mut params = DiscoverToolsParams::new();
    params.query = Some(query);
    params.max_results = Some(search.most.get());
    params.strategy = search.strategy.as_deref().map(SearchStrategy::from);
    // The kernel does not record searches with `explain`, so this search by a person does not count as a search of the
    // agent.
    params.explain = Some(true);
    let found = client.mgp().tools_discover(&params).await?;
    let (parts, remarks) = (parts(&found), remarks(search, &found, &agent));
    let (mut tools, omitted) = (found.tools, found.omitted.unwrap_or_default());
    for tool in &mut tools {
        let id = format!("{}.{}", tool.server_id, tool.name);
        tool.tool_id.get_or_insert(id);
        if !search.why {
            tool.reason = None;
        }
    }
    print(global, &SearchResult { tools, parts, omitted, agent: agent.clone() })?;
    // Print the remarks even with `--json`, because a script must also learn that the list is incomplete.
    for remark in &remarks {
        print_stderr(remark);
    }
    if search.agent.is_none() {
        let note = format!("found for the agent `{agent}`; --agent NAME searches for another");
        print_note(global, &note);
    }
    Ok(())
}

/// Returns what the answer to a search leaves out, and how the search differs from the requested one.
fn remarks(search: &Search, found: &DiscoverToolsResult, agent: &str) -> Vec<String> {
    let mut remarks: Vec<String> = found.notes.iter().cloned().collect();
    if let (Some(requested), Some(used)) = (&search.strategy, &found.fallback_strategy) {
        let reason = found.fallback_reason.as_deref().unwrap_or("it is not available");
        remarks.push(format!("searched by {used} instead of {requested}: {reason}"));
    }
    if let Some(omitted) = found.omitted {
        remarks.push(format!(
            "the answer leaves out {}, because its tokens are limited; raise `discovery_reserve` of \
             `[kernel.tool_context_budget]`, or `budget` of `[agents.{agent}]`",
            plural(omitted, "tool")
        ));
    }
    if search.most.get() > Query::CAP as u64 {
        remarks.push(format!("a search returns at most {} tools", Query::CAP));
    }
    remarks
}

/// Returns, for each tool, the part of the query that found it; `None` if the query has only one part.
fn parts(found: &DiscoverToolsResult) -> Vec<Option<String>> {
    let parts = found.mgp.as_ref().map(|extension| &extension.parts);
    let part_of = |tool: &FoundTool| {
        let name = tool.tool_id.as_ref().unwrap_or(&tool.name);
        let part = parts?.iter().find(|part| part.tools.iter().any(|own| own == name))?;
        Some(part.text.clone())
    };
    found.tools.iter().map(part_of).collect()
}
