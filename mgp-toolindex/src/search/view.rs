//! The input of a search: the query, the tools that it can find, and the parts of an index that it reads (MGP §16.4).

use super::Query;
use crate::catalog::{Bitmap, Catalog, Slot};
use crate::embed::Embedder;
use crate::index::{SharedIndex, Snapshot};
use crate::keyword::{KeywordReader, TextFigures};
use crate::learn::History;
use crate::text::Analyzer;
use crate::vector::VectorTable;

/// A search for the tools that fit a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) query: &'a Query,
    /// The tools that the search can find; `None` means all tools.
    pub(super) within: Option<&'a Bitmap>,
    /// The maximum number of results.
    pub(super) limit: usize,
}

impl Search<'_> {
    pub(super) fn can_find(&self, slot: Slot) -> bool {
        self.within.is_none_or(|within| within.contains(slot))
    }

    /// Returns whether a word, given in any form, occurs in a tool that the search can find.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.view.keywords.has_word(&self.view.analyzer.stem(word), self.within)
    }
}

/// The parts of a snapshot, and the shared parts of its index, that a search reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) keywords: &'a KeywordReader,
    /// The figures about the tools that the caller may find; `None` if the caller may find all tools.
    figures: Option<&'a Figures>,
    /// The vectors of the tools, by slot.
    pub(crate) vectors: Option<&'a VectorTable>,
    /// The vectors of the servers, by server number.
    pub(crate) servers: Option<&'a VectorTable>,
    pub(crate) embedder: Option<&'a dyn Embedder>,
    pub(crate) analyzer: &'a Analyzer,
    /// The history of calls, if the index has a history.
    pub(crate) history: Option<&'a History>,
}

/// The figures by which a search weighs words, lengths and meanings. They describe only the tools that a caller may
/// find, because callers could otherwise find out which words occur in tools that are hidden from them.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) texts: TextFigures,
    /// The number of the tools.
    tools: usize,
    /// The mean of the vectors, and their number.
    mean: Option<(Vec<f32>, usize)>,
}

impl Figures {
    pub(crate) fn of(
        keywords: &KeywordReader,
        vectors: Option<&VectorTable>,
        tools: &Bitmap,
    ) -> Self {
        Self {
            texts: keywords.figures_of(tools),
            tools: tools.count(),
            mean: vectors.map(|vectors| vectors.mean_of(tools.iter())),
        }
    }
}

impl<'a> View<'a> {
    /// Returns the view of a snapshot for a caller who may find all tools.
    pub(crate) fn of(
        now: &'a Snapshot,
        shared: &'a SharedIndex,
        keywords: &'a KeywordReader,
    ) -> Self {
        Self {
            catalog: &now.catalog,
            keywords,
            figures: None,
            vectors: now.vectors.as_ref(),
            servers: now.servers.as_ref(),
            embedder: shared.embedder.as_deref(),
            analyzer: &shared.analyzer,
            history: shared.history.as_ref(),
        }
    }

    /// Returns the view for a caller who may find only some tools, with the figures about these tools and a reader that
    /// uses the figures.
    pub(crate) fn for_caller(self, keywords: &'a KeywordReader, figures: &'a Figures) -> Self {
        Self { keywords, figures: Some(figures), ..self }
    }

    /// Returns the mean of the vectors of the tools that the caller may find, and their number.
    pub(super) fn mean(&self, table: &VectorTable) -> (Vec<f32>, usize) {
        let known = self.figures.and_then(|figures| figures.mean.clone());
        known.unwrap_or_else(|| table.mean())
    }

    /// Returns whether at least half of the tools that the caller may find have a vector.
    pub(super) fn has_enough_vectors(&self, table: &VectorTable) -> bool {
        let (tools, vectors) = match self.figures {
            Some(figures) => (figures.tools, figures.mean.as_ref().map_or(0, |(_, count)| *count)),
            None => (self.catalog.len(), table.len()),
        };
        2 * vectors >= tools
    }
}
