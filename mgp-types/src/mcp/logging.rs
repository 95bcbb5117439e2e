//! Log messages of a server (MCP logging).

use super::Meta;
use crate::Payload;
use crate::record::{record, string_enum};

string_enum! {
    /// The severity of a log message, lowest first (RFC 5424).
    pub enum LogLevel {
        /// Details for debugging.
        Debug = "debug",
        /// Information about normal operation.
        Info = "info",
        /// A normal but significant event.
        Notice = "notice",
        /// A warning.
        Warning = "warning",
        /// An error.
        Error = "error",
        /// A critical condition.
        Critical = "critical",
        /// Immediate action is required.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

record! {
    /// Parameters of `logging/setLevel`.
    pub struct SetLevelParams {
        /// The lowest severity of the log messages that the server should send.
        req level: LogLevel,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/message`.
    pub struct LogMessageParams {
        /// The severity of the message.
        req level: LogLevel,
        /// The name of the logger.
        opt logger: Option<String>,
        /// The logged data.
        req data: Payload,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
