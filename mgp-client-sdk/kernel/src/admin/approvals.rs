//! Methods for operators to list and answer everything that waits for their decision (MGP §3.4, §4.4, §15.4).
//!
//! Questions about calls and permissions wait in the inbox. Registrations of servers wait in the registry of registered
//! servers; the id of a waiting registration is its fingerprint.

use std::sync::Arc;

use mgp_discovery::PendingRegistration;
use mgp_security::{
    AnswerPlace, ApprovalRequest, ApprovalTerm, Event, Inbox, PermissionChange, Refusal,
    RequestState,
};
use mgp_types::method::{KernelApprovalsApprove, KernelApprovalsDeny, Request as _};
use mgp_types::mgp::{
    KernelApproval, KernelApprovalDecisionParams as Params,
    KernelApprovalDecisionResult as Decision, KernelApprovalsParams, KernelApprovalsResult,
    Permission, RegisterResult, RegistrationStatus,
};
use mgp_types::service::{Authority, Context};
use mgp_types::{RpcError, Timestamp};

use crate::handle::Kernel;

pub(super) async fn list(
    kernel: Kernel,
    cx: Context,
    params: KernelApprovalsParams,
) -> Result<KernelApprovalsResult, RpcError> {
    let requests = inbox(&kernel)?.list(&cx.principal).await?;
    let registrations = registrations(&kernel, &cx).await?;
    let is_whole = params.id.is_some();
    let is_meant = |id: &String| match &params.id {
        Some(only) => id == only,
        None => params.ids.is_empty() || params.ids.contains(id),
    };
    let mut requests: Vec<_> = requests.iter().filter(|request| is_meant(&request.id)).collect();
    if let Some(max) = params.max_decided {
        keep_newest_decided(&mut requests, max);
    }
    let mut approvals: Vec<_> =
        requests.iter().map(|request| request.to_listed(is_whole)).collect();
    let registrations = registrations.iter().map(|waiting| waiting.to_listed(is_whole));
    approvals.extend(registrations.filter(|waiting| is_meant(&waiting.id)));
    approvals.sort_by(|one, other| one.asked_at.as_str().cmp(other.asked_at.as_str()));
    let mut result = KernelApprovalsResult::new();
    result.approvals = approvals;
    Ok(result)
}

/// Removes the oldest decided requests until at most `max` decided requests are left.
fn keep_newest_decided(requests: &mut Vec<&Arc<ApprovalRequest>>, max: u64) {
    let is_decided = |request: &ApprovalRequest| {
        !matches!(request.state, RequestState::Open | RequestState::Later)
    };
    let decided = requests.iter().filter(|request| is_decided(request)).count() as u64;
    let mut excess = decided.saturating_sub(max);
    requests.retain(|request| {
        let is_removed = excess > 0 && is_decided(request);
        excess -= u64::from(is_removed);
        !is_removed
    });
}

pub(super) async fn approve(
    kernel: Kernel,
    cx: Context,
    params: Params,
) -> Result<Decision, RpcError> {
    let term = ApprovalTerm::parse(params.term.as_deref(), params.until.clone())?;
    if let Some(waiting) = find_registration(&kernel, &cx, &params.id).await? {
        check_expected(&params)?;
        if term != ApprovalTerm::Once {
            let message = "a registration is approved until its server is removed";
            return Err(RpcError::invalid_params(message));
        }
        return approve_registration(&kernel, &cx, &waiting, params).await;
    }
    if !params.permissions.is_empty() {
        let message = "only a registration is approved with permissions";
        return Err(RpcError::invalid_params(message));
    }
    let (governance, because) = (kernel.governance(), params.because.as_deref());
    let (id, expected) = (&params.id, params.expected.as_deref());
    let request = governance
        .approve_request(&cx.principal, id, &term, because, place(&params), expected)
        .await?;
    Ok(Decision::new(request.to_listed(false)))
}

pub(super) async fn deny(
    kernel: Kernel,
    cx: Context,
    params: Params,
) -> Result<Decision, RpcError> {
    if let Some(waiting) = find_registration(&kernel, &cx, &params.id).await? {
        check_expected(&params)?;
        record_reason(&kernel, &cx, &waiting, KernelApprovalsDeny::METHOD, &params).await?;
        let (by, server) = (&cx.principal, &waiting.server);
        kernel.registrations().reject(by, server, &waiting.fingerprint).await?;
        return Ok(Decision::new(decided(&cx, &waiting, "denied", params.because)));
    }
    let (governance, because) = (kernel.governance(), params.because.as_deref());
    let (id, expected) = (&params.id, params.expected.as_deref());
    let request =
        governance.deny_request(&cx.principal, id, because, place(&params), expected).await?;
    Ok(Decision::new(request.to_listed(false)))
}

/// Refuses the decision if the params expect a state other than `open`: a registration that waits is always open.
fn check_expected(params: &Params) -> Result<(), RpcError> {
    match params.expected.as_deref() {
        None | Some("open") => Ok(()),
        Some(_) => Err(RpcError::invalid_params("this registration is open")),
    }
}

/// Returns the place where the operator answered, e.g. a terminal. The operator's program states it in `via`. The value
/// `Host` is ignored, because an answer in a form of a host never arrives through these methods.
fn place(params: &Params) -> Option<AnswerPlace> {
    let place = params.via.as_deref().and_then(AnswerPlace::parse);
    place.filter(|place| *place != AnswerPlace::Host)
}

fn inbox(kernel: &Kernel) -> Result<&Inbox, RpcError> {
    let inbox = kernel.governance().inbox();
    inbox.ok_or_else(|| RpcError::internal("this kernel has no inbox of approvals"))
}

/// Returns the registrations that wait for an operator. All tenants share the servers, so an operator of any tenant
/// other than `local` gets an empty list.
async fn registrations(
    kernel: &Kernel,
    cx: &Context,
) -> Result<Vec<PendingRegistration>, RpcError> {
    if cx.principal.authority() < Authority::Operator {
        return Ok(Vec::new());
    }
    Ok(kernel.registrations().pending(&cx.principal).await?)
}

async fn find_registration(
    kernel: &Kernel,
    cx: &Context,
    id: &str,
) -> Result<Option<PendingRegistration>, RpcError> {
    let waiting = registrations(kernel, cx).await?;
    Ok(waiting.into_iter().find(|waiting| waiting.fingerprint.to_string() == id))
}

/// Approves a registration, and grants the permissions in the params. Refuses a permission that is not denied to the
/// server by default.
async fn approve_registration(
    kernel: &Kernel,
    cx: &Context,
    waiting: &PendingRegistration,
    params: Params,
) -> Result<Decision, RpcError> {
    let (by, server) = (&cx.principal, &waiting.server);
    let granted = Permission::canonical(&params.permissions);
    if let Some(other) = granted.iter().find(|granted| !waiting.denied.contains(granted)) {
        return Err(RpcError::invalid_params(format!(
            "`{other}` is not denied to `{server}`; grant it with `mgp permissions` once it is needed"
        )));
    }
    record_reason(kernel, cx, waiting, KernelApprovalsApprove::METHOD, &params).await?;
    let registered =
        kernel.registrations().approve(by, server, &waiting.fingerprint, &granted).await?;
    if !granted.is_empty() {
        let change = PermissionChange::of(server.clone(), granted);
        kernel.governance().permissions().approve(by, change).await?;
    }
    let mut result = Decision::new(decided(cx, waiting, "approved", params.because));
    let (status, message) = outcome(kernel, cx, waiting, registered).await;
    (result.status, result.message) = (Some(status), message);
    Ok(result)
}

/// Returns the status of an approved server, with the reason why it is not connected, or with what the review found in
/// its tools. Waits longer for a published server than the reply to an agent does, because its runner downloads it.
async fn outcome(
    kernel: &Kernel,
    cx: &Context,
    waiting: &PendingRegistration,
    registered: RegisterResult,
) -> (RegistrationStatus, Option<String>) {
    let (status, server) = (registered.status, &waiting.server);
    if status == RegistrationStatus::Error {
        return (status, registered.message);
    }
    if waiting.published.is_some()
        && let Some(found) = super::tools::review(kernel, cx, server).await
    {
        return (RegistrationStatus::Connected, Some(found));
    }
    let starting = (status != RegistrationStatus::Connected).then(|| {
        format!(
            "it is registered and starting; check again later with `mgp servers ls {server}`, or read its output with `mgp logs {server}`"
        )
    });
    (status, starting)
}

/// Records an operator's reason for a decision in the audit log, if the operator gave one.
async fn record_reason(
    kernel: &Kernel,
    cx: &Context,
    waiting: &PendingRegistration,
    method: &'static str,
    params: &Params,
) -> Result<(), RpcError> {
    let Some(because) = params.because.as_deref() else { return Ok(()) };
    let event = Event::administered(&cx.principal, Some(&waiting.server), method)
        .trace(cx.trace.as_deref())
        .justification(because);
    let recorded = kernel.governance().audit().record(event.build()).await;
    recorded.map_err(|error| Refusal::Unaudited(error).into())
}

/// Returns the description of a registration that the operator has just approved or rejected, with its new state.
fn decided(
    cx: &Context,
    waiting: &PendingRegistration,
    state: &str,
    because: Option<String>,
) -> KernelApproval {
    let mut approval = waiting.to_listed(false);
    state.clone_into(&mut approval.state);
    approval.expires_at = None::<Timestamp>;
    approval.decided_by = Some(cx.principal.name().to_owned());
    approval.justification = because;
    approval
}
