//! Pages that hosts show for the results of tools (MCP Apps, SEP-1865).

use std::collections::{BTreeSet, HashMap};

use mgp_toolindex::{Allowed, Resolved, ToolIndex, listed_tool, name_for};
use mgp_types::RpcError;
use mgp_types::mcp::{Tool, UiToolMeta};
use mgp_types::service::{Context, ServerId};

use super::dispatcher::Dispatcher;
use super::entry_lookup::refresh_lists;
use super::names::NameTable;
use crate::caller_view::{is_for_pages_only, page_of};
use crate::fleet::ListKind;

/// Adapts a tool list to the caller's host. If the host does not show pages, removes the tools that only pages use.
/// Rewrites the URI of each page, so that the host reads the page from the right server.
pub(super) async fn fit(
    dispatcher: &Dispatcher,
    cx: &Context,
    caller: &dyn Allowed,
    tools: &mut Vec<Tool>,
) -> Result<(), RpcError> {
    let index = &dispatcher.parts().fleet.context().index;
    if !cx.caller.shows_apps {
        tools.retain(|tool| !is_listed_for_pages_only(index, caller, &tool.name));
    }
    let have_page = tools.iter().filter(|tool| UiToolMeta::of(tool).is_some());
    let owners = have_page.filter_map(|tool| server_of(index, caller, tool));
    let owners: BTreeSet<ServerId> = owners.collect();
    if owners.is_empty() {
        return Ok(());
    }
    let servers = dispatcher.visible_servers(cx);
    // Read only the lists that contain the pages: a server that never returns its resources must not delay the tools of
    // the others.
    let with_pages = servers.iter().filter(|server| owners.contains(server.id()));
    let with_pages: Vec<_> = with_pages.cloned().collect();
    refresh_lists(dispatcher, &with_pages, ListKind::Resources).await;
    let names = NameTable::new(ListKind::Resources, &servers);
    for tool in tools {
        let Some(mut ui) = UiToolMeta::of(tool) else { continue };
        let Some(uri) = &mut ui.resource_uri else { continue };
        let Some(server) = server_of(index, caller, tool) else { continue };
        if let Some(shown) = names.shown_name(&server, uri) {
            *uri = shown;
            ui.put(tool)?;
        }
    }
    Ok(())
}

/// Returns the server of a listed tool; `None` if the kernel itself has the tool.
fn server_of(index: &ToolIndex, caller: &dyn Allowed, tool: &Tool) -> Option<ServerId> {
    match index.resolve(&tool.name, caller) {
        Resolved::One(found) => Some(ServerId::from(found.server_id())),
        _ => None,
    }
}

/// Completes a tool list for a host that shows pages. If the list lacks a tool with a page, e.g. because it has only
/// the tools in the caller's session, adds the tool. If the list has the tool, adds the metadata of its page.
pub(super) fn add_missing(
    index: &ToolIndex,
    caller: &dyn Allowed,
    tools: &mut Vec<Tool>,
) -> Result<(), RpcError> {
    let places: HashMap<String, usize> =
        tools.iter().enumerate().map(|(at, tool)| (tool.name.clone(), at)).collect();
    for indexed in index.listed(caller) {
        let Some(ui) = page_of(&indexed) else { continue };
        match places.get(&name_for(&indexed, index, caller)) {
            Some(at) => ui.put(&mut tools[*at])?,
            None => tools.extend(listed_tool(&indexed, index, caller)),
        }
    }
    Ok(())
}

/// Returns whether the list has, under this name, a tool that only pages use. The index decides this, because the
/// definitions of a session's tools have no metadata about pages.
fn is_listed_for_pages_only(index: &ToolIndex, caller: &dyn Allowed, name: &str) -> bool {
    match index.resolve(name, caller) {
        // Compare `name` with the name that lists contain. This name differs from the server's own name for the tool if
        // the kernel itself has a tool of that name.
        Resolved::One(tool) => is_for_pages_only(&tool) && name_for(&tool, index, caller) == name,
        _ => false,
    }
}
