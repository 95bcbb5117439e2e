//! What past calls say of the tools for a query (MGP §16.4).
//!
//! Once enough remembered queries could be asked again, what the evidence says of a candidate and what past calls say
//! are hints of one order, weighed by what was called. Before, past calls lift what they speak for.
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::mgp::SearchStrategy;
use rustc_hash::FxHashMap;

use super::fuse::Fused;
use super::question::Question;
use super::weight::MOST;
use super::{Query, View};
use crate::catalog::{Bitmap, ServerNumber, Slot};
use crate::learn::{Choice, OF_CANDIDATE, OF_TOOL, Order, Standing};

/// How many of the ranking's best a remembered query chooses from.
const CHOICES: usize = 40;

/// How many of the ranking's best say which servers it finds, and what each counts at most.
const BEST: usize = 10;
const BEST_SHARE: f32 = 10.0;

/// What is likely by less than this is no reason to find a tool.
const LEAST: f32 = 1e-3;

/// How quickly scores fall along the order.
const FALL: f32 = 0.25;

/// What past calls say.
#[derive(Debug, Default)]
pub(super) struct Past {
    told: FxHashMap<Slot, Told>,
    order: Option<Order>,
}

/// What they say of a tool.
#[derive(Clone, Copy, Debug)]
struct Told {
    share: f32,
    lift: f32,
    hints: [f32; OF_TOOL],
}

impl Past {
    /// The tools within a set that past calls speak for; none unless the search takes all evidence there is.
    pub(super) fn of(
        view: &View<'_>,
        query: &Query,
        question: &Question<'_>,
        ran: &SearchStrategy,
        within: Option<&Bitmap>,
    ) -> Self {
        let is_hybrid =
            query.strategy.as_ref().is_none_or(|asked| *asked == SearchStrategy::Hybrid);
        // Nobody who is not named learns from anybody.
        let (Some(history), Some(asker), true) = (view.history, &query.asker, is_hybrid) else {
            return Self::default();
        };
        // Without an embedder words tell alone, of what is asked and of what was.
        let vector = match ran {
            SearchStrategy::Hybrid => {
                question.units.first().and_then(|unit| unit.vector.as_deref())
            }
            _ => None,
        };
        let past = history.told(asker, &question.words, vector);
        let mut told = FxHashMap::default();
        for past in past.views {
            let slots = view.catalog.by_tool_id(&past.tool);
            for slot in slots.filter(|slot| within.is_none_or(|within| within.contains(*slot))) {
                let (share, lift, hints) = (past.share, past.lift, past.hints);
                told.insert(slot, Told { share, lift, hints });
            }
        }
        Self { told, order: past.order }
    }

    /// The tools that are told of.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.told.keys().copied()
    }

    /// How likely it is that a tool is called, 0 to 1.
    pub(super) fn share(&self, slot: Slot) -> Option<f32> {
        self.told.get(&slot).map(|told| told.share).filter(|share| *share >= LEAST)
    }

    /// What is added to each of these tools; nothing where nothing is told, or where there is an order.
    pub(super) fn lifts(&self, slots: &[Slot]) -> Vec<f32> {
        if self.told.is_empty() || self.order.is_some() {
            return Vec::new();
        }
        slots.iter().map(|slot| self.told.get(slot).map_or(0.0, |told| told.lift)).collect()
    }

    /// Scores the candidates by the order, where there is one.
    pub(super) fn order(&self, view: &View<'_>, slots: &[Slot], fused: &mut Fused) {
        let Some(order) = self.order.filter(|_| !self.told.is_empty()) else { return };
        let hints = |slot: &Slot| self.told.get(slot).map(|told| &told.hints);
        let standings = standings(view, slots, fused, hints);
        let worth: Vec<f32> = slots
            .iter()
            .zip(standings)
            .map(|(slot, standing)| {
                let told = self.told.get(slot);
                if standing.share <= 0.0 && told.is_none_or(|told| told.share < LEAST) {
                    return f32::NEG_INFINITY;
                }
                order.of(&standing.row(told.map_or(&[0.0; OF_TOOL], |told| &told.hints)))
            })
            .collect();
        let best = worth.iter().copied().fold(f32::MIN, f32::max);
        // Past calls can be all there is: then they say how sure one can be, by the nearest query and by its tool.
        let told = self.told.values().map(|told| told.share * told.hints[1]).fold(0.0, f32::max);
        let all = MOST * fused.sure.max(told.min(1.0));
        fused.scores = worth.iter().map(|worth| all * (FALL * (worth - best)).exp()).collect();
    }
}

/// The tools of these ids, with what is known of each.
pub(super) fn slots_of<T: Copy>(view: &View<'_>, tools: &[(Arc<str>, T)]) -> FxHashMap<Slot, T> {
    let each = tools
        .iter()
        .flat_map(|(id, known)| view.catalog.by_tool_id(id).map(move |slot| (slot, *known)));
    each.collect()
}

/// What there is to choose from, the ranking's best and what is told of, and what of it was called.
pub(super) fn choice(
    view: &View<'_>,
    slots: &[Slot],
    fused: &Fused,
    told: &FxHashMap<Slot, [f32; OF_TOOL]>,
    called: &FxHashMap<Slot, f32>,
) -> Option<Choice<OF_CANDIDATE>> {
    let mut choice = Choice { rows: Vec::new(), chosen: Vec::new() };
    for (slot, standing) in slots.iter().zip(standings(view, slots, fused, |slot| told.get(slot))) {
        let hints = told.get(slot);
        if standing.place < CHOICES || hints.is_some() {
            choice.rows.push(standing.row(hints.unwrap_or(&[0.0; OF_TOOL])));
            choice.chosen.push(called.get(slot).copied().unwrap_or(0.0));
        }
    }
    let all: f32 = choice.chosen.iter().sum();
    if all <= 0.0 {
        return None;
    }
    choice.chosen.iter_mut().for_each(|chosen| *chosen /= all);
    Some(choice)
}

/// What the ranking says of each candidate, and of its server with what past calls say.
fn standings<'a>(
    view: &View<'_>,
    slots: &[Slot],
    fused: &Fused,
    hints: impl Fn(&Slot) -> Option<&'a [f32; OF_TOOL]>,
) -> Vec<Standing> {
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by(|left, right| fused.shares[*right].total_cmp(&fused.shares[*left]));
    let mut places = vec![0; slots.len()];
    let mut servers: FxHashMap<ServerNumber, [f32; 3]> = FxHashMap::default();
    for (place, at) in order.into_iter().enumerate() {
        places[at] = place;
        let Some(number) = view.catalog.server_of(slots[at]) else { continue };
        let hints = hints(&slots[at]);
        if place >= BEST && hints.is_none() {
            continue;
        }
        let server = servers.entry(number).or_default();
        if place < BEST {
            server[2] += fused.shares[at] / BEST_SHARE;
        }
        if let Some(hints) = hints {
            server[0] = (server[0] + hints[0]).min(1.0);
            server[1] = server[1].max(hints[1]);
        }
    }
    let each = slots.iter().zip(places).zip(&fused.shares);
    each.map(|((slot, place), share)| {
        let number = view.catalog.server_of(*slot);
        let server = number.and_then(|number| servers.get(&number)).copied().unwrap_or_default();
        Standing { share: *share, place, sure: fused.sure, server }
    })
    .collect()
}
