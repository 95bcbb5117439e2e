//! Ranks the tools for a query (MGP §16.5).
//!
//! Tools with its words and tools with its meaning are candidates; for each of them all evidence is weighed exactly, for
//! the whole query and for each clause. Keyword and semantic search are the same with the other kind left out.
//!
//! Applies to: inbound.

use mgp_types::mgp::SearchStrategy;
use rustc_hash::FxHashMap;

use super::browse::browse;
use super::category;
use super::evidence::Evidence;
use super::fuse::Fused;
use super::named::{self, named};
use super::past::{self, Past};
use super::question::{LONGEST, Question};
use super::reason::reason;
use super::weight::{SPELLED, Weights};
use super::{Explain, Fallback, FallbackReason, Query, Reason, View};
use crate::catalog::{Bitmap, Slot};
use crate::error::IndexError;
use crate::learn::{Choice, OF_CANDIDATE, Remembered};
use crate::text::cut;

/// How many of the best are looked for when a query is asked again.
const ASKED: usize = 20;

/// The best tools for a query.
#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    pub(crate) hits: Vec<Ranked>,
    pub(crate) ran: SearchStrategy,
    pub(crate) fallback: Option<Fallback>,
}

/// A tool that was ranked.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) slot: Slot,
    pub(crate) score: f32,
    pub(crate) reason: Option<Reason>,
}

/// Ranks the tools within a set; at most `k` of them.
pub(crate) fn rank(
    view: &View<'_>,
    query: &Query,
    within: Option<&Bitmap>,
    k: usize,
) -> Result<Ranking, IndexError> {
    let asked = query.strategy.clone().unwrap_or(SearchStrategy::Hybrid);
    let text = cut(&query.text, LONGEST);
    if !text.chars().any(char::is_alphanumeric) {
        let slots = browse(view.catalog, within, k, &|_, _| true);
        // Nothing was asked, so everything fits.
        let hits =
            slots.into_iter().map(|slot| Ranked { slot, score: 1.0, reason: None }).collect();
        let fallback = (asked != SearchStrategy::Category)
            .then_some(Fallback { from: asked, reason: FallbackReason::Browsing });
        return Ok(Ranking { hits, ran: SearchStrategy::Category, fallback });
    }
    match asked {
        SearchStrategy::Category => category::rank(view, query, text, within, k),
        _ => weigh(view, query, text, asked, within, k),
    }
}

/// Ranks by words, by meaning or by both.
pub(super) fn weigh(
    view: &View<'_>,
    query: &Query,
    text: &str,
    asked: SearchStrategy,
    within: Option<&Bitmap>,
    k: usize,
) -> Result<Ranking, IndexError> {
    let (question, weights, ran, mut fallback) = understand(view, text, &asked);
    // A tool is asked for by its name whatever else speaks for others; its meaning is another matter.
    let names = match asked {
        SearchStrategy::Semantic => Vec::new(),
        _ => named(view, text, &question.words, within)?,
    };
    let past = Past::of(view, query, &question, &ran, within);
    let named = names.iter().map(|(slot, _)| *slot);
    let more: Vec<Slot> = named.chain(past.slots()).collect();
    let mut evidence = Evidence::collect(view, &question, weights, within, &more, k)?;
    if !evidence.has_words && weights.words > 0.0 {
        let near = view.keywords.fuzzy(&question.words, k, within)?;
        if ran == SearchStrategy::Keyword && fallback.is_none() && !near.is_empty() {
            fallback = Some(FallbackReason::NoWord);
        }
        let slots: Vec<Slot> = near.iter().map(|(slot, _)| *slot).chain(more).collect();
        evidence = Evidence::collect(view, &question, weights, within, &slots, k)?;
        let near: Vec<_> = near.into_iter().map(|(slot, near)| (slot, SPELLED * near)).collect();
        evidence.add(&near, question.units.len());
    }
    let mut fused = Fused::of(&evidence, question.units.len(), &past.lifts(&evidence.slots));
    past.order(view, &evidence.slots, &mut fused);
    let mut scores = fused.scores;
    let names: FxHashMap<Slot, f32> = names.into_iter().collect();
    if !names.is_empty() {
        for (slot, score) in evidence.slots.iter().zip(&mut scores) {
            if let Some(nearness) = names.get(slot) {
                *score = named::score(*nearness, *score);
            }
        }
    }
    let mut order: Vec<usize> = (0..scores.len()).filter(|at| scores[*at] > 0.0).collect();
    let id = |at: usize| {
        let entry = view.catalog.entry(evidence.slots[at]);
        entry.map(|entry| (&*entry.server.id, entry.name()))
    };
    order.sort_unstable_by(|a, b| {
        scores[*b].total_cmp(&scores[*a]).then_with(|| id(*a).cmp(&id(*b)))
    });
    order.truncate(k);
    let hits = order.into_iter().map(|at| Ranked {
        slot: evidence.slots[at],
        score: scores[at],
        reason: (query.explain == Explain::Yes).then(|| {
            let past = past.share(evidence.slots[at]);
            reason(&question, &evidence, at, fused.clauses[at], past, view.analyzer)
        }),
    });
    let fallback = fallback.map(|reason| Fallback { from: asked, reason });
    Ok(Ranking { hits: hits.collect(), ran, fallback })
}

/// What there is to choose from for a remembered query, and what of it was called; nothing of that may be left.
pub(crate) fn ask_again(
    view: &View<'_>,
    remembered: &Remembered,
) -> Result<Option<Choice<OF_CANDIDATE>>, IndexError> {
    let called = past::slots_of(view, &remembered.called);
    if called.is_empty() {
        return Ok(None);
    }
    let told = past::slots_of(view, &remembered.told);
    let text = cut(&remembered.text, LONGEST);
    let (question, weights, ..) = understand(view, text, &SearchStrategy::Hybrid);
    let more: Vec<Slot> = told.keys().copied().collect();
    let evidence = Evidence::collect(view, &question, weights, None, &more, ASKED)?;
    let fused = Fused::of(&evidence, question.units.len(), &[]);
    Ok(past::choice(view, &evidence.slots, &fused, &told, &called))
}

/// Takes the query apart and says how it can be searched, and why not as it was asked.
fn understand<'a>(
    view: &View<'_>,
    text: &'a str,
    asked: &SearchStrategy,
) -> (Question<'a>, Weights, SearchStrategy, Option<FallbackReason>) {
    let weights = match asked {
        SearchStrategy::Keyword => Weights::KEYWORD,
        SearchStrategy::Semantic => Weights::SEMANTIC,
        _ => Weights::HYBRID,
    };
    let mut question = Question::new(text, view.analyzer, weights);
    let why = if weights.meaning > 0.0 { question.embed(view).err() } else { None };
    match why {
        None => (question, weights, asked.clone(), None),
        Some(why) => {
            let question = Question::new(text, view.analyzer, Weights::KEYWORD);
            (question, Weights::KEYWORD, SearchStrategy::Keyword, Some(why))
        }
    }
}
