//! Progress and cancellation (MCP utilities; the equivalents of MGP are in §12.6 and §12.7).

use super::Meta;
use crate::Id;
use crate::record::{Number, record};

record! {
    /// Parameters of `notifications/progress`.
    pub struct ProgressParams {
        /// The token that the sender of the request chose for its progress.
        req progress_token as "progressToken": Id,
        /// The progress so far; it must increase with each notification.
        req progress: Number,
        /// The value at which the progress is complete.
        opt total: Option<Number>,
        /// A description of the current step.
        opt message: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/cancelled`.
    pub struct CancelledParams {
        /// The id of the request to cancel; absent if a task is cancelled (MCP 2025-11-25).
        opt request_id as "requestId": Option<Id>,
        /// The reason for the cancellation.
        opt reason: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
