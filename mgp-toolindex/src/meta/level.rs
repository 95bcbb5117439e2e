//! Context levels, which determine how many of the tools a model sees (MGP §16.3).

use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::{ContextLevel, ToolSecurity};

use super::summary::Summary;
use super::tools::MetaTools;
use crate::catalog::{Allowed, IndexedTool};
use crate::index::ToolIndex;
use crate::session::{SessionTool, SessionView, one};
use crate::tokens::lean;

/// Returns the tools in a caller's `tools/list` at a context level; an unknown level is treated as L3, the default.
///
/// The returned tools of servers have their security metadata; the caller of this function must remove it for peers
/// that did not negotiate `tool_security`.
///
/// - L0: every tool with its full definition.
/// - L1: the meta tools; the search tool's description lists the categories.
/// - L2: the meta tools.
/// - L3: the meta tools, the pinned tools, and the tools that the session used or requested.
///
/// A tool is listed under its own name if the caller sees only one tool with that name, otherwise as `server.name`. A
/// name that begins like the names of the kernel's tools (`mgp_`, `mgp.`, `mgp/`) is always listed as `server.name`.
///
/// ```
/// use mgp_toolindex::{AllTools, MetaTools, ServerEntry, Sessions, ToolIndex, listed_tools};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
/// use mgp_types::mgp::ContextLevel;
/// use mgp_types::service::Principal;
///
/// let index = ToolIndex::new();
/// let tool = Tool::new("read_file".to_owned(), RawObject::empty());
/// index.put(ServerEntry::new("files").tool(tool)).unwrap();
/// let view = Sessions::new().view(&Principal::local(), None, &index, &AllTools);
/// let tools = |level| listed_tools(&level, &MetaTools::new(), &index, &AllTools, &view);
/// assert_eq!(tools(ContextLevel::Standard)[0].name, "read_file");
/// assert_eq!(tools(ContextLevel::Hybrid)[0].name, "mgp_tools_discover");
/// ```
#[must_use]
pub fn listed_tools(
    level: &ContextLevel,
    meta: &MetaTools,
    index: &ToolIndex,
    allowed: &dyn Allowed,
    session: &SessionView,
) -> Vec<Tool> {
    match level {
        ContextLevel::Standard => {
            let listed = |tool: IndexedTool| listed_tool(&tool, index, allowed);
            index.listed(allowed).into_iter().filter_map(listed).collect()
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

/// Returns the name that a caller uses to call a tool: the tool's own name if that is unique and not reserved, else
/// `server.name`.
#[must_use]
pub fn name_for(tool: &IndexedTool, index: &ToolIndex, allowed: &dyn Allowed) -> String {
    let is_only = !is_reserved(tool.name())
        && one(index, allowed, tool.name()).is_some_and(|only| only.is_same(tool));
    if is_only { tool.name().to_owned() } else { tool.tool_id() }
}

/// Returns whether a name is reserved for tools of the kernel, so that the tool of a server cannot imitate such a tool.
fn is_reserved(name: &str) -> bool {
    name.strip_prefix("mgp").is_some_and(|rest| rest.starts_with(['_', '.', '/']))
}

/// Returns the full definition of a tool as [`listed_tools`] lists it at L0: under the name that the caller uses, with
/// its security metadata; `None` if the definition cannot be parsed.
#[must_use]
pub fn listed_tool(tool: &IndexedTool, index: &ToolIndex, allowed: &dyn Allowed) -> Option<Tool> {
    let mut listed = tool.tool().ok()?;
    listed.name = name_for(tool, index, allowed);
    listed.security = Some(security(tool).into());
    Some(listed)
}

/// Returns a tool's security metadata with the effective risk. The caller of this module must remove the metadata for
/// clients that did not negotiate it.
fn security(tool: &IndexedTool) -> ToolSecurity {
    let mut security = tool.security().cloned().unwrap_or_else(|| ToolSecurity::new(tool.risk()));
    security.effective_risk_level = Some(tool.risk());
    security
}

/// Returns the definition of a tool of the session as it is listed: under the name by which the caller calls it, and
/// with reduced texts if it was trimmed.
fn shown(held: &SessionTool, index: &ToolIndex, allowed: &dyn Allowed) -> Option<Tool> {
    let text = held.text();
    let members = lean::members(&text);
    let mut tool = Tool::new(name_for(&held.tool, index, allowed), RawObject::empty());
    tool.description = members.description.as_deref().map(str::to_owned);
    tool.input_schema = members.schema();
    tool.security = Some(security(&held.tool).into());
    // Copy these members, although models do not read them: hosts show them to users, or ask for confirmation because
    // of them.
    let full = held.tool.tool().ok()?;
    tool.title = full.title;
    tool.annotations = full.annotations;
    if !held.is_trimmed() {
        tool.execution = full.execution;
        tool.output_schema = full.output_schema;
    }
    Some(tool)
}
