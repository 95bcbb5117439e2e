//! Makes an index (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;

use super::limits::IndexLimits;
use super::shared::Shared;
use super::tool_index::ToolIndex;
use crate::embed::Embedder;
#[cfg(feature = "static-table")]
use crate::embed::StaticTable;

/// An index that is being made.
#[derive(Clone, Debug)]
#[must_use]
pub struct ToolIndexBuilder {
    embedder: Option<Arc<dyn Embedder>>,
    limits: IndexLimits,
}

impl ToolIndexBuilder {
    pub(super) fn new() -> Self {
        Self { embedder: embedder(), limits: IndexLimits::default() }
    }

    /// Searches by meaning with this.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Searches by words only.
    pub fn without_embedder(mut self) -> Self {
        self.embedder = None;
        self
    }

    /// Takes so much.
    pub fn limits(mut self, limits: IndexLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Makes it, empty, in memory.
    #[must_use]
    pub fn build(self) -> ToolIndex {
        ToolIndex { shared: Arc::new(self.shared()) }
    }

    pub(super) fn shared(self) -> Shared {
        Shared::new(self.embedder, self.limits)
    }
}

/// What searches by meaning if nobody says otherwise: the table that is part of the crate.
#[cfg(feature = "static-table")]
#[expect(clippy::unnecessary_wraps, reason = "without the feature there is none")]
fn embedder() -> Option<Arc<dyn Embedder>> {
    Some(Arc::new(StaticTable::new()))
}

#[cfg(not(feature = "static-table"))]
fn embedder() -> Option<Arc<dyn Embedder>> {
    None
}
