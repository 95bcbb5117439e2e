//! Lists the tools that a caller is allowed to call, and counts their tokens (MGP §16.3, §16.8).

use std::sync::Arc;

use super::search::SearchedTools;
use super::tool_index::ToolIndex;
use crate::catalog::{Allowed, CategoryTree, Entry, IndexedTool};
use crate::search::Filter;
use crate::tokens::{Exactness, TokenCounter, lean};

/// The number of tools that are counted in one batch, so that the texts of a million tools are not in memory at the
/// same time.
const BATCH: usize = 10_000;

/// The number of tools above which an index counts as large: a search then takes longer than moving it to another
/// thread.
const MIN_LARGE_TOOLS: usize = 2000;
/// The total size of all definitions, in bytes, above which an index counts as large.
const MIN_LARGE_BYTES: u64 = 8 << 20;

/// The result of counting some tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountProgress {
    /// This many tools were counted, and more tools might need counting.
    Some(usize),
    /// All tools had already been counted.
    All,
    /// Counting is not possible, e.g. without the feature `tokens`.
    Failed,
}

impl ToolIndex {
    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.snapshot().catalog.len()
    }

    /// Returns `true` if the index is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether a search can take so long that it should run on another thread.
    pub(crate) fn is_slow(&self) -> bool {
        let now = self.shared.snapshot();
        let is_large = now.catalog.len() > MIN_LARGE_TOOLS || now.catalog.bytes() > MIN_LARGE_BYTES;
        // A slow embedder makes a search slow, because it computes the vector of the query during the search.
        is_large || self.shared.is_costly()
    }

    /// Returns all tools that a caller is allowed to call, server by server.
    #[must_use]
    pub fn listed(&self, allowed: &dyn Allowed) -> Vec<IndexedTool> {
        let now = self.shared.snapshot();
        let is_allowed = |tool: &IndexedTool| allowed.allows(tool.server_id(), tool.name());
        let slots =
            now.catalog.servers().flat_map(|(_, server)| now.catalog.slots_of(&server.server.id));
        slots.filter_map(|slot| now.catalog.listed(*slot)).filter(is_allowed).collect()
    }

    /// Returns the number and the categories of the tools that a caller is allowed to call.
    pub(crate) fn caller_overview(&self, allowed: &dyn Allowed) -> (usize, Arc<CategoryTree>) {
        let now = self.shared.snapshot();
        let Ok(SearchedTools { within, .. }) = self.shared.searched(&now, &Filter::new(), allowed)
        else {
            return (0, Arc::default());
        };
        let tools = within.as_ref().map_or(now.catalog.len(), |within| within.count());
        let tree = || CategoryTree::of(&now.catalog, within.as_deref());
        (tools, self.shared.trees.of(now.generation, within.as_ref(), tree))
    }

    /// Counts the tokens of all tools that are not counted yet, and returns the number of tools that it counted.
    ///
    /// Blocks for 100 ms or more, and needs 50 MB of memory; if all tools are counted, it only checks each tool. Until
    /// a tool is counted, the index uses an upper bound of its tokens. Without the feature `tokens`, this method does
    /// nothing.
    #[expect(clippy::must_use_candidate, reason = "callers may ignore the number")]
    pub fn count_tokens(&self) -> usize {
        let mut counted = 0;
        while let CountProgress::Some(tools) = self.count_some() {
            counted += tools;
        }
        counted
    }

    pub(crate) fn count_some(&self) -> CountProgress {
        if !cfg!(feature = "tokens") {
            return CountProgress::Failed;
        }
        let tools = self.uncounted();
        if tools.is_empty() {
            return CountProgress::All;
        }
        let texts: Vec<String> = tools.iter().map(|tool| lean::lean(tool.definition())).collect();
        let (counts, exactness) = TokenCounter::count_all(&texts);
        // Stop if the count is not exact: an upper bound that is stored as an exact count would never be corrected.
        if exactness != Exactness::Exact {
            return CountProgress::Failed;
        }
        tools.iter().zip(counts).for_each(|(tool, tokens)| tool.0.count(tokens));
        let count = tools.len();
        self.store_counts(tools);
        CountProgress::Some(count)
    }

    /// Stores counts in the database, if the index has a database.
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(clippy::unused_self, reason = "an index in memory keeps counts with its tools")
    )]
    pub(crate) fn store_counts(&self, tools: Vec<IndexedTool>) {
        #[cfg(feature = "sqlite")]
        self.shared.store_counts(tools);
        #[cfg(not(feature = "sqlite"))]
        drop(tools);
    }

    fn uncounted(&self) -> Vec<IndexedTool> {
        let now = self.shared.snapshot();
        let is_uncounted = |entry: &&Arc<Entry>| !entry.is_counted();
        let entries = now.catalog.records().map(|(_, record)| &record.entry);
        entries.filter(is_uncounted).take(BATCH).map(|entry| IndexedTool(entry.clone())).collect()
    }
}
