//! Mode B of tool search: a model requests tools, which stay available for its session (MGP §16.6).
//!
//! Each capability needs a separate search. A tool fulfils a capability if its score is high enough and it accepts and
//! returns the requested types. If no such tool exists, a tool with other types is loaded, and the result names the
//! missing types. Tools up to the preferred risk level come first; if there are none, the result reports that.

use std::mem;
use std::sync::Arc;

use mgp_types::mgp::{
    RequestStatus, RequestToolsParams, RequestToolsResult, RiskLevel, UnavailableTool,
};
use mgp_types::service::Context;
use mgp_types::{Payload, RpcError};

use super::bounds;
use super::caller::Caller;
use super::discover::{AvailableTools, run_blocking};
use super::endpoints::EndpointsState;
use super::hooks::{Availability, CreationOutcome, CreationRequest};
use super::render::loaded;
use crate::catalog::IndexedTool;
use crate::meta::name_for;
use crate::search::{Explain, Filter, Hit, Query, lower_scores};
use crate::tokens::max_tokens_of;

/// The conditions under which a tool fulfils a capability; a tool needs to meet one of them. Each condition combines a
/// minimum share of the capability's words that the tool contains with a minimum score.
///
/// Every query finds some tool, so a high score alone proves little. A capability that no tool has can score 0.46,
/// although no tool shares a word with it; one in a hundred real queries scores less than that. Therefore shared words
/// decide, and a match by meaning alone needs a high score. The values were chosen with real and absurd requests over
/// two catalogues of 527 and 2,247 tools; in smaller catalogues, scores are lower, see [`lower_scores`].
const FULFILMENT: [(f32, f32); 3] = [(0.6, 0.0), (0.4, 0.55), (0.0, 0.68)];
/// The minimum score of a candidate, relative to the best candidate. A tool with a lower score does not fit, so it must
/// not be chosen only because its risk is lower.
const MIN_RELATIVE_SCORE: f32 = 0.7;
/// The minimum score of a tool that can be called now and therefore replaces a tool that needs an approval, relative to
/// the score of the replaced tool. A lower score usually means that the tool does something else.
const MIN_CALLABLE_SCORE: f32 = 0.85;
/// The weight of the score for the request's context, relative to the weight of the score for the capability.
const CONTEXT_WEIGHT: f32 = 0.1;
/// The maximum number of tools considered for each capability.
const MAX_CANDIDATES: usize = 10;

/// The note in a result that omits some of the tools in the session.
const OMITTED_NOTE: &str = "more tools were loaded than fit into this answer; request fewer capabilities to see the others";

/// Handles `mgp/tools/request`.
///
/// # Cancel safety
/// If the future is dropped, some tools might be loaded although no result is sent. The session then lists these tools,
/// and the hook for changes is called.
pub(super) async fn answer(
    inner: Arc<EndpointsState>,
    cx: Context,
    params: RequestToolsParams,
) -> Result<RequestToolsResult, RpcError> {
    bounds::request(&params)?;
    // Check the session handle before any work, so that an unknown or foreign handle is refused.
    inner.sessions.find(&cx, params.session_handle.as_deref())?;
    let (working, caller, request) = (Arc::clone(&inner), inner.caller(&cx), params.clone());
    let (mut result, is_missing) = run_blocking(move || {
        let loaded =
            Decision::of(&working, &caller, &request)?.load(&working, &caller, &request)?;
        // Call the hook before the result is passed back, because the future of the request can be dropped before that.
        if loaded.0.context_tokens_added.is_some_and(|tokens| tokens > 0) {
            working.changed(caller.cx());
        }
        Ok(loaded)
    })
    .await?;
    if result.status == RequestStatus::Unavailable && is_missing {
        let (visible, _) = inner.index.caller_overview(&inner.caller(&cx));
        let note = inner.note(&cx, visible);
        create(&inner, cx, params, &mut result).await;
        result.notes.extend(note);
    }
    Ok(result)
}

/// The tools that are loaded for a request, and the capabilities that no tool fulfils.
#[derive(Default)]
struct Decision {
    tools: Vec<IndexedTool>,
    /// For each tool in `tools`, the requested capabilities for which it was chosen.
    capabilities: Vec<Vec<String>>,
    unmet: Vec<UnavailableTool>,
    pending: usize,
    notes: Vec<String>,
}

/// A tool that can be chosen for a capability.
struct Candidate {
    tool: IndexedTool,
    score: f32,
    standing: Availability,
    is_preferred: bool,
}

impl Decision {
    fn of(
        inner: &EndpointsState,
        caller: &Caller,
        params: &RequestToolsParams,
    ) -> Result<Self, RpcError> {
        let mut decision = Self::default();
        let context =
            params.context.as_deref().map(str::trim).filter(|context| !context.is_empty());
        let near = match context {
            // Do not remove refused tools from the hits for the context: these hits only change the order of the tools
            // that other searches found.
            Some(context) => {
                inner.index.search(&ask(caller, context).limit(Query::CAP), caller)?.hits
            }
            None => Vec::new(),
        };
        let wanted = &params.requirements;
        let available = AvailableTools::new(inner, caller);
        for capability in wanted.capabilities.iter().filter(|one| !one.trim().is_empty()) {
            let (hits, is_typed) = search(caller, &available, capability, params)?;
            let all = candidates(inner, caller, hits, &near, wanted.preferred_risk_level.as_ref());
            decision.choose(inner, caller, capability, all, is_typed, params)?;
        }
        Ok(decision)
    }

    /// Adds the best candidate for a capability to the decision, or the reason why no candidate can be loaded.
    fn choose(
        &mut self,
        inner: &EndpointsState,
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
        if let Availability::NeedsApproval { permissions, how } = &best.standing {
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
        let capability = capability.to_owned();
        if let Some(at) = self.tools.iter().position(|tool| tool.is_same(&best.tool)) {
            self.capabilities[at].push(capability);
        } else {
            self.tools.push(best.tool);
            self.capabilities.push(vec![capability]);
        }
        Ok(())
    }

    /// Loads the chosen tools into the caller's session. Returns the result, and `true` if no tool was loaded and none
    /// exists for any unfulfilled capability.
    fn load(
        mut self,
        inner: &EndpointsState,
        caller: &Caller,
        params: &RequestToolsParams,
    ) -> Result<(RequestToolsResult, bool), RpcError> {
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
            let mut loaded_tools = Vec::new();
            let (tools, capabilities) =
                (mem::take(&mut self.tools), mem::take(&mut self.capabilities));
            for (tool, capabilities) in tools.into_iter().zip(capabilities) {
                if is_in.next() == Some(true) {
                    loaded_tools.push(tool);
                } else {
                    self.leave_out(&tool, &capabilities);
                }
            }
            self.tools = loaded_tools;
        }
        let view = inner.sessions.view(&cx.principal, session.as_ref(), &inner.index, caller);
        let mut result = RequestToolsResult::new(self.status());
        result.session_tools_count = Some(view.tools().count() as u64);
        result.context_tokens_added = Some(tokens);
        result.notes = self.notes.into();
        result.tools_unavailable = self.unmet.iter().map(Payload::of).collect::<Result<_, _>>()?;
        let is_missing = self.tools.is_empty() && self.unmet.iter().all(|one| one.name.is_none());
        result.session_handle = session.and_then(|session| session.handle().map(str::to_owned));
        let plan = inner.sessions.plan();
        let is_clear = |tool: &IndexedTool| name_for(tool, &inner.index, caller) == tool.name();
        let render_all = |result: &RequestToolsResult| {
            let envelope = serde_json::to_string(result).map_or(0, |text| max_tokens_of(&text));
            let tools = self.tools.iter().map(|tool| (tool, is_clear(tool)));
            loaded(tools, plan.budget_of(&cx.principal), envelope)
        };
        let mut rendered = render_all(&result);
        if rendered.len() < self.tools.len() {
            result.notes.push(OMITTED_NOTE.to_owned());
            rendered = render_all(&result);
        }
        result.tools_loaded = rendered;
        Ok((result, is_missing))
    }

    /// Reports to the caller that a tool was not loaded, because its definition does not fit into the token budget of
    /// the session. `capabilities` are the capabilities for which the tool was chosen.
    fn leave_out(&mut self, tool: &IndexedTool, capabilities: &[String]) {
        for capability in capabilities {
            // Remove an earlier entry about missing types, because it states that the tool was loaded.
            self.unmet.retain(|unmet| unmet.capability.as_ref() != Some(capability));
            let mut unmet = unavailable(capability, Some(tool));
            unmet.reason = Some("its definition does not fit the budget of the session".to_owned());
            self.unmet.push(unmet);
        }
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

/// Searches for tools that have a capability and the requested types. If no tool has them, searches again with any
/// types, and returns `false` as the second value.
fn search(
    caller: &Caller,
    available: &AvailableTools<'_>,
    capability: &str,
    params: &RequestToolsParams,
) -> Result<(Vec<Hit>, bool), RpcError> {
    let wanted = &params.requirements;
    let find = |filter: Filter| -> Result<Vec<Hit>, RpcError> {
        let query = ask(caller, capability.trim()).limit(MAX_CANDIDATES).filter(filter);
        let mut found = available.search(&query.explain(Explain::Yes))?;
        let lower = lower_scores(found.visible);
        found.hits.retain(|hit| fulfils(hit, lower));
        Ok(found.hits)
    };
    let hits = find(typed(&wanted.input_types, &wanted.output_types))?;
    let has_types = !wanted.input_types.is_empty() || !wanted.output_types.is_empty();
    if hits.is_empty() && has_types {
        return Ok((find(Filter::new())?, false));
    }
    Ok((hits, true))
}

/// Returns a query with this text that takes the caller's past calls into account.
fn ask(caller: &Caller, text: &str) -> Query {
    Query::new(text).principal(&caller.cx().principal)
}

/// Returns whether a hit meets one of the conditions in [`FULFILMENT`], after `lower` was subtracted from their minimum
/// scores.
fn fulfils(hit: &Hit, lower: f32) -> bool {
    let covered = hit.reason.as_ref().map_or(0.0, |reason| reason.coverage);
    FULFILMENT.iter().any(|(words, score)| covered >= *words && hit.score >= score - lower)
}

fn typed(input: &[String], output: &[String]) -> Filter {
    let mut filter = Filter::new();
    filter.input_types = input.to_vec();
    filter.output_types = output.to_vec();
    filter
}

/// Returns the found tools that the caller can call, now or after an approval; the best come first.
fn candidates(
    inner: &EndpointsState,
    caller: &Caller,
    hits: Vec<Hit>,
    near: &[Hit],
    preferred: Option<&RiskLevel>,
) -> Vec<Candidate> {
    let also = |tool: &IndexedTool| {
        let same = near.iter().find(|hit| hit.tool.tool_id() == tool.tool_id());
        same.map_or(0.0, |hit| hit.score * CONTEXT_WEIGHT)
    };
    let mut all: Vec<Candidate> = hits
        .into_iter()
        .map(|hit| Candidate {
            score: hit.score + also(&hit.tool),
            standing: inner.standing(caller.cx(), &hit.tool),
            is_preferred: preferred.is_none_or(|most| hit.tool.risk() <= *most),
            tool: hit.tool,
        })
        .filter(|one| one.standing != Availability::Refused)
        .collect();
    let best = all.iter().map(|one| one.score).fold(0.0, f32::max);
    all.retain(|one| one.score >= best * MIN_RELATIVE_SCORE);
    all.sort_by(|a, b| {
        b.is_preferred.cmp(&a.is_preferred).then_with(|| b.score.total_cmp(&a.score))
    });
    let replaces = |first: &Candidate, one: &Candidate| {
        one.standing == Availability::Callable
            && one.is_preferred == first.is_preferred
            && one.score >= first.score * MIN_CALLABLE_SCORE
    };
    let first = all.first();
    if let Some(at) = first.and_then(|first| all.iter().position(|one| replaces(first, one))) {
        all[..=at].rotate_right(1);
    }
    all
}

fn unavailable(capability: &str, tool: Option<&IndexedTool>) -> UnavailableTool {
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

/// Returns the note about a loaded tool that does not mention all requested types of input and output; the note names
/// the types that the tool does not mention.
fn untyped(
    inner: &EndpointsState,
    caller: &Caller,
    capability: &str,
    tool: &IndexedTool,
    params: &RequestToolsParams,
) -> Result<String, RpcError> {
    let wanted = &params.requirements;
    let lacks = |input: &[String], output: &[String]| -> Result<bool, RpcError> {
        let filter = typed(input, output).server(tool.server_id());
        let query = ask(caller, capability).limit(Query::CAP).filter(filter);
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
        // The tool mentions both the input types and the output types, but a search for a tool with both did not find
        // it.
        parts.push("do both at once".to_owned());
    }
    Ok(format!("it was loaded, but does not say that it can {}", parts.join(" and ")))
}

/// Asks the hook that creates tools, if one is set, to create a missing tool; adds the outcome to the notes of
/// `result`.
async fn create(
    inner: &EndpointsState,
    cx: Context,
    params: RequestToolsParams,
    result: &mut RequestToolsResult,
) {
    let reason = match &inner.create {
        None => "no tool is made for it: `tool_creation` is not enabled".to_owned(),
        Some(create) => {
            let wanted = CreationRequest {
                capabilities: params.requirements.capabilities.into_vec(),
                input_types: params.requirements.input_types.into_vec(),
                output_types: params.requirements.output_types.into_vec(),
                preferred_risk_level: params.requirements.preferred_risk_level,
                context: params.context,
                task_trace_id: params.task_trace_id,
            };
            match create.create(cx, wanted).await {
                CreationOutcome::Started(what) => {
                    result.status = RequestStatus::CreationOutcome;
                    what
                }
                CreationOutcome::Refused(why) => format!("no tool is made for it: {why}"),
            }
        }
    };
    result.notes.push(reason);
}
