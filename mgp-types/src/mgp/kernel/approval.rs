//! What waits for an operator, and the answer (MGP §3.4, §4.4; the methods are this kernel's own).
//!
//! Applies to: inbound.

use crate::Timestamp;
use crate::mgp::{Permission, RegistrationStatus, RiskLevel};
use crate::record::{List, record};

record! {
    /// Parameters of `mgp/kernel/approvals`.
    pub struct KernelApprovalsParams {}

    /// Result of `mgp/kernel/approvals`.
    pub struct KernelApprovalsResult {
        /// What waits, and what was answered a short while ago; the oldest first.
        def approvals: Vec<KernelApproval>,
    }

    /// Something that waits for an operator.
    pub struct KernelApproval {
        /// What it is answered by.
        req id: String,
        /// What it is about: `call`, `permissions` or `registration`.
        req kind: String,
        /// `open`, `approved`, `denied`, `used`.
        req state: String,
        /// The whole question.
        req question: String,
        /// Whoever waits.
        req subject: String,
        /// Its agent, where it is one.
        opt agent_id: Option<String>,
        /// The server it is about.
        opt server_id: Option<String>,
        /// The tool it is about.
        opt tool: Option<String>,
        /// The permissions that are asked for, or that a server says it needs; none where it is about one call.
        list permissions: List<Permission>,
        /// How dangerous the call is.
        opt risk_level: Option<RiskLevel>,
        /// When it was asked.
        req asked_at: Timestamp,
        /// When it is of no use any more; none where it waits as long as it takes.
        opt expires_at: Option<Timestamp>,
        /// Who answered.
        opt decided_by: Option<String>,
        /// Why.
        opt justification: Option<String>,
    }

    /// Parameters of `mgp/kernel/approvals/approve` and `deny`.
    pub struct KernelApprovalDecisionParams {
        /// What is answered.
        req id: String,
        /// Why.
        opt because: Option<String>,
        /// Of what a sandboxed server would be denied, what it gets with this approval.
        list permissions: List<Permission>,
    }

    /// Result of `mgp/kernel/approvals/approve` and `deny`.
    pub struct KernelApprovalDecisionResult {
        /// What stands now.
        req approval: KernelApproval,
        /// What became of a server whose registration was approved.
        opt status: Option<RegistrationStatus>,
        /// The same in words.
        opt message: Option<String>,
    }
}
