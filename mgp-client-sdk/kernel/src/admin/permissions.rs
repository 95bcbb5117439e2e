//! Methods for an operator to decide about permissions of servers, including permissions that no server has requested
//! (MGP §3).

use mgp_security::{Approval, CallApproval, CallApprovals, PermissionChange};
use mgp_types::mgp::{
    KernelPermission, KernelPermissionChangeParams as Params,
    KernelPermissionChangeResult as ChangeResult, KernelPermissionsParams, KernelPermissionsResult,
};
use mgp_types::service::{Authority, Context, ServerId};
use mgp_types::{Payload, RpcError, Timestamp};

use super::methods::{find_own_server, is_disabled};
use crate::handle::Kernel;

pub(super) async fn list(
    kernel: Kernel,
    cx: Context,
    params: KernelPermissionsParams,
) -> Result<KernelPermissionsResult, RpcError> {
    let server = params.server_id.as_deref().map(ServerId::from);
    let all = kernel.governance().permissions().list(&cx.principal, server.as_ref()).await?;
    let mut result = KernelPermissionsResult::new();
    result.permissions = all.iter().map(kernel_permission).collect();
    if let Some(inbox) = kernel.governance().inbox() {
        let calls = inbox.calls().list(&cx.principal, server.as_ref()).await?;
        result.permissions.extend(calls.iter().map(CallApproval::to_listed));
    }
    Ok(result)
}

pub(super) async fn approve(
    kernel: Kernel,
    cx: Context,
    params: Params,
) -> Result<ChangeResult, RpcError> {
    if params.when_ready == Some(true) {
        let server = find_own_server(&kernel, &cx, &params.server_id)?;
        kernel.governance().review_later(&cx.principal, server.id()).await?;
        return Ok(ChangeResult::new());
    }
    check_expiry(&params)?;
    let server = server_of(&kernel, &cx, &params)?;
    let change = PermissionChange::from(params);
    let approved = kernel.governance().permissions().approve(&cx.principal, change).await?;
    kernel.governance().settle(&cx.principal, Some(server.as_str())).await?;
    Ok(change_result(&approved))
}

pub(super) async fn deny(
    kernel: Kernel,
    cx: Context,
    params: Params,
) -> Result<ChangeResult, RpcError> {
    check_expiry(&params)?;
    let server = server_of(&kernel, &cx, &params)?;
    let change = PermissionChange::from(params);
    let denied = kernel.governance().permissions().deny(&cx.principal, change).await?;
    kernel.governance().settle(&cx.principal, Some(server.as_str())).await?;
    Ok(change_result(&denied))
}

/// Returns the server that a decision concerns. With `force`, the server may be unknown to the kernel.
fn server_of(kernel: &Kernel, cx: &Context, params: &Params) -> Result<ServerId, RpcError> {
    match find_own_server(kernel, cx, &params.server_id) {
        Err(_) if params.force == Some(true) => Ok(ServerId::from(params.server_id.as_str())),
        found => found.map(|server| server.id().clone()),
    }
}

/// The stored decision about a permission after an operator has withdrawn the earlier decisions.
#[derive(Clone, Copy)]
enum Remaining {
    Revocation,
    Nothing,
}

pub(super) async fn revoke(
    kernel: Kernel,
    cx: Context,
    params: Params,
) -> Result<ChangeResult, RpcError> {
    take_back(kernel, cx, params, Remaining::Revocation).await
}

pub(super) async fn reset(
    kernel: Kernel,
    cx: Context,
    params: Params,
) -> Result<ChangeResult, RpcError> {
    take_back(kernel, cx, params, Remaining::Nothing).await
}

async fn take_back(
    kernel: Kernel,
    cx: Context,
    params: Params,
    remaining: Remaining,
) -> Result<ChangeResult, RpcError> {
    let server = ServerId::from(params.server_id.as_str());
    check_revocable(&kernel, &cx, &server).await?;
    let mut params = params;
    let permissions = params.permissions.clone();
    let governance = kernel.governance();
    let calls = match governance.inbox() {
        Some(inbox) => inbox.revoke_calls(&cx.principal, &server, &permissions).await?,
        None => Vec::new(),
    };
    params.permissions.retain(|name| !CallApprovals::is_id(name.as_str()));
    if params.permissions.is_empty() {
        let mut result = ChangeResult::new();
        result.permissions = calls.iter().map(CallApproval::to_listed).collect();
        return Ok(result);
    }
    let change = PermissionChange::from(params);
    // Revoke the approvals in the inbox first, so that no call can use an approval before the permissions are revoked.
    let mut unused = match governance.inbox() {
        Some(inbox) => inbox.forget_approvals(&cx.principal, &server, &permissions).await?,
        None => Vec::new(),
    };
    let stored = governance.permissions();
    let taken = match remaining {
        Remaining::Revocation => stored.revoke(&cx.principal, change).await?,
        Remaining::Nothing => stored.reset(&cx.principal, change).await?,
    };
    let mut result = change_result(&taken);
    // The answer to a question about permissions is stored twice: in the inbox, and as a decision. List it only once.
    let revoked = &result.permissions;
    unused.retain(|permission| !revoked.iter().any(|one| one.permission == *permission));
    result.permissions.extend(unused.into_iter().map(|permission| {
        let (by, at) = (cx.principal.name().to_owned(), Timestamp::now());
        let mut revoked = KernelPermission::new(permission, "revoked", "inbox", by, at);
        revoked.server_id = Some(server.to_string());
        revoked
    }));
    result.permissions.extend(calls.iter().map(CallApproval::to_listed));
    Ok(result)
}

/// Checks that an operator can revoke decisions about a server. Disabled and removed servers are accepted too, because
/// they may have decisions.
///
/// Refuses an id of which the kernel knows neither a server nor a decision, because the id is most likely a typo.
async fn check_revocable(kernel: &Kernel, cx: &Context, id: &ServerId) -> Result<(), RpcError> {
    let Err(unknown) = find_own_server(kernel, cx, id.as_str()) else { return Ok(()) };
    let (by, governance) = (&cx.principal, kernel.governance());
    // A disabled server may belong to other tenants. So only operators of `local` learn that it is disabled.
    if by.authority() == Authority::Operator && is_disabled(kernel, id.as_str())
        || !governance.permissions().list(by, Some(id)).await?.is_empty()
    {
        return Ok(());
    }
    let has_calls = match governance.inbox() {
        Some(inbox) => !inbox.calls().list(by, Some(id)).await?.is_empty(),
        None => false,
    };
    if has_calls { Ok(()) } else { Err(unknown) }
}

/// Refuses params with the member `expires_at`, which exists only in results, as the time when a decision expires. If
/// the kernel ignored the member like other unknown ones, the decision would be permanent.
fn check_expiry(params: &Params) -> Result<(), RpcError> {
    if params.extra.get("expires_at").is_none_or(Payload::is_null) {
        return Ok(());
    }
    Err(RpcError::invalid_params("write `until` instead of `expires_at`"))
}

fn change_result(approvals: &[Approval]) -> ChangeResult {
    let mut result = ChangeResult::new();
    result.permissions = approvals.iter().map(kernel_permission).collect();
    result
}

fn kernel_permission(approval: &Approval) -> KernelPermission {
    // Show the source of the approval in the words in which the store contains it.
    let source = Payload::of(&approval.source).ok().and_then(|source| source.get::<String>().ok());
    let mut permission = KernelPermission::new(
        approval.permission.clone(),
        approval.decision.as_str(),
        source.unwrap_or_default(),
        approval.approved_by.clone(),
        approval.approved_at.clone(),
    );
    permission.server_id.clone_from(&approval.server);
    permission.expires_at.clone_from(&approval.expires_at);
    permission.scope.clone_from(&approval.scope);
    permission.tools = approval.tools.clone().into();
    permission.justification.clone_from(&approval.justification);
    permission
}
