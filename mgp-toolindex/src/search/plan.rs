//! Plans a search: parses the query, and chooses the strategy and the weights (MGP §16.5).

use mgp_types::mgp::SearchStrategy;

use super::parsed_query::ParsedQuery;
use super::weight::Weights;
use super::wording::Wording;
use super::{Fallback, FallbackReason, View};

/// The parsed query of a search, and the strategy and the weights for ranking its results.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) parsed: ParsedQuery<'a>,
    pub(super) weights: Weights,
    pub(super) requested: SearchStrategy,
    pub(super) strategy: SearchStrategy,
    /// The reason why the search does not use the requested strategy.
    failure: Option<FallbackReason>,
}

impl<'a> Plan<'a> {
    /// Plans a search with the requested strategy. If the strategy needs a vector of the query, but none can be
    /// computed, plans a keyword search instead.
    pub(super) fn new(
        view: &View<'_>,
        wording: &'a Wording<'_>,
        requested: SearchStrategy,
    ) -> Self {
        let weights = Weights::of(&requested);
        let mut parsed = ParsedQuery::new(wording, view.analyzer, weights);
        let failure = if weights.meaning > 0.0 { parsed.embed(view).err() } else { None };
        if failure.is_none() {
            let strategy = requested.clone();
            return Self { parsed, weights, requested, strategy, failure: None };
        }
        // Parse the query again for a keyword search, because the words of a parsed query depend on the weights.
        let weights = Weights::KEYWORD;
        let parsed = ParsedQuery::new(wording, view.analyzer, weights);
        let strategy = SearchStrategy::Keyword;
        Self { parsed, weights, requested, strategy, failure }
    }

    /// Returns the fallback that the result of the search reports. `has_similar_names` is `true` if no tool contains a
    /// word of the query, and tools with similar names were found instead.
    pub(super) fn fallback(&self, has_similar_names: bool) -> Option<Fallback> {
        let has_no_word = self.strategy == SearchStrategy::Keyword && has_similar_names;
        let reason = self.failure.clone().or(has_no_word.then_some(FallbackReason::NoWord))?;
        Some(Fallback { from: self.requested.clone(), reason })
    }
}
