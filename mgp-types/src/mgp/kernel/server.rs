//! Servers of a kernel, and operations on them (outside the specification of MGP).

use crate::Timestamp;
use crate::mgp::{MgpVersion, ServerState, TrustLevel};
use crate::record::record;

record! {
    /// Parameters of `mgp/kernel/servers`.
    pub struct KernelServersParams {
        /// If set, only this server.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/kernel/servers`.
    pub struct KernelServersResult {
        /// The servers, by their ids.
        def servers: Vec<KernelServer>,
    }

    /// A server in the view of an operator.
    pub struct KernelServer {
        /// The server.
        req id: String,
        /// The state.
        req status: ServerState,
        /// The command line or URL, as configured; secrets are not filled in.
        req reach: String,
        /// The trust level.
        req trust_level: TrustLevel,
        /// The era of the connection: `legacy`, `modern`.
        opt era: Option<String>,
        /// The revision of MCP it speaks.
        opt protocol_version: Option<String>,
        /// The version of MGP it speaks; absent for plain MCP.
        opt mgp_version: Option<MgpVersion>,
        /// The name that the server claims.
        opt name: Option<String>,
        /// The version it claims.
        opt version: Option<String>,
        /// The process id.
        opt pid: Option<u32>,
        /// The number of automatic restarts.
        req restarts: u64,
        /// The time since it is in this state.
        opt since: Option<Timestamp>,
        /// The reason why it is not running.
        opt error: Option<String>,
        /// The reason why it has no tools, or not all that it lists.
        opt lacks: Option<String>,
        /// The number of tools.
        def tools: u64,
        /// The tokens that all its tools cost.
        def tokens: u64,
        /// The configuration file, or `registered`.
        req source: String,
    }

    /// Parameters of `mgp/kernel/servers/start`, `stop`, `restart` and `drain`.
    pub struct KernelServerParams {
        /// The server.
        req server_id: String,
        /// The time for running calls to end, in milliseconds.
        opt timeout_ms: Option<u64>,
    }

    /// The state of the server after the operation.
    pub struct KernelServerResult {
        /// The server.
        req server_id: String,
        /// The state.
        req status: ServerState,
    }

    /// Parameters of `mgp/kernel/servers/logs`.
    pub struct KernelServerLogsParams {
        /// The server.
        req server_id: String,
        /// The number of last lines; if absent, all that are stored.
        opt lines: Option<u64>,
    }

    /// Result of `mgp/kernel/servers/logs`.
    pub struct KernelServerLogsResult {
        /// The server.
        req server_id: String,
        /// Lines of its standard error, oldest first.
        def lines: Vec<KernelLogLine>,
    }

    /// A line that a server wrote to its standard error.
    pub struct KernelLogLine {
        /// The time of the line.
        req at: Timestamp,
        /// The text.
        req text: String,
    }
}
