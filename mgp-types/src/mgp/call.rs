//! The `_mgp` member of calls, results and notifications (MGP §12.3, §12.5).

use crate::record::{RawObject, record};

record! {
    /// `params._mgp` of a call, and of `tools/list`.
    pub struct CallExtension {
        /// `true` if the caller wants chunks (§12.3).
        opt stream: Option<bool>,
        /// The server to call, if several have a tool of this name.
        opt server_id: Option<String>,
        /// The handle of the caller's session, for requests without a connection (§16.7).
        opt session_handle: Option<String>,
        /// The trace of the call, in the spelling of another implementation.
        opt trace_id: Option<String>,
        /// The agent on whose behalf the call is made (later revisions).
        opt delegation: Option<RawObject>,
    }

    /// `result._mgp` of a call (§12.5).
    pub struct ResultExtension {
        /// `true` if chunks were sent.
        opt streamed: Option<bool>,
        /// The number of chunks.
        opt chunks_sent: Option<u64>,
        /// The duration in milliseconds.
        opt duration_ms: Option<u64>,
        /// `true` if the call was cancelled; the content is then partial.
        opt cancelled: Option<bool>,
        /// The reason.
        opt cancel_reason: Option<String>,
        /// `kernel`, for its own tools (later revisions).
        opt source: Option<String>,
    }

    /// `params._mgp` of a notification (later revisions).
    pub struct NotificationExtension {
        /// The running number: per server for audit events, per subscription for others.
        opt seq: Option<u64>,
        /// The number of the attempt, from 1.
        opt attempt: Option<u32>,
        /// `true` if this was sent before.
        opt retransmit: Option<bool>,
    }
}
