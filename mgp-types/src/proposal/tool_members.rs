//! The members that proposals add to the definition of a tool.

use serde::de::DeserializeOwned;

use crate::Payload;
use crate::mcp;
use crate::method::MEMBERS;
use crate::mgp::{Extension, ExtensionSet};

/// A view of a tool definition. It finds the members of proposals in every place in which an implementation may write
/// them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolMembers<'a>(&'a mcp::Tool);

impl<'a> ToolMembers<'a> {
    pub(super) fn of(tool: &'a mcp::Tool) -> Self {
        Self(tool)
    }

    /// Decodes a member of the tool from `_meta`, where this implementation writes it, or else from the top level of
    /// the definition.
    pub(super) fn read<T: DeserializeOwned>(self, name: &str) -> Option<T> {
        let Self(tool) = self;
        let in_meta = tool.meta.as_ref().and_then(|meta| meta.get(name));
        let found = in_meta.or_else(|| tool.extra.get(name))?;
        serde_json::from_str(found.as_str()).ok()
    }

    /// Returns the members that are in `_meta`, with their names.
    pub(super) fn in_meta(self) -> impl Iterator<Item = (&'static str, &'a Payload)> {
        let meta = self.0.meta.as_ref();
        names().filter_map(move |(name, _)| Some((name, meta?.get(name)?)))
    }
}

/// The prefix of the paths of those members of tool definitions that this implementation writes to `_meta`, in the
/// [table of members](crate::method::MEMBERS). The members of [`MediaSignature`](super::MediaSignature) are not among
/// them.
const PLACE: &str = "result.tools[]._meta.";

/// Removes the members that belong to the `hidden` extensions from the `_meta` of a tool and from the top level of its
/// definition. [`MediaSignature`](super::MediaSignature) removes its own members.
///
/// ```
/// use mgp_types::mcp::Tool;
/// use mgp_types::mgp::{Extension, ExtensionSet};
/// use mgp_types::proposal::hide_tool_members;
///
/// let text = r#"{"name":"add","inputSchema":{},"_meta":{"latency":"instant"},"cost":{"category":"free"}}"#;
/// let mut tool: Tool = serde_json::from_str(text).unwrap();
/// hide_tool_members(&mut tool, ExtensionSet::EMPTY.with(Extension::CostHints));
/// assert_eq!(serde_json::to_string(&tool).unwrap(), r#"{"name":"add","inputSchema":{}}"#);
/// ```
pub fn hide_tool_members(tool: &mut mcp::Tool, hidden: ExtensionSet) {
    let had_members = tool.meta.as_ref().is_some_and(|meta| !meta.is_empty());
    for (name, _) in names().filter(|(_, extension)| hidden.contains(*extension)) {
        tool.extra.remove(name);
        if let Some(meta) = &mut tool.meta {
            meta.remove(name);
        }
    }
    if had_members && tool.meta.as_ref().is_some_and(|meta| meta.is_empty()) {
        tool.meta = None;
    }
}

/// Copies the members that belong to the `wanted` extensions, except those of
/// [`MediaSignature`](super::MediaSignature), from one definition of a tool into the `_meta` of another definition.
pub fn copy_tool_members(from: &mcp::Tool, to: &mut mcp::Tool, wanted: ExtensionSet) {
    for (name, _) in names().filter(|(_, extension)| wanted.contains(*extension)) {
        let in_meta = from.meta.as_ref().and_then(|meta| meta.get(name));
        if let Some(value) = in_meta.or_else(|| from.extra.get(name)) {
            to.meta.get_or_insert_default().insert(name, value.clone());
        }
    }
}

fn names() -> impl Iterator<Item = (&'static str, Extension)> {
    MEMBERS.iter().filter_map(|one| Some((one.path.strip_prefix(PLACE)?, one.extension?)))
}
