//! Progress and cancellation (MCP utilities; MGP §12.6 and §12.7 bridge to them).
//!
//! Applies to: both.

use super::Meta;
use crate::Id;
use crate::record::{Number, record};

record! {
    /// Parameters of `notifications/progress`.
    pub struct ProgressParams {
        /// The token of the request.
        req progress_token as "progressToken": Id,
        /// How far it is; it only grows.
        req progress: Number,
        /// Where it ends.
        opt total: Option<Number>,
        /// What it does now.
        opt message: Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/cancelled`.
    pub struct CancelledParams {
        /// The request to give up; absent for tasks (2025-11-25).
        opt request_id as "requestId": Option<Id>,
        /// Why.
        opt reason: Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}
