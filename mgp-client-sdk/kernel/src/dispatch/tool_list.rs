//! `tools/list`: returns the tool list of a caller (MGP §16.3). `surface.rs` decides which tools the list contains.

use mgp_toolindex::{Allowed, MetaTool, Resolved, listed_tools};
use mgp_types::RpcError;
use mgp_types::mcp::{CacheScope, Era, ListToolsResult, Tool};
use mgp_types::mgp::{ExtensionSet, RiskLevel, ToolSecurity};
use mgp_types::proposal::{copy_tool_members, hide_tool_members};
use mgp_types::service::{Call, Reply};

use super::dispatcher::{Dispatcher, DispatcherParts};
use super::find_tool::CallAddress;
use super::page::{bad_cursor, requested_cursor};
use super::{apps, listed_tool, portable_names, saved_context, surface};
use crate::fleet::FIRST_LIST_TIMEOUT;
use crate::proposals;

/// Returns the list for a caller. First waits for the tools of new servers, for at most [`FIRST_LIST_TIMEOUT`].
pub(super) async fn list(dispatcher: Dispatcher, call: Call) -> Result<Reply, RpcError> {
    dispatcher.retry_failed_starts(call.cx());
    dispatcher.wait_for_first_tools(call.cx(), FIRST_LIST_TIMEOUT).await;
    dispatcher.parts().fleet.context().changed_lists.note_list(call.cx());
    let mut tools = current_list(&dispatcher, &call)?;
    let cx = call.cx();
    saved_context::count_list(&dispatcher, cx);
    let caller = dispatcher.parts().search.caller(cx);
    apps::fit(&dispatcher, cx, &caller, &mut tools).await?;
    portable_names::fit_list(&dispatcher, cx, &caller, &mut tools);
    let mut list = ListToolsResult::new(tools);
    if cx.caller.era == Era::Modern {
        // The client must not cache the list, because any call may add tools to the caller's session.
        list.ttl_ms = Some(0);
        list.cache_scope = Some(CacheScope::Private);
    }
    Reply::of(&list)
}

fn current_list(dispatcher: &Dispatcher, call: &Call) -> Result<Vec<Tool>, RpcError> {
    // Refuse any cursor, because the list has only one page.
    if requested_cursor(call)?.is_some() {
        return Err(bad_cursor());
    }
    let parts = dispatcher.parts();
    let (context, cx) = (parts.fleet.context(), call.cx());
    let index = &context.index;
    let caller = parts.search.caller(cx);
    let address = CallAddress::read(call)?;
    let session = parts.sessions.find(cx, address.session_handle.as_deref())?;
    let view = parts.sessions.view(&cx.principal, session.as_ref(), index, &caller);
    let is_whole = !dispatcher.has_unread_servers(cx);
    let tokens = view.total_tokens;
    let level = surface::level(context, &parts.meta_tools, cx, &caller, tokens, is_whole);
    let meta_tools = parts.meta_tools.listed(cx).no_tools(dispatcher.no_tools_text(cx));
    let mut tools = listed_tools(&level, &meta_tools, index, &caller, &view);
    tools.extend(parts.results.listed(&cx.principal));
    if cx.caller.shows_apps {
        apps::add_missing(index, &caller, &mut tools)?;
    }
    let active = cx.caller.mgp.unwrap_or_default();
    for tool in &mut tools {
        add_own_security(tool);
        fit_proposals(parts, &caller, tool, active);
        listed_tool::fit(cx, tool)?;
    }
    Ok(tools)
}

/// Adds security metadata to a tool of the kernel itself; tools of servers already have it. The kernel's tool for
/// calling other tools is dangerous, because it can call any of them.
fn add_own_security(tool: &mut Tool) {
    if tool.security.is_some() {
        return;
    }
    let risk = match MetaTool::of(&tool.name) {
        Some(MetaTool::Call) => RiskLevel::Dangerous,
        Some(MetaTool::Request) => RiskLevel::Moderate,
        _ => RiskLevel::Safe,
    };
    let mut security = ToolSecurity::new(risk.clone());
    security.effective_risk_level = Some(risk);
    tool.security = Some(security.into());
}

/// Adds the members of a tool that belong to extensions that the caller negotiated. Removes the members of other
/// extensions: the server added them because the kernel negotiated these extensions with it.
fn fit_proposals(
    parts: &DispatcherParts,
    caller: &dyn Allowed,
    tool: &mut Tool,
    active: ExtensionSet,
) {
    let (wanted, hidden) = (active & proposals::OF_TOOLS, proposals::OF_TOOLS.difference(active));
    // Return early in the usual case: few callers negotiate these extensions, and few tools have further members.
    if wanted.is_empty() && tool.meta.is_none() && tool.extra.is_empty() {
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
        hide_tool_members(tool, hidden & server.all_extensions());
    }
}
