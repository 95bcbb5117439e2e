//! The tools of a kernel: who sees them, what waits, what they cost (no section of MGP).
//!
//! Applies to: inbound.

use crate::mgp::RiskLevel;
use crate::record::{List, open_enum, record};

open_enum! {
    /// Where the definition of a tool stands.
    pub enum ToolStanding {
        /// It is as it was when it was first seen, or as an operator approved it.
        Pinned = "pinned",
        /// It is not as it was, and waits for an operator.
        Changed = "changed",
        /// It was never approved, and an operator must look at it first.
        Flagged = "flagged",
        /// Nobody can approve it.
        Refused = "refused",
        /// Its server did not list it yet, or no longer does.
        Unseen = "unseen",
    }
}

record! {
    /// Parameters of `mgp/kernel/tools`.
    pub struct KernelToolsParams {
        /// Only those of this server.
        opt server_id: Option<String>,
        /// Whether this agent sees them is told too.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/tools`.
    pub struct KernelToolsResult {
        /// The tools, by server and name.
        def tools: Vec<KernelTool>,
    }

    /// A tool as an operator sees it.
    pub struct KernelTool {
        /// Its id: server and tool.
        req tool_id: String,
        /// The name it is called by.
        req name: String,
        /// Its server.
        req server_id: String,
        /// What it does.
        opt description: Option<String>,
        /// The risk the kernel sees in it.
        req risk_level: RiskLevel,
        /// How many tokens it costs.
        req tokens: u64,
        /// Where its definition stands.
        req standing: ToolStanding,
        /// What was found about a definition that waits or is refused.
        list reasons: List<String>,
        /// The fingerprint of the definition that waits.
        opt fingerprint: Option<String>,
        /// Whether the agent that was asked about sees it.
        opt seen_by_agent: Option<bool>,
        /// Why not.
        opt hidden_because: Option<String>,
    }

    /// Parameters of `mgp/kernel/tools/approve` and `mgp/kernel/tools/reject`.
    pub struct KernelToolDecisionParams {
        /// The server.
        req server_id: String,
        /// The tool, by the name its server gives it.
        req tool: String,
        /// The fingerprint of what was looked at; without it, whatever waits now.
        opt fingerprint: Option<String>,
        /// Why.
        opt because: Option<String>,
    }

    /// Result of `mgp/kernel/tools/approve` and `mgp/kernel/tools/reject`.
    pub struct KernelToolDecisionResult {
        /// `approved` or `rejected`.
        req status: String,
        /// The fingerprint of what was decided.
        req fingerprint: String,
    }

    /// Parameters of `mgp/kernel/tools/tokens`.
    pub struct KernelTokensParams {
        /// Whose list; `default` without it.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/tools/tokens`.
    pub struct KernelTokensResult {
        /// What the list of the agent costs at the beginning of a session.
        req listed: u64,
        /// What a list of all tools that the agent may use would cost.
        req all: u64,
        /// How much less that is, in percent with one decimal.
        req saved_percent: crate::Number,
        /// What the tools of each server would cost.
        def servers: Vec<KernelServerTokens>,
    }

    /// What the tools of a server would cost in a list.
    pub struct KernelServerTokens {
        /// The server.
        req server_id: String,
        /// How many tools of it the agent may use.
        req tools: u64,
        /// How many tokens they cost.
        req tokens: u64,
    }
}
