//! Calls that need an answer before they run: a list of tools, an audit record, a decision about permissions, or a
//! confirmation.

use std::sync::Arc;

use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{Call, CallRecord, MgpService, Outlet, Reply, WaitMark, keep_alive};
use mgp_types::{Payload, RpcError};

use super::{GrantedOnce, decide_call, deny, log_denied, undecided, with_facts};
use crate::decision::{CallOutcome, Progress, Requirement, Sources, after_permissions};
use crate::error::Refusal;
use crate::permission::AskOutcomes;
use crate::tool::{Assessment, RiskyCall};

/// The number of answers after which a call no longer waits for records of new overrides. Every other question is asked
/// only once per call.
const MAX_ANSWERS: usize = 8;

/// Obtains the answers that a call needs, decides again after each one, and runs the call when it is allowed.
///
/// If the future is dropped, an open question is withdrawn.
pub(super) async fn run<S: MgpService>(
    sources: Arc<Sources>,
    mut inner: S,
    mut call: Call,
    mut need: Requirement,
    mut assessment: Option<Arc<Assessment>>,
    mut progress: Progress,
) -> Result<Reply, RpcError> {
    for answers in 1.. {
        let asks = matches!(need, Requirement::Permissions(_) | Requirement::Confirmation);
        let outlet = if asks { call.cx().outlet.clone() } else { Outlet::none() };
        let sources = &*sources;
        let getting = get(sources, &mut inner, &call, need, assessment, &mut progress);
        keep_alive(&outlet, "waiting for a person's decision", getting).await?;
        progress.recorded = answers >= MAX_ANSWERS;
        match decide_call(sources, &call, &progress).into_outcome() {
            (CallOutcome::Allow, _) => break,
            (CallOutcome::Refuse(refusal), _) => return Err(deny(sources, &call, refusal)),
            (CallOutcome::Ask(next), known) => (need, assessment) = (next, known),
        }
    }
    CallRecord::mark_held(call.cx(), false);
    if !progress.granted.is_empty() {
        call.cx_mut().extensions.insert(GrantedOnce(progress.granted));
    }
    // Mark that this layer made the call wait, so that the stack decides about it again immediately before it runs.
    WaitMark::mark(call.cx_mut());
    inner.call(call).await
}

/// Obtains a single answer for a call.
async fn get<S: MgpService>(
    sources: &Sources,
    inner: &mut S,
    call: &Call,
    need: Requirement,
    assessment: Option<Arc<Assessment>>,
    progress: &mut Progress,
) -> Result<(), RpcError> {
    let (cx, tool) = (call.cx(), call.tool().map(|tool| tool.name).unwrap_or_default());
    let server = sources.server_of(cx);
    match need {
        Requirement::Listing => {
            progress.listed = true;
            let (Some(definitions), Some(server)) = (&sources.definitions, server) else {
                return Err(undecided());
            };
            let fetched = definitions.fetch(server, inner, call, tool).await;
            fetched.inspect_err(|error| log_denied(sources, call, error))?;
            note_risk(call, &definitions.assessment(Some(server), tool).effective_risk);
        }
        Requirement::RiskRecord => {
            let (Some(definitions), Some(server)) = (&sources.definitions, server) else {
                return Err(undecided());
            };
            let recorded = definitions.record_override(server, call, tool).await;
            recorded.inspect_err(|error| log_denied(sources, call, error))?;
        }
        Requirement::Permissions(missing) => {
            progress.listed = true;
            progress.asked = Some(AskOutcomes::default());
            let (Some(permissions), Some(assessment)) = (&sources.permissions, assessment) else {
                return Err(undecided());
            };
            let missing = Permission::canonical(missing.iter().map(|missing| &missing.permission));
            let mut needed = Permission::canonical(assessment.permissions.iter().chain(&missing));
            // Servers that declare permissions are notified of each decision; do not combine it with the confirmation.
            if !missing.is_empty() && !permissions.declares(server) {
                let next = with_facts(sources, call, progress, |facts, snapshot| {
                    after_permissions(facts, snapshot, &assessment)
                });
                if let CallOutcome::Ask(_) = next {
                    confirm(sources, call, Some(assessment), missing.clone()).await?;
                    progress.confirmed = true;
                    needed.retain(|permission| !missing.contains(permission));
                    progress.granted = missing;
                }
            }
            let asked = permissions.ask_for_call(cx, server, tool, &needed).await;
            let outcomes =
                asked.map_err(|refused| deny(sources, call, Refusal::from(Box::new(refused))))?;
            progress.asked = Some(outcomes);
        }
        Requirement::Confirmation => {
            confirm(sources, call, assessment, Vec::new()).await?;
            (progress.listed, progress.confirmed) = (true, true);
            progress.asked.get_or_insert_default();
        }
    }
    Ok(())
}

/// Obtains the confirmation of a call; it also grants the permissions that the call lacks.
async fn confirm(
    sources: &Sources,
    call: &Call,
    assessment: Option<Arc<Assessment>>,
    missing: Vec<Permission>,
) -> Result<(), RpcError> {
    let (Some(confirmations), Some(assessment), Some(tools)) =
        (&sources.confirmations, assessment, sources.assess())
    else {
        return Err(undecided());
    };
    let (cx, tool) = (call.cx(), call.tool().map(|tool| tool.name).unwrap_or_default());
    let server = sources.server_of(cx);
    let risky = RiskyCall {
        cx: cx.clone(),
        server: server.cloned(),
        tool: tool.to_owned(),
        arguments: call.tool_arguments(),
        definition: tools.definition(server, tool),
        assessment,
        missing,
    };
    let confirmed = confirmations.confirm(risky, tools).await;
    confirmed.map_err(|refusal| deny(sources, call, refusal))
}

/// Adds the risk of a call to its audit record, which was started before the tool was known.
fn note_risk(call: &Call, risk: &RiskLevel) {
    if let Some(start) = call.cx().extensions.get::<CallRecord>()
        && start.risk.as_ref() != Some(risk)
        && let Ok(word) = Payload::of(risk)
    {
        start.add_note("risk_level", word);
    }
}
