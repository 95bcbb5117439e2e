//! Ranks tools by words and by meaning (MGP §16.4).
//!
//! Applies to: inbound.

use mgp_types::mgp::SearchStrategy;
use rustc_hash::FxHashSet;

use super::{Fallback, FallbackReason, Query, Reason, View};
use crate::catalog::{Bitmap, Slot};
use crate::error::IndexError;

/// How many tools of each way of searching are looked at.
const CANDIDATES: usize = 100;

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
    let words = view.analyzer.query(&query.text);
    if words.is_empty() {
        let all = view.catalog.records().map(|(slot, _)| slot);
        let hits = all.filter(|slot| within.is_none_or(|within| within.contains(*slot)));
        let hits = hits.take(k).map(|slot| Ranked { slot, score: 0.0, reason: None }).collect();
        let fallback = Fallback { from: asked, reason: FallbackReason::Browsing };
        return Ok(Ranking { hits, ran: SearchStrategy::Category, fallback: Some(fallback) });
    }
    let mut fallback = None;
    let vector = match (view.embedder, view.vectors) {
        _ if asked == SearchStrategy::Keyword => None,
        (Some(embedder), Some(_)) => match embedder.embed(&query.text) {
            Ok(vector) => Some(vector),
            Err(error) => {
                fallback = Some(FallbackReason::EmbedderFailed(error.to_string()));
                None
            }
        },
        _ => {
            fallback = Some(FallbackReason::NoEmbedder);
            None
        }
    };
    let (by_words, by_meaning) = match (&asked, &vector) {
        (_, None) => (1.0, 0.0),
        (SearchStrategy::Semantic, _) => (0.0, 1.0),
        _ => (0.5, 0.5),
    };
    let question = view.keywords.ask(&words)?;
    let mut slots: FxHashSet<Slot> = FxHashSet::default();
    if by_words > 0.0 {
        slots.extend(question.top(CANDIDATES.max(k), within)?.into_iter().map(|(slot, _)| slot));
    }
    if let (Some(vector), Some(table)) = (&vector, view.vectors) {
        let near = table.top(&[vector], CANDIDATES.max(k), within);
        slots.extend(near.into_iter().flatten().map(|(slot, _)| slot));
    }
    let mut slots: Vec<Slot> = slots.into_iter().collect();
    slots.sort_unstable();
    let scores = if by_words > 0.0 { question.scores(&slots)? } else { vec![0.0; slots.len()] };
    let best = scores.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let mut hits: Vec<Ranked> = slots
        .into_iter()
        .zip(scores)
        .map(|(slot, score)| {
            let near = vector.as_ref().zip(view.vectors);
            let near = near.and_then(|(vector, table)| table.cosine(vector, slot)).unwrap_or(0.0);
            let score = by_words * score / best + by_meaning * near.max(0.0);
            Ranked { slot, score: score.clamp(0.0, 1.0), reason: None }
        })
        .collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.slot.cmp(&b.slot)));
    hits.truncate(k);
    let ran = if vector.is_some() { asked.clone() } else { SearchStrategy::Keyword };
    let fallback = fallback.filter(|_| ran != asked).map(|reason| Fallback { from: asked, reason });
    Ok(Ranking { hits, ran, fallback })
}
