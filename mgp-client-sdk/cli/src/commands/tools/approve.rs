//! The command `mgp tools approve`: approves or rejects tool definitions that wait for a decision.

use std::collections::BTreeMap;

use clap::Args;
use futures_util::future::join_all;
use mgp_client_sdk::Client;
use mgp_types::method::{KernelToolsApprove, KernelToolsReject};
use mgp_types::mgp::{KernelTool, KernelToolDecisionParams, ToolStanding};

use super::{fetch_tools, find_tool, needs_decision, own_name, shared_ids};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, print_note, print_stderr};
use crate::{control, prompt};

/// The maximum number of decisions to send at the same time. The kernel answers each after it has read the tools of the
/// server again; one such read serves several decisions.
const MAX_AT_ONCE: usize = 16;

/// `mgp tools approve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Approve {
    /// Tools as SERVER.TOOL (also rejected tools), patterns of such names with `*`, or servers, for all their
    /// definitions that wait
    #[arg(value_name = "TOOL|SERVER", required_unless_present = "all")]
    tools: Vec<String>,
    /// All definitions that wait
    #[arg(long, conflicts_with = "tools")]
    all: bool,
    /// Reject the definitions instead
    #[arg(long)]
    reject: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Decide only about the definition with this fingerprint; for one tool
    #[arg(long, value_name = "HASH")]
    fingerprint: Option<String>,
    /// Reason for the audit log
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// Returns the tools whose definitions the operator approves or rejects with this command.
fn select<'a>(all: &'a [KernelTool], approve: &Approve) -> CliResult<Vec<&'a KernelTool>> {
    let mut chosen: BTreeMap<(&str, &str), &KernelTool> = BTreeMap::new();
    let mut add = |what: &str, matches: &dyn Fn(&KernelTool) -> bool| {
        let found: Vec<_> = all.iter().filter(|tool| matches(tool)).collect();
        if found.is_empty() {
            return Err(Failure::failed(format!("no definition{what} needs a decision")));
        }
        let key = |tool: &'a KernelTool| (tool.tool_id.as_str(), tool.server_id.as_str());
        chosen.extend(found.into_iter().map(|tool| (key(tool), tool)));
        Ok(())
    };
    if approve.all {
        add("", &needs_decision)?;
    }
    for wanted in &approve.tools {
        let of = format!(" of `{wanted}`");
        if wanted.contains('*') {
            add(&of, &|tool| needs_decision(tool) && matches_pattern(wanted, &tool.tool_id))?;
        } else if all.iter().any(|tool| tool.server_id == *wanted) {
            add(&of, &|tool| needs_decision(tool) && tool.server_id == *wanted)?;
        } else {
            let tool = find_tool(all, wanted)?;
            if let Some(remedy) = shared_ids(all).remove(&tool.tool_id) {
                return Err(Failure::failed(format!("`{}` is ambiguous: {remedy}", tool.tool_id)));
            }
            let can_be_restored = !approve.reject && tool.standing == ToolStanding::Rejected;
            if !needs_decision(tool) && !can_be_restored {
                let (id, state) = (&tool.tool_id, tool.standing.as_str());
                let text = format!("`{id}` needs no decision; its definition is {state}");
                return Err(Failure::failed(text));
            }
            add(&of, &|one| one.tool_id == tool.tool_id)?;
        }
    }
    Ok(chosen.into_values().collect())
}

/// Returns whether a text matches a pattern; `*` in the pattern matches any text.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    let (rest, mut text) = (rest.split('*').collect::<Vec<_>>(), text);
    let Some((last, middle)) = rest.split_last() else { return true };
    for part in middle {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

pub(super) async fn run(global: &Global, approve: &Approve) -> CliResult {
    let all = fetch_tools(&control::connect(global).await?, None, None).await?;
    let tools = select(&all, approve)?;
    if approve.fingerprint.is_some() && tools.len() > 1 {
        return Err(Failure::usage("--fingerprint is about one definition; name one tool"));
    }
    for tool in &tools {
        print_note(global, &format!("{} is {}", tool.tool_id, tool.standing.as_str()));
        // Print the reasons unchanged, because they quote the definition.
        for reason in tool.reasons.iter().filter(|_| !global.json) {
            print_stderr(&format!("  {reason}"));
        }
    }
    if !approve.yes && approve.fingerprint.is_none() {
        let verb = if approve.reject { "Reject" } else { "Approve" };
        let question = match tools.len() {
            1 => format!("{verb} this definition for agents?"),
            many => format!("{verb} these {many} definitions for agents?"),
        };
        let no_terminal = "there is no terminal for the question; read the reasons, then add --yes";
        prompt::require(global, &question, "nothing was decided", no_terminal)?;
    }
    let client = control::connect_to_change(global).await?;
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    for some in tools.chunks(MAX_AT_ONCE) {
        let decisions = some.iter().map(|tool| decide(&client, approve, tool));
        for (tool, decided) in some.iter().zip(join_all(decisions).await) {
            match decided {
                Ok(()) => done.push(tool.tool_id.as_str()),
                Err(failure) => failures.push(failure),
            }
        }
        if !failures.is_empty() {
            break;
        }
    }
    let failed = failures.pop();
    // Report the decisions that were made before a failure, because they remain in effect.
    if !done.is_empty() {
        let status = if approve.reject { "rejected" } else { "approved" };
        ActionReport::new(done.join(" "), status).print(global)?;
    }
    for failure in failures {
        print_note(global, &format!("mgp: {failure}"));
    }
    failed.map_or(Ok(()), Err)
}

async fn decide(client: &Client, approve: &Approve, tool: &KernelTool) -> CliResult {
    // Send the fingerprint that the operator was shown, so that a definition changed since then is not approved.
    let mut params = KernelToolDecisionParams::new(&*tool.server_id, own_name(tool));
    params.fingerprint = approve.fingerprint.clone().or_else(|| tool.fingerprint.clone());
    params.because.clone_from(&approve.because);
    params.expected = Some(tool.standing.clone());
    if approve.reject {
        client.request::<KernelToolsReject>(&params).await?;
    } else {
        client.request::<KernelToolsApprove>(&params).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, text, fits) in [
            ("fs.*", "fs.read", true),
            ("fs.*", "fsx.read", false),
            ("*", "a", true),
            ("*.read*", "fs.read_all", true),
            ("fs.*_file", "fs.read_file", true),
            ("fs.*_file", "fs.read_files", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), fits, "{pattern} {text}");
        }
    }
}
