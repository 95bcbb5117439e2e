//! What a peer without MGP sees of a refusal: MCP's own words (DESIGN §4; checklist, amendments to C).
//!
//! Applies to: inbound.

use mgp_types::mcp::{CallToolResult, Era};
use mgp_types::service::{Facts, Reply};
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::Serialize;

/// What is known about the call whose outcome is veiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) is_tool_call: bool,
    /// Whether the tool promised how its structured content looks; what a refusal says would break that promise.
    pub(crate) is_typed: bool,
}

impl Seen {
    /// A tool call, of which nothing more is known.
    pub(crate) const TOOL_CALL: Self = Self { is_tool_call: true, is_typed: false };
}

/// Rewrites an outcome for its caller.
pub(crate) fn veil(
    outcome: Result<Reply, RpcError>,
    caller: &Facts,
    seen: Seen,
) -> Result<Reply, RpcError> {
    match outcome {
        Err(error) if !caller.speaks_mgp() => plain(error, seen).map(|reply| finish(reply, caller)),
        Err(error) => Err(error),
        Ok(reply) => Ok(finish(reply, caller)),
    }
}

/// A modern result says what kind it is.
fn finish(mut reply: Reply, caller: &Facts) -> Reply {
    if caller.era == Era::Modern
        && let Reply::Complete(body) = &mut reply
        && !body.as_raw().as_str().contains("\"resultType\"")
    {
        body.insert("resultType", Payload::from_trusted("\"complete\""));
    }
    reply
}

/// An error as a plain MCP peer may see it.
fn plain(error: RpcError, seen: Seen) -> Result<Reply, RpcError> {
    let code = error.code();
    if code.category().is_none() || !seen.is_tool_call {
        return Err(error.without_recovery());
    }
    if code == ErrorCode::TOOL_NOT_FOUND {
        return Err(RpcError::new(ErrorCode::INVALID_PARAMS, error.message()));
    }
    refusal(&error, seen)
}

/// A refused call as a result the model can read: code, reason and remedy, as text and as data.
fn refusal(error: &RpcError, seen: Seen) -> Result<Reply, RpcError> {
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
    // Some clients hold even a failed result against the schema of the tool's results.
    if !seen.is_typed {
        result.structured_content = Some(Payload::of(&refusal)?);
    }
    Reply::of(&result)
}
