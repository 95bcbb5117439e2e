//! Members that the messages of several methods share (MCP `PaginatedRequest`, `CacheableResult`).

use super::Meta;
use crate::record::{Object, open_enum, record};

/// The client's answers to the requests of a server, each under the key of its request.
pub type InputResponses = Object;

open_enum! {
    /// The kind of a result (2026-07-28); an absent kind means `complete`.
    pub enum ResultType {
        /// The final answer.
        Complete = "complete",
        /// The caller must supply input and repeat the request.
        InputRequired = "input_required",
        /// The result will be available later, as a task.
        Task = "task",
    }

    /// The caches that are allowed to store a result (2026-07-28).
    pub enum CacheScope {
        /// Any cache may store the result and return it to other users.
        Public = "public",
        /// Only the requesting client may store the result.
        Private = "private",
    }
}

record! {
    /// Parameters of every list request.
    pub struct ListParams {
        /// The `nextCursor` of the previous page; absent for the first page.
        opt cursor: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// The member by which a caller asks that its request runs as a task (2025-11-25, `params.task`).
    pub struct TaskAugmentation {
        /// The time for which to keep the task, in milliseconds.
        opt ttl read whole: Option<u64>,
    }
}
