//! Who serves a method, how a client calls it, and which test shows it (feature `schema`).
//!
//! A crate that begins to serve a method adds a row; `docs/methods.md` marks the others as open.

/// A method that is served.
pub(crate) struct Served {
    /// The method on the wire.
    pub(crate) method: &'static str,
    /// The crate that serves it.
    pub(crate) by: &'static str,
    /// The typed call of the client.
    pub(crate) call: &'static str,
    /// The test, as a path in the workspace.
    pub(crate) test: &'static str,
}

static SERVED: &[Served] = &[
    Served {
        method: "initialize",
        by: "mgp-lifecycle",
        call: "connect",
        test: "mgp-lifecycle/src/handshake/server/tests.rs",
    },
    Served {
        method: "ping",
        by: "mgp-lifecycle",
        call: "Client::ping",
        test: "mgp-client-sdk/tests/core_service/isolation.rs",
    },
    Served {
        method: "server/discover",
        by: "mgp-lifecycle",
        call: "connect",
        test: "mgp-lifecycle/src/handshake/server/tests.rs",
    },
    Served {
        method: "tools/list",
        by: "mgp-server-sdk",
        call: "Client::tools",
        test: "mgp-server-sdk/tests/tools.rs",
    },
    Served {
        method: "tools/call",
        by: "mgp-server-sdk",
        call: "Client::call_tool",
        test: "mgp-client-sdk/tests/core_service/prototype.rs",
    },
    Served {
        method: "resources/list",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/resources.rs",
    },
    Served {
        method: "resources/templates/list",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/resources.rs",
    },
    Served {
        method: "resources/read",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/resources.rs",
    },
    Served {
        method: "resources/subscribe",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "resources/unsubscribe",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "prompts/list",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/prompts.rs",
    },
    Served {
        method: "prompts/get",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/prompts.rs",
    },
    Served {
        method: "completion/complete",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/completion.rs",
    },
    Served {
        method: "logging/setLevel",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/logging.rs",
    },
    Served {
        method: "subscriptions/listen",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "elicitation/create",
        by: "mgp-client-sdk",
        call: "Context::ask",
        test: "mgp-client-sdk/tests/core_service/cells.rs",
    },
    Served {
        method: "sampling/createMessage",
        by: "mgp-client-sdk",
        call: "Context::ask",
        test: "mgp-client-sdk/tests/core_service/cells.rs",
    },
    Served {
        method: "roots/list",
        by: "mgp-client-sdk",
        call: "Context::ask",
        test: "mgp-client-sdk/tests/core_service/cells.rs",
    },
    Served {
        method: "notifications/initialized",
        by: "mgp-lifecycle",
        call: "connect",
        test: "mgp-lifecycle/src/handshake/server/tests.rs",
    },
    Served {
        method: "notifications/cancelled",
        by: "mgp-stream",
        call: "dropping the call",
        test: "mgp-client-sdk/tests/core_service/prototype.rs",
    },
    Served {
        method: "notifications/progress",
        by: "mgp-stream",
        call: "Outlet",
        test: "mgp-client-sdk/tests/core_service/isolation.rs",
    },
    Served {
        method: "notifications/message",
        by: "mgp-server-sdk",
        call: "ContextExt::log",
        test: "mgp-server-sdk/tests/features/logging.rs",
    },
    Served {
        method: "notifications/resources/updated",
        by: "mgp-server-sdk",
        call: "Resources::updated",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "notifications/resources/list_changed",
        by: "mgp-server-sdk",
        call: "Resources",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "notifications/tools/list_changed",
        by: "mgp-server-sdk",
        call: "Tools",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "notifications/prompts/list_changed",
        by: "mgp-server-sdk",
        call: "Prompts",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "notifications/subscriptions/acknowledged",
        by: "mgp-server-sdk",
        call: "Client::request",
        test: "mgp-server-sdk/tests/features/changes.rs",
    },
    Served {
        method: "mgp/permission/request",
        by: "mgp-server-sdk",
        call: "Mgp::permission_request",
        test: "mgp-client-sdk/tests/permission_flow/told.rs",
    },
    Served {
        method: "mgp/permission/response",
        by: "mgp-server-sdk",
        call: "Mgp::permission_response",
        test: "mgp-client-sdk/tests/permission_flow/told.rs",
    },
    Served {
        method: "mgp/permission/await",
        by: "mgp-server-sdk",
        call: "Mgp::permission_await",
        test: "mgp-client-sdk/tests/permission_flow/told.rs",
    },
    Served {
        method: "mgp/permission/grant",
        by: "mgp-server-sdk",
        call: "Mgp::permission_grant",
        test: "mgp-client-sdk/tests/permission_flow/told.rs",
    },
    Served {
        method: "mgp/access/query",
        by: "mgp-security",
        call: "Mgp::access_query",
        test: "mgp-security/tests/access_changes.rs",
    },
    Served {
        method: "mgp/access/grant",
        by: "mgp-security",
        call: "Mgp::access_grant",
        test: "mgp-security/tests/access_changes.rs",
    },
    Served {
        method: "mgp/access/revoke",
        by: "mgp-security",
        call: "Mgp::access_revoke",
        test: "mgp-security/tests/access_changes.rs",
    },
    Served {
        method: "mgp/health/ping",
        by: "mgp-lifecycle",
        call: "Mgp::health_ping",
        test: "mgp-server-sdk/tests/health.rs",
    },
    Served {
        method: "mgp/health/status",
        by: "mgp-lifecycle",
        call: "Mgp::health_status",
        test: "mgp-server-sdk/tests/health.rs",
    },
    Served {
        method: "mgp/lifecycle/shutdown",
        by: "mgp-lifecycle",
        call: "Mgp::shutdown",
        test: "mgp-server-sdk/tests/drain/load.rs",
    },
    Served {
        method: "mgp/stream/cancel",
        by: "mgp-stream",
        call: "Mgp::stream_cancel",
        test: "mgp-client-sdk/tests/core_service/isolation.rs",
    },
    Served {
        method: "notifications/mgp.lifecycle",
        by: "mgp-server-sdk",
        call: "ClientBuilder::on_lifecycle",
        test: "mgp-server-sdk/tests/drain/told.rs",
    },
    Served {
        method: "notifications/mgp.stream.chunk",
        by: "mgp-stream",
        call: "Outlet",
        test: "mgp-client-sdk/tests/core_service/prototype.rs",
    },
    Served {
        method: "notifications/mgp.stream.progress",
        by: "mgp-stream",
        call: "Outlet",
        test: "mgp-client-sdk/tests/core_service/isolation.rs",
    },
    Served {
        method: "notifications/mgp.audit",
        by: "mgp-security",
        call: "Forwarder",
        test: "mgp-client-sdk/tests/audit_server/main.rs",
    },
    Served {
        method: "mgp/discovery/list",
        by: "mgp-discovery",
        call: "Client::request",
        test: "mgp-discovery/src/registry/tests.rs",
    },
    Served {
        method: "mgp/discovery/register",
        by: "mgp-discovery",
        call: "Client::request",
        test: "mgp-client-sdk/tests/errors/registration.rs",
    },
    Served {
        method: "mgp/discovery/deregister",
        by: "mgp-discovery",
        call: "Client::request",
        test: "mgp-client-sdk/tests/errors/registration.rs",
    },
    Served {
        method: "mgp/kernel/info",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/stop",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/reload",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_config/reload.rs",
    },
    Served {
        method: "mgp/kernel/servers",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/servers/start",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/servers/stop",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/servers/restart",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/servers/drain",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/servers/logs",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/servers.rs",
    },
    Served {
        method: "mgp/kernel/tools",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/decisions.rs",
    },
    Served {
        method: "mgp/kernel/tools/approve",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/decisions.rs",
    },
    Served {
        method: "mgp/kernel/tools/reject",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/refused.rs",
    },
    Served {
        method: "mgp/kernel/tools/tokens",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_config/agents.rs",
    },
    Served {
        method: "mgp/kernel/permissions",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/decisions.rs",
    },
    Served {
        method: "mgp/kernel/permissions/approve",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/decisions.rs",
    },
    Served {
        method: "mgp/kernel/permissions/deny",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/refused.rs",
    },
    Served {
        method: "mgp/kernel/permissions/revoke",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/decisions.rs",
    },
    Served {
        method: "mgp/kernel/approvals",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/approvals.rs",
    },
    Served {
        method: "mgp/kernel/approvals/approve",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/approvals.rs",
    },
    Served {
        method: "mgp/kernel/approvals/deny",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/approvals.rs",
    },
    Served {
        method: "mgp/kernel/audit",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/decisions.rs",
    },
    Served {
        method: "mgp/kernel/audit/verify",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_admin/decisions.rs",
    },
    Served {
        method: "mgp/kernel/sessions",
        by: "mgp-client-sdk",
        call: "Client::request",
        test: "mgp-client-sdk/tests/kernel_config/agents.rs",
    },
];

/// Finds who serves a method.
pub(crate) fn served(method: &str) -> Option<&'static Served> {
    SERVED.iter().find(|served| served.method == method)
}
