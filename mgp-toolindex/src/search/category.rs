//! Searches by category: finds the categories that match the query, then the tools in them (MGP §16.4).
//!
//! A category matches if words of its name are in the query, or if its best tool matches the query. If the query is the
//! name of a category, all tools of the category are found, the best tool first.

use mgp_types::mgp::SearchStrategy;
use rustc_hash::FxHashMap;

use super::browse::browse;
use super::rank::{Ranked, Ranking};
use super::view::Search;
use super::weight::{
    CATEGORY_NAME_WEIGHT, CATEGORY_WEIGHT, MAX_UNNAMED_SCORE, NAMED_CATEGORY_SCORE,
};
use crate::catalog::{canonical, is_in};
use crate::error::IndexError;
use crate::lexicon::to_english;

/// The minimum number of tools that are searched, so that their categories can be compared, even if fewer results are
/// wanted.
const MIN_TOOLS: usize = 100;

impl Search<'_> {
    pub(super) fn rank_by_category(&self, text: &str) -> Result<Ranking, IndexError> {
        let view = self.view;
        let wide = Search { limit: MIN_TOOLS.max(self.limit), ..*self };
        let ranking = wide.rank_by_evidence(text, SearchStrategy::Hybrid)?;
        let words = view.analyzer.query(&to_english(text));
        let is_asked = |stem: &str| words.terms.iter().any(|term| term.text == stem);
        let named = canonical(text);
        // The score of each list of categories, by the number of the list. It is computed from the names of the
        // categories and from the best tool in them.
        let mut fits: FxHashMap<u32, f32> = FxHashMap::default();
        let mut hits = ranking.hits;
        for hit in &mut hits {
            let Some(record) = view.catalog.record(hit.slot) else { continue };
            let own = hit.score.min(MAX_UNNAMED_SCORE);
            // The hits are sorted by score, so the first hit with these categories is their best tool.
            let fit = *fits.entry(record.categories).or_insert_with(|| {
                let labels = record.entry.categories.words.iter();
                let by_name = labels.map(|label| {
                    if named.as_deref().is_some_and(|named| is_in(label, named)) {
                        1.0
                    } else {
                        share(&view.analyzer.query(label).terms, &is_asked)
                    }
                });
                CATEGORY_NAME_WEIGHT * by_name.fold(0.0, f32::max)
                    + (1.0 - CATEGORY_NAME_WEIGHT) * own
            });
            hit.score = CATEGORY_WEIGHT * fit + (1.0 - CATEGORY_WEIGHT) * own;
        }
        if let Some(named) = named {
            // If the query is the name of a category, add the tools of this category that the search did not find.
            let rest = browse(self, &|slot, record| {
                record.entry.categories.words.iter().any(|label| is_in(label, &named))
                    && !hits.iter().any(|hit| hit.slot == slot)
            });
            hits.extend(rest.into_iter().map(|slot| Ranked::whole(slot, NAMED_CATEGORY_SCORE)));
        }
        // The sort is stable, so tools with equal scores keep their order.
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(self.limit);
        Ok(Ranking { hits, ran: SearchStrategy::Category, fallback: None, ..ranking })
    }
}

/// Returns the share of a category's words that occur in the query.
#[expect(clippy::cast_precision_loss, reason = "a category has some words")]
fn share(words: &[crate::text::Term], is_asked: &dyn Fn(&str) -> bool) -> f32 {
    let asked = words.iter().filter(|word| is_asked(&word.text)).count();
    asked as f32 / words.len().max(1) as f32
}
