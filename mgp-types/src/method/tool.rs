//! Tools of the kernel: most call a method of MGP. The name of each tool can be written in three forms: with slashes,
//! dots or underscores (MGP §16.5, later revisions).

/// A tool of the kernel, and the MGP method that it calls.
#[derive(Debug)]
#[non_exhaustive]
pub struct KernelToolName {
    /// The name of the tool, in the form with dots.
    pub name: &'static str,
    /// The MGP method that the tool calls; `None` if the function exists only as a tool.
    pub method: Option<&'static str>,
    /// The name of an argument that the tool requires although it is optional in the method.
    pub required: Option<&'static str>,
}

macro_rules! tools {
    ($( $name:literal $(= $method:literal)? $(, requires $required:literal)?; )+) => {
        /// The names of all tools of the kernel.
        pub static KERNEL_TOOLS: &[KernelToolName] = &[$(
            KernelToolName {
                name: $name,
                method: tools!(@option $($method)?),
                required: tools!(@option $($required)?),
            },
        )+];
    };
    (@option) => { None };
    (@option $value:literal) => { Some($value) };
}

tools! {
    "mgp.access.query" = "mgp/access/query";
    "mgp.access.grant" = "mgp/access/grant";
    "mgp.access.revoke" = "mgp/access/revoke";
    "mgp.permissions.check" = "mgp/permissions/check";
    "mgp.scopes.negotiate" = "mgp/scopes/negotiate";
    "mgp.scopes.revoke" = "mgp/scopes/revoke";
    "mgp.audit.replay";
    "mgp.health.ping" = "mgp/health/ping";
    "mgp.health.status" = "mgp/health/status";
    "mgp.lifecycle.shutdown" = "mgp/lifecycle/shutdown";
    "mgp.stream.cancel" = "mgp/stream/cancel";
    "mgp.stream.pace" = "notifications/mgp.stream.pace";
    "mgp.events.subscribe" = "mgp/events/subscribe";
    "mgp.events.unsubscribe" = "mgp/events/unsubscribe";
    "mgp.events.replay" = "mgp/events/replay";
    "mgp.events.channels" = "mgp/events/channels";
    "mgp.events.pending_callbacks";
    "mgp.callback.respond" = "mgp/callback/respond";
    "mgp.discovery.list" = "mgp/discovery/list";
    "mgp.discovery.register" = "mgp/discovery/register";
    "mgp.discovery.deregister" = "mgp/discovery/deregister";
    "mgp.tools.discover" = "mgp/tools/discover", requires "query";
    "mgp.tools.request" = "mgp/tools/request";
    "mgp.tools.call";
    "mgp.tools.call_many";
    "mgp.read_more";
    "mgp.tools.session" = "mgp/tools/session";
    "mgp.tools.session.evict" = "mgp/tools/session/evict";
    "mgp.kernel.info" = "mgp/kernel/info";
    "mgp.kernel.stop" = "mgp/kernel/stop";
    "mgp.kernel.reload" = "mgp/kernel/reload";
    "mgp.kernel.servers" = "mgp/kernel/servers";
    "mgp.kernel.servers.start" = "mgp/kernel/servers/start";
    "mgp.kernel.servers.stop" = "mgp/kernel/servers/stop";
    "mgp.kernel.servers.restart" = "mgp/kernel/servers/restart";
    "mgp.kernel.servers.drain" = "mgp/kernel/servers/drain";
    "mgp.kernel.servers.logs" = "mgp/kernel/servers/logs";
    "mgp.kernel.tools" = "mgp/kernel/tools";
    "mgp.kernel.tools.approve" = "mgp/kernel/tools/approve";
    "mgp.kernel.tools.reject" = "mgp/kernel/tools/reject";
    "mgp.kernel.tools.tokens" = "mgp/kernel/tools/tokens";
    "mgp.kernel.explain" = "mgp/kernel/explain";
    "mgp.kernel.approvals" = "mgp/kernel/approvals";
    "mgp.kernel.approvals.approve" = "mgp/kernel/approvals/approve";
    "mgp.kernel.approvals.deny" = "mgp/kernel/approvals/deny";
    "mgp.kernel.callbacks" = "mgp/kernel/callbacks";
    "mgp.kernel.callbacks.answer" = "mgp/kernel/callbacks/answer";
    "mgp.kernel.transactions" = "mgp/kernel/transactions";
    "mgp.kernel.transactions.retry" = "mgp/kernel/transactions/retry";
    "mgp.kernel.transactions.resolve" = "mgp/kernel/transactions/resolve";
    "mgp.kernel.permissions" = "mgp/kernel/permissions";
    "mgp.kernel.permissions.approve" = "mgp/kernel/permissions/approve";
    "mgp.kernel.permissions.deny" = "mgp/kernel/permissions/deny";
    "mgp.kernel.permissions.revoke" = "mgp/kernel/permissions/revoke";
    "mgp.kernel.permissions.reset" = "mgp/kernel/permissions/reset";
    "mgp.kernel.events" = "mgp/kernel/events";
    "mgp.kernel.subscriptions" = "mgp/kernel/subscriptions";
    "mgp.kernel.subscriptions.end" = "mgp/kernel/subscriptions/end";
    "mgp.kernel.webhooks" = "mgp/kernel/webhooks";
    "mgp.kernel.audit" = "mgp/kernel/audit";
    "mgp.kernel.audit.verify" = "mgp/kernel/audit/verify";
    "mgp.kernel.sessions" = "mgp/kernel/sessions";
}

/// The name of the tool that replays audit events (later revisions of §6); it has no MGP method.
pub const AUDIT_REPLAY: &str = "mgp.audit.replay";

/// The name of the tool that calls a tool found by a search (§16.5); it has no MGP method.
pub const TOOLS_CALL: &str = "mgp.tools.call";

/// The name of the tool that calls several found tools with one call; it has no MGP method.
pub const CALL_MANY: &str = "mgp.tools.call_many";

/// The name of the tool that returns the next part of a long result; it has no MGP method.
pub const READ_MORE: &str = "mgp.read_more";

/// Returns the kernel tool with a name, which can be written in three forms: `mgp/tools/discover`, `mgp.tools.discover`
/// or `mgp_tools_discover`.
#[must_use]
pub fn find_kernel_tool(name: &str) -> Option<&'static KernelToolName> {
    let plain = |byte: u8| if matches!(byte, b'/' | b'.') { b'_' } else { byte };
    name.starts_with("mgp").then_some(())?;
    KERNEL_TOOLS.iter().find(|tool| tool.name.bytes().map(plain).eq(name.bytes().map(plain)))
}

/// Returns a name in the form that all model providers accept: with underscores instead of dots and slashes.
#[must_use]
pub fn tool_spelling(name: &str) -> String {
    name.replace(['/', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_spellings_mean_one_tool() {
        for name in
            ["mgp/tools/session/evict", "mgp.tools.session.evict", "mgp_tools_session_evict"]
        {
            assert_eq!(find_kernel_tool(name).unwrap().method, Some("mgp/tools/session/evict"));
        }
        assert!(find_kernel_tool("tools_session").is_none());
        for name in [AUDIT_REPLAY, TOOLS_CALL, CALL_MANY, READ_MORE] {
            assert!(find_kernel_tool(name).unwrap().method.is_none());
        }
        assert_eq!(tool_spelling("mgp/tools/discover"), "mgp_tools_discover");
        for tool in KERNEL_TOOLS {
            assert!(tool.method.is_none_or(|method| crate::method::lookup(method).is_some()));
        }
        // If a method for operators were missing in `KERNEL_TOOLS`, an agent's call of the method as a tool would fail
        // as unknown instead of being refused.
        let kernel = crate::method::methods().filter(|info| info.is_kernel_only());
        for info in kernel.filter(|info| info.kind == crate::method::Kind::Request) {
            assert!(find_kernel_tool(info.name).is_some(), "{}", info.name);
        }
    }
}
