//! Calls that take long: tasks for callers that can wait for one, and tools below that run only as one (MCP tasks).
//!
//! A task belongs to the kernel: its caller asks the kernel for it, whatever became of the call below.
//!
//! Applies to: both.

use std::sync::Arc;

use mgp_lifecycle::TakesTask;
use mgp_toolindex::{Everything, Listed, Resolved, ToolIndex};
use mgp_types::RpcError;
use mgp_types::mcp::{Era, TaskSupport};
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::service::{Call, Params, Reply};

use crate::fleet::Node;
use mgp_client_sdk::gateway::AwaitLegacyTask;

/// Whether calls of a tool may become tasks of the kernel.
pub(crate) fn support(index: &ToolIndex, name: &str) -> TaskSupport {
    match &index.resolve(name, &Everything) {
        Resolved::One(tool) if of(tool) != TaskSupport::Forbidden => TaskSupport::Optional,
        _ => TaskSupport::Forbidden,
    }
}

/// What a tool says of itself.
pub(super) fn of(tool: &Listed) -> TaskSupport {
    // Few tools say anything; the look is cheaper than the parse.
    if !tool.definition().contains("taskSupport") {
        return TaskSupport::Forbidden;
    }
    let said = tool.tool().ok().and_then(|tool| tool.execution?.task_support);
    said.unwrap_or(TaskSupport::Forbidden)
}

/// Calls a tool that runs only as a task, and waits for its end.
pub(super) async fn see_through(
    node: &Arc<Node>,
    mut call: Call,
    may: bool,
) -> Result<Reply, RpcError> {
    let client = if may { node.wake_for(&call.cx().principal).await.ok() } else { None };
    let Some(client) = client else { return node.send(call, may).await };
    if client.server().era == Era::Modern {
        call.cx_mut().extensions.insert(TakesTask);
        return node.send(call, may).await;
    }
    let Some(tool) = call.tool() else { return node.send(call, may).await };
    let name = serde_json::to_string(tool.name).map_err(RpcError::invalid_params)?;
    let arguments = call.tool_arguments();
    let text = format!(r#"{{"name":{name},"arguments":{},"task":{{}}}}"#, arguments.as_str());
    *call.params_mut() = Params::split(ToolsCall::METHOD, text.into())?;
    call.cx_mut().extensions.insert(AwaitLegacyTask);
    node.send(call, may).await
}
