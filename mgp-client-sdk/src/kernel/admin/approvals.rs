//! What waits for an operator (MGP §3.4, §4.4).
//!
//! Applies to: inbound.

use mgp_security::{ApprovalRequest, Inbox};
use mgp_types::RpcError;
use mgp_types::method::{KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny};
use mgp_types::mgp::{KernelApproval, KernelApprovalDecisionResult, KernelApprovalsResult};

use super::Desk;
use crate::kernel::handle::Kernel;

pub(super) fn on(desk: Desk) -> Desk {
    desk.reads::<KernelApprovals, _, _>(async |kernel, cx, _| {
        let waiting = kernel.inbox()?.list(&cx.principal).await?;
        let mut result = KernelApprovalsResult::new();
        result.approvals = waiting.iter().map(told).collect();
        Ok(result)
    })
    .changes::<KernelApprovalsApprove, _, _>(async |kernel, cx, params| {
        let inbox = kernel.inbox()?;
        let decided = inbox.approve(&cx.principal, &params.id, params.because.as_deref()).await?;
        Ok(KernelApprovalDecisionResult::new(told(&decided)))
    })
    .changes::<KernelApprovalsDeny, _, _>(async |kernel, cx, params| {
        let inbox = kernel.inbox()?;
        let decided = inbox.deny(&cx.principal, &params.id, params.because.as_deref()).await?;
        Ok(KernelApprovalDecisionResult::new(told(&decided)))
    })
}

impl Kernel {
    fn inbox(&self) -> Result<&Inbox, RpcError> {
        let inbox = self.governance().inbox();
        inbox.ok_or_else(|| RpcError::internal("this kernel has no inbox of approvals"))
    }
}

fn told(request: &ApprovalRequest) -> KernelApproval {
    let mut told = KernelApproval::new(
        request.id.as_str(),
        request.state.as_str(),
        request.question.as_str(),
        request.subject.as_str(),
        request.asked_at.clone(),
        request.expires_at.clone(),
    );
    told.agent_id.clone_from(&request.agent_id);
    told.server_id.clone_from(&request.server_id);
    told.tool.clone_from(&request.tool);
    told.permissions = request.permissions.clone().into();
    told.risk_level.clone_from(&request.risk_level);
    told.decided_by.clone_from(&request.decided_by);
    told.justification.clone_from(&request.justification);
    told
}
