//! A search from the query to the hits (MGP §16.5).

use std::sync::Arc;

use tokio::time::Instant;

use super::shared::SharedIndex;
use super::snapshot::Snapshot;
use super::tool_index::ToolIndex;
use crate::catalog::{Allowed, Bitmap, Extent};
use crate::error::IndexError;
use crate::search::{Filter, Hit, Query, SearchResult, View, rank};

/// The maximum number of searches for one query. A search is repeated if access to tools that it found was revoked in
/// the meantime.
const MAX_ROUNDS: usize = 4;

impl ToolIndex {
    /// Searches for tools. A search never waits for a change, and takes microseconds to some milliseconds. If the index
    /// has more than some ten thousand tools, call this method on a thread that is allowed to block.
    ///
    /// Tools that the caller is not allowed to call are neither found nor counted. Cached access decisions can be up to
    /// a second old, so the decision about each hit is made again.
    ///
    /// # Errors
    /// [`IndexError::Keywords`] if the index cannot be read.
    pub fn search(&self, query: &Query, allowed: &dyn Allowed) -> Result<SearchResult, IndexError> {
        let began = Instant::now();
        let now = self.shared.snapshot();
        let within = self.shared.within(&now, &query.filter, allowed)?;
        let total_available = within.as_ref().map_or(now.catalog.len(), |within| within.count());
        let mut found = self.shared.find(&now, query, within, allowed)?;
        found.total_available = total_available;
        found.unread = query.unread();
        found.took = began.elapsed();
        Ok(found)
    }
}

impl SharedIndex {
    /// Returns the set of the tools that pass the query's filter and that the caller is allowed to call; `None` means
    /// all tools.
    pub(super) fn within(
        &self,
        now: &Snapshot,
        filter: &Filter,
        allowed: &dyn Allowed,
    ) -> Result<Option<Arc<Bitmap>>, IndexError> {
        let passing = self.sets.filter(now, filter, &self.analyzer)?;
        let allowed = self.sets.allowed(now, allowed, passing.as_deref());
        Ok(match (passing, allowed) {
            (Some(passing), Some(allowed)) => {
                let mut both = Bitmap::clone(&passing);
                both.and(&allowed);
                Some(Arc::new(both))
            }
            (one, other) => one.or(other),
        })
    }

    fn find(
        &self,
        now: &Snapshot,
        query: &Query,
        mut within: Option<Arc<Bitmap>>,
        allowed: &dyn Allowed,
    ) -> Result<SearchResult, IndexError> {
        let Some(view) = View::of(now, self) else { return Ok(SearchResult::nothing(query)) };
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
                let found = SearchResult::new(hits, ranking.ran, ranking.fallback);
                return Ok(SearchResult { requests: ranking.requests, ..found });
            }
            // While this search ran, the caller lost access to some tools that it found: search again without them.
            let set = within.get_or_insert_with(|| {
                Arc::new(now.catalog.records().map(|(slot, _)| slot).collect())
            });
            let set = Arc::make_mut(set);
            for slot in dropped {
                set.clear(slot);
            }
        }
    }
}
