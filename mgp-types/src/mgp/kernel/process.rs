//! The kernel process: state, clients, configuration (outside the specification of MGP).

use crate::Timestamp;
use crate::record::{List, record};

record! {
    /// Parameters of `mgp/kernel/info`.
    pub struct KernelInfoParams {
    }

    /// Result of `mgp/kernel/info`.
    pub struct KernelInfoResult {
        /// The version of the program.
        req version: String,
        /// The process id.
        req pid: u32,
        /// The state folder; absent if the kernel stores nothing.
        opt state: Option<String>,
        /// The local socket it is reached at.
        opt socket: Option<String>,
        /// The HTTP address.
        opt http: Option<String>,
        /// The start time.
        req started_at: Timestamp,
        /// The configuration files.
        def config: Vec<String>,
        /// Faults found in these files at the last read; faulty parts are not in force.
        list findings: List<KernelFinding>,
        /// The number of servers.
        req servers: u64,
        /// The number of tools.
        req tools: u64,
        /// The agents that are configured.
        def agents: Vec<String>,
        /// Connected clients and recent callers.
        def clients: Vec<KernelClient>,
    }

    /// A client of a kernel.
    pub struct KernelClient {
        /// The agent that the client is authenticated as.
        opt agent: Option<String>,
        /// `true` if it is an operator.
        req operator: bool,
        /// The time of connection.
        opt since: Option<Timestamp>,
        /// The transport: `stdio`, `socket`, `http`.
        opt transport: Option<String>,
        /// The time of the last call, for a client without connection and session.
        opt last_seen: Option<Timestamp>,
    }

    /// Parameters of `mgp/kernel/stop`.
    pub struct KernelStopParams {
        /// The time for running calls to end, in milliseconds.
        opt timeout_ms: Option<u64>,
    }

    /// Result of `mgp/kernel/stop`.
    pub struct KernelStopResult {
        /// `true` if the kernel stops.
        req accepted: bool,
    }

    /// Parameters of `mgp/kernel/reload`.
    pub struct KernelReloadParams {
        /// Ids whose access entries, permissions and definitions are deleted, unless a server has that id.
        list forget: List<String>,
    }

    /// Result of `mgp/kernel/reload`.
    pub struct KernelReloadResult {
        /// The changes.
        def changed: Vec<KernelChange>,
        /// Findings about the files.
        list findings: List<KernelFinding>,
        /// The ids that were forgotten.
        list forgotten: List<String>,
    }

    /// A change made by a new configuration.
    pub struct KernelChange {
        /// `server`, `agent`, `kernel`, `tool_creation`.
        req kind: String,
        /// The name, if there can be several.
        opt id: Option<String>,
        /// `added`, `removed`, `changed`.
        req change: String,
        /// The keys that differ.
        list keys: List<String>,
    }

    /// A finding about a configuration.
    pub struct KernelFinding {
        /// `error`, `warning`.
        req severity: String,
        /// The file.
        opt file: Option<String>,
        /// The line in it, from 1.
        opt line: Option<u64>,
        /// The server it is about.
        opt server_id: Option<String>,
        /// The fault and the remedy.
        req message: String,
    }

    /// Parameters of `mgp/kernel/sessions`.
    pub struct KernelSessionsParams {
        /// If set, only sessions of this agent.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/sessions`.
    pub struct KernelSessionsResult {
        /// The sessions by agent, including those of recent callers.
        def sessions: Vec<KernelSession>,
    }

    /// The tools in the context of a caller (§16.7).
    pub struct KernelSession {
        /// The agent.
        opt agent_id: Option<String>,
        /// The transport: `stdio`, `socket`, `http`.
        opt transport: Option<String>,
        /// The time of connection.
        opt since: Option<Timestamp>,
        /// The time of the last call, for a client without connection and session.
        opt last_seen: Option<Timestamp>,
        /// The pinned tools.
        def pinned: Vec<String>,
        /// The cached tools.
        def cached: Vec<String>,
        /// The tokens they cost.
        req total_tokens: u64,
        /// The maximum number of tokens.
        req max_tokens: u64,
    }
}
