//! The steps of a search, from the query to the hits (MGP §16.5).

use std::sync::Arc;

use tokio::time::Instant;

use super::shared::SharedIndex;
use super::snapshot::Snapshot;
use super::tool_index::ToolIndex;
use super::tool_sets::retain;
use crate::catalog::{Allowed, Bitmap, Extent, IndexedTool, Record};
use crate::error::IndexError;
use crate::search::{Figures, Filter, Hit, Query, SearchResult, View, rank};

/// The maximum number of searches for one query. A search is repeated if the caller lost access to found tools while it
/// ran.
const MAX_ROUNDS: usize = 4;

impl ToolIndex {
    /// Searches for tools. A search never waits for a change, and takes microseconds to some milliseconds. If the index
    /// has more than some ten thousand tools, call this method on a thread that is allowed to block.
    ///
    /// Tools that the caller is not allowed to call are neither found nor counted. Cached access decisions can be up to
    /// a second old, so the search checks access to each hit again.
    ///
    /// # Errors
    /// Returns [`IndexError::Keywords`] if the index cannot be read.
    pub fn search(&self, query: &Query, allowed: &dyn Allowed) -> Result<SearchResult, IndexError> {
        self.search_among(query, allowed, None)
    }

    /// Searches like [`search`](Self::search), but finds and counts only tools that `is_available` accepts; `None`
    /// accepts all tools. The scores do not depend on `is_available`, because the weights are computed from all tools
    /// that the caller is allowed to call.
    pub(crate) fn search_among(
        &self,
        query: &Query,
        allowed: &dyn Allowed,
        is_available: Option<&dyn Fn(&IndexedTool) -> bool>,
    ) -> Result<SearchResult, IndexError> {
        let began = Instant::now();
        let now = self.shared.snapshot();
        let mut searched = self.shared.searched(&now, &query.filter, allowed)?;
        if let Some(is_available) = is_available {
            let within = searched.within.get_or_insert_with(|| all_tools(&now));
            let passes = |record: &Record| is_available(&IndexedTool(Arc::clone(&record.entry)));
            retain(Arc::make_mut(within), &now.catalog, passes);
        }
        let found = self.shared.find(&now, query, searched, allowed)?;
        Ok(SearchResult { took: began.elapsed(), ..found })
    }
}

pub(super) struct SearchedTools {
    /// The tools that pass the query's filter and that the caller is allowed to call.
    pub(super) within: Option<Arc<Bitmap>>,
    /// The tools that the caller is allowed to call; `None` means all tools.
    visible: Option<Arc<Bitmap>>,
}

fn all_tools(now: &Snapshot) -> Arc<Bitmap> {
    Arc::new(now.catalog.records().map(|(slot, _)| slot).collect())
}

impl SharedIndex {
    /// Returns the tools among which a caller searches with a filter.
    pub(super) fn searched(
        &self,
        now: &Snapshot,
        filter: &Filter,
        allowed: &dyn Allowed,
    ) -> Result<SearchedTools, IndexError> {
        let passing = self.sets.filter(now, filter, &self.analyzer)?;
        let allowed = self.sets.allowed(now, allowed);
        let visible = allowed.clone().filter(|allowed| allowed.count() < now.catalog.len());
        let within = match (passing, allowed) {
            (Some(passing), Some(allowed)) => {
                let mut both = Bitmap::clone(&passing);
                both.and(&allowed);
                Some(Arc::new(both))
            }
            (one, other) => one.or(other),
        };
        Ok(SearchedTools { within, visible })
    }

    fn find(
        &self,
        now: &Snapshot,
        query: &Query,
        SearchedTools { mut within, visible }: SearchedTools,
        allowed: &dyn Allowed,
    ) -> Result<SearchResult, IndexError> {
        let count = |set: Option<&Arc<Bitmap>>| set.map_or(now.catalog.len(), |set| set.count());
        let found = SearchResult::new(query, count(within.as_ref()), count(visible.as_ref()));
        let Some(all) = &now.keywords else { return Ok(found) };
        // Compute no figures for a query without a letter or digit: they are needed only for scores, and this query
        // produces none.
        let visible = visible.filter(|_| query.text.chars().any(char::is_alphanumeric));
        let known = visible.map(|visible| {
            let compute = || Figures::of(all, now.vectors.as_ref(), &visible);
            let figures = self.figures.of(now.content_version, Some(&visible), compute);
            (all.weighed_by(&visible, &figures.texts), figures)
        });
        let view = View::of(now, self, all);
        let view =
            known.as_ref().map_or(view, |(keywords, figures)| view.for_caller(keywords, figures));
        let mut round = 0;
        loop {
            round += 1;
            let ranking = rank(&view, query, within.as_deref(), query.limit)?;
            let mut dropped = Vec::new();
            let mut hits = Vec::with_capacity(ranking.hits.len());
            for ranked in ranking.hits {
                let Some(tool) = now.catalog.listed(ranked.slot) else { continue };
                if allowed.extent() == Extent::All || allowed.allows(tool.server_id(), tool.name())
                {
                    let (score, request) = (ranked.score, ranked.request);
                    hits.push(Hit { tool, score, request, reason: ranked.reason });
                } else {
                    dropped.push(ranked.slot);
                }
            }
            if dropped.is_empty() || round == MAX_ROUNDS {
                let (ran, fallback, requests) = (ranking.ran, ranking.fallback, ranking.requests);
                return Ok(SearchResult { hits, ran, fallback, requests, ..found });
            }
            // The caller lost access to some found tools while this search ran, so search again without them.
            let set = Arc::make_mut(within.get_or_insert_with(|| all_tools(now)));
            for slot in dropped {
                set.clear(slot);
            }
        }
    }
}
