//! What the client decided about permissions, as an argument of tools (MGP §3.6, §8.2).
//!
//! Applies to: inbound.

use mgp_security::{GrantStanding, Grants};
use mgp_types::RpcError;
use mgp_types::mgp::Permission;

use super::{FromCall, ToolRequest};
use crate::error::PermissionMissing;

/// Refuses a tool whose permissions are not all granted, if anything is known about permissions.
pub(crate) fn admit(
    grants: &Grants,
    tool: &str,
    needed: &[Permission],
) -> Result<(), PermissionMissing> {
    for permission in needed {
        match grants.standing(permission) {
            GrantStanding::Unknown | GrantStanding::Granted => {}
            standing => return Err(PermissionMissing::new(tool, permission.clone(), standing)),
        }
    }
    Ok(())
}

impl FromCall for Grants {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self::of(&request.cx))
    }
}
