//! The parts of an index that a search reads (MGP §16.4).

use crate::catalog::{Bitmap, Catalog};
use crate::embed::Embedder;
use crate::index::{SharedIndex, Snapshot};
use crate::keyword::KeywordReader;
use crate::learn::History;
use crate::text::Analyzer;
use crate::vector::VectorTable;

/// The parts of a snapshot, and the shared parts of its index, that a search reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) keywords: &'a KeywordReader,
    /// The vectors of the tools, by slot.
    pub(crate) vectors: Option<&'a VectorTable>,
    /// The vectors of the servers, by server number.
    pub(crate) servers: Option<&'a VectorTable>,
    pub(crate) embedder: Option<&'a dyn Embedder>,
    pub(crate) analyzer: &'a Analyzer,
    /// The history of calls, if the index has a history.
    pub(crate) history: Option<&'a History>,
}

impl<'a> View<'a> {
    /// Returns the view of a snapshot, or `None` if the index is empty.
    pub(crate) fn of(now: &'a Snapshot, shared: &'a SharedIndex) -> Option<Self> {
        Some(Self {
            catalog: &now.catalog,
            keywords: now.keywords.as_ref()?,
            vectors: now.vectors.as_ref(),
            servers: now.servers.as_ref(),
            embedder: shared.embedder.as_deref(),
            analyzer: &shared.analyzer,
            history: shared.history.as_ref(),
        })
    }

    /// Returns whether a word, given in any form, occurs in a tool of `within`.
    pub(super) fn has_word(&self, word: &str, within: Option<&Bitmap>) -> bool {
        self.keywords.has_word(&self.analyzer.stem(word), within)
    }
}
