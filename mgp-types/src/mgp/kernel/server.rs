//! The servers of a kernel, and what is done with one (no section of MGP).
//!
//! Applies to: inbound.

use crate::Timestamp;
use crate::mgp::{MgpVersion, ServerState, TrustLevel};
use crate::record::record;

record! {
    /// Parameters of `mgp/kernel/servers`.
    pub struct KernelServersParams {
        /// Only this one.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/kernel/servers`.
    pub struct KernelServersResult {
        /// The servers, by their ids.
        def servers: Vec<KernelServer>,
    }

    /// A server as an operator sees it.
    pub struct KernelServer {
        /// The server.
        req id: String,
        /// Its state.
        req status: ServerState,
        /// Its command line or URL, as configured: what is secret is not filled in.
        req reach: String,
        /// How far it is trusted.
        req trust_level: TrustLevel,
        /// The era it speaks: `legacy`, `modern`.
        opt era: Option<String>,
        /// The revision of MCP it speaks.
        opt protocol_version: Option<String>,
        /// The version of MGP it speaks; absent for plain MCP.
        opt mgp_version: Option<MgpVersion>,
        /// What it calls itself.
        opt name: Option<String>,
        /// The version it claims.
        opt version: Option<String>,
        /// Its process.
        opt pid: Option<u32>,
        /// How often it was started again by itself.
        req restarts: u64,
        /// Since when it is in this state.
        opt since: Option<Timestamp>,
        /// Why it is not there.
        opt error: Option<String>,
        /// Why it has no tools, or lacks some of those it lists.
        opt lacks: Option<String>,
        /// How many tools it has.
        def tools: u64,
        /// How many tokens all of them cost.
        def tokens: u64,
        /// The file it is configured in, or `registered`.
        req source: String,
    }

    /// Parameters of `mgp/kernel/servers/start`, `stop`, `restart` and `drain`.
    pub struct KernelServerParams {
        /// The server.
        req server_id: String,
        /// How long running calls may take to end.
        opt timeout_ms: Option<u64>,
    }

    /// What became of the server.
    pub struct KernelServerResult {
        /// The server.
        req server_id: String,
        /// Its state.
        req status: ServerState,
    }

    /// Parameters of `mgp/kernel/servers/logs`.
    pub struct KernelServerLogsParams {
        /// The server.
        req server_id: String,
        /// How many of the last lines; all that are kept without it.
        opt lines: Option<u64>,
    }

    /// Result of `mgp/kernel/servers/logs`.
    pub struct KernelServerLogsResult {
        /// The server.
        req server_id: String,
        /// What it wrote to its standard error, the oldest first.
        def lines: Vec<KernelLogLine>,
    }

    /// A line that a server wrote to its standard error.
    pub struct KernelLogLine {
        /// When it came.
        req at: Timestamp,
        /// What it says.
        req text: String,
    }
}
