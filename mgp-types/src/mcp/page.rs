//! Paging, result types and cache hints shared by the lists (MCP `PaginatedRequest`, `CacheableResult`).
//!
//! Applies to: both.

use super::Meta;
use crate::record::{open_enum, record};

open_enum! {
    /// How to read a result (2026-07-28); absent means complete.
    pub enum ResultType {
        /// The final answer.
        Complete = "complete",
        /// The caller must supply something and ask again.
        InputRequired = "input_required",
        /// The answer comes later, as a task.
        Task = "task",
    }

    /// Who may keep a result (2026-07-28).
    pub enum CacheScope {
        /// Anyone.
        Public = "public",
        /// The one who asked.
        Private = "private",
    }
}

record! {
    /// Parameters of every list request.
    pub struct ListParams {
        /// Where to go on: the `nextCursor` of the page before.
        opt cursor: Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}
