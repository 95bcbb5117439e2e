//! Audit events (MGP §6).

use super::NotificationExtension;
use crate::Timestamp;
use crate::record::{Object, open_enum, record};

open_enum! {
    /// The type of an audit event (§6.4); custom types are in reverse-domain notation.
    pub enum EventType {
        /// A tool was called, and the call ended.
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

    /// The outcome of an audited action. A value with several spellings is written in its first spelling; all spellings
    /// are read.
    pub enum AuditResult {
        /// The action succeeded.
        Success = "SUCCESS" | "success",
        /// The action failed.
        Failure = "FAILURE" | "failure" | "error" | "ERROR",
        /// The action was refused before it began.
        Blocked = "BLOCKED" | "blocked",
        /// The action was cancelled.
        Cancelled = "CANCELLED" | "cancelled",
    }
}

record! {
    /// The agent, user, server or kernel that caused an event.
    pub struct Actor {
        /// The kind of the actor: `agent`, `user`, `server` or `kernel`.
        req kind as "type": String,
        /// The id of the actor.
        req id: String,
    }

    /// The server and the tool to which an audit event relates.
    pub struct Target {
        /// The id of the server.
        opt server_id: Option<String>,
        /// The name of the tool.
        opt tool_name: Option<String>,
    }

    /// Parameters of `notifications/mgp.audit` (§6.3).
    pub struct AuditEvent {
        /// The time of the event.
        req timestamp: Timestamp,
        /// The trace id of the call that caused the event.
        opt trace_id: Option<String>,
        /// The type of the event.
        req event_type: EventType,
        /// The actor that caused the event.
        req actor: Actor,
        /// The server and the tool to which the event relates.
        opt target: Option<Target>,
        /// The outcome of the action.
        req result: AuditResult,
        /// Further details of the event.
        opt details: Option<Object>,
        /// The MGP members of the notification, with the sequence number of the event (later revisions of MGP).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Arguments of `mgp.audit.replay` (later revisions of MGP).
    pub struct AuditReplayParams {
        /// Return only events after this sequence number.
        opt since_seq read whole: Option<u64>,
        /// Return only events after this time.
        opt since_timestamp: Option<Timestamp>,
        /// The maximum number of events to return.
        opt limit read whole: Option<u64>,
    }

    /// Result of `mgp.audit.replay` (later revisions of MGP).
    pub struct AuditReplayResult {
        /// The events.
        req events: Vec<AuditEvent>,
        /// `true` if there are more events.
        req has_more: bool,
        /// The `since_seq` for the next page.
        opt next_seq: Option<u64>,
    }
}
