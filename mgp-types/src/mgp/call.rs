//! The `_mgp` member of calls, results and notifications (MGP §12.3, §12.5).

use crate::record::{RawObject, record};

record! {
    /// The `params._mgp` object of `tools/call` and `tools/list`.
    pub struct CallExtension {
        /// `true` if the caller wants chunks (§12.3).
        opt stream: Option<bool>,
        /// The id of the server to call; needed if several servers have a tool with this name.
        opt server_id: Option<String>,
        /// The handle of the caller's session; needed if neither the connection nor the transport identifies the
        /// session (§16.7).
        opt session_handle: Option<String>,
        /// The trace id of the call, in the place where another implementation of MGP sends it.
        opt trace_id: Option<String>,
        /// The agents on whose behalf the call is made (later revisions of MGP).
        opt delegation: Option<RawObject>,
    }

    /// `result._mgp` of a call (§12.5).
    pub struct ResultExtension {
        /// `true` if chunks were sent.
        opt streamed: Option<bool>,
        /// The number of chunks that were sent.
        opt chunks_sent read whole: Option<u64>,
        /// The number of chunks that did not reach the caller. If it is not zero, the content that the caller collected
        /// is not complete.
        opt dropped read whole: Option<u64>,
        /// The duration of the call, in milliseconds.
        opt duration_ms read rounded: Option<u64>,
        /// `true` if the call was cancelled; the content is then partial.
        opt cancelled: Option<bool>,
        /// The reason for the cancellation.
        opt cancel_reason: Option<String>,
        /// `kernel` if the kernel itself answered, because the call was for one of the kernel's own tools (later
        /// revisions of MGP).
        opt source: Option<String>,
    }

    /// `params._mgp` of a notification (later revisions of MGP).
    pub struct NotificationExtension {
        /// The sequence number. Audit events are numbered per server, other notifications per subscription.
        opt seq read whole: Option<u64>,
        /// The number of this delivery attempt, from 1.
        opt attempt read whole: Option<u32>,
        /// `true` if this notification was sent before.
        opt retransmit: Option<bool>,
        /// The length of the chain of events that led to this event; each event of the chain caused the next event
        /// (§13, later revisions of MGP).
        opt depth read whole: Option<u32>,
        /// The number of events of the subscription that were dropped directly before this event.
        opt dropped read whole: Option<u64>,
        /// The server that published the event, if a kernel forwarded it.
        opt server_id: Option<String>,
    }
}
