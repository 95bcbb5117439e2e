//! Tools of a kernel: visibility, approvals, cost in tokens (outside the specification of MGP).

use crate::Timestamp;
use crate::mgp::RiskLevel;
use crate::record::{List, open_enum, record};

open_enum! {
    /// The state of a tool's definition.
    pub enum ToolStanding {
        /// The definition is unchanged since it was first seen or last approved.
        Pinned = "pinned",
        /// The definition changed and waits for an operator's decision.
        Changed = "changed",
        /// The definition is new and needs a review by an operator before its first use.
        Flagged = "flagged",
        /// An operator rejected the definition, and can still approve it.
        Rejected = "rejected",
        /// The definition cannot be approved.
        Refused = "refused",
        /// The server has not listed the tool yet, or no longer lists it.
        Unseen = "unseen",
    }
}

record! {
    /// Parameters of `mgp/kernel/tools`.
    pub struct KernelToolsParams {
        /// If set, only the tools of this server are returned.
        opt server_id: Option<String>,
        /// If set, each tool reports whether this agent sees it.
        opt agent_id: Option<String>,
        /// If set, only the tool with this id (server id and tool name) is returned, with its whole definition.
        opt tool_id: Option<String>,
    }

    /// Result of `mgp/kernel/tools`.
    pub struct KernelToolsResult {
        /// The tools, ordered by server and name.
        def tools: Vec<KernelTool>,
    }

    /// A tool, with details for operators.
    pub struct KernelTool {
        /// The id of the tool: server id and tool name.
        req tool_id: String,
        /// The name by which callers call the tool.
        req name: String,
        /// The id of the server.
        req server_id: String,
        /// A description of the tool.
        opt description: Option<String>,
        /// The risk of the tool, as the kernel assesses it.
        req risk_level: RiskLevel,
        /// The lower risk that the kernel proposes to the operator. Present only if the tool counts as dangerous
        /// because its server declares no effects, while its name and arguments suggest that it only reads.
        opt proposed_risk: Option<RiskLevel>,
        /// The number of tokens that the definition costs at most.
        req tokens: u64,
        /// The state of the definition.
        req standing: ToolStanding,
        /// The reasons for a review: first the findings about the definition, the worst first, then the differences
        /// between a waiting definition and the approved one. If there are many reasons, only the first reasons and the
        /// number of further reasons.
        list reasons: List<String>,
        /// The definition as JSON. If a changed definition waits for a decision, this is the changed definition.
        /// Present only if the request named the id of this tool. The server wrote this text: show it to a person, not
        /// to a model.
        opt definition: Option<String>,
        /// The fingerprint of the definition that waits or was rejected.
        opt fingerprint: Option<String>,
        /// `true` if the agent named in the request sees the tool.
        opt seen_by_agent: Option<bool>,
        /// The reason why the agent named in the request does not see the tool, or cannot use it.
        opt hidden_because: Option<String>,
    }

    /// Parameters of `mgp/kernel/tools/approve` and `mgp/kernel/tools/reject`.
    pub struct KernelToolDecisionParams {
        /// The id of the server.
        req server_id: String,
        /// The name that the server gives the tool.
        req tool: String,
        /// The fingerprint of the reviewed definition. An approval must contain it; a rejection without it is about the
        /// definition that waits now.
        opt fingerprint: Option<String>,
        /// The reason for the decision.
        opt because: Option<String>,
        /// The `standing` that the operator saw. If it was not `rejected`, but an operator has rejected the definition
        /// since, the kernel refuses an approval.
        opt expected: Option<ToolStanding>,
    }

    /// Result of `mgp/kernel/tools/approve` and `mgp/kernel/tools/reject`.
    pub struct KernelToolDecisionResult {
        /// `approved` or `rejected`.
        req status: String,
        /// The fingerprint of the definition that was approved or rejected.
        req fingerprint: String,
    }

    /// Parameters of `mgp/kernel/tools/tokens`.
    pub struct KernelTokensParams {
        /// The id of the agent; if absent, `default`.
        opt agent_id: Option<String>,
    }

    /// Result of `mgp/kernel/tools/tokens`.
    pub struct KernelTokensResult {
        /// The number of tokens that the agent's list of tools costs at the start of a session.
        req listed: u64,
        /// The number of tokens that the list would cost if it contained all tools that the agent is allowed to use.
        req all: u64,
        /// The tokens saved by the shorter list, in percent with one decimal; negative if that list costs more.
        req saved_percent: crate::Number,
        /// The cost of the tools of each server.
        def servers: Vec<KernelServerTokens>,
        /// The tokens saved on each of the last days, the oldest first.
        list days: List<KernelSavedDay>,
        /// The agent's searches that found nothing, or after which no found tool was called, newest first. The kernel
        /// stores them only while `kernel.search.learning` is on.
        list unmet: List<KernelUnmetSearch>,
    }

    /// The tokens that an agent's shorter lists of tools saved on a day.
    pub struct KernelSavedDay {
        /// The day (UTC), e.g. `2026-01-31`.
        req day: String,
        /// The number of saved tokens.
        req saved: u64,
        /// The number of lists that the agent received.
        req lists: u64,
    }

    /// A search that did not lead to a call.
    pub struct KernelUnmetSearch {
        /// The text of the search.
        req query: String,
        /// The number of times that the search found nothing.
        req found_nothing: u64,
        /// The number of times that the search found tools, but none of them was called.
        req not_called: u64,
        /// The time of the last such search.
        req last: Timestamp,
    }

    /// The cost of listing the tools of a server.
    pub struct KernelServerTokens {
        /// The id of the server.
        req server_id: String,
        /// The number of the server's tools that the agent is allowed to use.
        req tools: u64,
        /// The cost in tokens of the tools that the agent is allowed to use.
        req tokens: u64,
    }
}
