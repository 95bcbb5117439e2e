//! Tools of a kernel: visibility, approvals, cost in tokens (outside the specification of MGP).

use crate::mgp::RiskLevel;
use crate::record::{List, open_enum, record};

open_enum! {
    /// The state of a tool's definition.
    pub enum ToolStanding {
        /// The definition is unchanged since it was first seen, or since an operator approved it.
        Pinned = "pinned",
        /// The definition changed, and waits for an operator.
        Changed = "changed",
        /// The definition was never approved, and an operator must review it first.
        Flagged = "flagged",
        /// The definition cannot be approved.
        Refused = "refused",
        /// The server did not list the tool yet, or no longer lists it.
        Unseen = "unseen",
    }
}

record! {
    /// Parameters of `mgp/kernel/tools`.
    pub struct KernelToolsParams {
        /// If set, only entries of this server.
        opt server_id: Option<String>,
        /// If set, each tool reports whether this agent sees it.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/tools`.
    pub struct KernelToolsResult {
        /// The tools, by server and name.
        def tools: Vec<KernelTool>,
    }

    /// A tool in the view of an operator.
    pub struct KernelTool {
        /// The id: server and tool.
        req tool_id: String,
        /// The name it is called by.
        req name: String,
        /// The server.
        req server_id: String,
        /// A description.
        opt description: Option<String>,
        /// The risk, as the kernel assesses it.
        req risk_level: RiskLevel,
        /// The tokens it costs.
        req tokens: u64,
        /// The state of the definition.
        req standing: ToolStanding,
        /// Findings about a definition that waits or is refused.
        list reasons: List<String>,
        /// The fingerprint of the definition that waits.
        opt fingerprint: Option<String>,
        /// `true` if the requested agent sees the tool.
        opt seen_by_agent: Option<bool>,
        /// The reason.
        opt hidden_because: Option<String>,
    }

    /// Parameters of `mgp/kernel/tools/approve` and `mgp/kernel/tools/reject`.
    pub struct KernelToolDecisionParams {
        /// The server.
        req server_id: String,
        /// The tool, by the name its server gives it.
        req tool: String,
        /// The fingerprint of the reviewed definition; if absent, the definition that waits now.
        opt fingerprint: Option<String>,
        /// The reason.
        opt because: Option<String>,
    }

    /// Result of `mgp/kernel/tools/approve` and `mgp/kernel/tools/reject`.
    pub struct KernelToolDecisionResult {
        /// `approved` or `rejected`.
        req status: String,
        /// The fingerprint of the decided definition.
        req fingerprint: String,
    }

    /// Parameters of `mgp/kernel/tools/tokens`.
    pub struct KernelTokensParams {
        /// The agent; if absent, `default`.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/tools/tokens`.
    pub struct KernelTokensResult {
        /// The cost of the agent's list at the start of a session.
        req listed: u64,
        /// The cost of a list of all tools that the agent may use.
        req all: u64,
        /// The saving, in percent with one decimal.
        req saved_percent: crate::Number,
        /// The cost of the tools, by server.
        def servers: Vec<KernelServerTokens>,
    }

    /// The cost of listing the tools of a server.
    pub struct KernelServerTokens {
        /// The server.
        req server_id: String,
        /// The number of its tools that the agent may use.
        req tools: u64,
        /// The tokens they cost.
        req tokens: u64,
    }
}
