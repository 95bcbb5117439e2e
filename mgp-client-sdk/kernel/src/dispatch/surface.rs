//! Decides which tools the tool list of a caller contains, according to the configuration key `surface`: all tools, the
//! tools in the caller's session, or only the tools that find tools.

use mgp_discovery::Surface;
use mgp_toolindex::Allowed;
use mgp_types::mgp::ContextLevel;
use mgp_types::service::Context;

use super::meta_tools::MetaToolConfig;
use crate::caller_view::{CallerView, VisibleTools};
use crate::fleet::FleetContext;
use crate::kernel_hops;

/// Returns the kind of tool list that a caller receives. `session_tokens` is the size of the tools in the caller's
/// session; `is_whole` is `false` while the kernel does not know the tools of some servers.
pub(super) fn level(
    context: &FleetContext,
    meta_tools: &MetaToolConfig,
    cx: &Context,
    caller: &dyn Allowed,
    session_tokens: u64,
    is_whole: bool,
) -> ContextLevel {
    // Another kernel builds its own index, so it receives all tools.
    if kernel_hops::is_from_kernel(cx) {
        return ContextLevel::Standard;
    }
    let config = context.config.config();
    let surface = config.agent(&cx.principal).and_then(|agent| agent.surface);
    match surface.unwrap_or(config.kernel.surface) {
        Surface::Direct => ContextLevel::Standard,
        Surface::Categories => ContextLevel::Category,
        Surface::Find => ContextLevel::Discovery,
        // List the tools that find and request tools, because the configuration or a negotiated extension promises them
        // to these callers.
        Surface::Auto if meta_tools.lists_request(cx) => ContextLevel::Hybrid,
        // List the tools that find tools until all tools are known: many clients request the list only once, and with
        // these tools they can also use tools that servers list later.
        Surface::Auto if !is_whole => ContextLevel::Hybrid,
        Surface::Auto => {
            // List all tools if they need no more tokens than the configuration allows, or than the tools of the
            // session.
            let most = config.kernel.direct_tokens.max(session_tokens);
            let tools = context.index.listed(caller);
            let tokens: u64 = tools.iter().map(|tool| u64::from(tool.tokens())).sum();
            // If there are no tools, use the list with the search tool: the description of this tool contains the
            // reason why there are none.
            let is_small = !tools.is_empty() && tokens <= most;
            if is_small { ContextLevel::Standard } else { ContextLevel::Hybrid }
        }
        _ => ContextLevel::Hybrid,
    }
}

/// Notifies the clients of a caller whose session has changed, if the caller's tool list contains the tools of the
/// session.
pub(super) fn notify_session_changed(
    context: &FleetContext,
    view: &CallerView,
    meta_tools: &MetaToolConfig,
    cx: &Context,
) {
    let level = level(context, meta_tools, cx, &VisibleTools { view, cx }, 0, true);
    if !matches!(level, ContextLevel::Standard | ContextLevel::Category | ContextLevel::Discovery) {
        // A client that receives this notification requests the list of tools again.
        context.notifications.tools_changed(|other, _| *other == cx.principal);
    }
}
