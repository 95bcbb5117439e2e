//! What servers may do, as operators decide it outside a question (MGP §3; the methods are this kernel's own).
//!
//! Applies to: inbound.

use crate::Timestamp;
use crate::mgp::{Permission, PermissionScope};
use crate::record::{List, record};

record! {
    /// Parameters of `mgp/kernel/permissions`.
    pub struct KernelPermissionsParams {
        /// Only those of this server.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/kernel/permissions`.
    pub struct KernelPermissionsResult {
        /// What was decided.
        def permissions: Vec<KernelPermission>,
    }

    /// What was decided about a permission of a server.
    pub struct KernelPermission {
        /// The server.
        opt server_id: Option<String>,
        /// The permission.
        req permission: Permission,
        /// `approved`, `denied`, `revoked`.
        req decision: String,
        /// `operator`, `answer`, `policy`.
        req source: String,
        /// Who decided.
        req approved_by: String,
        /// When.
        req approved_at: Timestamp,
        /// Until when it holds.
        opt expires_at: Option<Timestamp>,
        /// The limits.
        opt scope: Option<PermissionScope>,
        /// The only tools it is for.
        list tools: List<String>,
        /// Why.
        opt justification: Option<String>,
    }

    /// Parameters of `mgp/kernel/permissions/approve`, `deny` and `revoke`.
    pub struct KernelPermissionChangeParams {
        /// The server.
        req server_id: String,
        /// The permissions.
        req permissions: Vec<Permission>,
        /// The only tools it is for.
        list tools: List<String>,
        /// The limits.
        opt scope: Option<PermissionScope>,
        /// Until when it holds.
        opt until: Option<Timestamp>,
        /// Why.
        opt because: Option<String>,
    }

    /// Result of `mgp/kernel/permissions/approve`, `deny` and `revoke`.
    pub struct KernelPermissionChangeResult {
        /// What stands now.
        def permissions: Vec<KernelPermission>,
    }
}
