//! The builder of an index (MGP §16.4).

use std::sync::Arc;

use super::limits::IndexLimits;
use super::shared::SharedIndex;
use super::tool_index::ToolIndex;
use crate::embed::Embedder;
use crate::learn::History;

/// A builder of a [`ToolIndex`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ToolIndexBuilder {
    embedder: Option<Arc<dyn Embedder>>,
    limits: IndexLimits,
    history: Option<History>,
}

impl ToolIndexBuilder {
    pub(super) fn new() -> Self {
        #[cfg(feature = "static-table")]
        let embedder: Option<Arc<dyn Embedder>> = Some(Arc::new(crate::embed::StaticTable::new()));
        #[cfg(not(feature = "static-table"))]
        let embedder = None;
        Self { embedder, limits: IndexLimits::default(), history: None }
    }

    /// Sets the embedder, in place of the word table of the feature `static-table`.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Removes the embedder, so that the index searches by words only.
    pub fn without_embedder(mut self) -> Self {
        self.embedder = None;
        self
    }

    /// Sets the history, so that the index learns from the calls that follow its searches. Without a history, it learns
    /// nothing.
    pub fn history(mut self, history: History) -> Self {
        self.history = Some(history);
        self
    }

    /// Sets the limits of the index.
    pub fn limits(mut self, limits: IndexLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Builds an empty index in memory.
    #[must_use]
    pub fn build(self) -> ToolIndex {
        ToolIndex { shared: Arc::new(self.shared()) }
    }

    pub(super) fn shared(self) -> SharedIndex {
        let mut shared = SharedIndex::new(self.embedder, self.limits);
        shared.set_history(self.history);
        shared
    }
}
