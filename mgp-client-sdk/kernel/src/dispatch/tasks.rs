//! Long calls (MCP tasks): the kernel's own tasks for callers that support them, and calls of tools that run
//! only as tasks.
//!
//! A caller's task belongs to the kernel, not to the server behind it: callers poll the kernel.

use std::sync::Arc;

use mgp_client_sdk::gateway::AwaitLegacyTask;
use mgp_lifecycle::AcceptsTask;
use mgp_toolindex::{AllTools, IndexedTool, Resolved, ToolFeature};
use mgp_types::RpcError;
use mgp_types::mcp::{Era, TaskSupport};
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::service::{Call, Params, Reply};

use super::portable_names;
use crate::fleet::{FleetContext, ManagedServer, SessionUse};

/// Returns whether the kernel can run calls of a tool as tasks.
pub(crate) fn support(context: &FleetContext, name: &str) -> TaskSupport {
    let can_be_task = |tool: &IndexedTool| declared(tool) != TaskSupport::Forbidden;
    let is_possible = match context.index.resolve(name, &AllTools) {
        Resolved::One(tool) if can_be_task(&tool) => true,
        // A name that several tools have is enough, because a caller that sees only one of them can call it by this
        // name.
        Resolved::Ambiguous(tools) if tools.iter().any(can_be_task) => true,
        _ => portable_names::find_any(context, name).iter().any(can_be_task),
    };
    if is_possible { TaskSupport::Optional } else { TaskSupport::Forbidden }
}

/// Returns the task support that a tool's definition declares.
pub(super) fn declared(tool: &IndexedTool) -> TaskSupport {
    if !tool.may_use(ToolFeature::Tasks) {
        return TaskSupport::Forbidden;
    }
    let support = tool.tool().ok().and_then(|tool| tool.execution?.task_support);
    support.unwrap_or(TaskSupport::Forbidden)
}

/// Calls a server's tool that runs only as a task, and waits for the result of the server's task.
pub(super) async fn call_and_wait(
    server: &Arc<ManagedServer>,
    mut call: Call,
    has_access: bool,
) -> Result<Reply, RpcError> {
    let client =
        if has_access { server.wake_for(call.cx(), SessionUse::Call).await.ok() } else { None };
    let Some(client) = client else { return server.send(call, has_access).await };
    if client.server().era == Era::Modern {
        call.cx_mut().extensions.insert(AcceptsTask);
        return server.send(call, has_access).await;
    }
    let Some(tool) = call.tool() else { return server.send(call, has_access).await };
    let name = serde_json::to_string(tool.name).map_err(RpcError::invalid_params)?;
    let arguments = call.tool_arguments();
    let text = format!(r#"{{"name":{name},"arguments":{},"task":{{}}}}"#, arguments.as_str());
    *call.params_mut() = Params::split(ToolsCall::METHOD, text.into())?;
    call.cx_mut().extensions.insert(AwaitLegacyTask);
    server.send(call, has_access).await
}
