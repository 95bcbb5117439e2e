//! Approvals: questions that wait for an operator's decision, and the decisions (MGP §3.4, §4.4;
//! methods of this kernel only).

use crate::Timestamp;
use crate::mgp::{Permission, RegistrationStatus, RiskLevel};
use crate::record::{List, record};

record! {
    /// Parameters of `mgp/kernel/approvals`.
    pub struct KernelApprovalsParams {
        /// If set, only this approval is returned, with the complete arguments of its call, or the script of its
        /// registration.
        opt id: Option<String>,
        /// If not empty, only these approvals are returned, without complete arguments.
        list ids: List<String>,
        /// The maximum number of decided approvals to return. Older approvals are left out; by default, all are
        /// returned.
        opt max_decided: Option<u64>,
    }

    /// Result of `mgp/kernel/approvals`.
    pub struct KernelApprovalsResult {
        /// Open approvals and recent decisions, oldest first.
        def approvals: Vec<KernelApproval>,
    }

    /// A question that an operator must decide.
    pub struct KernelApproval {
        /// The id of the approval, which the decision must name.
        req id: String,
        /// The kind of the question: `call`, `permissions` or `registration`.
        req kind: String,
        /// `later` (asked once the server is ready), `open`, `approved` (not used yet), `denied`, `used`, or `settled`
        /// (closed by something other than an answer to this approval).
        req state: String,
        /// The question; the middle of long arguments is left out.
        req question: String,
        /// Present only if the request named the id of this approval. For a call: its complete arguments, as canonical
        /// JSON. For a registration with a script: an object whose member `script` is the script.
        opt arguments: Option<String>,
        /// A description of the calls that an approval with the term `like` would cover.
        opt like: Option<String>,
        /// The principal whose request waits.
        req subject: String,
        /// The id of the agent, if the principal acts through one.
        opt agent_id: Option<String>,
        /// The id of the server that the question is about.
        opt server_id: Option<String>,
        /// The name of the tool that the question is about.
        opt tool: Option<String>,
        /// The permissions in question: those that were requested, those that the server lacks for the call, or those
        /// that the server to be registered declares.
        list permissions: List<Permission>,
        /// The risk of the call.
        opt risk_level: Option<RiskLevel>,
        /// The trace id of the call that waits, or that asked for permissions.
        opt trace_id: Option<String>,
        /// The time of the request.
        req asked_at: Timestamp,
        /// The expiry time; absent if the approval never expires.
        opt expires_at: Option<Timestamp>,
        /// The operator who decided; absent while the approval is not decided.
        opt decided_by: Option<String>,
        /// The place where the operator answered: `page`, `terminal` or `host`.
        opt via: Option<String>,
        /// The reason for the decision.
        opt justification: Option<String>,
    }

    /// Parameters of `mgp/kernel/approvals/approve` and `deny`.
    pub struct KernelApprovalDecisionParams {
        /// The id of the approval.
        req id: String,
        /// The reason for the decision.
        opt because: Option<String>,
        /// The place where the operator answers: `page` or `terminal`; it is recorded, but does not affect the
        /// decision.
        opt via: Option<String>,
        /// Only for a registration: the permissions to approve although the server is sandboxed.
        list permissions: List<Permission>,
        /// The later calls that the approval also covers: `once` (the default) for no later calls, `tool` for all calls
        /// of the tool, `like` for calls of the tool with similar arguments.
        opt term: Option<String>,
        /// The time at which the approval ends: required with the term `tool`, optional with `like`, refused with
        /// `once`.
        opt until: Option<Timestamp>,
        /// The `state` of the approval that the operator saw, e.g. `open`. If the state has changed since, the kernel
        /// refuses the decision, so that it does not overturn the decision of another operator.
        opt expected: Option<String>,
    }

    /// Result of `mgp/kernel/approvals/approve` and `deny`.
    pub struct KernelApprovalDecisionResult {
        /// The approval, with the state that it has after this decision.
        req approval: KernelApproval,
        /// The state of a server whose registration was approved.
        opt status: Option<RegistrationStatus>,
        /// A message for display.
        opt message: Option<String>,
    }
}
