//! Long calls (MCP tasks): the kernel's own tasks for callers that support them, and calls that run as tasks of
//! servers.
//!
//! A caller's task belongs to the kernel and not to a server: the caller asks the kernel for the state of the task.

use mgp_client_sdk::gateway::AwaitLegacyTask;
use mgp_lifecycle::{AcceptsTask, TaskTicket, requires_task, serves_tasks};
use mgp_toolindex::{AllTools, IndexedTool, Resolved, ToolFeature};
use mgp_types::mcp::{Era, TaskSupport};
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::service::{Call, Context, Params, Reply};
use mgp_types::{ErrorCode, RpcError};

use super::called_tool::CalledTool;
use super::portable_names;
use crate::fleet::{FleetContext, InMainSession, SessionUse};

/// Returns whether the kernel can run calls of the tool with this name as tasks.
pub(crate) fn support(context: &FleetContext, name: &str) -> TaskSupport {
    let can_be_task = |tool: &IndexedTool| declared(tool) != TaskSupport::Forbidden;
    let is_possible = match context.index.resolve(name, &AllTools) {
        Resolved::One(tool) if can_be_task(&tool) => true,
        // If several tools have this name, it is enough that one of them can run as a task: a caller that sees only
        // this tool can call it by the name.
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

/// Returns whether a call must run as a task of its server: because the tool declares that it runs only as a task, or
/// because the tool may run as a task and the caller has requested a task. For such a caller, an ordinary call would
/// have less time than the caller's task.
fn runs_as_task(tool: &IndexedTool, cx: &Context) -> bool {
    match declared(tool) {
        TaskSupport::Required => true,
        // A modern caller accepts a task but requests none, so its call is an ordinary one, which may be faster.
        TaskSupport::Optional => cx.caller.era == Era::Legacy && TaskTicket::of(cx).is_some(),
        _ => false,
    }
}

/// Returns whether a legacy session refused a call because the tool runs only as a task. The kernel may not have known
/// this before: only the list of a legacy session declares it, and the kernel may have read only the list of the main
/// session.
fn requires_legacy_task(error: &RpcError) -> bool {
    error.code() == ErrorCode::METHOD_NOT_FOUND && error.message().contains("task")
}

impl CalledTool {
    /// Returns whether a call runs as a task of its server, or whether a legacy session might refuse the call because
    /// its tool runs only as a task. In a modern session, the client itself repeats such a refused call as a task.
    pub(super) fn may_be_task(&self, cx: &Context) -> bool {
        runs_as_task(&self.tool, cx) || self.server.uses_legacy_session(cx)
    }

    /// Makes a call that may run as a task. If it runs as a task, waits for the result of the task.
    pub(super) async fn call_as_task(&self, call: Call) -> Result<Reply, RpcError> {
        let Self { server, tool, has_access } = self;
        if runs_as_task(tool, call.cx()) || server.has_required_task(tool.name()) {
            return self.call_and_wait(call).await;
        }
        let repetition = call.clone();
        match server.send(call, *has_access).await {
            // The server refused the call before it ran. Repeat it as a task in the main session, because a server of
            // both eras has no tasks in its legacy session.
            Err(error) if requires_task(&error) || requires_legacy_task(&error) => {
                server.note_required_task(tool.name());
                self.call_and_wait(repetition).await
            }
            outcome => outcome,
        }
    }

    /// Makes a call as a task, and waits for the result of the server's task.
    async fn call_and_wait(&self, mut call: Call) -> Result<Reply, RpcError> {
        let Self { server, tool, has_access } = self;
        if !has_access {
            return server.send(call, false).await;
        }
        // Prefer the main session: a server of both eras with the extension for tasks runs tasks only there.
        let mut in_main = call.cx().clone();
        in_main.extensions.insert(InMainSession);
        let main = server.wake_for(&in_main, SessionUse::Call).await;
        let client = if main.as_ref().is_ok_and(|client| serves_tasks(client.server())) {
            call.cx_mut().extensions.insert(InMainSession);
            main.ok()
        } else {
            server.wake_for(call.cx(), SessionUse::Call).await.ok()
        };
        let Some(client) = client else { return server.send(call, true).await };
        if client.server().era == Era::Modern {
            call.cx_mut().extensions.insert(AcceptsTask);
            return server.send(call, true).await;
        }
        // Make an ordinary call: in MCP 2025-11-25, a client must not request a task from a server that does not
        // declare tasks.
        if declared(tool) == TaskSupport::Optional && client.capabilities().tasks.is_none() {
            return server.send(call, true).await;
        }
        let Some(called) = call.tool() else { return server.send(call, true).await };
        let name = serde_json::to_string(called.name).map_err(RpcError::invalid_params)?;
        let arguments = call.tool_arguments();
        let text = format!(r#"{{"name":{name},"arguments":{},"task":{{}}}}"#, arguments.as_str());
        *call.params_mut() = Params::split(ToolsCall::METHOD, text.into())?;
        call.cx_mut().extensions.insert(AwaitLegacyTask);
        server.send(call, true).await
    }
}
