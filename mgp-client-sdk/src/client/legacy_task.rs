//! The task that a server of 2025-11-25 returns in place of a result.

use mgp_types::mcp::{CallToolResult, LegacyCreateTaskResult, TaskParams};
use mgp_types::service::Reply;

/// The member of `_meta` that names the task in `FastMCP` 2, in an otherwise empty result.
const TASK_IN_META: &str = "modelcontextprotocol.io/task";

/// A task that a server of 2025-11-25 returned in place of a result.
pub(crate) struct LegacyTask {
    pub(super) id: String,
    /// The interval for requesting the state of the task, in milliseconds.
    pub(super) poll_interval: Option<u64>,
}

impl LegacyTask {
    /// Returns the task that a server created for a call that was sent as a task; `None` if the server answered with a
    /// result.
    pub(crate) fn of(reply: &Reply) -> Option<Self> {
        if let Ok(LegacyCreateTaskResult { task, .. }) = reply.get() {
            return Some(Self { id: task.task_id, poll_interval: task.poll_interval });
        }
        let meta = reply.get::<CallToolResult>().ok()?.meta?;
        let named: TaskParams = meta.get(TASK_IN_META)?.get().ok()?;
        Some(Self { id: named.task_id, poll_interval: None })
    }
}
