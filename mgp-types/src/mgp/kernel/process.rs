//! The kernel process: state, clients, configuration (outside the specification of MGP).

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::record::{List, record};

record! {
    /// Parameters of `mgp/kernel/info`.
    pub struct KernelInfoParams {
    }

    /// Result of `mgp/kernel/info`.
    pub struct KernelInfoResult {
        /// The version of the kernel's program.
        req version: String,
        /// The process id of the kernel.
        req pid: u32,
        /// The folder that holds the state; absent if the kernel stores nothing.
        opt state: Option<String>,
        /// The path of the local socket at which clients reach the kernel.
        opt socket: Option<String>,
        /// The address at which the kernel serves HTTP.
        opt http: Option<String>,
        /// The time at which the kernel started.
        req started_at: Timestamp,
        /// The paths of the configuration files.
        def config: Vec<String>,
        /// The faults found when the configuration files were last read; faulty parts have no effect. Also contains
        /// settings that apply only after a restart, targets of the audit log (`kernel.audit.sinks`) that did not
        /// accept their last event, and the failure or removal of the audit log or of the stored state.
        list findings: List<KernelFinding>,
        /// The number of the kernel's servers.
        req servers: u64,
        /// The number of tools of all servers.
        req tools: u64,
        /// The ids of the configured agents.
        def agents: Vec<String>,
        /// Connected clients, and clients without a connection that called recently.
        def clients: Vec<KernelClient>,
        /// The environment variables that the configuration of servers names, each with `true` if it is set in the
        /// environment of the kernel.
        def variables: BTreeMap<String, bool>,
    }

    /// A client of a kernel.
    pub struct KernelClient {
        /// The agent as which the client is authenticated; absent for a client without an agent.
        opt agent: Option<String>,
        /// The user on whose behalf the client calls; absent for the user of the kernel.
        opt subject: Option<String>,
        /// The tenant of the client; absent for the tenant `local`.
        opt tenant: Option<String>,
        /// `true` if the client is an operator, of the whole kernel or only of its `tenant`.
        req operator: bool,
        /// The time at which the client connected.
        opt since: Option<Timestamp>,
        /// The transport of the client: `stdio`, `socket` or `http`.
        opt transport: Option<String>,
        /// The time of the last call, for a client without connection and session.
        opt last_seen: Option<Timestamp>,
    }

    /// Parameters of `mgp/kernel/stop`.
    pub struct KernelStopParams {
        /// The time for which the kernel waits for running calls, in milliseconds.
        opt timeout_ms: Option<u64>,
    }

    /// Result of `mgp/kernel/stop`.
    pub struct KernelStopResult {
        /// `true` if the kernel stops.
        req accepted: bool,
    }

    /// Parameters of `mgp/kernel/reload`.
    pub struct KernelReloadParams {
        /// The ids of servers that were removed from the configuration, and whose access entries, permissions and tool
        /// definitions the kernel must delete. Ids of servers that still exist are skipped.
        list forget: List<String>,
        /// The tenants that were removed, and whose searches, idempotency keys, transactions, subscriptions, tasks,
        /// long results, data references, HTTP sessions and instances of servers the kernel must erase or end. If only
        /// tenants are named, the kernel does not read its configuration.
        list forget_tenants: List<String>,
    }

    /// Result of `mgp/kernel/reload`.
    pub struct KernelReloadResult {
        /// The changes that took effect.
        def changed: Vec<KernelChange>,
        /// The faults found in the configuration files.
        list findings: List<KernelFinding>,
        /// The ids of the servers whose data was deleted.
        list forgotten: List<String>,
    }

    /// A change made by a new configuration.
    pub struct KernelChange {
        /// The kind of the changed part: `server`, `agent`, `limits`, `kernel` or `tool_creation`.
        req kind: String,
        /// The name of the part, if the kernel can have several parts of this kind.
        opt id: Option<String>,
        /// The change: `added`, `removed` or `changed`.
        req change: String,
        /// The configuration keys that differ.
        list keys: List<String>,
    }

    /// A finding about a configuration.
    pub struct KernelFinding {
        /// The severity: `error` or `warning`.
        req severity: String,
        /// The configuration file that the finding is about.
        opt file: Option<String>,
        /// The line in the file, from 1.
        opt line: Option<u64>,
        /// The id of the server that the finding is about.
        opt server_id: Option<String>,
        /// The fault, and how to correct it.
        req message: String,
    }

    /// Parameters of `mgp/kernel/sessions`.
    pub struct KernelSessionsParams {
        /// If set, only the sessions of this agent are returned.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/sessions`.
    pub struct KernelSessionsResult {
        /// The sessions, ordered by agent, including sessions of recent callers without a connection.
        def sessions: Vec<KernelSession>,
    }

    /// The session of a caller, with the tools in its context (§16.7).
    pub struct KernelSession {
        /// The id of the agent.
        opt agent_id: Option<String>,
        /// The tenant of the caller; absent for the tenant `local`.
        opt tenant: Option<String>,
        /// The transport of the client: `stdio`, `socket` or `http`.
        opt transport: Option<String>,
        /// The time at which the client connected.
        opt since: Option<Timestamp>,
        /// The time of the last call, for a client without connection and session.
        opt last_seen: Option<Timestamp>,
        /// The names of the pinned tools.
        def pinned: Vec<String>,
        /// The names of the cached tools.
        def cached: Vec<String>,
        /// The cost in tokens of the pinned tools, the cached tools and the kernel's own tools.
        req total_tokens: u64,
        /// The maximum number of tokens for tools, search results included.
        req max_tokens: u64,
    }
}
