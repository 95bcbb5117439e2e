//! Audit events (MGP §6).
//!
//! Applies to: both.

use super::NotificationExtension;
use crate::Timestamp;
use crate::record::{Object, open_enum, record};

open_enum! {
    /// What happened (§6.4); custom types are in reverse-domain notation.
    pub enum EventType {
        /// A tool was called and ended.
        ToolExecuted = "TOOL_EXECUTED",
        /// A call was blocked.
        ToolBlocked = "TOOL_BLOCKED",
        /// A permission was approved.
        PermissionGranted = "PERMISSION_GRANTED",
        /// A permission was denied.
        PermissionDenied = "PERMISSION_DENIED",
        /// A permission was taken back.
        PermissionRevoked = "PERMISSION_REVOKED",
        /// Access was granted.
        AccessGranted = "ACCESS_GRANTED",
        /// Access was taken back.
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

    /// How it ended.
    pub enum AuditResult {
        /// Well.
        Success = "SUCCESS" | "success",
        /// Badly.
        Failure = "FAILURE" | "failure" | "error" | "ERROR",
        /// Not begun.
        Blocked = "BLOCKED" | "blocked",
        /// Given up.
        Cancelled = "CANCELLED" | "cancelled",
    }
}

record! {
    /// Who did it.
    pub struct Actor {
        /// `agent`, `user`, `server`, `kernel`.
        req kind as "type": String,
        /// Its id.
        req id: String,
    }

    /// What it was done to.
    pub struct Target {
        /// The server.
        opt server_id: Option<String>,
        /// The tool.
        opt tool_name: Option<String>,
    }

    /// Parameters of `notifications/mgp.audit` (§6.3).
    pub struct AuditEvent {
        /// When.
        req timestamp: Timestamp,
        /// The trace it belongs to.
        opt trace_id: Option<String>,
        /// What.
        req event_type: EventType,
        /// Who.
        req actor: Actor,
        /// To what.
        opt target: Option<Target>,
        /// How it ended.
        req result: AuditResult,
        /// More.
        opt details: Option<Object>,
        /// The running number (later revisions).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Arguments of `mgp.audit.replay` (later revisions).
    pub struct AuditReplayParams {
        /// Events after this number.
        opt since_seq: Option<u64>,
        /// Events after this time.
        opt since_timestamp: Option<Timestamp>,
        /// How many at most.
        opt limit: Option<u64>,
    }

    /// Result of `mgp.audit.replay` (later revisions).
    pub struct AuditReplayResult {
        /// The events.
        req events: Vec<AuditEvent>,
        /// Whether there are more.
        req has_more: bool,
        /// Where to go on.
        opt next_seq: Option<u64>,
    }
}
