//! Arguments that callers over HTTP repeat in headers (MCP 2026-07-28, `x-mcp-header`).
//!
//! A proxy in front of the kernel may have routed a call by its headers. So the kernel compares the headers with the
//! arguments, in the same way as the server would.

use mgp_toolindex::{IndexedTool, ToolFeature};
use mgp_types::RpcError;
use mgp_types::mcp::Era;
use mgp_types::service::{Call, HeaderMismatch, HeaderParams, HeaderPlan};

use super::dispatcher::{Dispatcher, DispatcherParts};

/// Compares the headers of a call with its arguments.
///
/// A missing header is an error only for a pinned tool, which is always in the caller's list. The caller may not know
/// the headers of any other tool.
///
/// # Errors
/// −32020 (header mismatch), with the name of the first header that does not match its argument.
pub(super) fn check(
    dispatcher: &Dispatcher,
    call: &Call,
    tool: &IndexedTool,
) -> Result<(), RpcError> {
    let cx = call.cx();
    let Some(headers) = cx.extensions.get::<HeaderParams>() else { return Ok(()) };
    if cx.caller.era != Era::Modern || !tool.may_use(ToolFeature::HeaderParams) {
        return Ok(());
    }
    let schema = tool.tool()?.input_schema;
    // Ignore invalid `x-mcp-header` annotations in the schema of the tool.
    let Ok(plan) = HeaderPlan::of(&schema) else { return Ok(()) };
    let arguments = call.tool().and_then(|tool| tool.arguments).unwrap_or("{}");
    match plan.check(arguments, headers) {
        Err(HeaderMismatch::Missing(_)) if !is_pinned(dispatcher, call, tool) => Ok(()),
        checked => Ok(checked?),
    }
}

fn is_pinned(dispatcher: &Dispatcher, call: &Call, tool: &IndexedTool) -> bool {
    let DispatcherParts { fleet, search, sessions, .. } = dispatcher.parts();
    let (index, cx) = (&fleet.context().index, call.cx());
    let view = sessions.view(&cx.principal, None, index, &search.caller(cx));
    view.pinned.iter().any(|held| held.tool.tool_id() == tool.tool_id())
}
