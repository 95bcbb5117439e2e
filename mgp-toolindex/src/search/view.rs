//! What a search works on (MGP §16.4).
//!
//! Applies to: inbound.

use crate::catalog::Catalog;
use crate::embed::Embedder;
use crate::index::{Shared, Snapshot};
use crate::keyword::KeywordReader;
use crate::learn::History;
use crate::text::Analyzer;
use crate::vector::VectorTable;

/// The index at one moment, as a search sees it.
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
    /// Past calls, where they are learned from.
    pub(crate) history: Option<&'a History>,
}

impl<'a> View<'a> {
    /// None before anything was put into the index.
    pub(crate) fn of(now: &'a Snapshot, shared: &'a Shared) -> Option<Self> {
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
