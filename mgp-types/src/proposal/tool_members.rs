//! The members that proposals add to the definition of a tool.

use serde::de::DeserializeOwned;

use crate::mcp;

/// The members of a tool, in any of the places where implementations write them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolMembers<'a>(&'a mcp::Tool);

impl<'a> ToolMembers<'a> {
    pub(super) fn of(tool: &'a mcp::Tool) -> Self {
        Self(tool)
    }

    /// Reads a member: from `_meta`, where this implementation writes it, or from the tool itself.
    pub(super) fn read<T: DeserializeOwned>(self, name: &str) -> Option<T> {
        let Self(tool) = self;
        let in_meta = tool.meta.as_ref().and_then(|meta| meta.get(name));
        let found = in_meta.or_else(|| tool.extra.get(name))?;
        serde_json::from_str(found.as_str()).ok()
    }
}
