//! Explains the decision that a call would get now, without making the call (`mgp why`).

use std::collections::BTreeSet;

use mgp_security::{
    CallOutcome, CallVerdict, DefinitionState, Governance, MissingPermission, Refusal,
    RequestState, Requirement, Stage, Step, StepResult,
};
use mgp_toolindex::{AllTools, name_for};
use mgp_types::mgp::{
    ExplainedOutcome, ExplainedResult, ExplainedStep, KernelExplainParams, KernelExplainResult,
};
use mgp_types::service::{Context, CredentialGrant, Principal, ServerId};
use mgp_types::{ErrorCode, Payload, RpcError};

use super::process::audit_failure;
use crate::cli_hints::{
    explain_refusal, no_confirm_command, permit_command, risk_command, shell_word,
};
use crate::dispatch::context_of_agent;
use crate::handle::Kernel;

/// The maximum number of candidates in an error about an ambiguous tool name.
const MAX_NAMES: usize = 8;

pub(super) async fn explain(
    kernel: Kernel,
    _: Context,
    params: KernelExplainParams,
) -> Result<KernelExplainResult, RpcError> {
    kernel.0.fleet.synced().await;
    let caller = caller_of(&params);
    let (server, tool) = find_tool(&kernel, &caller, &params.tool_name)?;
    let agent = caller.principal.clone();
    let arguments = params.arguments.map(Payload::from);
    let verdict = kernel.governance().explain_pinned(&caller, &server, &tool, arguments.as_ref());
    let mut result = result_of(kernel.governance(), &verdict, &agent, &server, &tool);
    if result.risk_level.is_some() {
        result.risk_reason = Some(kernel.governance().risk_reason(&server, &tool));
    }
    apply_audit(&kernel, &mut result);
    let arguments = arguments.unwrap_or_else(Payload::empty_object);
    apply_answer(&kernel, &mut result, &agent, &server, &tool, &arguments);
    if result.outcome == ExplainedOutcome::Refuse {
        return Ok(result);
    }
    apply_limits(&kernel, &mut result, &agent, &server, &tool);
    Ok(result)
}

/// Returns the context of the call, with the limits of the agent's API key if there are any.
fn caller_of(params: &KernelExplainParams) -> Context {
    let mut caller = context_of_agent(&params.agent_id);
    if !params.key_permissions.is_empty() {
        let permissions = params.key_permissions.iter().cloned();
        caller.extensions.insert(CredentialGrant::new(permissions, || true));
    }
    caller
}

/// Changes the outcome to a refusal if the audit log could not record the call. The kernel checks this before all
/// rules.
fn apply_audit(kernel: &Kernel, result: &mut KernelExplainResult) {
    let Some(failure) = audit_failure(kernel) else { return };
    result.steps.insert(0, ExplainedStep::new("audit", ExplainedResult::Refused, failure.clone()));
    (result.outcome, result.code, result.reason) =
        (ExplainedOutcome::Refuse, Some(ErrorCode::SERVER_NOT_READY.0), Some(failure));
}

/// Adds each limit that applies to the call as a step of the explanation. The outcome becomes a refusal by the first
/// limit that is used up.
fn apply_limits(
    kernel: &Kernel,
    result: &mut KernelExplainResult,
    agent: &Principal,
    server: &ServerId,
    tool: &str,
) {
    let bounds = &kernel.0.fleet.context().bounds;
    let rates = bounds.describe_rates(agent, server, tool).into_iter().map(|(rate, is_used_up)| {
        let words = || (ErrorCode::RATE_LIMITED, format!("a limit is used up: {rate}"));
        let refusal = is_used_up.then(words);
        (rate, refusal)
    });
    let quotas = bounds.describe_quotas(agent, server, tool).into_iter().map(|(quota, refusal)| {
        (quota, refusal.map(|refusal| (refusal.code(), refusal.message().to_owned())))
    });
    for (limit, refusal) in rates.chain(quotas) {
        let passed =
            if refusal.is_some() { ExplainedResult::Refused } else { ExplainedResult::Passed };
        result.steps.push(ExplainedStep::new("limits", passed, limit));
        if let Some((code, reason)) = refusal
            && result.outcome != ExplainedOutcome::Refuse
        {
            (result.outcome, result.code, result.reason) =
                (ExplainedOutcome::Refuse, Some(code.0), Some(reason));
        }
    }
}

/// Adds to the result what the inbox contains about a call that a person must confirm. If a person has answered, the
/// answer becomes the outcome. If the request is still open, the reason names the request.
fn apply_answer(
    kernel: &Kernel,
    result: &mut KernelExplainResult,
    agent: &Principal,
    server: &ServerId,
    tool: &str,
    arguments: &Payload,
) {
    if result.outcome != ExplainedOutcome::Ask {
        return;
    }
    let inbox = kernel.governance().inbox();
    let request = inbox.and_then(|inbox| inbox.about_call(agent, server, tool, arguments));
    let Some(request) = request else { return };
    let id = &request.id;
    match request.state {
        RequestState::Denied => {
            let why = request.justification.map(|why| format!(": {why}")).unwrap_or_default();
            let until = &request.expires_at;
            (result.outcome, result.code) =
                (ExplainedOutcome::Refuse, Some(ErrorCode::PERMISSION_DENIED.0));
            result.reason = Some(format!(
                "a person denied it{why}; this holds until {until}, and `mgp approvals approve {id}` takes it back"
            ));
        }
        RequestState::Approved => {
            result.outcome = ExplainedOutcome::Allow;
            result.reason = Some(format!("approval {id} lets it run once"));
        }
        _ => {
            let reason =
                result.reason.take().map(|reason| format!("{reason}; ")).unwrap_or_default();
            result.reason = Some(format!("{reason}approval {id} is open"));
        }
    }
}

/// Finds a tool by the name that the agent sees. If the agent sees no tool of this name, finds a tool with this
/// callable name, this id, or this name in its server's own list, even if no agent sees the tool.
fn find_tool(
    kernel: &Kernel,
    caller: &Context,
    name: &str,
) -> Result<(ServerId, String), RpcError> {
    if let Some(tool) = kernel.0.dispatcher.find_shown(caller, name) {
        return Ok((ServerId::from(tool.server_id()), tool.name().to_owned()));
    }
    let (mut exact, mut own) = (Vec::new(), Vec::new());
    for id in kernel.0.fleet.all().keys() {
        for tool in kernel.index().tools_of(id.as_str()) {
            let is_exact =
                is_id(id, tool.name(), name) || name_for(&tool, kernel.index(), &AllTools) == name;
            if is_exact {
                exact.push((id.clone(), tool.name().to_owned()));
            } else if tool.name() == name {
                own.push((id.clone(), tool.name().to_owned()));
            }
        }
    }
    if exact.is_empty() && own.is_empty() {
        for (server, tool) in unindexed_tools(kernel)? {
            if is_id(&server, &tool, name) {
                exact.push((server, tool));
            } else if tool == name {
                own.push((server, tool));
            }
        }
    }
    if exact.is_empty() && own.is_empty() {
        exact.extend(kernel.0.dispatcher.find_held(caller, name));
    }
    let mut found = if exact.is_empty() { own } else { exact };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let message = format!("there is no tool `{name}`; `mgp tools ls` lists them");
            Err(RpcError::new(ErrorCode::INVALID_PARAMS, message))
        }
        _ => {
            let names = found.iter().take(MAX_NAMES).map(|(id, tool)| format!("`{id}.{tool}`"));
            let names = names.collect::<Vec<_>>().join(", ");
            let message = format!("several servers have a tool `{name}`; name one: {names}");
            Err(RpcError::new(ErrorCode::INVALID_PARAMS, message))
        }
    }
}

/// Returns the tools that are not in the tool index, because their definitions wait for an operator, were rejected, or
/// differ from the lock file.
fn unindexed_tools(kernel: &Kernel) -> Result<BTreeSet<(ServerId, String)>, RpcError> {
    let (definitions, all) = (kernel.governance().definitions(), kernel.0.fleet.all());
    let held = definitions.waiting()?.into_iter().chain(definitions.rejected()?);
    let held = held.map(|held| (held.server, held.tool));
    let mut found: BTreeSet<_> = held.filter(|(server, _)| all.contains_key(server)).collect();
    for id in all.keys() {
        found.extend(definitions.unlocked_tools(id).into_iter().map(|tool| (id.clone(), tool)));
    }
    Ok(found)
}

pub(super) fn is_id(server: &ServerId, tool: &str, name: &str) -> bool {
    let rest = name.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix('.'));
    rest == Some(tool)
}

fn result_of(
    governance: &Governance,
    verdict: &CallVerdict,
    agent: &Principal,
    server: &ServerId,
    tool: &str,
) -> KernelExplainResult {
    let (outcome, reason) = match verdict.outcome() {
        CallOutcome::Allow => (ExplainedOutcome::Allow, None),
        CallOutcome::Ask(Requirement::Confirmation) => {
            let confirms = confirmation_words(governance, verdict, agent, server, tool);
            (ExplainedOutcome::Ask, Some(format!("a person must confirm the call{confirms}")))
        }
        CallOutcome::Ask(requirement) => {
            let permit = permit_command(server.as_str(), requirement);
            let permit = permit.map(|permit| format!("; `{permit}` approves them for all calls"));
            let mut words = requirement_words(requirement) + &permit.unwrap_or_default();
            let is_confirmed =
                |step: &Step| step.stage == Stage::Confirmation && step.result == StepResult::Asks;
            if verdict.steps().iter().any(is_confirmed) {
                let confirms = confirmation_words(governance, verdict, agent, server, tool);
                words = format!("{words}; and a person must confirm each call{confirms}");
            }
            (ExplainedOutcome::Ask, Some(words))
        }
        CallOutcome::Refuse(refusal) => {
            let mut reason = explain_refusal(refusal, agent);
            if matches!(refusal, Refusal::Definition(_)) {
                reason += &refused_definition(governance, server, tool).unwrap_or_default();
            }
            (ExplainedOutcome::Refuse, Some(reason))
        }
        _ => (ExplainedOutcome::Refuse, None),
    };
    let mut result = KernelExplainResult::new(outcome, server.as_str(), tool);
    result.reason = reason;
    result.code = verdict.refusal().map(|refusal| RpcError::from(refusal.clone()).code().0);
    result.risk_level = verdict.assessment().map(|assessment| assessment.effective_risk.clone());
    let steps = verdict.steps().iter().map(|step| {
        let result = match step.result {
            StepResult::Passed => ExplainedResult::Passed,
            StepResult::Asks => ExplainedResult::Asks,
            _ => ExplainedResult::Refused,
        };
        ExplainedStep::new(step.stage.to_string(), result, step.rule.as_str())
    });
    result.steps = steps.collect();
    result
}

/// Returns the findings that make the kernel refuse a tool's definition, e.g. the places that differ from the lock
/// file, and the remedy. Returns `None` if the kernel does not refuse the definition.
fn refused_definition(governance: &Governance, server: &ServerId, tool: &str) -> Option<String> {
    let definitions = governance.definitions();
    let DefinitionState::Refused(findings) = definitions.state(Some(server), tool) else {
        return None;
    };
    let mut parts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let is_unlocked = definitions.unlocked_tools(server).iter().any(|name| name == tool);
    let names = shell_word(&format!("{server}.{tool}")).zip(shell_word(server.as_str()));
    let remedy = names.filter(|_| is_unlocked).map(|(id, server)| {
        format!("check it with `mgp tools show {id}`, then run `mgp lock {server}`")
    });
    parts.extend(remedy);
    Some(format!("; {}", parts.join("; ")))
}

/// Describes why a person must confirm a call. Also names the commands with which an operator permits later calls
/// without confirmation.
fn confirmation_words(
    governance: &Governance,
    verdict: &CallVerdict,
    agent: &Principal,
    server: &ServerId,
    tool: &str,
) -> String {
    let agent_only = no_confirm_command(agent, server.as_str(), tool);
    let agent_only =
        agent_only.map(|command| format!("; after `{command}`, this agent needs no confirmation"));
    let agent_only = agent_only.unwrap_or_default();
    let proposed = governance.proposed_risk(server, tool);
    let lower = proposed.and_then(|proposed| risk_command(server.as_str(), tool, &proposed));
    let lower = lower.map(|lower| {
        format!("; judging by its name, it only reads, but its server does not declare that: after `{lower}`, no agent needs a confirmation")
    });
    let lower = lower.unwrap_or_default();
    let risk = verdict.assessment().map(|assessment| &assessment.effective_risk);
    let risk = risk.map(|risk| format!(", because its risk is {risk}")).unwrap_or_default();
    format!(
        "{risk}; `mgp approvals approve ID --always-like-this` also confirms later calls like this one{agent_only}{lower}"
    )
}

/// Describes a requirement that must be met before a call is allowed to run.
pub(crate) fn requirement_words(requirement: &Requirement) -> String {
    match requirement {
        Requirement::Confirmation => "a person must confirm the call".to_owned(),
        Requirement::Listing => "the server must list its tools first".to_owned(),
        Requirement::RiskRecord => "the operator's risk for the tool must be recorded".to_owned(),
        Requirement::Permissions(missing) if missing.is_empty() => {
            "the permissions that the policy grants must be recorded".to_owned()
        }
        Requirement::Permissions(missing) => {
            let names: Vec<_> = missing
                .iter()
                .map(|MissingPermission { permission, .. }| permission.as_str())
                .collect();
            format!("permissions must be decided: {}", names.join(", "))
        }
        _ => "an action must come first".to_owned(),
    }
}
