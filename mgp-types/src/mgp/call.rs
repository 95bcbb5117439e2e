//! The `_mgp` member of calls, results and notifications (MGP §12.3, §12.5).
//!
//! Applies to: both.

use crate::record::{RawObject, record};

record! {
    /// `params._mgp` of a call.
    pub struct CallExtension {
        /// Whether chunks are wanted (§12.3).
        opt stream: Option<bool>,
        /// Which server is meant when two have a tool of that name.
        opt server_id: Option<String>,
        /// The trace of the call, where another peer puts it.
        opt trace_id: Option<String>,
        /// On whose behalf the agent calls (later revisions).
        opt delegation: Option<RawObject>,
    }

    /// `result._mgp` of a call (§12.5).
    pub struct ResultExtension {
        /// Whether chunks were sent.
        opt streamed: Option<bool>,
        /// How many.
        opt chunks_sent: Option<u64>,
        /// How long it took.
        opt duration_ms: Option<u64>,
        /// Whether the call was cancelled; then the content is partial.
        opt cancelled: Option<bool>,
        /// Why.
        opt cancel_reason: Option<String>,
        /// `kernel`, for its own tools (later revisions).
        opt source: Option<String>,
    }

    /// `params._mgp` of a notification (later revisions).
    pub struct NotificationExtension {
        /// The running number: per server for audit events, per subscription for others.
        opt seq: Option<u64>,
        /// Which try this is, from 1.
        opt attempt: Option<u32>,
        /// Whether this was sent before.
        opt retransmit: Option<bool>,
    }
}
