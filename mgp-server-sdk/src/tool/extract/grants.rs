//! The client's decisions about permissions, as a parameter of tool functions (MGP §3.6, §8.2).

use mgp_security::{GrantState, Grants};
use mgp_types::RpcError;
use mgp_types::mgp::Permission;

use super::{FromCall, ToolRequest};
use crate::error::PermissionMissing;

/// Refuses the call of a tool if it is known that a required permission is not granted.
pub(crate) fn admit(
    grants: &Grants,
    tool: &str,
    needed: &[Permission],
) -> Result<(), PermissionMissing> {
    for permission in needed {
        match grants.standing(permission) {
            GrantState::Unknown | GrantState::Granted => {}
            standing => return Err(PermissionMissing::new(tool, permission.clone(), standing)),
        }
    }
    Ok(())
}

impl FromCall for Grants {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self::from_context(&request.cx))
    }
}
