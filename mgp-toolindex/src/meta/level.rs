//! How much of the tools a model sees (MGP §16.3).
//!
//! Applies to: inbound.

use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::ContextLevel;

use super::summary::Summary;
use super::tools::MetaTools;
use crate::catalog::{Allowed, Listed};
use crate::index::ToolIndex;
use crate::session::{HeldTool, SessionView, one};
use crate::tokens::lean;

/// What `tools/list` holds for a caller at a level; an unknown level is L3, the default.
///
/// - L0: every tool, with all its server says of it.
/// - L1: the tools to find tools; the one that finds says which categories there are.
/// - L2: the tools to find tools.
/// - L3: those, the pinned tools and what the session used.
///
/// A tool is listed by its own name where the caller sees one of that name, else as `server.name`. One whose name
/// begins like those of the kernel's own tools (`mgp_`, `mgp.`, `mgp/`) is always listed as `server.name`.
///
/// ```
/// use mgp_toolindex::{Everything, MetaTools, ServerEntry, Sessions, ToolIndex, surface};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
/// use mgp_types::mgp::ContextLevel;
/// use mgp_types::service::Principal;
///
/// let index = ToolIndex::new();
/// let tool = Tool::new("read_file".to_owned(), RawObject::empty());
/// index.put(ServerEntry::new("files").tool(tool)).unwrap();
/// let view = Sessions::new().view(&Principal::local(), None, &index, &Everything);
/// let tools = |level| surface(&level, &MetaTools::new(), &index, &Everything, &view);
/// assert_eq!(tools(ContextLevel::Standard)[0].name, "read_file");
/// assert_eq!(tools(ContextLevel::Hybrid)[0].name, "mgp_tools_discover");
/// ```
#[must_use]
pub fn surface(
    level: &ContextLevel,
    meta: &MetaTools,
    index: &ToolIndex,
    allowed: &dyn Allowed,
    session: &SessionView,
) -> Vec<Tool> {
    match level {
        ContextLevel::Standard => {
            let named = |tool: Listed| named(&tool, index, allowed);
            index.listed(allowed).into_iter().filter_map(named).collect()
        }
        ContextLevel::Category => meta.tools(&Summary::index(index, allowed)),
        ContextLevel::Discovery => meta.list(index, allowed),
        _ => {
            let mut tools = meta.list(index, allowed);
            tools.extend(session.tools().filter_map(|held| shown(held, index, allowed)));
            tools
        }
    }
}

/// The name a caller calls a tool by: its own if that can only mean this one and is not reserved, else `server.name`.
#[must_use]
pub fn name_for(tool: &Listed, index: &ToolIndex, allowed: &dyn Allowed) -> String {
    let is_it = |only: Listed| only.server_id() == tool.server_id() && only.name() == tool.name();
    let is_only = !is_reserved(tool.name()) && one(index, allowed, tool.name()).is_some_and(is_it);
    if is_only { tool.name().to_owned() } else { tool.tool_id() }
}

/// Whether a name is kept for tools of the kernel (C34): no server's tool may pass for one.
fn is_reserved(name: &str) -> bool {
    name.strip_prefix("mgp").is_some_and(|rest| rest.starts_with(['_', '.', '/']))
}

/// A tool as its server lists it, by the name the caller calls it.
fn named(tool: &Listed, index: &ToolIndex, allowed: &dyn Allowed) -> Option<Tool> {
    let mut listed = tool.tool().ok()?;
    listed.name = name_for(tool, index, allowed);
    Some(listed)
}

/// A tool of a session, by the name the caller calls it.
fn shown(held: &HeldTool, index: &ToolIndex, allowed: &dyn Allowed) -> Option<Tool> {
    let text = held.text();
    let members = lean::members(&text);
    let mut tool = Tool::new(name_for(&held.tool, index, allowed), RawObject::empty());
    tool.description = members.description.as_deref().map(str::to_owned);
    tool.input_schema = members.schema();
    if !held.is_trimmed() {
        // What hosts ask people about; models do not read it.
        let full = held.tool.tool().ok()?;
        tool.title = full.title;
        tool.annotations = full.annotations;
        tool.execution = full.execution;
        tool.output_schema = full.output_schema;
    }
    Some(tool)
}
