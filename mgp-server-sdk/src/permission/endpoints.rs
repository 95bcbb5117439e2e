//! The four methods of the flow, in both spellings (MGP §3.5, §3.6; checklist C5).
//!
//! Applies to: inbound.

use std::future::ready;

use mgp_types::RpcError;
use mgp_types::method::{PermissionAwait, PermissionGrant, PermissionRequest, PermissionResponse};
use mgp_types::mgp::{
    Permission, PermissionAck, PermissionDecision, PermissionRequestParams, PermissionRequestResult,
};
use mgp_types::service::{Context, Router};

use crate::tool::Grants;

/// How many permissions one message may decide about; a longer one is refused.
const MAX_GRANTS: usize = 256;

/// Answers that permissions are being decided, and takes the decisions.
pub(crate) fn endpoints() -> Router {
    Router::new()
        .on::<PermissionRequest, _, _>(|_, asked| ready(Ok(waiting(asked))))
        .on::<PermissionAwait, _, _>(|_, asked| ready(Ok(waiting(asked))))
        // They are noted where the message is read, so that the call behind it finds them.
        .on::<PermissionResponse, _, _>(|cx, decision| ready(take(&cx, decision)))
        .on::<PermissionGrant, _, _>(|cx, decision| ready(take(&cx, decision)))
}

fn waiting(asked: PermissionRequestParams) -> PermissionRequestResult {
    let mut result = PermissionRequestResult::new();
    result.request_id = Some(asked.request_id);
    result.status = Some("waiting".to_owned());
    result
}

fn take(cx: &Context, decision: PermissionDecision) -> Result<PermissionAck, RpcError> {
    if decision.grants.len() > MAX_GRANTS {
        return Err(RpcError::invalid_params(format!(
            "`grants` has more than {MAX_GRANTS} permissions"
        )));
    }
    let grants = cx.scope.state::<Grants>();
    grants.apply(&decision);
    let names = Permission::canonical(decision.grants.keys());
    let mut ack = PermissionAck::new(decision.request_id, true);
    ack.active =
        names.into_iter().filter(|name| grants.is_granted(name)).collect::<Vec<_>>().into();
    Ok(ack)
}
