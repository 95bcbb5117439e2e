//! Permissions of servers that operators approve, deny or revoke on their own initiative (MGP §3; methods of this
//! kernel only).

use crate::Timestamp;
use crate::mgp::{Permission, PermissionScope};
use crate::record::{List, record};

record! {
    /// Parameters of `mgp/kernel/permissions`.
    pub struct KernelPermissionsParams {
        /// If set, only entries of this server.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/kernel/permissions`.
    pub struct KernelPermissionsResult {
        /// The decisions.
        def permissions: Vec<KernelPermission>,
    }

    /// A decision about a permission of a server.
    pub struct KernelPermission {
        /// The server.
        opt server_id: Option<String>,
        /// The permission; the id of an approval of calls, which begins with `call-`.
        req permission: Permission,
        /// The agent to which the decision is limited; absent if it is for all agents.
        opt agent_id: Option<String>,
        /// A description of the calls to which the decision is limited; absent if it is for all calls.
        opt limits: Option<String>,
        /// The decision: `approved`, `denied` or `revoked`.
        req decision: String,
        /// The origin of the decision: `operator`, `answer` (to a request) or `policy`.
        req source: String,
        /// The operator or policy that decided.
        req approved_by: String,
        /// The time.
        req approved_at: Timestamp,
        /// The expiry time.
        opt expires_at: Option<Timestamp>,
        /// The limits.
        opt scope: Option<PermissionScope>,
        /// The only tools that may use the permission; empty means all tools.
        list tools: List<String>,
        /// The reason.
        opt justification: Option<String>,
    }

    /// Parameters of `mgp/kernel/permissions/approve`, `deny` and `revoke`.
    pub struct KernelPermissionChangeParams {
        /// The server.
        req server_id: String,
        /// The permissions.
        req permissions: Vec<Permission>,
        /// The only tools that may use the permissions; empty means all tools.
        list tools: List<String>,
        /// The limits.
        opt scope: Option<PermissionScope>,
        /// The time at which the decision expires.
        opt until: Option<Timestamp>,
        /// The reason.
        opt because: Option<String>,
        /// `true`, without permissions, to be asked about those that the server needs once it is ready.
        opt when_ready: Option<bool>,
    }

    /// Result of `mgp/kernel/permissions/approve`, `deny` and `revoke`.
    pub struct KernelPermissionChangeResult {
        /// The decisions after the change.
        def permissions: Vec<KernelPermission>,
    }
}
