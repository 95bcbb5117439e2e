//! Makes an index (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;

use super::limits::IndexLimits;
use super::shared::Shared;
use super::tool_index::ToolIndex;
use crate::embed::Embedder;
use crate::learn::History;

/// An index that is being made.
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

    /// Searches by meaning with this, in place of the word table of the feature `static-table`.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Searches by words only.
    pub fn without_embedder(mut self) -> Self {
        self.embedder = None;
        self
    }

    /// Learns from what is called after searches. Nothing is learned without it.
    pub fn history(mut self, history: History) -> Self {
        self.history = Some(history);
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
        let shared = Arc::new(self.shared());
        shared.answer_history();
        ToolIndex { shared }
    }

    pub(super) fn shared(self) -> Shared {
        let mut shared = Shared::new(self.embedder, self.limits);
        shared.learn(self.history);
        shared
    }
}
