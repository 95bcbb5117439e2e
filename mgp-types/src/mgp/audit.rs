//! Audit events (MGP §6).

use super::NotificationExtension;
use crate::Timestamp;
use crate::record::{Object, open_enum, record};

open_enum! {
    /// The type of an audit event (§6.4); custom types are in reverse-domain notation.
    pub enum EventType {
        /// A tool was called and ended.
        ToolExecuted = "TOOL_EXECUTED",
        /// A call was blocked.
        ToolBlocked = "TOOL_BLOCKED",
        /// A permission was approved.
        PermissionGranted = "PERMISSION_GRANTED",
        /// A permission was denied.
        PermissionDenied = "PERMISSION_DENIED",
        /// A permission was revoked.
        PermissionRevoked = "PERMISSION_REVOKED",
        /// Access was granted.
        AccessGranted = "ACCESS_GRANTED",
        /// Access was revoked.
        AccessRevoked = "ACCESS_REVOKED",
        /// A server connected.
        ServerConnected = "SERVER_CONNECTED",
        /// A server disconnected.
        ServerDisconnected = "SERVER_DISCONNECTED",
        /// A validator rejected a call.
        ValidationFailed = "VALIDATION_FAILED",
        /// The code safety framework rejected code.
        CodeRejected = "CODE_REJECTED",
    }

    /// The outcome of an audited action; all spellings listed are read, and the first one is written.
    pub enum AuditResult {
        /// Succeeded.
        Success = "SUCCESS" | "success",
        /// Failed.
        Failure = "FAILURE" | "failure" | "error" | "ERROR",
        /// The action was refused before it began.
        Blocked = "BLOCKED" | "blocked",
        /// Cancelled.
        Cancelled = "CANCELLED" | "cancelled",
    }
}

record! {
    /// The actor of an event.
    pub struct Actor {
        /// The kind of the actor: `agent`, `user`, `server` or `kernel`.
        req kind as "type": String,
        /// The id.
        req id: String,
    }

    /// The target of an event.
    pub struct Target {
        /// The server.
        opt server_id: Option<String>,
        /// The tool.
        opt tool_name: Option<String>,
    }

    /// Parameters of `notifications/mgp.audit` (§6.3).
    pub struct AuditEvent {
        /// The time.
        req timestamp: Timestamp,
        /// The trace id of the call that caused the event.
        opt trace_id: Option<String>,
        /// The type.
        req event_type: EventType,
        /// The actor.
        req actor: Actor,
        /// The target.
        opt target: Option<Target>,
        /// The outcome.
        req result: AuditResult,
        /// Further details.
        opt details: Option<Object>,
        /// The sequence number of the event (later revisions).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Arguments of `mgp.audit.replay` (later revisions).
    pub struct AuditReplayParams {
        /// Return only events after this sequence number.
        opt since_seq: Option<u64>,
        /// Events after this time.
        opt since_timestamp: Option<Timestamp>,
        /// The maximum number of results.
        opt limit: Option<u64>,
    }

    /// Result of `mgp.audit.replay` (later revisions).
    pub struct AuditReplayResult {
        /// The events.
        req events: Vec<AuditEvent>,
        /// `true` if there are more events.
        req has_more: bool,
        /// The `since_seq` for the next page.
        opt next_seq: Option<u64>,
    }
}
