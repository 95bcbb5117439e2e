//! Permissions of servers: operators approve, deny, revoke or reset them on their own initiative (MGP §3; methods of
//! this kernel only).

use crate::Timestamp;
use crate::mgp::{Permission, PermissionScope};
use crate::record::{List, record};

record! {
    /// Parameters of `mgp/kernel/permissions`.
    pub struct KernelPermissionsParams {
        /// If set, only the decisions about this server are returned.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/kernel/permissions`.
    pub struct KernelPermissionsResult {
        /// The decisions about permissions.
        def permissions: Vec<KernelPermission>,
    }

    /// A decision about a permission of a server.
    pub struct KernelPermission {
        /// The id of the server.
        opt server_id: Option<String>,
        /// The permission or, if the decision is an approval of calls, the id of that approval, which begins with
        /// `call-`.
        req permission: Permission,
        /// The agent to which the decision is limited; absent if it is for all agents.
        opt agent_id: Option<String>,
        /// A description of the calls to which the decision is limited; absent if it is for all calls.
        opt limits: Option<String>,
        /// The decision: `approved`, `denied` or `revoked`.
        req decision: String,
        /// The origin of the decision: `operator`, `answer` (to a request) or `policy`; `inbox` for an unused approval
        /// that was revoked.
        req source: String,
        /// The operator or policy that decided.
        req approved_by: String,
        /// The time of the decision.
        req approved_at: Timestamp,
        /// The time at which the decision expires; absent if it never expires.
        opt expires_at: Option<Timestamp>,
        /// The limits of the permission, e.g. paths.
        opt scope: Option<PermissionScope>,
        /// The only tools that are allowed to use the permission; empty means all tools.
        list tools: List<String>,
        /// The reason for the decision.
        opt justification: Option<String>,
    }

    /// Parameters of `mgp/kernel/permissions/approve`, `deny`, `revoke` and `reset`.
    pub struct KernelPermissionChangeParams {
        /// The id of the server.
        req server_id: String,
        /// The permissions to approve, deny, revoke or reset.
        req permissions: Vec<Permission>,
        /// The only tools that are allowed to use the permissions; empty means all tools.
        list tools: List<String>,
        /// The limits of the permissions, e.g. paths.
        opt scope: Option<PermissionScope>,
        /// The time at which the decision expires.
        opt until: Option<Timestamp>,
        /// The reason for the decision.
        opt because: Option<String>,
        /// `true` to approve or deny permissions also of a server that does not exist yet.
        opt force: Option<bool>,
        /// `true` to approve nothing now. Instead, as soon as the tools of the server are known, an operator is asked
        /// about the permissions that they need.
        opt when_ready: Option<bool>,
    }

    /// Result of `mgp/kernel/permissions/approve`, `deny`, `revoke` and `reset`.
    pub struct KernelPermissionChangeResult {
        /// The decisions after the change; for `reset`, the removed decisions.
        def permissions: Vec<KernelPermission>,
    }
}
