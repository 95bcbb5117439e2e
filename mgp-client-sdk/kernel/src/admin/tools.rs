//! Methods for tools: their definitions, who sees them, their cost in tokens, and decisions about waiting
//! definitions.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mgp_security::{
    DefinitionState, Difference, Finding, HeldDefinition, PendingDefinition, Severity,
};
use mgp_toolindex::{
    AllTools, IndexedTool, TokenCounter, UnmetSearch, max_tokens_of_definition, name_for,
};
use mgp_types::mgp::{
    KernelServerTokens, KernelTokensParams, KernelTokensResult, KernelTool,
    KernelToolDecisionParams, KernelToolDecisionResult, KernelToolsParams, KernelToolsResult,
    KernelUnmetSearch, ServerState, ToolStanding,
};
use mgp_types::service::{Context, ServerId, Visibility as _};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Number, RpcError};

use super::explain::is_id;
use super::methods::find_server;
use crate::dispatch::{context_of_agent, list_costs};
use crate::handle::Kernel;

/// The agent for whose tools the tokens are counted if the params name no agent.
const DEFAULT_AGENT: &str = "default";

/// The maximum time that the answer to an operator who approved a new server waits for the server to list its tools.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which the tables for counting tokens stay in memory after a request. The console requests the counts of
/// one agent after the other, and each request needs these tables.
const COUNTER_DELAY: Duration = Duration::from_secs(2);

/// The reason why no agent sees a tool whose definition is not accepted.
const HELD: &str = "its definition waits for an operator, or an operator rejected it";

/// The maximum number of reasons that a result contains for each definition.
const MAX_REASONS: usize = 20;

pub(super) async fn list(
    kernel: Kernel,
    _: Context,
    params: KernelToolsParams,
) -> Result<KernelToolsResult, RpcError> {
    if let Some(id) = &params.server_id {
        find_server(&kernel, id)?;
    }
    kernel.0.fleet.synced().await;
    let is_wanted = |id: &str| params.server_id.as_deref().is_none_or(|wanted| wanted == id);
    // Describe only the tool that is asked for, because a page of the console asks for many tools one by one.
    let is_meant = |server: &ServerId, tool: &str| {
        params.tool_id.as_deref().is_none_or(|wanted| is_id(server, tool, wanted))
    };
    let mut all = Vec::new();
    let definitions = kernel.governance().definitions();
    let mut unlocked = Vec::new();
    for id in kernel.0.fleet.all().keys().filter(|id| is_wanted(id.as_str())) {
        let tools = kernel.index().tools_of(id.as_str()).into_iter();
        let tools = tools.filter(|tool| is_meant(id, tool.name()));
        all.extend(tools.map(|tool| indexed_tool(&kernel, id, &tool)));
        let names = definitions.unlocked_tools(id).into_iter().filter(|tool| is_meant(id, tool));
        unlocked.extend(names.map(|tool| unlocked_tool(&kernel, id, &tool)));
    }
    let mut held = definitions.waiting()?;
    held.extend(definitions.rejected()?);
    let waiting = held.iter().filter(|held| is_wanted(held.server.as_str()));
    let waiting = waiting.filter(|held| is_meant(&held.server, &held.tool));
    // A tool can be in both lists: its definition waits for an operator, and differs from the lock file. Show only the
    // difference from the lock file, which the operator must correct first.
    let key = |tool: &KernelTool| (tool.server_id.clone(), tool.tool_id.clone());
    let mut known: HashSet<_> = all.iter().map(key).collect();
    for other in unlocked.into_iter().chain(waiting.map(|held| unlisted_tool(&kernel, held))) {
        if known.insert(key(&other)) {
            all.push(other);
        }
    }
    if let Some(cx) = params.agent_id.as_deref().map(context_of_agent) {
        for tool in &mut all {
            let hidden = hidden_because(&kernel, &cx, tool);
            tool.seen_by_agent = Some(hidden.is_none());
            tool.hidden_because = hidden.or_else(|| refused_permission(&kernel, &cx, tool));
        }
    }
    if params.tool_id.is_some() {
        for tool in &mut all {
            tool.definition = definition(&kernel, tool, &held);
        }
    }
    all.sort_by(|one, other| one.tool_id.cmp(&other.tool_id));
    let mut result = KernelToolsResult::new();
    result.tools = all;
    Ok(result)
}

/// Waits up to [`REVIEW_TIMEOUT`] until a new server has listed its tools, and returns a text with the number of its
/// tools and with what the review found in them; `None` if the server is not connected then.
pub(super) async fn review(kernel: &Kernel, cx: &Context, server: &ServerId) -> Option<String> {
    let managed = find_server(kernel, server.as_str()).ok()?;
    let state = managed.operator_start(Some(REVIEW_TIMEOUT)).await;
    if state != ServerState::Connected {
        return None;
    }
    let mut params = KernelToolsParams::new();
    params.server_id = Some(server.to_string());
    let tools = list(kernel.clone(), cx.clone(), params).await.ok()?.tools;
    let found = tools.iter().filter(|tool| !tool.reasons.is_empty());
    let found: Vec<String> =
        found.map(|tool| format!("`{}`: {}", tool.tool_id, tool.reasons.join(", "))).collect();
    let found = if found.is_empty() {
        "the review found nothing".to_owned()
    } else {
        format!("the review found {}; decide with `mgp tools approve {server}`", found.join("; "))
    };
    let number = tools.len();
    let s = if number == 1 { "" } else { "s" };
    Some(format!("{server} has {number} tool{s}; {found}"))
}

/// Counts the tokens of tool lists. Runs on a separate thread, because tools may have to be tokenized first.
pub(super) async fn tokens(
    kernel: Kernel,
    _: Context,
    params: KernelTokensParams,
) -> Result<KernelTokensResult, RpcError> {
    let agent = params.agent_id.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned());
    kernel.0.fleet.synced().await;
    let counting = kernel.clone();
    let count = move || {
        let counter = shared_counter();
        (count_tokens(&counting, &params, &counter), counter)
    };
    let counted = tokio::task::spawn_blocking(count).await;
    let (mut result, counter) =
        counted.map_err(|error| RpcError::internal("the tools were not counted").because(error))?;
    tokio::spawn(async move {
        tokio::time::sleep(COUNTER_DELAY).await;
        drop(counter);
    });
    result.days = kernel.0.dispatcher.saved_days(&agent).await?.into();
    if let Some(history) = kernel.index().history() {
        let unmet = history.unmet(&context_of_agent(&agent).principal).into_iter();
        result.unmet = unmet.map(unmet_search).collect();
    }
    Ok(result)
}

pub(super) async fn approve(
    kernel: Kernel,
    cx: Context,
    params: KernelToolDecisionParams,
) -> Result<KernelToolDecisionResult, RpcError> {
    decide(&kernel, &cx, params, true).await
}

pub(super) async fn reject(
    kernel: Kernel,
    cx: Context,
    params: KernelToolDecisionParams,
) -> Result<KernelToolDecisionResult, RpcError> {
    decide(&kernel, &cx, params, false).await
}

fn indexed_tool(kernel: &Kernel, server: &ServerId, tool: &IndexedTool) -> KernelTool {
    let mut described = described_tool(kernel, server, tool.name(), tool.tokens(), None);
    described.name = name_for(tool, kernel.index(), &AllTools);
    described.description = tool.description().map(str::to_owned);
    described
}

/// Returns the complete definition of a tool: the one that waits for an operator's decision or was rejected, or else
/// the one that the server listed last.
fn definition(kernel: &Kernel, tool: &KernelTool, held: &[PendingDefinition]) -> Option<String> {
    let (server, name) = (ServerId::from(tool.server_id.as_str()), own_name(tool));
    let is_described = |held: &&PendingDefinition| {
        (&held.server, held.tool.as_str()) == (&server, name)
            && tool.fingerprint == Some(held.held.fingerprint.to_string())
    };
    let definitions = kernel.governance().definitions();
    match definitions.state(Some(&server), name) {
        DefinitionState::Changed(held) | DefinitionState::Flagged(held) => {
            Some(held.definition.as_str().to_owned())
        }
        _ => {
            if let Some(listed) = definitions.definition(Some(&server), name) {
                return serde_json::to_string(&*listed).ok();
            }
            // The server has not listed the tool since the kernel started, so only the stored definition is known.
            let held = held.iter().find(is_described)?;
            Some(held.held.definition.as_str().to_owned())
        }
    }
}

/// Describes a tool whose definition waits for an operator's decision or was rejected. Its only texts of the server are
/// the tool's name, and those in the differences from the approved definition.
fn unlisted_tool(kernel: &Kernel, held: &PendingDefinition) -> KernelTool {
    let PendingDefinition { server, tool, held, .. } = held;
    let definition = kernel.governance().definitions().definition(Some(server), tool);
    let text = definition.and_then(|tool| serde_json::to_string(&*tool).ok());
    let tokens = max_tokens_of_definition(text.as_deref().unwrap_or(held.definition.as_str()));
    described_tool(kernel, server, tool, tokens, Some(held))
}

/// Describes a tool that cannot be used because its definition differs from the lock file.
fn unlocked_tool(kernel: &Kernel, server: &ServerId, tool: &str) -> KernelTool {
    let definition = kernel.governance().definitions().definition(Some(server), tool);
    let text = definition.and_then(|tool| serde_json::to_string(&*tool).ok());
    let tokens = max_tokens_of_definition(text.as_deref().unwrap_or_default());
    described_tool(kernel, server, tool, tokens, None)
}

/// Describes a tool. `held` is the stored definition that waits for an operator or was rejected, if the tool is not in
/// the index.
fn described_tool(
    kernel: &Kernel,
    server: &ServerId,
    tool: &str,
    tokens: u32,
    held: Option<&HeldDefinition>,
) -> KernelTool {
    let definitions = kernel.governance().definitions();
    let risk = definitions.assessment(Some(server), tool).effective_risk.clone();
    let standing = match (definitions.state(Some(server), tool), held) {
        // The server has not listed the tool since the kernel started, so the state comes from the stored definition.
        (DefinitionState::Unseen, Some(held)) if held.pinned.is_some() => {
            DefinitionState::Changed(held.clone().into())
        }
        (DefinitionState::Unseen, Some(held)) => DefinitionState::Flagged(held.clone().into()),
        (DefinitionState::Unseen, None) if definitions.is_pinned(server, tool) => {
            DefinitionState::Pinned
        }
        (standing, _) => standing,
    };
    let word = match &standing {
        DefinitionState::Changed(held) | DefinitionState::Flagged(held)
            if held.rejected_by.is_some() =>
        {
            ToolStanding::Rejected
        }
        standing => ToolStanding::from(standing.as_str()),
    };
    let id = format!("{server}.{tool}");
    let mut described = KernelTool::new(id, tool, server.as_str(), risk, u64::from(tokens), word);
    match standing {
        DefinitionState::Changed(held) | DefinitionState::Flagged(held) => {
            described.fingerprint = Some(held.fingerprint.to_string());
            described.reasons = reasons(Some(&held), &held.findings, &described.tool_id).into();
        }
        DefinitionState::Refused(findings) => {
            described.reasons = reasons(None, &findings, &described.tool_id).into();
        }
        // The tool can be used. Show the findings about it nevertheless, because the operator should see them.
        _ => {
            let findings = definitions.findings(Some(server), tool);
            let shown = findings.iter().filter(|one| one.severity >= Severity::Flagged);
            let shown: Vec<_> = shown.cloned().collect();
            described.reasons = reasons(None, &shown, &described.tool_id).into();
            if shown.is_empty() {
                described.proposed_risk = kernel.governance().proposed_risk(server, tool);
            }
        }
    }
    described
}

async fn decide(
    kernel: &Kernel,
    cx: &Context,
    params: KernelToolDecisionParams,
    approves: bool,
) -> Result<KernelToolDecisionResult, RpcError> {
    let KernelToolDecisionParams { server_id, tool, fingerprint, because, expected, .. } = params;
    let (definitions, server) =
        (kernel.governance().definitions(), ServerId::from(server_id.as_str()));
    let mut waiting = definitions.waiting()?;
    if approves {
        waiting.extend(definitions.rejected()?);
    }
    let waiting =
        waiting.into_iter().find(|waiting| waiting.server == server && waiting.tool == tool);
    let Some(waiting) = waiting.map(|waiting| waiting.held.fingerprint) else {
        let message = format!("no definition of `{tool}` of `{server_id}` waits for a decision");
        return Err(RpcError::new(ErrorCode::TOOL_NOT_FOUND, message));
    };
    // Require the fingerprint, so that an operator approves only the definition that the operator has seen, and not a
    // later definition.
    if approves && fingerprint.is_none() {
        let message = "an approval names the `fingerprint` of the definition that was read";
        return Err(RpcError::invalid_params(message));
    }
    if fingerprint.is_some_and(|decided| decided != waiting.to_string()) {
        let message = format!(
            "another definition of `{tool}` waits now, with the fingerprint {waiting}; look at it first"
        );
        return Err(RpcError::invalid_params(message));
    }
    let (by, because) = (&cx.principal, because.as_deref());
    let status = if approves {
        if expected.is_some_and(|seen| seen != ToolStanding::Rejected) {
            definitions.approve_waiting(by, &server, &tool, &waiting, because).await?;
        } else {
            definitions.approve(by, &server, &tool, &waiting, because).await?;
        }
        // Wait until the tools were read again, so that calls right after the answer find the tool.
        kernel.0.fleet.reread_tools(&server).await;
        "approved"
    } else {
        definitions.reject(by, &server, &tool, &waiting, because).await?;
        kernel.0.fleet.refresh_tools(&server);
        "rejected"
    };
    Ok(KernelToolDecisionResult::new(status, waiting.to_string()))
}

fn unmet_search(search: UnmetSearch) -> KernelUnmetSearch {
    let UnmetSearch { query, found_nothing, not_called, last, .. } = search;
    let last = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(last));
    let last = last.unwrap_or(SystemTime::UNIX_EPOCH);
    KernelUnmetSearch::new(query, u64::from(found_nothing), u64::from(not_called), last)
}

/// Returns the token counter that recent requests have used if it is still in memory, or else a new one.
fn shared_counter() -> Arc<TokenCounter> {
    static RECENT: Mutex<Weak<TokenCounter>> = Mutex::new(Weak::new());
    let mut recent = RECENT.lock();
    recent.upgrade().unwrap_or_else(|| {
        let counter = Arc::new(TokenCounter::new());
        *recent = Arc::downgrade(&counter);
        counter
    })
}

fn count_tokens(
    kernel: &Kernel,
    params: &KernelTokensParams,
    counter: &TokenCounter,
) -> KernelTokensResult {
    let parts = kernel.0.dispatcher.parts();
    let agent = params.agent_id.as_deref().unwrap_or(DEFAULT_AGENT);
    let cx = context_of_agent(agent);
    let (listed, all) = list_costs(parts, agent, |text| counter.count_definition(text));
    let saved = permille_saved(listed, all);
    let mut result = KernelTokensResult::new(listed, all, Number::from(saved / 10.0));
    for id in kernel.0.fleet.all().keys() {
        let mut tools = kernel.index().tools_of(id.as_str());
        tools.retain(|tool| parts.view.sees(&cx, Some(id), tool.name()).is_ok());
        // Count the tools here, because the index has only upper bounds for tools that it has not counted yet.
        let counts = tools.iter().map(|tool| counter.count_definition(tool.definition()));
        let tokens = counts.map(u64::from).sum::<u64>();
        result.servers.push(KernelServerTokens::new(id.as_str(), tools.len() as u64, tokens));
    }
    result
}

/// Returns by how much `part` is smaller than `all`, in thousandths of `all`; negative if `part` is larger.
fn permille_saved(part: u64, all: u64) -> f64 {
    if all == 0 {
        return 0.0;
    }
    let share = u128::from(part) * 1000 / u128::from(all);
    1000.0 - f64::from(u32::try_from(share).unwrap_or(u32::MAX))
}

/// Returns the reason why an agent does not see a tool; `None` if it sees the tool.
fn hidden_because(kernel: &Kernel, cx: &Context, tool: &KernelTool) -> Option<String> {
    let (id, name) = (ServerId::from(tool.server_id.as_str()), own_name(tool));
    if let Err(hidden) = kernel.0.dispatcher.parts().view.sees(cx, Some(&id), name) {
        return Some(hidden.rule().to_string());
    }
    // The rules above know only tools that their server has listed since the start of the kernel. So check here whether
    // the definition waits for an operator or was rejected.
    let is_usable = matches!(tool.standing, ToolStanding::Pinned | ToolStanding::Unseen);
    (!is_usable).then(|| HELD.to_owned())
}

/// Returns a permission that the tool needs and that no approver can grant any more, with the reason. Returns `None` if
/// the tool needs no such permission. While such a permission is missing, the kernel refuses every call of the tool,
/// and searches leave the tool out.
fn refused_permission(kernel: &Kernel, cx: &Context, tool: &KernelTool) -> Option<String> {
    let (id, name) = (ServerId::from(tool.server_id.as_str()), own_name(tool));
    let missing = kernel.governance().missing_permissions(&cx.principal, &id, name);
    let refused = missing.iter().find(|missing| !missing.may_ask)?;
    Some(format!("{}: {}", refused.permission.as_str(), refused.why))
}

fn own_name(tool: &KernelTool) -> &str {
    tool.tool_id.get(tool.server_id.len() + 1..).unwrap_or_default()
}

/// Returns what an operator must know about a definition: first the findings, beginning with the worst, then the
/// differences. If the differences were first, a server could push a finding out of the list with many harmless
/// differences.
fn reasons(held: Option<&HeldDefinition>, findings: &[Finding], tool_id: &str) -> Vec<String> {
    let mut findings: Vec<&Finding> = findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut reasons: Vec<String> = findings.iter().map(ToString::to_string).collect();
    // Remove repeated reasons, because several rules can find the same text.
    let mut known = HashSet::new();
    reasons.retain(|reason| known.insert(reason.clone()));
    reasons.extend(held.into_iter().flat_map(|held| held.differences.iter().map(change)));
    let more = reasons.len().saturating_sub(MAX_REASONS)
        + held.map_or(0, |held| held.differences_left_out);
    reasons.truncate(MAX_REASONS);
    if more > 0 {
        reasons.push(format!(
            "and {more} more; read the whole definition before you decide: `mgp tools show {tool_id}`"
        ));
    }
    reasons
}

fn change(difference: &Difference) -> String {
    let place = if difference.at.is_empty() { "the definition" } else { &*difference.at };
    match (&difference.before, &difference.after) {
        (Some(before), Some(after)) => format!("{place} was “{before}”, is “{after}”"),
        (None, Some(after)) => format!("{place} is new: “{after}”"),
        (Some(before), None) => format!("{place} was removed: “{before}”"),
        (None, None) => format!("{place} changed"),
    }
}
