//! The texts of a tool and its server, to be read on whichever thread (MGP §16.4).
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::mcp::Tool;

use crate::catalog::{Entry, Labels, Server};
use crate::text::{Bounds, Parts};

/// The texts of a tool and its server.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) tool: Tool,
    pub(super) server: Arc<Server>,
    pub(super) categories: Labels,
    pub(super) keywords: Labels,
    pub(super) bounds: Bounds,
}

impl Texts {
    /// Those of a tool in the index; nothing if its definition is none.
    pub(super) fn of(entry: &Entry, bounds: Bounds) -> Option<Self> {
        Some(Self {
            tool: serde_json::from_str(&entry.definition).ok()?,
            server: Arc::clone(&entry.server),
            categories: Arc::clone(&entry.categories),
            keywords: Arc::clone(&entry.keywords),
            bounds,
        })
    }

    /// What of them is searched.
    pub(super) fn parts(&self) -> Parts<'_> {
        let mut parts = Parts::of(&self.tool, &self.server.id, self.bounds);
        parts.server_name = self.server.name.as_deref();
        parts.server_description = self.server.description.as_deref();
        parts.categories = self.categories.words.iter().map(|word| &**word).collect();
        parts.keywords = self.keywords.words.iter().map(|word| &**word).collect();
        parts
    }
}
