//! Refusals of calls: the error for the caller, the notes in the audit record, and the message in the log.

use mgp_types::service::{Call, Rule, ServerId, Target};
use mgp_types::{ErrorCode, Extras, RpcError, clip};

use crate::access::name_of;
use crate::decision::Sources;
use crate::error::Refusal;
use crate::tool::note;

/// The maximum length of a name or rule in a log message, in bytes.
const MAX_LOGGED: usize = 256;

/// Logs a refusal for the operator, and converts it to the error for the caller.
pub(super) fn deny(sources: &Sources, call: &Call, refusal: Refusal) -> RpcError {
    if let Refusal::Unconfirmed(refused) = &refusal
        && let Some(reason) = refused.reason()
    {
        note(call.cx(), "justification", reason);
    }
    let error = RpcError::from(refusal);
    note_remedy(call, &error);
    log_denied(sources, call, &error);
    error
}

/// Adds the conditions for running a refused call to its audit record: the missing permissions, and the id of the
/// approval request that a person can answer.
fn note_remedy(call: &Call, error: &RpcError) {
    let Some(details) = error.as_recovery().and_then(|hint| hint.details.as_ref()) else { return };
    let missing = details.decode::<Vec<Extras>>("missing").ok().flatten().unwrap_or_default();
    let names: Vec<String> =
        missing.iter().filter_map(|one| one.get("permission")?.get().ok()).collect();
    if !names.is_empty() {
        note(call.cx(), "missing", &names.join(" "));
    }
    if let Ok(Some(id)) = details.decode::<String>("approval_id") {
        note(call.cx(), "approval_id", &id);
    }
}

/// Logs a refusal for the operator.
pub(super) fn log_denied(sources: &Sources, call: &Call, error: &RpcError) {
    let (cx, tool) = (call.cx(), call.params().target());
    let tool = match tool {
        Some(Target::Tool(tool)) => Some(clip(tool, MAX_LOGGED)),
        _ => None,
    };
    tracing::info!(
        server = sources.server_of(cx).map(ServerId::as_str),
        tool = tool.as_deref(),
        agent = name_of(&cx.principal),
        rule = Rule::of(error).map(|rule| clip(rule.as_str(), MAX_LOGGED)).as_deref(),
        code = error.code().0,
        trace = cx.trace.as_deref(),
        "denied"
    );
}

/// Returns the error that answers a request about an unknown tool.
pub(super) fn unknown_tool(name: &str) -> RpcError {
    let message =
        format!("unknown tool `{}`; use a name from `tools/list`", clip(name, MAX_LOGGED));
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, message)
}
