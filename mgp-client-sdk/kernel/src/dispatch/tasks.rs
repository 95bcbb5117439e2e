//! Long calls (MCP tasks): the kernel's own tasks for callers that support them, and calls of tools that run
//! only as tasks.
//!
//! A caller's task belongs to the kernel, not to the server behind it: callers poll the kernel.

use std::sync::Arc;

use mgp_client_sdk::gateway::AwaitLegacyTask;
use mgp_lifecycle::{AcceptsTask, requires_task, serves_tasks};
use mgp_toolindex::{AllTools, IndexedTool, Resolved, ToolFeature};
use mgp_types::mcp::{Era, TaskSupport};
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::service::{Call, Context, Params, Reply};
use mgp_types::{ErrorCode, RpcError};

use super::portable_names;
use crate::fleet::{FleetContext, InMainSession, ManagedServer, SessionUse};

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

fn declared(tool: &IndexedTool) -> TaskSupport {
    if !tool.may_use(ToolFeature::Tasks) {
        return TaskSupport::Forbidden;
    }
    let support = tool.tool().ok().and_then(|tool| tool.execution?.task_support);
    support.unwrap_or(TaskSupport::Forbidden)
}

/// Returns whether a tool declares that it runs only as a task, or might be refused by a legacy session because it does.
/// The stack of a modern session sends such calls again by itself.
pub(super) fn may_be_required(server: &ManagedServer, tool: &IndexedTool, cx: &Context) -> bool {
    declared(tool) == TaskSupport::Required || server.uses_legacy_session(cx)
}

/// Calls a server's tool that may run only as a task. If it does, waits for the result of the server's task.
pub(super) async fn call_as_required(
    server: &Arc<ManagedServer>,
    tool: &IndexedTool,
    call: Call,
    has_access: bool,
) -> Result<Reply, RpcError> {
    if declared(tool) == TaskSupport::Required || server.has_required_task(tool.name()) {
        return call_and_wait(server, call, has_access).await;
    }
    let repetition = call.clone();
    match server.send(call, has_access).await {
        // The legacy session of a server whose tasks need the main session refuses the call before it runs.
        Err(error) if requires_task(&error) || requires_legacy_task(&error) => {
            server.note_required_task(tool.name());
            call_and_wait(server, repetition, has_access).await
        }
        outcome => outcome,
    }
}

/// Returns whether a legacy session refused a call because its tool runs only as a task. Only the server's list of that
/// era declares this, and the kernel may have read the other list.
fn requires_legacy_task(error: &RpcError) -> bool {
    error.code() == ErrorCode::METHOD_NOT_FOUND && error.message().contains("task")
}

/// Calls a server's tool that runs only as a task, and waits for the result of the server's task.
async fn call_and_wait(
    server: &Arc<ManagedServer>,
    mut call: Call,
    has_access: bool,
) -> Result<Reply, RpcError> {
    if !has_access {
        return server.send(call, has_access).await;
    }
    // A server of both eras that has the tasks extension runs tasks in its main session only.
    let mut in_main = call.cx().clone();
    in_main.extensions.insert(InMainSession);
    let main = server.wake_for(&in_main, SessionUse::Call).await;
    let client = if main.as_ref().is_ok_and(|client| serves_tasks(client.server())) {
        call.cx_mut().extensions.insert(InMainSession);
        main.ok()
    } else {
        server.wake_for(call.cx(), SessionUse::Call).await.ok()
    };
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
