//! `tools/validate`: checks arguments against the schema of a server's tool, without calling the server.
//!
//! Applies to: inbound.

use mgp_toolindex::Resolved;
use mgp_types::mcp::{self, ValidateToolParams, ValidateToolResult};
use mgp_types::service::Context;
use mgp_types::{ErrorCode, RpcError};

use super::dispatcher::{Dispatcher, DispatcherParts};
use super::portable_names;
use crate::caller_view::VisibleTools;

/// Checks arguments against the definition that the server has listed. A tool to which the caller has no access counts
/// as unknown.
pub(super) fn validate(
    dispatcher: &Dispatcher,
    cx: &Context,
    params: &ValidateToolParams,
) -> Result<ValidateToolResult, RpcError> {
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let visible = VisibleTools { view, cx };
    let name = mgp_types::clip(&params.name, 80);
    let tool = match fleet.context().index.resolve(&params.name, &visible) {
        Resolved::One(tool) if !portable_names::is_shared(dispatcher, cx, &params.name, &tool) => {
            tool
        }
        Resolved::One(_) | Resolved::Ambiguous(_) => {
            let message =
                format!("several servers have a tool `{name}`; use a name from `tools/list`");
            return Err(RpcError::new(ErrorCode::TOOL_NAME_CONFLICT, message));
        }
        _ => portable_names::find_one(dispatcher, cx, &params.name).ok_or_else(|| {
            let message = format!("unknown tool `{name}`; use a name from `tools/list`");
            RpcError::new(ErrorCode::TOOL_NOT_FOUND, message)
        })?,
    };
    let cannot = |reason: &str| {
        RpcError::new(ErrorCode::INVALID_TOOL_ARGS, format!("`{name}` cannot be checked: {reason}"))
    };
    let definition: mcp::Tool =
        serde_json::from_str(tool.definition()).map_err(|error| cannot(&error.to_string()))?;
    let arguments = params.arguments.as_ref().map_or("{}", |given| given.as_payload().as_str());
    let errors = mgp_security::argument_errors(&definition, arguments).map_err(cannot)?;
    let errors: Vec<_> = errors.into_iter().map(|(_, error)| error).collect();
    Ok(ValidateToolResult::new(errors.is_empty(), errors))
}
