//! What waits for an operator (MGP §3.4, §4.4, §15.4).
//!
//! A call, or permissions for it, waits in the inbox; a registration among the registrations, named by its fingerprint.
//!
//! Applies to: inbound.

use mgp_discovery::Waiting;
use mgp_security::{ApprovalRequest, Event, Inbox, PermissionChange, Refusal};
use mgp_types::method::{
    KernelApprovals, KernelApprovalsApprove, KernelApprovalsDeny, Request as _,
};
use mgp_types::mgp::{
    KernelApproval, KernelApprovalDecisionParams as Params,
    KernelApprovalDecisionResult as Decided, KernelApprovalsResult, Permission, RegistrationStatus,
};
use mgp_types::service::{AgentId, Context};
use mgp_types::{RpcError, Timestamp};

use super::Desk;
use crate::handle::Kernel;

pub(super) fn on(desk: Desk) -> Desk {
    desk.reads::<KernelApprovals, _, _>(async |kernel, cx, _| {
        let waiting = kernel.inbox()?.list(&cx.principal).await?;
        let registrations = kernel.registrations().waiting(&cx.principal).await?;
        let mut all: Vec<_> = waiting.iter().map(told).collect();
        all.extend(registrations.iter().map(asked));
        all.sort_by(|one, other| one.asked_at.as_str().cmp(other.asked_at.as_str()));
        let mut result = KernelApprovalsResult::new();
        result.approvals = all;
        Ok(result)
    })
    .changes::<KernelApprovalsApprove, _, _>(async |kernel, cx, params| {
        if let Some(waiting) = kernel.registration(&cx, &params.id).await? {
            return kernel.register(&cx, &waiting, params).await;
        }
        if !params.permissions.is_empty() {
            let message = "only a registration is approved with permissions";
            return Err(RpcError::invalid_params(message));
        }
        let inbox = kernel.inbox()?;
        let decided = inbox.approve(&cx.principal, &params.id, params.because.as_deref()).await?;
        Ok(Decided::new(told(&decided)))
    })
    .changes::<KernelApprovalsDeny, _, _>(async |kernel, cx, params| {
        if let Some(waiting) = kernel.registration(&cx, &params.id).await? {
            kernel.because(&cx, &waiting, KernelApprovalsDeny::METHOD, &params).await?;
            let (by, server) = (&cx.principal, &waiting.server);
            kernel.registrations().reject(by, server, &waiting.fingerprint).await?;
            return Ok(Decided::new(decided(&cx, &waiting, "denied", params.because)));
        }
        let inbox = kernel.inbox()?;
        let decided = inbox.deny(&cx.principal, &params.id, params.because.as_deref()).await?;
        Ok(Decided::new(told(&decided)))
    })
}

impl Kernel {
    fn inbox(&self) -> Result<&Inbox, RpcError> {
        let inbox = self.governance().inbox();
        inbox.ok_or_else(|| RpcError::internal("this kernel has no inbox of approvals"))
    }

    /// The registration that waits under an id.
    async fn registration(&self, cx: &Context, id: &str) -> Result<Option<Waiting>, RpcError> {
        let waiting = self.registrations().waiting(&cx.principal).await?;
        Ok(waiting.into_iter().find(|waiting| waiting.fingerprint.to_string() == id))
    }

    /// Approves a registration, with what its server is to have of what it would be denied.
    async fn register(
        &self,
        cx: &Context,
        waiting: &Waiting,
        params: Params,
    ) -> Result<Decided, RpcError> {
        let (by, server) = (&cx.principal, &waiting.server);
        let granted = Permission::canonical(&params.permissions);
        if let Some(other) = granted.iter().find(|granted| !waiting.denied.contains(granted)) {
            return Err(RpcError::invalid_params(format!(
                "`{other}` is not denied to `{server}`; grant it with `mgp permissions` once it is needed"
            )));
        }
        self.because(cx, waiting, KernelApprovalsApprove::METHOD, &params).await?;
        let registrations = self.registrations();
        let registered = registrations.approve(by, server, &waiting.fingerprint, &granted).await?;
        if !granted.is_empty() {
            let change = PermissionChange::of(server.clone(), granted);
            self.governance().permissions().approve(by, change).await?;
        }
        let mut result = Decided::new(decided(cx, waiting, "approved", params.because));
        result.message = registered.message.filter(|_| {
            // Where all is well, the word says it.
            registered.status != RegistrationStatus::Connected
        });
        result.status = Some(registered.status);
        Ok(result)
    }

    /// Records why an operator decided so, where they say it.
    async fn because(
        &self,
        cx: &Context,
        waiting: &Waiting,
        method: &'static str,
        params: &Params,
    ) -> Result<(), RpcError> {
        let Some(because) = params.because.as_deref() else { return Ok(()) };
        let event = Event::administered(&cx.principal, Some(&waiting.server), method)
            .during(cx.trace.as_deref())
            .justification(because);
        let kept = self.governance().audit().record(event.build()).await;
        kept.map_err(|error| Refusal::Unaudited(error).into())
    }
}

fn told(request: &ApprovalRequest) -> KernelApproval {
    let mut told = KernelApproval::new(
        request.id.as_str(),
        if request.permissions.is_empty() { "call" } else { "permissions" },
        request.state.as_str(),
        request.question.as_str(),
        request.subject.as_str(),
        request.asked_at.clone(),
    );
    told.agent_id.clone_from(&request.agent_id);
    told.server_id.clone_from(&request.server_id);
    told.tool.clone_from(&request.tool);
    told.permissions = request.permissions.clone().into();
    told.risk_level.clone_from(&request.risk_level);
    told.expires_at = Some(request.expires_at.clone());
    told.decided_by.clone_from(&request.decided_by);
    told.justification.clone_from(&request.justification);
    told
}

/// A registration that waits.
fn asked(waiting: &Waiting) -> KernelApproval {
    let mut told = KernelApproval::new(
        waiting.fingerprint.to_string(),
        "registration",
        "open",
        waiting.to_string(),
        waiting.created_by.subject().as_str(),
        waiting.since.clone(),
    );
    told.agent_id = waiting.created_by.as_agent().map(AgentId::to_string);
    told.server_id = Some(waiting.server.to_string());
    told.permissions = waiting.permissions.clone().into();
    told.expires_at.clone_from(&waiting.until);
    told
}

/// The same once it was decided.
fn decided(
    cx: &Context,
    waiting: &Waiting,
    state: &str,
    because: Option<String>,
) -> KernelApproval {
    let mut told = asked(waiting);
    state.clone_into(&mut told.state);
    told.expires_at = None::<Timestamp>;
    told.decided_by = Some(cx.principal.subject().to_string());
    told.justification = because;
    told
}
