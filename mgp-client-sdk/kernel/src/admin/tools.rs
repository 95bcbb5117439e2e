//! The tools: where each stands, who sees it, what it costs, and decisions about definitions that wait.
//!
//! Applies to: inbound.

use mgp_security::{Difference, Finding, Standing};
use mgp_toolindex::{Everything, Listed, name_for, surface, tokens_at_most};
use mgp_types::method::{KernelTools, KernelToolsApprove, KernelToolsReject, KernelToolsTokens};
use mgp_types::mgp::{
    ContextLevel, KernelServerTokens, KernelTokensParams, KernelTokensResult, KernelTool,
    KernelToolDecisionParams, KernelToolDecisionResult, KernelToolsParams, KernelToolsResult,
    ToolStanding,
};
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind, ServerId, Visibility as _};
use mgp_types::{ErrorCode, Number, RpcError};

use super::Desk;
use crate::handle::Kernel;

/// Who is meant where nobody is named.
const NAMELESS: &str = "default";

/// How many reasons are told of a definition.
const REASONS: usize = 20;

pub(super) fn on(desk: Desk) -> Desk {
    desk.reads::<KernelTools, _, _>(async |kernel, _, params| kernel.tools(&params))
        .reads::<KernelToolsTokens, _, _>(async |kernel, _, params| {
            // Tools are counted that nobody counted yet.
            let counted = tokio::task::spawn_blocking(move || kernel.tokens(&params)).await;
            counted.map_err(|error| RpcError::internal("the tools were not counted").because(error))
        })
        .changes::<KernelToolsApprove, _, _>(async |kernel, cx, params| {
            kernel.decide(&cx, params, true).await
        })
        .changes::<KernelToolsReject, _, _>(async |kernel, cx, params| {
            kernel.decide(&cx, params, false).await
        })
}

/// A call that an agent would make.
fn as_agent(agent: &str) -> Context {
    let principal = Principal::local().agent(agent);
    Context::new(Peer::none(), Scope::new(ScopeKind::Request), principal)
}

impl Kernel {
    fn tools(&self, params: &KernelToolsParams) -> Result<KernelToolsResult, RpcError> {
        if let Some(id) = &params.server_id {
            self.meant(id)?;
        }
        let wanted = |id: &str| params.server_id.as_deref().is_none_or(|wanted| wanted == id);
        let agent = params.agent_id.as_deref().map(as_agent);
        let mut all = Vec::new();
        for id in self.0.fleet.all().keys().filter(|id| wanted(id.as_str())) {
            for tool in self.index().tools_of(id.as_str()) {
                all.push(self.known(id, &tool));
            }
        }
        let waiting = self.governance().definitions().waiting()?;
        for waiting in waiting.iter().filter(|waiting| wanted(waiting.server.as_str())) {
            let is_known = |tool: &KernelTool| {
                tool.server_id == waiting.server.as_str() && own_name(tool) == waiting.tool
            };
            if !all.iter().any(is_known) {
                all.push(self.unlisted(&waiting.server, &waiting.tool));
            }
        }
        if let Some(cx) = &agent {
            for tool in &mut all {
                let id = ServerId::from(tool.server_id.as_str());
                let seen = self.0.switch.parts().seen.sees(cx, Some(&id), own_name(tool));
                tool.seen_by_agent = Some(seen.is_ok());
                tool.hidden_because = seen.err().map(|hidden| hidden.rule().to_string());
            }
        }
        all.sort_by(|one, other| one.tool_id.cmp(&other.tool_id));
        let mut result = KernelToolsResult::new();
        result.tools = all;
        Ok(result)
    }

    /// A tool that the index has.
    fn known(&self, server: &ServerId, tool: &Listed) -> KernelTool {
        let mut known = self.described(server, tool.name(), tool.tokens());
        known.name = name_for(tool, self.index(), &Everything);
        known.description = tool.description().map(str::to_owned);
        known
    }

    /// A tool whose definition nobody may see yet: of what its server says nothing is shown but its name.
    fn unlisted(&self, server: &ServerId, tool: &str) -> KernelTool {
        let definition = self.governance().definitions().definition(Some(server), tool);
        let text = definition.and_then(|tool| serde_json::to_string(&*tool).ok());
        self.described(server, tool, text.map_or(0, |text| tokens_at_most(&text)))
    }

    fn described(&self, server: &ServerId, tool: &str, tokens: u32) -> KernelTool {
        let definitions = self.governance().definitions();
        let risk = definitions.assessment(Some(server), tool).effective_risk.clone();
        let standing = definitions.standing(Some(server), tool);
        let mut told = KernelTool::new(
            format!("{server}.{tool}"),
            tool,
            server.as_str(),
            risk,
            u64::from(tokens),
            ToolStanding::from(standing.as_str()),
        );
        match standing {
            Standing::Changed(held) | Standing::Flagged(held) => {
                told.fingerprint = Some(held.fingerprint.to_string());
                told.reasons = reasons(&held.differences, &held.findings).into();
            }
            Standing::Refused(findings) => told.reasons = reasons(&[], &findings).into(),
            _ => {}
        }
        told
    }

    async fn decide(
        &self,
        cx: &Context,
        params: KernelToolDecisionParams,
        approves: bool,
    ) -> Result<KernelToolDecisionResult, RpcError> {
        let KernelToolDecisionParams { server_id, tool, fingerprint, because, .. } = params;
        let (definitions, server) =
            (self.governance().definitions(), ServerId::from(server_id.as_str()));
        let waiting = definitions.waiting()?.into_iter();
        let waits = waiting
            .filter(|waiting| waiting.server == server && waiting.tool == tool)
            .map(|waiting| waiting.held.fingerprint)
            .next();
        let Some(waits) = waits else {
            let message =
                format!("no definition of `{tool}` of `{server_id}` waits for a decision");
            return Err(RpcError::new(ErrorCode::TOOL_NOT_FOUND, message));
        };
        // What was looked at is what is decided about, and nothing that came since.
        if fingerprint.is_some_and(|looked_at| looked_at != waits.to_string()) {
            let message = format!(
                "another definition of `{tool}` waits by now, with the fingerprint {waits}; look at it first"
            );
            return Err(RpcError::invalid_params(message));
        }
        let (by, because) = (&cx.principal, because.as_deref());
        let status = if approves {
            definitions.approve(by, &server, &tool, &waits, because).await?;
            "approved"
        } else {
            definitions.reject(by, &server, &tool, &waits, because).await?;
            "rejected"
        };
        // What is approved is listed from now on.
        self.0.fleet.relearn(&server);
        Ok(KernelToolDecisionResult::new(status, waits.to_string()))
    }

    fn tokens(&self, params: &KernelTokensParams) -> KernelTokensResult {
        let parts = self.0.switch.parts();
        let cx = as_agent(params.agent_id.as_deref().unwrap_or(NAMELESS));
        let caller = parts.search.caller(&cx);
        let session = parts.sessions.view(&cx.principal, None, self.index(), &caller);
        let list = |level| {
            let tools = surface(&level, &parts.offers.meta(&cx), self.index(), &caller, &session);
            let text = serde_json::to_string(&tools).unwrap_or_default();
            u64::from(mgp_toolindex::TokenCounter::new().count(&text))
        };
        let (listed, all) = (list(ContextLevel::Hybrid), list(ContextLevel::Standard));
        let saved = permille_less(listed, all);
        let mut result = KernelTokensResult::new(listed, all, Number::from(saved / 10.0));
        for id in self.0.fleet.all().keys() {
            let mut tools = self.index().tools_of(id.as_str());
            tools.retain(|tool| parts.seen.sees(&cx, Some(id), tool.name()).is_ok());
            let tokens = tools.iter().map(|tool| u64::from(tool.tokens())).sum::<u64>();
            result.servers.push(KernelServerTokens::new(id.as_str(), tools.len() as u64, tokens));
        }
        result
    }
}

/// How much less `part` is than `all`, in thousandths, rounded; less than nothing where it is more.
fn permille_less(part: u64, all: u64) -> f64 {
    if all == 0 {
        return 0.0;
    }
    let share = u128::from(part) * 1000 / u128::from(all);
    1000.0 - f64::from(u32::try_from(share).unwrap_or(u32::MAX))
}

/// The name its server gives it.
fn own_name(tool: &KernelTool) -> &str {
    tool.tool_id.get(tool.server_id.len() + 1..).unwrap_or_default()
}

fn reasons(differences: &[Difference], findings: &[Finding]) -> Vec<String> {
    let changed = differences.iter().map(|difference| {
        let place = if difference.at.is_empty() { "the definition" } else { &*difference.at };
        match (&difference.before, &difference.after) {
            (Some(before), Some(after)) => format!("{place} was {before} and is {after}"),
            (None, Some(after)) => format!("{place} is new: {after}"),
            (Some(before), None) => format!("{place} is gone: {before}"),
            (None, None) => format!("{place} changed"),
        }
    });
    changed.chain(findings.iter().map(ToString::to_string)).take(REASONS).collect()
}
