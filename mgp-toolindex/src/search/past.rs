//! What past calls say of the tools for a query (MGP §16.4).
//!
//! Applies to: inbound.

use mgp_types::mgp::SearchStrategy;
use mgp_types::service::Principal;
use rustc_hash::FxHashMap;

use super::question::Question;
use super::{Query, View};
use crate::catalog::{Bitmap, Slot};

/// What past calls say of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// How likely it is that it is called, 0 to 1.
    pub(super) share: f32,
    lift: f32,
}

/// The tools within a set that past calls speak for; none unless the search takes all evidence there is.
pub(super) fn told(
    view: &View<'_>,
    query: &Query,
    question: &Question<'_>,
    ran: &SearchStrategy,
    within: Option<&Bitmap>,
) -> FxHashMap<Slot, Told> {
    let is_hybrid = query.strategy.as_ref().is_none_or(|asked| *asked == SearchStrategy::Hybrid);
    let (Some(history), true) = (view.history, is_hybrid) else { return FxHashMap::default() };
    let local = Principal::local();
    let asker = query.asker.as_ref().unwrap_or(&local);
    // Without an embedder words tell alone, of what is asked and of what was.
    let vector = match ran {
        SearchStrategy::Hybrid => question.units.first().and_then(|unit| unit.vector.as_deref()),
        _ => None,
    };
    let mut told = FxHashMap::default();
    for past in history.views(asker, &question.words, vector) {
        let slots = view.catalog.by_tool_id(&past.tool);
        for slot in slots.filter(|slot| within.is_none_or(|within| within.contains(*slot))) {
            told.insert(slot, Told { share: past.share, lift: past.lift });
        }
    }
    told
}

/// What is added to each of these tools; nothing where nothing is told.
pub(super) fn lifts(told: &FxHashMap<Slot, Told>, slots: &[Slot]) -> Vec<f32> {
    if told.is_empty() {
        return Vec::new();
    }
    slots.iter().map(|slot| told.get(slot).map_or(0.0, |told| told.lift)).collect()
}
