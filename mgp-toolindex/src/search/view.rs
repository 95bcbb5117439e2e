//! The parts of an index that a search reads (MGP §16.4).

use crate::catalog::Catalog;
use crate::embed::Embedder;
use crate::index::{SharedIndex, Snapshot};
use crate::keyword::KeywordReader;
use crate::learn::History;
use crate::text::Analyzer;
use crate::vector::VectorTable;

/// The index at one moment, as a search reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) keywords: &'a KeywordReader,
    /// By slot.
    pub(crate) vectors: Option<&'a VectorTable>,
    /// By the number of the server.
    pub(crate) servers: Option<&'a VectorTable>,
    pub(crate) embedder: Option<&'a dyn Embedder>,
    pub(crate) analyzer: &'a Analyzer,
    /// Past calls, if the index learns from them.
    pub(crate) history: Option<&'a History>,
}

impl<'a> View<'a> {
    /// Returns `None` for an empty index.
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
}
