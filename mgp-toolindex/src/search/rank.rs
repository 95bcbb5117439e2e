//! Ranks the tools for a query (MGP §16.5).
//!
//! Candidates are the tools that contain words of the query, and the tools with a similar meaning. For each candidate,
//! the evidence is computed for the whole query and for each clause. A keyword search ignores the meaning, and a
//! semantic search ignores the words.
//!
//! This file calls the steps in order:
//!
//! 1. `wording.rs` rewords the query, and `plan.rs` parses it and chooses the strategy.
//! 2. `named.rs`, `past_calls.rs` and `evidence.rs` find the candidates and their evidence.
//! 3. `clause_scores.rs` computes a score for each candidate. `action.rs`, `past_calls.rs`, `named.rs`, `exclusion.rs`
//!    and `negation.rs` raise or lower the scores. `weight.rs` has all weights and factors.
//! 4. The candidates with the highest scores become the hits; `reason.rs` explains them.

use mgp_types::mgp::SearchStrategy;
use rustc_hash::FxHashMap;

use super::action::Actions;
use super::browse::browse;
use super::clause_scores::ClauseScores;
use super::evidence::Evidence;
use super::named;
use super::past_calls::PastCalls;
use super::plan::Plan;
use super::query::MAX_QUERY_BYTES;
use super::reason::{self, WeighedWord};
use super::view::{Search, View};
use super::weight::DEPRECATED_FACTOR;
use super::wording::Wording;
use super::{Explain, Fallback, FallbackReason, Query, Reason};
use crate::catalog::{Bitmap, Slot, ToolFeature};
use crate::error::IndexError;
use crate::text::{truncate, without_invisible};

#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    pub(crate) hits: Vec<Ranked>,
    pub(crate) ran: SearchStrategy,
    pub(crate) fallback: Option<Fallback>,
    /// The texts of the requests, if the query has several.
    pub(crate) requests: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) slot: Slot,
    pub(crate) score: f32,
    /// The index of the request that the tool fits best.
    pub(crate) request: Option<usize>,
    pub(crate) reason: Option<Reason>,
}

impl Ranked {
    /// Creates a hit for a tool that fits the query as a whole.
    pub(crate) fn whole(slot: Slot, score: f32) -> Self {
        Self { slot, score, request: None, reason: None }
    }
}

/// Ranks the tools of a set; returns at most `limit` of them.
pub(crate) fn rank(
    view: &View<'_>,
    query: &Query,
    within: Option<&Bitmap>,
    limit: usize,
) -> Result<Ranking, IndexError> {
    let search = Search { view, query, within, limit };
    let requested = query.strategy.clone().unwrap_or(SearchStrategy::Hybrid);
    let text = without_invisible(truncate(&query.text, MAX_QUERY_BYTES));
    if !text.chars().any(char::is_alphanumeric) {
        return Ok(search.list(requested));
    }
    match requested {
        SearchStrategy::Category => search.rank_by_category(&text),
        _ => search.rank_by_evidence(&text, requested),
    }
}

impl Search<'_> {
    /// Lists tools for an empty query, which matches every tool.
    fn list(&self, requested: SearchStrategy) -> Ranking {
        let slots = browse(self, &|_, _| true);
        let hits = slots.into_iter().map(|slot| Ranked::whole(slot, 1.0)).collect();
        let fallback = (requested != SearchStrategy::Category)
            .then_some(Fallback { from: requested, reason: FallbackReason::Browsing });
        Ranking { hits, ran: SearchStrategy::Category, fallback, requests: Vec::new() }
    }

    /// Ranks tools by words, by meaning, or by both.
    pub(super) fn rank_by_evidence(
        &self,
        text: &str,
        requested: SearchStrategy,
    ) -> Result<Ranking, IndexError> {
        let wording = Wording::of(self, text)?;
        let plan = Plan::new(self.view, &wording, requested);
        let candidates = Candidates::find(self, &wording, &plan)?;
        let scores = candidates.score();
        let best = candidates.best(&scores.values);
        let requests = plan.parsed.request_texts();
        let words = (self.query.explain == Explain::Yes)
            .then(|| reason::weighed_words(&plan.parsed, self.view));
        let hit = |at: usize| Ranked {
            slot: candidates.evidence.slots[at],
            score: scores.values[at],
            request: (!requests.is_empty()).then(|| plan.parsed.units[scores.units[at]].request),
            reason: words.as_deref().map(|words| candidates.reason(at, &scores, words)),
        };
        let hits = best.into_iter().map(hit).collect();
        let fallback = plan.fallback(candidates.evidence.has_similar_names);
        Ok(Ranking { hits, ran: plan.strategy, fallback, requests })
    }
}

/// The tools that a search ranks, with the evidence and the factors for their scores.
struct Candidates<'a> {
    search: &'a Search<'a>,
    wording: &'a Wording<'a>,
    plan: &'a Plan<'a>,
    /// The tools that the query names, each with the nearness of its name.
    named: FxHashMap<Slot, f32>,
    past_calls: PastCalls<'a>,
    /// The slots of the candidates, and their evidence.
    evidence: Evidence,
}

/// The scores of the candidates, in the order of [`Evidence::slots`].
struct Scores {
    values: Vec<f32>,
    /// The unit of the query that each candidate fits best.
    units: Vec<usize>,
    /// The factor for the action of each candidate.
    actions: Vec<f32>,
}

impl<'a> Candidates<'a> {
    fn find(
        search: &'a Search<'a>,
        wording: &'a Wording<'a>,
        plan: &'a Plan<'a>,
    ) -> Result<Self, IndexError> {
        let (words, is_translated) = (&plan.parsed.words, wording.translation.is_some());
        let named = match plan.requested {
            SearchStrategy::Semantic => FxHashMap::default(),
            _ => named::of_query(search, &wording.text, words, is_translated)?,
        };
        let past_calls = PastCalls::look_up(search, plan);
        let known = named.keys().copied().chain(past_calls.slots()).collect();
        let evidence = Evidence::collect(search, plan, known)?;
        Ok(Self { search, wording, plan, named, past_calls, evidence })
    }

    /// Computes the scores: by the evidence, then with each factor, with past calls and with names.
    ///
    /// The order of these steps matters. Past calls compare the scores of all candidates. A name raises the score of
    /// its tool above the scores of all other tools. A tool that the query excludes or negates is lowered even if it is
    /// named.
    fn score(&self) -> Scores {
        let (view, slots) = (self.search.view, &self.evidence.slots);
        let request_of_unit: Vec<usize> =
            self.plan.parsed.units.iter().map(|unit| unit.request).collect();
        let ClauseScores { mut scores, units } = ClauseScores::of(&self.evidence, &request_of_unit);
        let actions = self.action_factors(&units);
        scores.iter_mut().zip(&actions).for_each(|(score, factor)| *score *= factor);
        self.multiply(&mut scores, |slot| self.deprecation_factor(slot));
        self.past_calls.raise(view.catalog, slots, &mut scores);
        named::raise(&self.named, slots, &mut scores);
        if let Some(exclusion) = &self.wording.exclusion {
            self.multiply(&mut scores, |slot| exclusion.factor(view, slot));
        }
        if let Some(negation) = &self.wording.negation {
            self.multiply(&mut scores, |slot| negation.factor(view, slot));
        }
        Scores { values: scores, units, actions }
    }

    /// Returns the indices of the candidates with the highest scores, best first, up to the limit of the search.
    /// Candidates with equal scores are sorted by server and name; candidates without a positive score are omitted.
    fn best(&self, scores: &[f32]) -> Vec<usize> {
        let id = |at: usize| {
            let entry = self.search.view.catalog.entry(self.evidence.slots[at]);
            entry.map(|entry| (&*entry.server.id, entry.name()))
        };
        let order = |a: &usize, b: &usize| {
            scores[*b].total_cmp(&scores[*a]).then_with(|| id(*a).cmp(&id(*b)))
        };
        let mut best: Vec<usize> = (0..scores.len()).filter(|at| scores[*at] > 0.0).collect();
        if self.search.limit < best.len() {
            best.select_nth_unstable_by(self.search.limit, order);
            best.truncate(self.search.limit);
        }
        best.sort_unstable_by(order);
        best
    }

    /// Returns the reason why the candidate with an index was found.
    fn reason(&self, at: usize, scores: &Scores, words: &[WeighedWord<'_>]) -> Reason {
        let (slot, unit) = (self.evidence.slots[at], scores.units[at]);
        Reason {
            history: self.past_calls.share(slot),
            action: Some(scores.actions[at]).filter(|factor| *factor < 1.0),
            is_deprecated: self.is_deprecated(slot),
            is_named: self.named.contains_key(&slot),
            ..reason::of_evidence(&self.plan.parsed, &self.evidence, at, unit, words)
        }
    }

    fn multiply(&self, scores: &mut [f32], factor: impl Fn(Slot) -> f32) {
        for (slot, score) in self.evidence.slots.iter().zip(scores) {
            *score *= factor(*slot);
        }
    }

    /// Returns the factors for the actions of the candidates; a factor is below 1 if the action differs from the action
    /// that the candidate's unit requests.
    fn action_factors(&self, units: &[usize]) -> Vec<f32> {
        let requested = self.plan.parsed.units.iter().map(|unit| Actions::of_query(unit.text));
        let requested: Vec<Actions> = requested.collect();
        let factor = |(slot, unit): (&Slot, &usize)| {
            let entry = self.search.view.catalog.entry(*slot);
            entry.map_or(1.0, |entry| requested[*unit].factor(entry.name()))
        };
        self.evidence.slots.iter().zip(units).map(factor).collect()
    }

    fn deprecation_factor(&self, slot: Slot) -> f32 {
        if self.is_deprecated(slot) { DEPRECATED_FACTOR } else { 1.0 }
    }

    fn is_deprecated(&self, slot: Slot) -> bool {
        let entry = self.search.view.catalog.entry(slot);
        entry.is_some_and(|entry| entry.features.has(ToolFeature::Deprecated))
    }
}
