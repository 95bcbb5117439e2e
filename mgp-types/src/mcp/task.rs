//! Tasks: answers that come later (MCP 2025-11-25 core; extension `io.modelcontextprotocol/tasks`).
//!
//! Applies to: both.

use super::{InputRequests, InputResponses, Meta, ResultType};
use crate::record::{Maybe, RawObject, open_enum, record};
use crate::{RpcError, Timestamp};

open_enum! {
    /// How far a task is.
    pub enum TaskStatus {
        /// It runs.
        Working = "working",
        /// It waits for input.
        InputRequired = "input_required",
        /// It is done.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

record! {
    /// Asks for a request to become a task (2025-11-25, `params.task`).
    pub struct TaskAugmentation {
        /// How long to keep it, in milliseconds.
        opt ttl: Option<u64>,
    }

    /// Result of a request that became a task (2025-11-25).
    pub struct LegacyCreateTaskResult {
        /// The task.
        req task: Task,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `tasks/list` (2025-11-25).
    pub struct ListTasksResult {
        /// The tasks.
        req tasks: Vec<Task>,
        /// Where to go on.
        opt next_cursor as "nextCursor": Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `tasks/get`, `tasks/result` and `tasks/cancel`; `notifications/tasks` names it the same way.
    pub struct TaskParams {
        /// The task.
        req task_id as "taskId": String,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// A task, in the words of both eras: result of `tasks/get`, parameters of its notifications.
    pub struct Task {
        /// How to read the result (extension).
        opt result_type as "resultType": Option<ResultType>,
        /// Names it.
        req task_id as "taskId": String,
        /// How far it is.
        req status: TaskStatus,
        /// The same for people.
        opt status_message as "statusMessage": Option<String>,
        /// When it began.
        req created_at as "createdAt": Timestamp,
        /// When it changed last.
        opt last_updated_at as "lastUpdatedAt": Option<Timestamp>,
        /// How long it is kept, in milliseconds (extension).
        tri ttl_ms as "ttlMs": Maybe<u64>,
        /// How often to ask, in milliseconds (extension).
        opt poll_interval_ms as "pollIntervalMs": Option<u64>,
        /// How long it is kept, in milliseconds (2025-11-25).
        tri ttl: Maybe<u64>,
        /// How often to ask, in milliseconds (2025-11-25).
        opt poll_interval as "pollInterval": Option<u64>,
        /// What it waits for (extension).
        opt input_requests as "inputRequests": Option<InputRequests>,
        /// What it ended in (extension).
        opt result: Option<RawObject>,
        /// Why it failed (extension).
        opt error: Option<RpcError>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of a request that became a task (extension).
    pub struct CreateTaskResult tagged "resultType" = "task" {
        /// Names it.
        req task_id as "taskId": String,
        /// How far it is.
        req status: TaskStatus,
        /// The same for people.
        opt status_message as "statusMessage": Option<String>,
        /// When it began.
        req created_at as "createdAt": Timestamp,
        /// When it changed last.
        req last_updated_at as "lastUpdatedAt": Timestamp,
        /// How long it is kept, in milliseconds; null is for ever.
        nul ttl_ms as "ttlMs": Option<u64>,
        /// How often to ask, in milliseconds.
        opt poll_interval_ms as "pollIntervalMs": Option<u64>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `tasks/update` (extension).
    pub struct UpdateTaskParams {
        /// The task.
        req task_id as "taskId": String,
        /// What it asked for.
        req input_responses as "inputResponses": InputResponses,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `tasks/cancel`: the task (2025-11-25) or nothing (extension).
    pub struct CancelTaskResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The task.
        opt task_id as "taskId": Option<String>,
        /// How far it is.
        opt status: Option<TaskStatus>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}
