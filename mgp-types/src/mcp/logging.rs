//! Log messages of a server (MCP logging).
//!
//! Applies to: both.

use super::Meta;
use crate::Payload;
use crate::record::{record, string_enum};

string_enum! {
    /// How grave a message is, least first (RFC 5424).
    pub enum LogLevel {
        /// Debugging.
        Debug = "debug",
        /// Information.
        Info = "info",
        /// Normal but significant.
        Notice = "notice",
        /// A warning.
        Warning = "warning",
        /// An error.
        Error = "error",
        /// A critical condition.
        Critical = "critical",
        /// Act at once.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

record! {
    /// Parameters of `logging/setLevel`.
    pub struct SetLevelParams {
        /// The least grave level to send.
        req level: LogLevel,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/message`.
    pub struct LogMessageParams {
        /// How grave it is.
        req level: LogLevel,
        /// Who logs.
        opt logger: Option<String>,
        /// What is logged.
        req data: Payload,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}
