//! What servers may do, decided by an operator outside any question (MGP §3).
//!
//! Applies to: inbound.

use mgp_security::{Approval, PermissionChange};
use mgp_types::method::{
    KernelPermissions, KernelPermissionsApprove, KernelPermissionsDeny, KernelPermissionsRevoke,
};
use mgp_types::mgp::{
    KernelPermission, KernelPermissionChangeParams, KernelPermissionChangeResult,
    KernelPermissionsResult,
};
use mgp_types::service::ServerId;
use mgp_types::{Payload, RpcError, Timestamp};

use super::Desk;
use crate::handle::Kernel;

pub(super) fn on(desk: Desk) -> Desk {
    desk.reads::<KernelPermissions, _, _>(async |kernel, cx, params| {
        let server = params.server_id.as_deref().map(ServerId::from);
        let all = kernel.governance().permissions().list(&cx.principal, server.as_ref()).await?;
        let mut result = KernelPermissionsResult::new();
        result.permissions = all.iter().map(told).collect();
        Ok(result)
    })
    .changes::<KernelPermissionsApprove, _, _>(async |kernel, cx, params| {
        let change = kernel.change(params)?;
        changed(kernel.governance().permissions().approve(&cx.principal, change).await)
    })
    .changes::<KernelPermissionsDeny, _, _>(async |kernel, cx, params| {
        let change = kernel.change(params)?;
        changed(kernel.governance().permissions().deny(&cx.principal, change).await)
    })
    .changes::<KernelPermissionsRevoke, _, _>(async |kernel, cx, params| {
        let (server, permissions) = (kernel.meant(&params.server_id)?, params.permissions.clone());
        let change = kernel.change(params)?;
        // First, so that nobody makes use of it in between.
        let unused = match kernel.governance().inbox() {
            Some(inbox) => inbox.taken_back(&cx.principal, server.id(), &permissions).await?,
            None => Vec::new(),
        };
        let mut result =
            changed(kernel.governance().permissions().revoke(&cx.principal, change).await)?;
        let revoked = unused.into_iter().map(|permission| {
            let (by, at) = (cx.principal.subject().to_string(), Timestamp::now());
            let mut told = KernelPermission::new(permission, "revoked", "inbox", by, at);
            told.server_id = Some(server.id().to_string());
            told
        });
        result.permissions.extend(revoked);
        Ok(result)
    })
}

impl Kernel {
    /// What is to be decided; a server that nobody knows is a typing error.
    fn change(&self, params: KernelPermissionChangeParams) -> Result<PermissionChange, RpcError> {
        let node = self.meant(&params.server_id)?;
        let mut change =
            PermissionChange::of(node.id().clone(), params.permissions).tools(&*params.tools);
        if let Some(scope) = params.scope {
            change = change.scope(scope);
        }
        if let Some(until) = params.until {
            change = change.until(until);
        }
        if let Some(because) = params.because {
            change = change.because(because);
        }
        Ok(change)
    }
}

fn changed(
    approvals: Result<Vec<Approval>, RpcError>,
) -> Result<KernelPermissionChangeResult, RpcError> {
    let mut result = KernelPermissionChangeResult::new();
    result.permissions = approvals?.iter().map(told).collect();
    Ok(result)
}

fn told(approval: &Approval) -> KernelPermission {
    // Its word is the one it is kept by.
    let source = Payload::of(&approval.source).ok().and_then(|word| word.get::<String>().ok());
    let mut told = KernelPermission::new(
        approval.permission.clone(),
        approval.decision.as_str(),
        source.unwrap_or_default(),
        approval.approved_by.clone(),
        approval.approved_at.clone(),
    );
    told.server_id.clone_from(&approval.server);
    told.expires_at.clone_from(&approval.expires_at);
    told.scope.clone_from(&approval.scope);
    told.tools = approval.tools.clone().into();
    told.justification.clone_from(&approval.justification);
    told
}
