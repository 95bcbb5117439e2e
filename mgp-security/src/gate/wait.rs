//! Calls that need an answer before they run: a list of tools, an audit record, a decision about permissions, or a
//! confirmation.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{
    AskCheck, Call, CallRecord, MgpService, Outlet, Reply, WaitMark, keep_alive,
};
use mgp_types::{Payload, RpcError};

use super::denial::{deny, log_denied};
use super::{check_may_run, decide_and_note, leave_recheck, undecided};
use crate::decision::{
    CallAnswers, CallOutcome, CallPreparations, ConfirmedTool, ListingState, Requirement, Sources,
    judge_permissions, must_be_confirmed,
};
use crate::error::Refusal;
use crate::permission::PermissionJudgement;
use crate::tool::{Assessment, RiskyCall, with_reference};

/// The number of answers after which a call no longer waits for the audit record of an override of its tool's risk.
/// Without this limit, an operator who changes the override again and again would keep the call waiting. Every other
/// preparation has a limit of its own.
const MAX_ANSWERS: usize = 10;

/// The number of times that the tools of a server are listed for a call while the server announces a change after each
/// list. Then the call is refused. After a person's decision, the tools are listed at least once more if necessary.
const MAX_LISTINGS: usize = 3;

/// The interval at which the permissions that a call lacks are determined again while a question about the call is
/// open.
const GRANTED_INTERVAL: Duration = Duration::from_millis(500);

/// Obtains the answers that a call needs, decides again after each one, and runs the call when it is allowed.
///
/// If the future is dropped, an open question is withdrawn.
pub(super) async fn run<S: MgpService>(
    sources: Arc<Sources>,
    mut inner: S,
    mut call: Call,
    mut need: Requirement,
    mut assessment: Option<Arc<Assessment>>,
    mut preparations: CallPreparations,
) -> Result<Reply, RpcError> {
    for answers in 1.. {
        let asks = matches!(need, Requirement::Permissions(_) | Requirement::Confirmation);
        let outlet = if asks { call.cx().outlet.clone() } else { Outlet::none() };
        let sources = &*sources;
        if asks {
            // Ask no person about a call that cannot run.
            check_may_run(sources, &call)?;
            AskCheck::run(&call).inspect_err(|error| log_denied(sources, &call, error))?;
        }
        let getting = get(sources, &mut inner, &call, need, assessment, &mut preparations);
        keep_alive(&outlet, "waiting for a person's decision", getting).await?;
        preparations.skips_record = answers >= MAX_ANSWERS;
        match decide_and_note(sources, &call, &preparations).into_outcome() {
            (CallOutcome::Allow, _) => break,
            (CallOutcome::Refuse(refusal), _) => return Err(deny(sources, &call, refusal)),
            (CallOutcome::Ask(next), known) => (need, assessment) = (next, known),
        }
    }
    CallRecord::mark_held(call.cx(), false);
    check_may_run(&sources, &call)?;
    let CallAnswers { granted, confirmed, settled } = &mut preparations.answers;
    if !confirmed.is_empty() || !granted.is_empty() || settled.is_some() {
        let mut answers = CallAnswers::of(&call);
        answers.settled = settled.or(answers.settled);
        answers.granted.append(granted);
        answers.confirmed.append(confirmed);
        call.cx_mut().extensions.insert(answers);
    }
    // Mark that this layer made the call wait, so that the stack decides about it again immediately before it runs.
    WaitMark::mark(call.cx_mut());
    leave_recheck(&sources, &call);
    inner.call(call).await
}

/// Obtains the answer that the requirement `need` of a call asks for, and notes it in `preparations`.
///
/// After a person's decision the tools may be listed again, because the server may have announced changes meanwhile.
async fn get<S: MgpService>(
    sources: &Sources,
    inner: &mut S,
    call: &Call,
    need: Requirement,
    assessment: Option<Arc<Assessment>>,
    preparations: &mut CallPreparations,
) -> Result<(), RpcError> {
    let (cx, tool) = (call.cx(), call.tool().map(|tool| tool.name).unwrap_or_default());
    let definitions = sources.definitions.as_ref().zip(sources.server_of(cx));
    match need {
        Requirement::Listing => {
            let (definitions, server) = definitions.ok_or_else(undecided)?;
            let fetched = definitions.fetch(server, inner, call, tool).await;
            let settled = fetched.inspect_err(|error| log_denied(sources, call, error))?;
            preparations.answers.settled = settled;
            preparations.listings += 1;
            // The tools must be listed again if the server announces a change after this list. An unknown tool needs no
            // other list: its calls count as dangerous.
            let tools = definitions.tools(Some(server));
            let known = tools.as_ref().and_then(|tools| tools.get(tool));
            let is_done = known.is_none_or(|known| !known.is_listed())
                || preparations.listings >= MAX_LISTINGS;
            preparations.listing = if is_done { ListingState::Done } else { ListingState::Open };
            note_risk(call, &definitions.assessment(Some(server), tool).effective_risk);
        }
        Requirement::RiskRecord => {
            let (definitions, server) = definitions.ok_or_else(undecided)?;
            let recorded = definitions.record_override(server, call, tool).await;
            recorded.inspect_err(|error| log_denied(sources, call, error))?;
        }
        Requirement::Permissions(missing) => {
            preparations.listing = ListingState::Open;
            let missing = Permission::canonical(missing.iter().map(|missing| &missing.permission));
            get_permissions(sources, call, assessment, missing, preparations).await?;
        }
        Requirement::Confirmation => {
            let confirmed = confirm(sources, call, assessment, preparations, &[]).await?;
            preparations.listing = ListingState::Open;
            preparations.answers.confirmed.push(confirmed);
            preparations.asked.get_or_insert_default();
        }
    }
    Ok(())
}

/// Obtains decisions about the permissions that a call lacks. If the call must also be confirmed, one question can ask
/// for both.
async fn get_permissions(
    sources: &Sources,
    call: &Call,
    assessment: Option<Arc<Assessment>>,
    missing: Vec<Permission>,
    preparations: &mut CallPreparations,
) -> Result<(), RpcError> {
    let (Some(permissions), Some(assessment)) = (&sources.permissions, assessment) else {
        return Err(undecided());
    };
    let (cx, tool) = (call.cx(), call.tool().map(|tool| tool.name).unwrap_or_default());
    let server = sources.server_of(cx);
    let mut needed = Permission::canonical(assessment.permissions.iter().chain(&missing));
    // If the server itself declares permissions, ask for them separately from the confirmation. Otherwise one question
    // can ask for both.
    if !missing.is_empty()
        && !permissions.declares(server)
        && must_be_confirmed(sources, call, preparations, &assessment)
    {
        let known = Some(Arc::clone(&assessment));
        let confirming = confirm(sources, call, known, preparations, &missing);
        let confirmed = tokio::select! {
            biased;
            confirmed = confirming => confirmed?,
            // Return without an answer: the caller of this function decides about the call again, and asks only for
            // what the call still lacks.
            () = has_fewer(sources, call, preparations, &assessment, &missing) => return Ok(()),
        };
        preparations.answers.confirmed.push(confirmed);
        needed.retain(|permission| !missing.contains(permission));
        preparations.answers.granted = missing;
    }
    let asked = permissions.ask_for_call(cx, server, tool, &needed).await;
    let outcomes =
        asked.map_err(|refused| deny(sources, call, Refusal::from(Box::new(refused))))?;
    preparations.asked = Some(outcomes);
    Ok(())
}

/// Obtains the confirmation of a call, and returns the tool for which it is valid. The same answer also grants the
/// missing permissions for this call.
async fn confirm(
    sources: &Sources,
    call: &Call,
    assessment: Option<Arc<Assessment>>,
    preparations: &CallPreparations,
    missing: &[Permission],
) -> Result<ConfirmedTool, RpcError> {
    let (Some(confirmations), Some(assessment), Some(tools)) =
        (&sources.confirmations, assessment, sources.assess())
    else {
        return Err(undecided());
    };
    let (cx, tool) = (call.cx(), call.tool().map(|tool| tool.name).unwrap_or_default());
    let server = sources.server_of(cx);
    let (definition, risk) = (tools.definition(server, tool), assessment.effective_risk.clone());
    let judged = judge_permissions(sources, call, preparations, &assessment);
    let risky = RiskyCall {
        cx: cx.clone(),
        server: server.cloned(),
        tool: tool.to_owned(),
        arguments: with_reference(call).unwrap_or_else(|| call.tool_arguments()),
        definition,
        assessment,
        missing: missing.to_vec(),
        doubt: judged.ok().and_then(|judged| judged.doubt),
    };
    let confirmed = confirmations.confirm(risky, tools).await;
    confirmed.map_err(|refusal| deny(sources, call, refusal))?;
    Ok(ConfirmedTool { definition, risk })
}

/// Waits until a call lacks fewer permissions than its question names, e.g. because an operator has granted a
/// permission elsewhere.
async fn has_fewer(
    sources: &Sources,
    call: &Call,
    preparations: &CallPreparations,
    assessment: &Assessment,
    asked: &[Permission],
) {
    let is_fewer = |judged: PermissionJudgement| {
        let lacked = Permission::canonical(judged.missing.iter().map(|lack| &lack.permission));
        judged.may_be_granted()
            && lacked.len() < asked.len()
            && lacked.iter().all(|one| asked.contains(one))
    };
    loop {
        tokio::time::sleep(GRANTED_INTERVAL).await;
        if judge_permissions(sources, call, preparations, assessment).is_ok_and(is_fewer) {
            return;
        }
    }
}

/// Adds the risk of a call to its audit record, which began before the tool was known.
fn note_risk(call: &Call, risk: &RiskLevel) {
    if let Some(start) = call.cx().extensions.get::<CallRecord>()
        && start.risk.as_ref() != Some(risk)
        && let Ok(word) = Payload::of(risk)
    {
        start.add_note("risk_level", word);
    }
}
