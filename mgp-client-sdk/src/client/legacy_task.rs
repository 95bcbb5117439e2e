//! The task with which a server of 2025-11-25 answers a call.

use mgp_types::mcp::{CallToolResult, LegacyCreateTaskResult, TaskParams};
use mgp_types::service::Reply;

/// The member of `_meta` in which `FastMCP` 2 names the task, in an otherwise empty result.
const TASK_IN_META: &str = "modelcontextprotocol.io/task";

/// A task with which a server of 2025-11-25 answered a call.
pub(crate) struct LegacyTask {
    pub(super) id: String,
    /// The interval at which to request the state of the task, in milliseconds.
    pub(super) poll_interval: Option<u64>,
}

impl LegacyTask {
    /// Returns the task with which a server answered a call that was sent as a task; `None` if the server answered with
    /// a result.
    pub(crate) fn of(reply: &Reply) -> Option<Self> {
        if let Ok(LegacyCreateTaskResult { task, .. }) = reply.get() {
            return Some(Self { id: task.task_id, poll_interval: task.poll_interval });
        }
        let meta = reply.get::<CallToolResult>().ok()?.meta?;
        let named: TaskParams = meta.get(TASK_IN_META)?.get().ok()?;
        Some(Self { id: named.task_id, poll_interval: None })
    }
}
