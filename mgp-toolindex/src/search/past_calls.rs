//! Raises the scores of tools that were called after similar queries (MGP §16.4).

use mgp_types::mgp::SearchStrategy;
use rustc_hash::FxHashMap;

use super::parsed_query::ParsedQuery;
use super::{Query, View};
use crate::catalog::{Bitmap, Slot};

/// The tools whose scores past calls raise.
#[derive(Debug, Default)]
pub(super) struct PastCalls {
    tools: FxHashMap<Slot, PastCall>,
}

#[derive(Clone, Copy, Debug)]
struct PastCall {
    share: f32,
    lift: f32,
}

impl PastCalls {
    /// Looks up the query in the history. The result is empty unless the search is hybrid and the query has a
    /// principal.
    pub(super) fn look_up(
        view: &View<'_>,
        query: &Query,
        parsed: &ParsedQuery<'_>,
        ran: &SearchStrategy,
        within: Option<&Bitmap>,
    ) -> Self {
        let is_hybrid =
            query.strategy.as_ref().is_none_or(|asked| *asked == SearchStrategy::Hybrid);
        // A query without a principal must not use the history of any subject.
        let (Some(history), Some(principal), true) = (view.history, &query.principal, is_hybrid)
        else {
            return Self::default();
        };
        // Without an embedder, only the words are compared.
        let vector = match ran {
            SearchStrategy::Hybrid => parsed.units.first().and_then(|unit| unit.vector.as_deref()),
            _ => None,
        };
        let mut tools = FxHashMap::default();
        for past in history.lifts(principal, &parsed.words, vector) {
            let slots = view.catalog.by_tool_id(&past.tool);
            for slot in slots.filter(|slot| within.is_none_or(|within| within.contains(*slot))) {
                tools.insert(slot, PastCall { share: past.share, lift: past.amount });
            }
        }
        Self { tools }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.tools.keys().copied()
    }

    /// Returns the probability that this tool is called, 0 to 1; `None` if past calls do not raise it.
    pub(super) fn share(&self, slot: Slot) -> Option<f32> {
        self.tools.get(&slot).map(|past| past.share)
    }

    /// Returns the amounts to add to the scores of these tools; empty if no tool is raised.
    pub(super) fn lifts(&self, slots: &[Slot]) -> Vec<f32> {
        if self.tools.is_empty() {
            return Vec::new();
        }
        slots.iter().map(|slot| self.tools.get(slot).map_or(0.0, |past| past.lift)).collect()
    }
}
