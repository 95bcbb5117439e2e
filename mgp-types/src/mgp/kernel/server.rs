//! Servers of a kernel, and operations on them (outside the specification of MGP).

use crate::Timestamp;
use crate::mgp::{MgpVersion, ServerState, TrustLevel};
use crate::record::record;

record! {
    /// Parameters of `mgp/kernel/servers`.
    pub struct KernelServersParams {
        /// If set, only this server is returned.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/kernel/servers`.
    pub struct KernelServersResult {
        /// The servers, ordered by id.
        def servers: Vec<KernelServer>,
    }

    /// A server, with details for operators.
    pub struct KernelServer {
        /// The id of the server.
        req id: String,
        /// The state of the server; `disabled` if it is switched off, or the state of its registration until an
        /// operator approves it.
        req status: ServerState,
        /// The command line or URL as configured, without secrets; a phrase such as `within this process` if there is
        /// neither.
        req reach: String,
        /// The trust level of the server.
        req trust_level: TrustLevel,
        /// The rights of the server's process in words; absent if the process is not confined.
        opt confinement: Option<String>,
        /// The hosts outside of the public internet that calls of the server may reach, joined by commas; absent if no
        /// such host is configured.
        opt local_hosts: Option<String>,
        /// The eras of the connected sessions: `legacy`, `modern`, or several joined by `+`.
        opt era: Option<String>,
        /// The revision of MCP that the server speaks.
        opt protocol_version: Option<String>,
        /// The version of MGP that the server speaks; absent for plain MCP.
        opt mgp_version: Option<MgpVersion>,
        /// The name that the server claims.
        opt name: Option<String>,
        /// The version that the server claims.
        opt version: Option<String>,
        /// The process id of the server.
        opt pid: Option<u32>,
        /// The number of connected instances that serve one agent each; absent if all agents share one instance.
        opt instances: Option<u64>,
        /// The number of automatic restarts.
        req restarts: u64,
        /// The time at which the server entered this state.
        opt since: Option<Timestamp>,
        /// The reason why the server is not running.
        opt error: Option<String>,
        /// The reason for the last failure of the server, if the server has recovered since.
        opt last_failure: Option<String>,
        /// The reason why the server offers no tools or not all tools that it lists, why the kernel does not use its
        /// manifest, or why its resources or prompts could not be listed.
        opt lacks: Option<String>,
        /// The number of the server's tools.
        def tools: u64,
        /// The number of tokens that all tools of the server cost at most.
        def tokens: u64,
        /// The origin of the server, e.g. a configuration file, `registered` or `within this process`.
        req source: String,
    }

    /// Parameters of `mgp/kernel/servers/start`, `stop`, `restart` and `drain`.
    pub struct KernelServerParams {
        /// The id of the server.
        req server_id: String,
        /// The time for which the kernel waits for running calls, in milliseconds.
        opt timeout_ms: Option<u64>,
    }

    /// Result of `mgp/kernel/servers/start`, `stop`, `restart` and `drain`.
    pub struct KernelServerResult {
        /// The id of the server.
        req server_id: String,
        /// The state of the server after the operation.
        req status: ServerState,
    }

    /// Parameters of `mgp/kernel/servers/logs`.
    pub struct KernelServerLogsParams {
        /// The id of the server.
        req server_id: String,
        /// The number of lines to return, counted from the end; absent means all stored lines.
        opt lines: Option<u64>,
    }

    /// Result of `mgp/kernel/servers/logs`.
    pub struct KernelServerLogsResult {
        /// The id of the server.
        req server_id: String,
        /// The lines that the server wrote to its standard error, oldest first.
        def lines: Vec<KernelLogLine>,
    }

    /// A line that a server wrote to its standard error.
    pub struct KernelLogLine {
        /// The time of the line.
        req at: Timestamp,
        /// The text of the line.
        req text: String,
    }
}
