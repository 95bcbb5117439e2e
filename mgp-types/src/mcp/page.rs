//! Paging, result types and cache hints shared by the lists (MCP `PaginatedRequest`, `CacheableResult`).

use super::Meta;
use crate::record::{open_enum, record};

open_enum! {
    /// The kind of a result (2026-07-28); absent means complete.
    pub enum ResultType {
        /// The final answer.
        Complete = "complete",
        /// The caller must supply input and repeat the request.
        InputRequired = "input_required",
        /// The result will be available later, as a task.
        Task = "task",
    }

    /// The caches that may store a result (2026-07-28).
    pub enum CacheScope {
        /// Any cache.
        Public = "public",
        /// The requesting client only.
        Private = "private",
    }
}

record! {
    /// Parameters of every list request.
    pub struct ListParams {
        /// The `nextCursor` of the previous page.
        opt cursor: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
