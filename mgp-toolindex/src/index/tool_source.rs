//! A copy of the texts of a tool and its server, which any thread can read (MGP §16.4).

use std::sync::Arc;

use mgp_types::mcp::Tool;

use crate::catalog::{Entry, Labels, Server};
use crate::text::{TextLimits, ToolText};

#[derive(Debug)]
pub(super) struct ToolSource {
    pub(super) tool: Tool,
    pub(super) server: Arc<Server>,
    pub(super) categories: Labels,
    pub(super) keywords: Labels,
    pub(super) bounds: TextLimits,
}

impl ToolSource {
    /// Reads the texts of a tool in the index; returns `None` if its definition is invalid.
    pub(super) fn of(entry: &Entry, bounds: TextLimits) -> Option<Self> {
        Some(Self {
            tool: serde_json::from_str(&entry.definition).ok()?,
            server: Arc::clone(&entry.server),
            categories: Arc::clone(&entry.categories),
            keywords: Arc::clone(&entry.keywords),
            bounds,
        })
    }

    pub(super) fn tool_text(&self) -> ToolText<'_> {
        let mut parts = ToolText::of(&self.tool, &self.server.id, self.bounds);
        parts.server_name = self.server.name.as_deref();
        parts.server_description = self.server.description.as_deref();
        parts.categories = self.categories.words.iter().map(|word| &**word).collect();
        parts.keywords = self.keywords.words.iter().map(|word| &**word).collect();
        parts
    }
}
