//! Mode B: a model lacks something, and asks for tools for the rest of its session (MGP §16.6).
//!
//! Each capability is a search of its own. A tool meets it if it scores high enough and takes and gives what is asked;
//! one that only scores high enough is loaded too, and the answer says what is not known of it. Less dangerous tools
//! than preferred come first; where there is none, the answer says so.
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::mgp::{
    RequestStatus, RequestToolsParams, RequestToolsResult, RiskLevel, UnavailableTool,
};
use mgp_types::service::Context;
use mgp_types::{Payload, RpcError};

use super::bounds;
use super::caller::Caller;
use super::discover::aside;
use super::endpoints::Inner;
use super::hooks::{Creating, Standing, Wanted};
use super::present::loaded;
use crate::catalog::Listed;
use crate::meta::name_for;
use crate::search::{Explain, Filter, Hit, Query};
use crate::tokens::tokens_at_most;

/// Which tools do what was asked: how much of what the words say they have at least, with which score.
///
/// Every query finds something, so that a score alone says little: what nobody has scores up to 0.46 without a word in
/// common, and one of a hundred real queries scores less than that. Words decide where they can, and a meaning without
/// words has to be near. Chosen with real and absurd wishes over two catalogues of 527 and 2,247 tools.
const MEETS: [(f32, f32); 3] = [(0.6, 0.0), (0.4, 0.55), (0.0, 0.68)];
/// How much worse than the best a tool may fit that is taken for being less dangerous.
const NEAR: f32 = 0.7;
/// How much what is being done counts beside what is asked for.
const CONTEXT: f32 = 0.1;
/// How many tools are looked at for each capability.
const LOOKED_AT: usize = 10;

/// What is said where tools are in the session that the answer has no room for.
const UNTOLD: &str = "more tools were loaded than fit into this answer; `tools/list` has all";

/// Answers `mgp/tools/request`.
///
/// # Cancel safety
/// Dropping the future leaves at most tools loaded that nobody was told of; the session tells of them.
pub(super) async fn answer(
    inner: Arc<Inner>,
    cx: Context,
    params: RequestToolsParams,
) -> Result<RequestToolsResult, RpcError> {
    bounds::request(&params)?;
    // Whoever sends a handle that is not theirs learns it before anything else.
    inner.sessions.find(&cx, params.session_handle.as_deref())?;
    let (working, caller, asked) = (Arc::clone(&inner), inner.caller(&cx), params.clone());
    let mut result =
        aside(move || Decision::of(&working, &caller, &asked)?.load(&working, &caller, &asked))
            .await?;
    if result.context_tokens_added.is_some_and(|tokens| tokens > 0) {
        inner.changed(&cx);
    }
    if result.status == RequestStatus::Unavailable {
        create(&inner, cx, params, &mut result).await?;
    }
    Ok(result)
}

/// Which tools a request gets, and which it does not.
#[derive(Default)]
struct Decision {
    tools: Vec<Listed>,
    /// The capabilities that each tool is for, in the same order.
    capabilities: Vec<Vec<String>>,
    unmet: Vec<UnavailableTool>,
    pending: usize,
    notes: Vec<String>,
}

/// A tool that would do, and what is to be said of it.
struct Candidate {
    tool: Listed,
    score: f32,
    standing: Standing,
    is_preferred: bool,
}

impl Decision {
    fn of(inner: &Inner, caller: &Caller, params: &RequestToolsParams) -> Result<Self, RpcError> {
        let mut decision = Self::default();
        let context =
            params.context.as_deref().map(str::trim).filter(|context| !context.is_empty());
        let near = match context {
            Some(context) => {
                inner.index.search(&ask(caller, context).most(Query::CAP), caller)?.hits
            }
            None => Vec::new(),
        };
        let wanted = &params.requirements;
        for capability in wanted.capabilities.iter().filter(|one| !one.trim().is_empty()) {
            let (hits, is_typed) = search(inner, caller, capability, params)?;
            let all = candidates(inner, caller, hits, &near, wanted.preferred_risk_level.as_ref());
            decision.choose(inner, caller, capability, all, is_typed, params)?;
        }
        Ok(decision)
    }

    /// Takes the best of the candidates for a capability.
    fn choose(
        &mut self,
        inner: &Inner,
        caller: &Caller,
        capability: &str,
        all: Vec<Candidate>,
        is_typed: bool,
        params: &RequestToolsParams,
    ) -> Result<(), RpcError> {
        let Some(best) = all.into_iter().next() else {
            let mut unmet = unavailable(capability, None);
            unmet.reason = Some("no tool does this".to_owned());
            self.unmet.push(unmet);
            return Ok(());
        };
        let name = name_for(&best.tool, &inner.index, caller);
        if let (false, Some(preferred)) =
            (best.is_preferred, &params.requirements.preferred_risk_level)
        {
            self.notes.push(format!(
                "`{name}` is {}: no tool that is {preferred} at most does `{capability}`",
                best.tool.risk()
            ));
        }
        if let Standing::NeedsApproval { permissions, how } = &best.standing {
            self.pending += 1;
            let mut unmet = unavailable(capability, Some(&best.tool));
            unmet.reason = Some(needs(permissions, how.as_deref()));
            self.unmet.push(unmet);
            return Ok(());
        }
        if !is_typed {
            let mut unmet = unavailable(capability, Some(&best.tool));
            unmet.reason = Some(untyped(inner, caller, capability, &best.tool, params)?);
            self.unmet.push(unmet);
        }
        let is_same = |tool: &Listed| {
            tool.hash() == best.tool.hash() && tool.server_id() == best.tool.server_id()
        };
        let capability = capability.to_owned();
        if let Some(at) = self.tools.iter().position(is_same) {
            self.capabilities[at].push(capability);
        } else {
            self.tools.push(best.tool);
            self.capabilities.push(vec![capability]);
        }
        Ok(())
    }

    /// Loads the tools into the session, and says what became of the request.
    fn load(
        mut self,
        inner: &Inner,
        caller: &Caller,
        params: &RequestToolsParams,
    ) -> Result<RequestToolsResult, RpcError> {
        let cx = caller.cx();
        let handle = params.session_handle.as_deref();
        let session = if self.tools.is_empty() {
            inner.sessions.find(cx, handle)?
        } else {
            Some(inner.sessions.open(cx, handle)?)
        };
        let mut tokens = 0;
        if let (Some(session), false) = (&session, self.tools.is_empty()) {
            let put =
                inner.sessions.request(&cx.principal, session, &self.tools, &inner.index, caller);
            tokens = put.tokens;
            let mut is_in = put.is_in.iter().copied();
            let mut kept = Vec::new();
            for (tool, capabilities) in
                std::mem::take(&mut self.tools).into_iter().zip(&self.capabilities)
            {
                if is_in.next() == Some(true) {
                    kept.push(tool);
                    continue;
                }
                for capability in capabilities {
                    let mut unmet = unavailable(capability, Some(&tool));
                    unmet.reason =
                        Some("its definition does not fit the budget of the session".to_owned());
                    self.unmet.push(unmet);
                }
            }
            self.tools = kept;
        }
        let view = inner.sessions.view(&cx.principal, session.as_ref(), &inner.index, caller);
        let mut result = RequestToolsResult::new(self.status());
        result.session_tools_count = Some(view.tools().count() as u64);
        result.context_tokens_added = Some(tokens);
        result.notes = self.notes.into();
        result.tools_unavailable = self.unmet.iter().map(Payload::of).collect::<Result<_, _>>()?;
        result.session_handle = session.and_then(|session| session.handle().map(str::to_owned));
        let plan = inner.sessions.plan();
        let is_clear = |tool: &Listed| name_for(tool, &inner.index, caller) == tool.name();
        let tell = |result: &RequestToolsResult| {
            let envelope = serde_json::to_string(result).map_or(0, |text| tokens_at_most(&text));
            let tools = self.tools.iter().map(|tool| (tool, is_clear(tool)));
            loaded(tools, plan.budget_of(&cx.principal), envelope)
        };
        let mut told = tell(&result);
        if told.len() < self.tools.len() {
            let mut notes = std::mem::take(&mut result.notes).into_vec();
            notes.push(UNTOLD.to_owned());
            result.notes = notes.into();
            told = tell(&result);
        }
        result.tools_loaded = told;
        Ok(result)
    }

    fn status(&self) -> RequestStatus {
        match (self.tools.is_empty(), self.unmet.is_empty()) {
            (false, true) => RequestStatus::Fulfilled,
            (false, false) => RequestStatus::Partial,
            (true, _) if self.pending > 0 => RequestStatus::PendingApproval,
            (true, _) => RequestStatus::Unavailable,
        }
    }
}

/// The tools that do something and take and give what is asked; if there are none, those that do it.
fn search(
    inner: &Inner,
    caller: &Caller,
    capability: &str,
    params: &RequestToolsParams,
) -> Result<(Vec<Hit>, bool), RpcError> {
    let wanted = &params.requirements;
    let find = |filter: Filter| -> Result<Vec<Hit>, RpcError> {
        let query = ask(caller, capability.trim()).most(LOOKED_AT).filter(filter);
        let mut hits = inner.index.search(&query.explain(Explain::Yes), caller)?.hits;
        hits.retain(|hit| meets(inner, capability, hit));
        Ok(hits)
    };
    let hits = find(typed(&wanted.input_types, &wanted.output_types))?;
    let has_types = !wanted.input_types.is_empty() || !wanted.output_types.is_empty();
    if hits.is_empty() && has_types {
        return Ok((find(Filter::new())?, false));
    }
    Ok((hits, true))
}

/// A query of whoever calls.
fn ask(caller: &Caller, text: &str) -> Query {
    Query::new(text).asker(&caller.cx().principal)
}

fn meets(inner: &Inner, capability: &str, hit: &Hit) -> bool {
    let words = hit.reason.as_ref().map_or(&[][..], |reason| &reason.words);
    let covered = inner.index.coverage(capability, words);
    MEETS.iter().any(|(words, score)| covered >= *words && hit.score >= *score)
}

fn typed(input: &[String], output: &[String]) -> Filter {
    let mut filter = Filter::new();
    filter.input_types = input.to_vec();
    filter.output_types = output.to_vec();
    filter
}

/// The tools of a search that the caller may call or ask for, best first.
fn candidates(
    inner: &Inner,
    caller: &Caller,
    hits: Vec<Hit>,
    near: &[Hit],
    preferred: Option<&RiskLevel>,
) -> Vec<Candidate> {
    let also = |tool: &Listed| {
        let same = near.iter().find(|hit| hit.tool.tool_id() == tool.tool_id());
        same.map_or(0.0, |hit| hit.score * CONTEXT)
    };
    let mut all: Vec<Candidate> = hits
        .into_iter()
        .map(|hit| Candidate {
            score: hit.score + also(&hit.tool),
            standing: inner.standing(caller.cx(), &hit.tool),
            is_preferred: preferred.is_none_or(|most| hit.tool.risk() <= *most),
            tool: hit.tool,
        })
        .filter(|one| one.standing != Standing::Refused)
        .collect();
    let best = all.iter().map(|one| one.score).fold(0.0, f32::max);
    all.retain(|one| one.score >= best * NEAR);
    let place = |one: &Candidate| (!one.is_preferred, one.standing != Standing::Callable);
    all.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| b.score.total_cmp(&a.score)));
    all
}

fn unavailable(capability: &str, tool: Option<&Listed>) -> UnavailableTool {
    let mut unmet = UnavailableTool::new();
    unmet.capability = Some(capability.to_owned());
    unmet.name = tool.map(|tool| tool.name().to_owned());
    unmet.server_id = tool.map(|tool| tool.server_id().to_owned());
    unmet
}

fn needs(permissions: &[mgp_types::mgp::Permission], how: Option<&str>) -> String {
    let names: Vec<_> = permissions.iter().map(|permission| format!("`{permission}`")).collect();
    let mut text = "needs approval".to_owned();
    if !names.is_empty() {
        text.push_str(" of ");
        text.push_str(&names.join(", "));
    }
    if let Some(how) = how {
        text.push_str(": ");
        text.push_str(how);
    }
    text
}

/// Says which of the types a tool does not mention.
fn untyped(
    inner: &Inner,
    caller: &Caller,
    capability: &str,
    tool: &Listed,
    params: &RequestToolsParams,
) -> Result<String, RpcError> {
    let wanted = &params.requirements;
    let lacks = |input: &[String], output: &[String]| -> Result<bool, RpcError> {
        let filter = typed(input, output).server(tool.server_id());
        let query = ask(caller, capability).most(Query::CAP).filter(filter);
        let hits = inner.index.search(&query, caller)?.hits;
        Ok(!hits.iter().any(|hit| hit.tool.name() == tool.name()))
    };
    let mut parts = Vec::new();
    if !wanted.input_types.is_empty() && lacks(&wanted.input_types, &[])? {
        parts.push(format!("take {}", wanted.input_types.join(" or ")));
    }
    if !wanted.output_types.is_empty() && lacks(&[], &wanted.output_types)? {
        parts.push(format!("give {}", wanted.output_types.join(" or ")));
    }
    if parts.is_empty() {
        // Each type alone fits, only not all at once.
        parts.push("do both at once".to_owned());
    }
    Ok(format!("it was loaded, but does not say that it can {}", parts.join(" and ")))
}

/// Lets a tool be made where none was found, if anybody can.
async fn create(
    inner: &Inner,
    cx: Context,
    params: RequestToolsParams,
    result: &mut RequestToolsResult,
) -> Result<(), RpcError> {
    let reason = match &inner.create {
        None => "no tool is made for it: `tool_creation` is not enabled".to_owned(),
        Some(create) => {
            let wanted = Wanted {
                capabilities: params.requirements.capabilities.into_vec(),
                input_types: params.requirements.input_types.into_vec(),
                output_types: params.requirements.output_types.into_vec(),
                preferred_risk_level: params.requirements.preferred_risk_level,
                context: params.context,
                task_trace_id: params.task_trace_id,
            };
            match create.create(cx, wanted).await {
                Creating::Begun(what) => {
                    result.status = RequestStatus::Creating;
                    what
                }
                Creating::Refused(why) => format!("no tool is made for it: {why}"),
            }
        }
    };
    let mut notes = std::mem::take(&mut result.notes).into_vec();
    notes.push(reason);
    result.notes = notes.into();
    Ok(())
}
