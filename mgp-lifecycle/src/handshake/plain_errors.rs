//! Adapts outcomes to the protocol of their callers: for callers without MGP, gives refusals the form of plain MCP; for
//! modern callers, adds `resultType`; for legacy callers, removes the members of the modern era.

use std::sync::Arc;

use mgp_types::mcp::{CallToolResult, Era};
use mgp_types::service::{
    Context, PeerInfo, Reply, contains_result_type, leading_result_type, result_type,
};
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::Serialize;

/// Function that returns whether a tool has an output schema.
pub(super) type HasOutputSchema = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The facts about a call that determine the form of its outcome.
#[derive(Clone)]
pub(crate) struct CallInfo {
    pub(super) is_tool_call: bool,
    /// The tool, if it could have an output schema. The schema is looked up for a refusal only, because most calls
    /// succeed.
    pub(super) typed: Option<(HasOutputSchema, Box<str>)>,
}

mgp_types::opaque_debug!(CallInfo { is_tool_call });

impl CallInfo {
    /// Returns the facts about a tool call that the handshake stored in the call's context. If it stored none, the tool
    /// counts as a tool without an output schema.
    pub(crate) fn of_tool_call(cx: &Context) -> Self {
        cx.extensions.get().cloned().unwrap_or(Self { is_tool_call: true, typed: None })
    }

    /// Returns whether the tool has an output schema. The structured content of a refusal would not match the schema.
    fn has_output_schema(&self) -> bool {
        self.typed.as_ref().is_some_and(|(has, tool)| has(tool))
    }
}

/// Replaces an MGP error for a caller without MGP, and gives a result the members of its caller's era.
pub(crate) fn adapt_to_caller(
    outcome: Result<Reply, RpcError>,
    caller: &PeerInfo,
    info: &CallInfo,
) -> Result<Reply, RpcError> {
    match outcome {
        Err(error) if !caller.supports_mgp() => {
            plain_error(error, info).map(|reply| of_era(reply, caller.era))
        }
        Err(error) => Err(error),
        Ok(reply) => Ok(of_era(reply, caller.era)),
    }
}

/// Adds `resultType` to a result for a modern caller, unless the result has one. For a legacy caller, removes the
/// members that a modern server has added.
fn of_era(mut reply: Reply, era: Era) -> Reply {
    let Reply::Complete(body) = &mut reply else { return reply };
    if era == Era::Legacy {
        if let Some(legacy) = without_modern_members(body.as_raw()) {
            body.replace_raw(legacy);
        }
    } else if !has_result_type(body.as_raw()) {
        body.insert("resultType", Payload::from_trusted("\"complete\""));
    }
    reply
}

/// Returns a complete result of a modern server without `resultType`, `ttlMs` and `cacheScope`, or `None` for any other
/// result. The member `_meta` stays, because legacy results can have it too.
fn without_modern_members(result: &Payload) -> Option<Payload> {
    let text = result.as_str();
    if !contains_result_type(text) {
        return None;
    }
    // Most results begin with `resultType` and do not contain the other names, so few results need to be parsed.
    let names = ["\"resultType\"", "\"ttlMs\"", "\"cacheScope\""];
    if let Some(rest) = text.strip_prefix(r#"{"resultType":"complete","#)
        && !names.into_iter().any(|name| rest.contains(name))
    {
        return Some(Payload::from_trusted(format!("{{{rest}")));
    }
    if result_type(result).as_deref() != Some("complete") {
        return None;
    }
    let mut members: Object = result.get().ok()?;
    for name in ["resultType", "ttlMs", "cacheScope"] {
        members.remove(name);
    }
    Payload::of(&members).ok()
}

fn has_result_type(result: &Payload) -> bool {
    let text = result.as_str();
    // Most results begin with this member or do not contain its name at all, so few results need to be parsed. A nested
    // member of that name does not count.
    leading_result_type(text).is_some()
        || (contains_result_type(text) && result_type(result).is_some())
}

/// Returns an error in the form that plain MCP peers expect.
fn plain_error(error: RpcError, info: &CallInfo) -> Result<Reply, RpcError> {
    let code = error.code();
    if code.category().is_none() || !info.is_tool_call {
        return Err(error.without_recovery());
    }
    if code == ErrorCode::TOOL_NOT_FOUND {
        return Err(RpcError::new(ErrorCode::INVALID_PARAMS, error.message()));
    }
    refusal_result(&error, info)
}

/// Returns a refused call as a result that the model can read: code, reason and remedy, as text and as data.
fn refusal_result(error: &RpcError, info: &CallInfo) -> Result<Reply, RpcError> {
    #[derive(Serialize)]
    struct Refusal<'a> {
        status: &'a str,
        code: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        retryable: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<&'a Object>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Payload>,
    }
    let recovery = error.as_recovery();
    let refusal = Refusal {
        status: "rejected",
        code: error.code().0,
        name: error.code().name(),
        reason: error.message(),
        retryable: recovery.and_then(|recovery| recovery.retryable),
        retry_after_ms: recovery.and_then(|recovery| recovery.retry_after_ms),
        details: recovery.and_then(|recovery| recovery.details.as_ref()),
        data: error.as_data(),
    };
    let mut result = CallToolResult::error(error.to_string());
    // Structured content is left out, because some clients check even a failed result against the tool's output schema.
    if !info.has_output_schema() {
        result.structured_content = Some(Payload::of(&refusal)?);
    }
    Reply::of(&result)
}
