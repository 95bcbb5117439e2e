//! Raises the scores of tools that were called after similar queries (MGP §16.4).

use mgp_types::mgp::SearchStrategy;
use mgp_types::service::Principal;
use rustc_hash::FxHashMap;

use super::clause_scores::{best_first, maximum};
use super::plan::Plan;
use super::view::Search;
use super::weight::MAX_UNNAMED_SCORE;
use crate::catalog::{Catalog, Slot};
use crate::learn::History;

/// The number of first results, i.e. tools at the top of the ranking. Past calls replace at most [`MAX_NEWCOMERS`] of
/// them.
const FIRST_TOOLS: usize = 5;

/// The number of best tools among the first results that past calls never replace.
const KEPT_TOOLS: usize = 2;

/// The maximum number of tools that past calls move into the first results.
const MAX_NEWCOMERS: usize = 2;

/// The minimum number of replaceable first results that were ever called. If fewer of them were called, past calls can
/// also replace one tool that was never called.
const MIN_CALLED_TOOLS: usize = 2;

/// The maximum fraction by which the share of a tool is lowered below the last of the first results.
const LOWERING: f32 = 1e-3;

/// The lift (the amount by which past calls raise a tool) at which past calls alone give a confidence of one half.
const HALF_CONFIDENCE_LIFT: f32 = 0.5;

/// If the most similar past query has at least this similarity, past calls have their full confidence. Less similar
/// queries prove little, because a history of few subjects suggests its tools for every query.
const CONFIDENT_SIMILARITY: f32 = 0.5;

/// The tools whose scores past calls raise.
#[derive(Debug, Default)]
pub(super) struct PastCalls<'a> {
    tools: FxHashMap<Slot, PastCall>,
    /// The similarity of the most similar past query.
    nearest: f32,
    /// The history, and the caller whose past calls count; `None` if past calls are not used.
    source: Option<(&'a History, &'a Principal)>,
}

#[derive(Clone, Copy, Debug)]
struct PastCall {
    share: f32,
    lift: f32,
}

impl<'a> PastCalls<'a> {
    /// Looks up the query in the history. The result is empty unless the search is hybrid (by words and meaning) and
    /// the query has a principal.
    pub(super) fn look_up(search: &Search<'a>, plan: &Plan<'_>) -> Self {
        let Search { view, query, .. } = *search;
        // A search by category also has a hybrid plan, so compare the strategy of the query.
        let is_hybrid =
            query.strategy.as_ref().is_none_or(|asked| *asked == SearchStrategy::Hybrid);
        // A query without a principal must not use the history of any subject.
        let (Some(history), Some(principal), true) = (view.history, &query.principal, is_hybrid)
        else {
            return Self::default();
        };
        // Pass no vector in a keyword search, so that past queries are compared by words only.
        let vector = match plan.strategy {
            SearchStrategy::Hybrid => plan.parsed.units[0].vector.as_deref(),
            _ => None,
        };
        let (mut tools, mut nearest) = (FxHashMap::default(), 0.0_f32);
        for past in history.lifts(principal, &plan.parsed.words, vector) {
            let slots = view.catalog.by_tool_id(&past.tool);
            for slot in slots.filter(|slot| search.can_find(*slot)) {
                tools.insert(slot, PastCall { share: past.share, lift: past.amount });
                nearest = nearest.max(past.nearest);
            }
        }
        Self { tools, nearest, source: Some((history, principal)) }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.tools.keys().copied()
    }

    /// Returns the probability that this tool is called, 0 to 1; `None` if past calls do not raise it.
    pub(super) fn share(&self, slot: Slot) -> Option<f32> {
        self.tools.get(&slot).map(|past| past.share)
    }

    /// Raises the scores of these tools.
    ///
    /// Past calls can never raise a tool that was never called. Therefore [`first_results`] replaces at most one such
    /// tool, and only if few of the first results were called.
    pub(super) fn raise(&self, catalog: &Catalog, slots: &[Slot], scores: &mut [f32]) {
        let lift = |slot: &Slot| self.tools.get(slot).map_or(0.0, |past| past.lift);
        let lifts: Vec<f32> = slots.iter().map(lift).collect();
        let max_lift = lifts.iter().copied().fold(0.0, f32::max);
        if max_lift <= 0.0 {
            return;
        }
        let order = best_first(scores);
        let best = maximum(scores);
        let mut shares: Vec<f32> =
            scores.iter().zip(&lifts).map(|(score, lift)| score / best + lift).collect();
        let is_called = |at: usize| lifts[at] > 0.0 || self.is_called(catalog, slots[at]);
        let first = first_results(&order, &shares, &lifts, is_called);
        lower_others(&mut shares, &first);
        // If the other evidence is weak, the past calls determine the score of the best tool.
        let similarity = (self.nearest / CONFIDENT_SIMILARITY).clamp(0.0, 1.0);
        let confidence = similarity * max_lift / (max_lift + HALF_CONFIDENCE_LIFT);
        let best = best.max(MAX_UNNAMED_SCORE * confidence);
        let best_share = maximum(&shares);
        for (score, share) in scores.iter_mut().zip(&shares) {
            *score = best * (share / best_share).clamp(0.0, 1.0);
        }
    }

    fn is_called(&self, catalog: &Catalog, slot: Slot) -> bool {
        let Some(((history, principal), entry)) = self.source.zip(catalog.entry(slot)) else {
            return false;
        };
        history.is_called(principal, &entry.tool_id())
    }
}

/// Returns the indices of the tools for the first results: the best tools without past calls, of which up to
/// [`MAX_NEWCOMERS`] are replaced by tools that past calls raise. `shares` has the score of each tool relative to the
/// best score, plus its lift.
///
/// The best [`KEPT_TOOLS`] are never replaced. Among the remaining first results, a raised tool replaces the weakest
/// tool that was called, because its calls after other queries indicate that it is not meant. If fewer than
/// [`MIN_CALLED_TOOLS`] of them were called, the last tool that was never called can also be replaced.
fn first_results(
    order: &[usize],
    shares: &[f32],
    lifts: &[f32],
    is_called: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let (best, others) = order.split_at(order.len().min(FIRST_TOOLS));
    let mut first = best.to_vec();
    let (mut called, never_called): (Vec<usize>, Vec<usize>) =
        best.iter().copied().skip(KEPT_TOOLS).partition(|at| is_called(*at));
    let mut never_called = never_called.last().copied().filter(|_| called.len() < MIN_CALLED_TOOLS);
    let mut raised: Vec<usize> = others.iter().copied().filter(|at| lifts[*at] > 0.0).collect();
    raised.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]));
    for newcomer in raised.into_iter().take(MAX_NEWCOMERS) {
        let is_weaker = |at: &usize| shares[*at] < shares[newcomer];
        let weakest =
            (0..called.len()).min_by(|a, b| shares[called[*a]].total_cmp(&shares[called[*b]]));
        let replaced = match weakest.filter(|number| is_weaker(&called[*number])) {
            Some(number) => Some(called.swap_remove(number)),
            None => never_called.take_if(|at| is_weaker(at)),
        };
        if let Some(place) = first.iter_mut().find(|at| Some(**at) == replaced) {
            *place = newcomer;
        }
    }
    first
}

/// Lowers the shares of tools outside the first results where necessary, so that they rank below all first results.
fn lower_others(shares: &mut [f32], first: &[usize]) {
    let least = first.iter().map(|at| shares[*at]).fold(f32::INFINITY, f32::min);
    for at in (0..shares.len()).filter(|at| !first.contains(at)) {
        let excess = shares[at] - least;
        if excess >= 0.0 {
            // The factor grows with the excess, so the lowered tools keep their order relative to each other.
            shares[at] = least * (1.0 - LOWERING / (1.0 + excess));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first results of eight tools, whose order without past calls is 0 to 7.
    fn first(lifts: &[(usize, f32)], called: &[usize]) -> Vec<usize> {
        let mut all = [0.0; 8];
        for (at, lift) in lifts {
            all[*at] = *lift;
        }
        let order: Vec<usize> = (0..8).collect();
        let shares: Vec<f32> =
            (0_u8..).zip(all).map(|(at, lift)| 1.0 - 0.1 * f32::from(at) + lift).collect();
        let mut first = first_results(&order, &shares, &all, |at| called.contains(&at));
        first.sort_unstable();
        first
    }

    #[test]
    fn a_called_tool_replaces_the_weakest_called_one() {
        assert_eq!(first(&[(6, 0.9)], &[2, 3, 6]), [0, 1, 2, 4, 6]);
        assert_eq!(first(&[(6, 0.9), (7, 0.9), (5, 0.6)], &[2, 3, 5, 6, 7]), [0, 1, 4, 6, 7]);
        assert_eq!(first(&[(6, 0.2)], &[2, 3, 6]), [0, 1, 2, 3, 4], "the lift is too small");
    }

    #[test]
    fn tools_that_were_never_called_keep_their_places_beside_called_ones() {
        assert_eq!(
            first(&[(6, 0.9), (7, 0.9)], &[6, 7]),
            [0, 1, 2, 3, 6],
            "at most one is replaced"
        );
        let are_raised = [(2, 2.0), (3, 2.0), (6, 0.9)];
        assert_eq!(first(&are_raised, &[2, 3, 6]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_best_two_tools_are_never_replaced() {
        assert_eq!(first(&[(7, 9.0), (6, 9.0)], &[0, 1, 6, 7]), [0, 1, 2, 3, 6]);
    }
}
