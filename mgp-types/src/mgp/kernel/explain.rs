//! The explanation of a decision: what a kernel would decide about a call now (outside the specification of MGP).

use crate::mgp::RiskLevel;
use crate::record::{List, RawObject, open_enum, record};

open_enum! {
    /// The outcome of the decision about a call.
    pub enum ExplainedOutcome {
        /// The call would run immediately.
        Allow = "allow",
        /// The call would be refused.
        Refuse = "refuse",
        /// The call would wait for an answer or an action first.
        Ask = "ask",
    }
}

open_enum! {
    /// The result of one rule.
    pub enum ExplainedResult {
        /// The rule lets the call pass.
        Passed = "passed",
        /// The rule refuses the call.
        Refused = "refused",
        /// The rule lets the call pass only after an answer or an action, e.g. of an operator.
        Asks = "asks",
    }
}

record! {
    /// Parameters of `mgp/kernel/explain`.
    pub struct KernelExplainParams {
        /// The id of the agent that would call.
        req agent_id: String,
        /// The name by which the agent would call the tool.
        req tool_name: String,
        /// The arguments of the call; if absent, the rules about arguments are not checked.
        opt arguments: Option<RawObject>,
        /// The permissions of the API key with which the agent would call, e.g. `tools.call:read`; empty if nothing
        /// limits its credentials.
        list key_permissions: List<String>,
    }

    /// Result of `mgp/kernel/explain`.
    pub struct KernelExplainResult {
        /// The outcome of the decision.
        req outcome: ExplainedOutcome,
        /// The id of the tool's server.
        req server_id: String,
        /// The name that the server gives the tool.
        req tool_name: String,
        /// The risk of the call, as the kernel assesses it.
        opt risk_level: Option<RiskLevel>,
        /// The reason for this risk.
        opt risk_reason: Option<String>,
        /// The reason for the outcome.
        opt reason: Option<String>,
        /// The error code, if the call would be refused.
        opt code: Option<i32>,
        /// The rules that were considered, in the order of evaluation.
        def steps: Vec<ExplainedStep>,
    }

    /// A rule that was considered, and its result.
    pub struct ExplainedStep {
        /// The group of the rule: `access`, `definition`, `schema`, `scopes`, `permissions`, `validators`,
        /// `confirmation`, `limits` or `audit`.
        req stage: String,
        /// The result of the rule.
        req result: ExplainedResult,
        /// A description of the rule, which names e.g. the access entry, the permission or the validator.
        req rule: String,
    }
}
