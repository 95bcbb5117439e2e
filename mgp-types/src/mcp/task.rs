//! Tasks: requests whose results follow later (MCP 2025-11-25 core; extension `io.modelcontextprotocol/tasks`).

use super::{InputRequests, InputResponses, Meta, ResultType};
use crate::record::{Nullable, RawObject, open_enum, record};
use crate::{RpcError, Timestamp};

open_enum! {
    /// The state of a task.
    pub enum TaskStatus {
        /// The task is running.
        Working = "working",
        /// The task waits for input.
        InputRequired = "input_required",
        /// The task is complete.
        Completed = "completed",
        /// The task failed.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

record! {
    /// Result of a request that became a task (MCP 2025-11-25).
    pub struct LegacyCreateTaskResult {
        /// The task.
        req task: Task,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `tasks/list` (MCP 2025-11-25).
    pub struct ListTasksResult {
        /// The tasks.
        req tasks read nullable: Vec<Task>,
        /// The cursor with which to request the next page; absent on the last page.
        opt next_cursor as "nextCursor" read cursor: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `tasks/get`, `tasks/result` and `tasks/cancel`.
    pub struct TaskParams {
        /// The id of the task.
        req task_id as "taskId": String,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// A task, with the members of both eras: the result of `tasks/get`, and the parameters of task notifications.
    pub struct Task {
        /// The kind of result (tasks extension).
        opt result_type as "resultType": Option<ResultType>,
        /// The id of the task.
        req task_id as "taskId": String,
        /// The state of the task.
        req status: TaskStatus,
        /// A description of the state, for display.
        opt status_message as "statusMessage": Option<String>,
        /// The time at which the task was created.
        req created_at as "createdAt": Timestamp,
        /// The time at which the task last changed.
        opt last_updated_at as "lastUpdatedAt": Option<Timestamp>,
        /// The time for which the server keeps the task, in milliseconds; `null` means without limit (tasks extension).
        tri ttl_ms as "ttlMs" read whole: Nullable<u64>,
        /// The interval at which to request the state of the task, in milliseconds (tasks extension).
        opt poll_interval_ms as "pollIntervalMs" read whole: Option<u64>,
        /// The time for which the server keeps the task, in milliseconds; `null` means without limit (MCP 2025-11-25).
        tri ttl read whole: Nullable<u64>,
        /// The interval at which to request the state of the task, in milliseconds (MCP 2025-11-25).
        opt poll_interval as "pollInterval" read whole: Option<u64>,
        /// The requests for input that the task waits for (tasks extension).
        opt input_requests as "inputRequests": Option<InputRequests>,
        /// The result of the request that became the task (tasks extension).
        opt result: Option<RawObject>,
        /// The error of the request that became the task (tasks extension).
        opt error: Option<RpcError>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of a request that became a task (tasks extension).
    pub struct CreateTaskResult tagged "resultType" = "task" {
        /// The id of the task.
        req task_id as "taskId": String,
        /// The state of the task.
        req status: TaskStatus,
        /// A description of the state, for display.
        opt status_message as "statusMessage": Option<String>,
        /// The time at which the task was created.
        req created_at as "createdAt": Timestamp,
        /// The time at which the task last changed.
        req last_updated_at as "lastUpdatedAt": Timestamp,
        /// The time for which the server keeps the task, in milliseconds; `null` means without limit.
        nul ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The interval at which to request the state of the task, in milliseconds.
        opt poll_interval_ms as "pollIntervalMs" read whole: Option<u64>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `tasks/update` (tasks extension).
    pub struct UpdateTaskParams {
        /// The id of the task.
        req task_id as "taskId": String,
        /// Answers to the task's requests for input.
        req input_responses as "inputResponses": InputResponses,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `tasks/cancel`: the task (MCP 2025-11-25), or an empty result (tasks extension).
    pub struct CancelTaskResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The id of the task.
        opt task_id as "taskId": Option<String>,
        /// The state of the task (MCP 2025-11-25).
        opt status: Option<TaskStatus>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
