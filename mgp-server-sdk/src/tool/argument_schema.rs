//! Checks arguments against the input schema of a tool: for `tools/validate`, and before a call.

use mgp_types::mcp::{ArgumentError, Tool, ValidateToolParams, ValidateToolResult};
use mgp_types::{ErrorCode, Object, Recovery, RpcError};

/// Returns the reasons, up to a limit, why the arguments in the params do not fit the input schema of a tool.
pub(super) fn check(
    tool: &Tool,
    params: &ValidateToolParams,
) -> Result<ValidateToolResult, RpcError> {
    let arguments = params.arguments.as_ref().map_or("{}", |given| given.as_payload().as_str());
    let errors: Vec<_> = errors(tool, arguments)?.into_iter().map(|(_, error)| error).collect();
    Ok(ValidateToolResult::new(errors.is_empty(), errors))
}

/// Refuses a call whose arguments do not fit the input schema of its tool.
pub(super) fn refuse_arguments(tool: &Tool, arguments: &str) -> Result<(), RpcError> {
    let (paths, errors): (Vec<_>, Vec<_>) = errors(tool, arguments)?.into_iter().unzip();
    let (Some(path), Some(first)) = (paths.first(), errors.first()) else { return Ok(()) };
    let path = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
    let message = format!(
        "the arguments do not fit the input schema of `{}`: {path}{}",
        tool.name, first.message
    );
    let mut details = Object::new();
    details.encode("tool", &tool.name)?;
    details.encode("errors", &errors)?;
    let recovery = Recovery::default_for(ErrorCode::INVALID_TOOL_ARGS).unwrap_or_default();
    let recovery = recovery.details(details);
    Err(RpcError::new(ErrorCode::INVALID_TOOL_ARGS, message).recovery(recovery))
}

fn errors(tool: &Tool, arguments: &str) -> Result<Vec<(String, ArgumentError)>, RpcError> {
    let cannot =
        |reason| RpcError::new(ErrorCode::INVALID_TOOL_ARGS, format!("`{}`: {reason}", tool.name));
    mgp_security::argument_errors(tool, arguments).map_err(cannot)
}
