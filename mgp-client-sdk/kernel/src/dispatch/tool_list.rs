//! `tools/list`: returns the meta tools and the tools in the caller's session (MGP §16.3).

use mgp_discovery::Surface;
use mgp_toolindex::{Allowed, Resolved, SessionView, listed_tools};
use mgp_types::mcp::{CacheScope, Era, ListParams, ListToolsResult, Tool, key};
use mgp_types::mgp::{ContextLevel, Extension, ExtensionSet};
use mgp_types::proposal::{copy_tool_members, hide_tool_members};
use mgp_types::service::{Call, Context, Reply};
use mgp_types::{Object, Payload, RpcError};

use super::dispatcher::{Dispatcher, DispatcherParts};
use super::meta_tools::MetaToolConfig;
use super::page::bad_cursor;
use super::tools::{CallMembers, VisibleTools};
use crate::caller_view::CallerView;
use crate::fleet::FleetContext;
use crate::proposals::media;
use crate::{hops, proposals};

/// Returns the list for a caller, once the tools of new servers are known.
pub(super) async fn list(dispatcher: Dispatcher, call: Call) -> Result<Reply, RpcError> {
    if dispatcher.has_new_servers() {
        let servers = dispatcher.parts().fleet.all();
        dispatcher.wait_for_new(call.cx(), servers.values()).await;
    }
    current_list(&dispatcher, &call)
}

fn current_list(dispatcher: &Dispatcher, call: &Call) -> Result<Reply, RpcError> {
    // Refuse any cursor, because the list has only one page.
    if call.params().get::<ListParams>()?.cursor.is_some() {
        return Err(bad_cursor());
    }
    let parts = dispatcher.parts();
    let (index, cx) = (&parts.fleet.context().index, call.cx());
    let caller = parts.search.caller(cx);
    let members = CallMembers::read(call)?;
    let session = parts.sessions.find(cx, members.session_handle.as_deref())?;
    let view = parts.sessions.view(&cx.principal, session.as_ref(), index, &caller);
    let level = context_level(parts, cx, &caller, &view);
    let meta_tools = parts.meta_tools.listed(cx).no_tools(dispatcher.lack_of_tools(cx));
    let mut tools = listed_tools(&level, &meta_tools, index, &caller, &view);
    tools.extend(parts.results.listed(&cx.principal));
    let active = cx.caller.mgp.unwrap_or_default();
    for tool in &mut tools {
        fit_proposals(parts, &caller, tool, active);
    }
    let is_shown = cx.caller.has(Extension::ToolSecurity);
    for tool in &mut tools {
        media::fit(cx, tool);
        put_security(tool, is_shown)?;
    }
    let mut list = ListToolsResult::new(tools);
    if cx.caller.era == Era::Modern {
        // The list must not be cached, because any call may add tools to the caller's session.
        list.ttl_ms = Some(0);
        list.cache_scope = Some(CacheScope::Private);
    }
    Reply::of(&list)
}

/// Adds what the server of a tool states by proposals that the caller negotiated, and removes what it states because only
/// the kernel negotiated the proposal.
fn fit_proposals(
    parts: &DispatcherParts,
    caller: &dyn Allowed,
    tool: &mut Tool,
    active: ExtensionSet,
) {
    let (wanted, hidden) = (active & proposals::OF_TOOLS, proposals::OF_TOOLS.difference(active));
    // Few callers negotiate them, and few tools have `_meta`.
    if wanted.is_empty() && tool.meta.is_none() {
        return;
    }
    let Resolved::One(found) = parts.fleet.context().index.resolve(&tool.name, caller) else {
        return;
    };
    if !wanted.is_empty()
        && let Ok(full) = found.tool()
    {
        copy_tool_members(&full, tool, wanted);
    }
    if let Some(server) = parts.fleet.get(found.server_id()) {
        hide_tool_members(tool, hidden & server.extensions());
    }
}

/// Notifies the clients of a caller whose session has changed, if its list contains the tools in the session.
pub(super) fn notify_session_changed(
    context: &FleetContext,
    view: &CallerView,
    meta_tools: &MetaToolConfig,
    cx: &Context,
) {
    let level = level(context, meta_tools, cx, &VisibleTools { view, cx }, 0);
    if !matches!(level, ContextLevel::Standard | ContextLevel::Category | ContextLevel::Discovery) {
        // Clients that support this notification list the tools from now on.
        context.notifications.tools_changed(|other| *other == cx.principal);
    }
}

/// Returns the level of the list for a caller.
pub(crate) fn context_level(
    parts: &DispatcherParts,
    cx: &Context,
    caller: &dyn Allowed,
    session: &SessionView,
) -> ContextLevel {
    level(parts.fleet.context(), &parts.meta_tools, cx, caller, session.total_tokens)
}

/// Returns the level of the list for a caller whose session has this many tokens.
fn level(
    context: &FleetContext,
    meta_tools: &MetaToolConfig,
    cx: &Context,
    caller: &dyn Allowed,
    session_tokens: u64,
) -> ContextLevel {
    // Another kernel builds its own index, so it receives all tools.
    if hops::is_from_kernel(cx) {
        return ContextLevel::Standard;
    }
    let config = context.config.config();
    let surface = config.agent(&cx.principal).and_then(|agent| agent.surface);
    match surface.unwrap_or(config.kernel.surface) {
        Surface::Direct => ContextLevel::Standard,
        Surface::Categories => ContextLevel::Category,
        Surface::Find => ContextLevel::Discovery,
        // These callers were promised the tools to find and request tools.
        Surface::Auto if meta_tools.lists_request(cx) => ContextLevel::Hybrid,
        Surface::Auto => {
            // The list is never longer than that of all tools.
            let most = config.kernel.direct_tokens.max(session_tokens);
            let tools = context.index.listed(caller);
            let tokens: u64 = tools.iter().map(|tool| u64::from(tool.tokens())).sum();
            // Without tools, the description of the tool to find them has the reason.
            let is_small = !tools.is_empty() && tokens <= most;
            if is_small { ContextLevel::Standard } else { ContextLevel::Hybrid }
        }
        _ => ContextLevel::Hybrid,
    }
}

/// Puts the security metadata into both of its places in a definition, or removes it from both (MGP §4.2).
fn put_security(tool: &mut Tool, is_shown: bool) -> Result<(), RpcError> {
    const SECURITY: &str = "security";
    let mut mirror: Object =
        tool.meta.as_ref().and_then(|meta| meta.get(key::MGP)?.get().ok()).unwrap_or_default();
    match tool.security.take().filter(|_| is_shown) {
        Some(security) => {
            mirror.insert(SECURITY, Payload::of(&security)?);
            tool.security = Some(security);
        }
        // Remove the copy of the metadata that the server's own definition contains.
        None if mirror.remove(SECURITY).is_some() => {}
        None => return Ok(()),
    }
    tool.meta.get_or_insert_default().insert(key::MGP, Payload::of(&mirror)?);
    Ok(())
}
