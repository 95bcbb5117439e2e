//! Pages that hosts show for the results of tools (MCP Apps, SEP-1865).

use mgp_toolindex::{Allowed, IndexedTool, Resolved, ToolFeature, ToolIndex, name_for};
use mgp_types::RpcError;
use mgp_types::mcp::{Tool, UiToolMeta};
use mgp_types::mgp::DiscoverToolsResult;
use mgp_types::service::{Context, Reply, ServerId};

use super::dispatcher::Dispatcher;
use super::names::NameTable;
use super::server_features::refreshed_servers;
use crate::fleet::ListKind;

/// Fits a tool list to the caller's host: a host that shows pages also receives all tools with a page, and any other
/// host receives no tools that only pages use. Rewrites the URI of each page so that it leads to the right server.
pub(super) async fn fit(
    dispatcher: &Dispatcher,
    cx: &Context,
    caller: &dyn Allowed,
    tools: &mut Vec<Tool>,
) -> Result<(), RpcError> {
    let index = &dispatcher.parts().fleet.context().index;
    if cx.caller.shows_apps {
        add_missing(index, caller, tools)?;
    } else {
        tools.retain(|tool| UiToolMeta::of(tool).is_none_or(|ui| ui.is_for_models()));
    }
    if tools.iter().all(|tool| UiToolMeta::of(tool).is_none()) {
        return Ok(());
    }
    let servers = refreshed_servers(dispatcher, cx, ListKind::Resources).await;
    let names = NameTable::new(ListKind::Resources, &servers);
    for tool in tools {
        let Some(mut ui) = UiToolMeta::of(tool) else { continue };
        let Some(uri) = &mut ui.resource_uri else { continue };
        let Resolved::One(found) = index.resolve(&tool.name, caller) else { continue };
        if let Some(shown) = names.shown_name(&ServerId::from(found.server_id()), uri) {
            *uri = shown;
            ui.put(tool)?;
        }
    }
    Ok(())
}

/// Adds the tools with a page that are missing from a list, e.g. because the list has only the tools in the caller's
/// session. Adds the metadata of the page to those that are in the list.
fn add_missing(
    index: &ToolIndex,
    caller: &dyn Allowed,
    tools: &mut Vec<Tool>,
) -> Result<(), RpcError> {
    for (indexed, ui) in index.listed(caller).into_iter().filter_map(page_of) {
        let name = name_for(&indexed, index, caller);
        if let Some(tool) = tools.iter_mut().find(|tool| tool.name == name) {
            ui.put(tool)?;
            continue;
        }
        let mut tool = indexed.tool()?;
        tool.name = name;
        tools.push(tool);
    }
    Ok(())
}

/// Returns a tool with the metadata of its page, or `None` if the tool has no page.
fn page_of(tool: IndexedTool) -> Option<(IndexedTool, UiToolMeta)> {
    if !tool.may_use(ToolFeature::Page) {
        return None;
    }
    let ui = UiToolMeta::of(&tool.tool().ok()?)?;
    Some((tool, ui))
}

/// Removes tools that only pages use from the result of a search, which a model reads.
pub(super) fn without_app_tools(
    index: &ToolIndex,
    caller: &dyn Allowed,
    reply: Reply,
) -> Result<Reply, RpcError> {
    let is_hidden = |name: &str| match index.resolve(name, caller) {
        Resolved::One(tool) => page_of(tool).is_some_and(|(_, ui)| !ui.is_for_models()),
        _ => false,
    };
    let mut result: DiscoverToolsResult = reply.get()?;
    let before = result.tools.len();
    result.tools.retain(|tool| !is_hidden(&tool.name));
    if result.tools.len() == before { Ok(reply) } else { Reply::of(&result) }
}
