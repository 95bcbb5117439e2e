//! Ranks the tools for a query (MGP §16.5).
//!
//! Candidates are the tools that contain words of the query, and the tools with a similar meaning. For each candidate,
//! the evidence is computed for the whole query and for each clause. A keyword search ignores the meaning, and a
//! semantic search ignores the words.
//!
//! This file calls the steps in order, chooses the strategy, and lowers the scores of deprecated tools. `evidence.rs`
//! computes the scores by words and by meaning, and `clause_scores.rs` combines the scores of the clauses. `action.rs`,
//! `past_calls.rs`, `named.rs`, `exclusion.rs` and `negation.rs` raise or lower the result. `weight.rs` has the
//! weights.

use std::borrow::Cow;

use mgp_types::mgp::SearchStrategy;
use rustc_hash::FxHashMap;

use super::action::Actions;
use super::browse::browse;
use super::category;
use super::clause_scores::ClauseScores;
use super::creation;
use super::evidence::Evidence;
use super::exclusion::Exclusion;
use super::named;
use super::negation::Negation;
use super::parsed_query::{MAX_QUERY_BYTES, ParsedQuery};
use super::past_calls::PastCalls;
use super::quotation::without_quotations;
use super::reason::{WeighedWord, reason, weighed_words};
use super::spelling;
use super::weight::{DEPRECATED_FACTOR, SIMILAR_NAME_EVIDENCE, Weights};
use super::{Explain, Fallback, FallbackReason, Query, Reason, View};
use crate::catalog::{Bitmap, Slot, ToolFeature};
use crate::error::IndexError;
use crate::lexicon::{Translation, translate};
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

/// Ranks the tools of a set; returns at most `k` of them.
pub(crate) fn rank(
    view: &View<'_>,
    query: &Query,
    within: Option<&Bitmap>,
    k: usize,
) -> Result<Ranking, IndexError> {
    let asked = query.strategy.clone().unwrap_or(SearchStrategy::Hybrid);
    let text = without_invisible(truncate(&query.text, MAX_QUERY_BYTES));
    let text = &*text;
    if !text.chars().any(char::is_alphanumeric) {
        let slots = browse(view.catalog, within, k, &|_, _| true);
        // An empty query matches every tool.
        let hits = slots.into_iter().map(|slot| Ranked::whole(slot, 1.0)).collect();
        let fallback = (asked != SearchStrategy::Category)
            .then_some(Fallback { from: asked, reason: FallbackReason::Browsing });
        return Ok(Ranking { hits, ran: SearchStrategy::Category, fallback, requests: Vec::new() });
    }
    match asked {
        SearchStrategy::Category => category::rank(view, query, text, within, k),
        _ => rank_by_evidence(view, query, text, asked, within, k),
    }
}

/// Ranks tools by words, by meaning, or by both.
pub(super) fn rank_by_evidence(
    view: &View<'_>,
    query: &Query,
    text: &str,
    asked: SearchStrategy,
    within: Option<&Bitmap>,
    k: usize,
) -> Result<Ranking, IndexError> {
    let text = without_quotations(text);
    let text = &*text;
    let exclusion = Exclusion::of(view, text, within);
    let text = exclusion.as_ref().map_or(text, |exclusion| &*exclusion.text);
    let (text, mut translation) = reword(view, text, within)?;
    let negation = Negation::cut(&text, translation.as_mut(), view.analyzer);
    let text = negation.as_ref().filter(|_| translation.is_none()).map_or(&*text, |own| &*own.text);
    let mut plan = Plan::new(view, text, translation.as_ref(), &asked);
    // A tool that the query names comes first, except in a semantic search.
    let names: FxHashMap<Slot, f32> = match asked {
        SearchStrategy::Semantic => FxHashMap::default(),
        _ => find_named(view, text, &plan.parsed, translation.is_some(), within)?,
    };
    let past = PastCalls::look_up(view, query, &plan.parsed, &plan.strategy, within);
    let named_or_used: Vec<Slot> = names.keys().copied().chain(past.slots()).collect();
    let evidence = collect_evidence(view, &mut plan, named_or_used, within, k)?;
    let parsed = &plan.parsed;
    let requests: Vec<usize> = parsed.units.iter().map(|unit| unit.request).collect();
    let ClauseScores { mut scores, units } = ClauseScores::of(&evidence, &requests);
    let actions = weigh_actions(view, parsed, &evidence.slots, &units, &mut scores);
    lower_deprecated(view, &evidence.slots, &mut scores);
    past.raise(view.catalog, &evidence.slots, &mut scores);
    raise_named(&names, &evidence.slots, &mut scores);
    if let Some(exclusion) = &exclusion {
        exclusion.lower(view, &evidence.slots, &mut scores);
    }
    if let Some(negation) = &negation {
        negation.lower(view, &evidence.slots, &mut scores);
    }
    let texts = parsed.requests();
    let words = (query.explain == Explain::Yes).then(|| weighed_words(parsed, view));
    let hits = best_indices(view, &evidence.slots, &scores, k).into_iter().map(|at| {
        let slot = evidence.slots[at];
        let explain = |words: &[WeighedWord<'_>]| Reason {
            action: Some(actions[at]).filter(|factor| *factor < 1.0),
            is_deprecated: is_deprecated(view, slot),
            is_named: names.contains_key(&slot),
            ..reason(parsed, &evidence, at, units[at], past.share(slot), words)
        };
        Ranked {
            slot,
            score: scores[at],
            request: (!texts.is_empty()).then(|| requests[units[at]]),
            reason: words.as_deref().map(explain),
        }
    });
    let hits = hits.collect();
    let fallback = plan.fallback.map(|reason| Fallback { from: asked, reason });
    Ok(Ranking { hits, ran: plan.strategy, fallback, requests: texts })
}

/// Returns the query with corrected spelling, and the query in the words that tools use: translated to English, or with
/// the usual verb for a new thing. The second query is `None` if its words would be the same.
fn reword<'a>(
    view: &View<'_>,
    text: &'a str,
    within: Option<&Bitmap>,
) -> Result<(Cow<'a, str>, Option<Translation>), IndexError> {
    if let Some(translation) = translate(text, &|word| view.has_word(word, within)) {
        return Ok((Cow::Borrowed(text), Some(translation)));
    }
    let text = spelling::correct(view, text, within)?.map_or(Cow::Borrowed(text), Cow::Owned);
    let reworded = creation::in_usual_words(&text);
    Ok((text, reworded))
}

/// Returns the tools that the query names, each with its nearness.
///
/// If the query was translated, its original words are compared first, because they may be misspelled English words,
/// e.g. `fiel`, which is also a German word. A query of a single word is an exception, because many foreign words
/// resemble English words.
fn find_named(
    view: &View<'_>,
    text: &str,
    parsed: &ParsedQuery<'_>,
    is_translated: bool,
    within: Option<&Bitmap>,
) -> Result<FxHashMap<Slot, f32>, IndexError> {
    if is_translated {
        let original = view.analyzer.query(text);
        let found = named::find(view, text, &original, within)?;
        if original.raw.len() > 1 && !found.is_empty() {
            return Ok(found.into_iter().collect());
        }
    }
    Ok(named::find(view, text, &parsed.words, within)?.into_iter().collect())
}

/// Collects the evidence for the tools that the search finds, and for the tools in `known`. If no tool contains a word
/// of the query, tools with similar names become candidates too.
fn collect_evidence(
    view: &View<'_>,
    plan: &mut Plan<'_>,
    mut known: Vec<Slot>,
    within: Option<&Bitmap>,
    k: usize,
) -> Result<Evidence, IndexError> {
    let (parsed, weights) = (&plan.parsed, plan.weights);
    let evidence = Evidence::collect(view, parsed, weights, within, &known, k)?;
    if evidence.has_words || weights.words <= 0.0 {
        return Ok(evidence);
    }
    let similar = view.keywords.find_similar(&parsed.words, k, within)?;
    if similar.is_empty() {
        return Ok(evidence);
    }
    if plan.strategy == SearchStrategy::Keyword {
        plan.fallback.get_or_insert(FallbackReason::NoWord);
    }
    known.extend(similar.iter().map(|(slot, _)| *slot));
    let mut evidence = Evidence::collect(view, parsed, weights, within, &known, k)?;
    let similar = similar.into_iter().map(|(slot, near)| (slot, SIMILAR_NAME_EVIDENCE * near));
    evidence.add(&similar.collect::<Vec<_>>(), parsed.units.len());
    Ok(evidence)
}

fn best_indices(view: &View<'_>, slots: &[Slot], scores: &[f32], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).filter(|at| scores[*at] > 0.0).collect();
    let id = |at: usize| {
        let entry = view.catalog.entry(slots[at]);
        entry.map(|entry| (&*entry.server.id, entry.name()))
    };
    order.sort_unstable_by(|a, b| {
        scores[*b].total_cmp(&scores[*a]).then_with(|| id(*a).cmp(&id(*b)))
    });
    order.truncate(k);
    order
}

fn is_deprecated(view: &View<'_>, slot: Slot) -> bool {
    view.catalog.entry(slot).is_some_and(|entry| entry.features.has(ToolFeature::Deprecated))
}

/// Lowers the scores of tools whose descriptions state that they are deprecated.
fn lower_deprecated(view: &View<'_>, slots: &[Slot], scores: &mut [f32]) {
    for (slot, score) in slots.iter().zip(scores) {
        if is_deprecated(view, *slot) {
            *score *= DEPRECATED_FACTOR;
        }
    }
}

/// Lowers the scores of tools whose action differs from the action that the query requests; returns the factors.
fn weigh_actions(
    view: &View<'_>,
    parsed: &ParsedQuery<'_>,
    slots: &[Slot],
    units: &[usize],
    scores: &mut [f32],
) -> Vec<f32> {
    let of_unit: Vec<Actions> =
        parsed.units.iter().map(|unit| Actions::of_query(unit.text)).collect();
    let factor = |(slot, unit): (&Slot, &usize)| {
        view.catalog.entry(*slot).map_or(1.0, |entry| of_unit[*unit].factor(entry.name()))
    };
    let factors: Vec<f32> = slots.iter().zip(units).map(factor).collect();
    scores.iter_mut().zip(&factors).for_each(|(score, factor)| *score *= factor);
    factors
}

fn raise_named(names: &FxHashMap<Slot, f32>, slots: &[Slot], scores: &mut [f32]) {
    for (slot, score) in slots.iter().zip(scores) {
        if let Some(nearness) = names.get(slot) {
            *score = named::score(*nearness, *score);
        }
    }
}

/// A parsed query, with the strategy and the weights for ranking its results.
struct Plan<'a> {
    parsed: ParsedQuery<'a>,
    weights: Weights,
    strategy: SearchStrategy,
    /// The reason why the search does not use the requested strategy.
    fallback: Option<FallbackReason>,
}

impl<'a> Plan<'a> {
    /// Parses the query. If no vector can be computed for it, the plan is a keyword search.
    fn new(
        view: &View<'_>,
        text: &'a str,
        translation: Option<&'a Translation>,
        asked: &SearchStrategy,
    ) -> Self {
        let weights = match asked {
            SearchStrategy::Keyword => Weights::KEYWORD,
            SearchStrategy::Semantic => Weights::SEMANTIC,
            _ => Weights::HYBRID,
        };
        let mut parsed = ParsedQuery::new(text, translation, view.analyzer, weights);
        let fallback = if weights.meaning > 0.0 { parsed.embed(view).err() } else { None };
        if fallback.is_none() {
            return Self { parsed, weights, strategy: asked.clone(), fallback };
        }
        // Parse again with the weights of a keyword search, because the words of a parsed query depend on the weights.
        let weights = Weights::KEYWORD;
        let parsed = ParsedQuery::new(text, translation, view.analyzer, weights);
        Self { parsed, weights, strategy: SearchStrategy::Keyword, fallback }
    }
}
