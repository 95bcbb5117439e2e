//! The kernel itself: what it is, who talks to it, its configuration (no section of MGP).
//!
//! Applies to: inbound.

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
        /// Its process.
        req pid: u32,
        /// The folder of its state; absent where it keeps nothing.
        opt state: Option<String>,
        /// The local socket it is reached at.
        opt socket: Option<String>,
        /// The address it is served at.
        opt http: Option<String>,
        /// When it was started.
        req started_at: Timestamp,
        /// The files its configuration was read from.
        def config: Vec<String>,
        /// What was wrong in these files when they were last read; what cannot be used is not in force.
        list findings: List<KernelFinding>,
        /// How many servers it has.
        req servers: u64,
        /// How many tools they have.
        req tools: u64,
        /// The agents that are configured.
        def agents: Vec<String>,
        /// Who is connected, and who called lately.
        def clients: Vec<KernelClient>,
    }

    /// Who is connected to a kernel.
    pub struct KernelClient {
        /// The agent it is taken for.
        opt agent: Option<String>,
        /// Whether it is an operator.
        req operator: bool,
        /// Since when.
        opt since: Option<Timestamp>,
        /// How it is connected: `stdio`, `socket`, `http`.
        opt transport: Option<String>,
        /// When it last called, of one that has neither connection nor session.
        opt last_seen: Option<Timestamp>,
    }

    /// Parameters of `mgp/kernel/stop`.
    pub struct KernelStopParams {
        /// How long running calls may take to end.
        opt timeout_ms: Option<u64>,
    }

    /// Result of `mgp/kernel/stop`.
    pub struct KernelStopResult {
        /// Whether it stops.
        req accepted: bool,
    }

    /// Parameters of `mgp/kernel/reload`.
    pub struct KernelReloadParams {
    }

    /// Result of `mgp/kernel/reload`.
    pub struct KernelReloadResult {
        /// What is different now.
        def changed: Vec<KernelChange>,
        /// What is to be said about the files.
        list findings: List<KernelFinding>,
    }

    /// Something a new configuration changed.
    pub struct KernelChange {
        /// `server`, `agent`, `kernel`, `tool_creation`.
        req kind: String,
        /// Its name, where there are several.
        opt id: Option<String>,
        /// `added`, `removed`, `changed`.
        req change: String,
        /// The keys that differ.
        list keys: List<String>,
    }

    /// Something to say about a configuration.
    pub struct KernelFinding {
        /// `error`, `warning`.
        req severity: String,
        /// The file.
        opt file: Option<String>,
        /// The line in it, from 1.
        opt line: Option<u64>,
        /// The server it is about.
        opt server_id: Option<String>,
        /// What is wrong, with the remedy.
        req message: String,
    }

    /// Parameters of `mgp/kernel/sessions`.
    pub struct KernelSessionsParams {
        /// Only those of this agent.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/sessions`.
    pub struct KernelSessionsResult {
        /// The sessions by agent, those of callers among them that were seen lately.
        def sessions: Vec<KernelSession>,
    }

    /// What a caller has in context (§16.7).
    pub struct KernelSession {
        /// The agent.
        opt agent_id: Option<String>,
        /// How it is connected: `stdio`, `socket`, `http`.
        opt transport: Option<String>,
        /// Since when.
        opt since: Option<Timestamp>,
        /// When it last called, of one that has neither connection nor session.
        opt last_seen: Option<Timestamp>,
        /// Tools that are always there.
        def pinned: Vec<String>,
        /// Tools that were used.
        def cached: Vec<String>,
        /// How many tokens they cost.
        req total_tokens: u64,
        /// How many they may cost.
        req max_tokens: u64,
    }
}
