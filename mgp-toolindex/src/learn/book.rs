//! What one ranking learns from: the queries of a subject or of a tenant, by word and by tool.
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgp_types::service::{Subject, TenantId};
use rustc_hash::FxHashMap;

use super::entry::{Entry, Place, Word};
use super::model::Model;
use super::order::Order;
use crate::catalog::Bitmap;

/// Names a book: a tenant, and a subject unless the tenant shares.
pub(super) type Title = (TenantId, Option<Subject>);

/// What one ranking learns from.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) model: Model,
    /// How the ranking and past calls are weighed; none before enough could be asked again.
    pub(super) order: Option<Order>,
    /// Whether the index had none of the tools when it was asked last.
    pub(super) is_unasked: bool,
    /// Calls that came after the model was fitted.
    pub(super) news: usize,
    /// Its entries.
    pub(super) places: Bitmap,
    /// The same by their last use.
    pub(super) turns: BTreeMap<u64, Place>,
    /// The same for each subject.
    pub(super) owners: FxHashMap<Subject, BTreeMap<u64, Place>>,
    pub(super) words: FxHashMap<Word, WordUse>,
    pub(super) names: FxHashMap<Arc<str>, u32>,
    /// The tools in it.
    pub(super) tools: Bitmap,
}

/// Where a word occurs.
#[derive(Debug, Default)]
pub(super) struct WordUse {
    /// In these entries.
    pub(super) places: Vec<Place>,
    /// Before calls of these tools, and what those count.
    pub(super) tools: Vec<(u32, f32)>,
}

/// A tool that was called.
#[derive(Debug)]
pub(super) struct ToolUse {
    pub(super) id: Arc<str>,
    /// The vectors of the queries before them, each as often as it counts.
    pub(super) sum: Vec<f32>,
    /// The entries it is in, for each subject.
    pub(super) of: FxHashMap<Subject, Vec<Place>>,
}

// === impl Book ===

impl Book {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// How much a word tells that occurs in so many of so many entries.
    #[expect(clippy::cast_precision_loss, reason = "there are at most some ten thousand")]
    pub(super) fn telling(of: usize, with: usize) -> f32 {
        let (of, with) = (of as f32, with.min(of) as f32);
        ((of - with + 0.5) / (with + 0.5)).ln_1p()
    }

    /// The length of an entry's words as a vector, were there so many entries.
    pub(super) fn length(&self, words: &[Word], of: usize, without: usize) -> f32 {
        let squares = words.iter().map(|word| {
            let with = self.words.get(word).map_or(0, |word| word.places.len());
            Self::telling(of, with.saturating_sub(without)).powi(2)
        });
        squares.sum::<f32>().sqrt().max(f32::MIN_POSITIVE)
    }

    /// Enters an entry under its place.
    pub(super) fn enter(&mut self, place: Place, entry: &Entry) {
        self.places.set(place);
        self.turns.insert(entry.turn, place);
        self.owners.entry(entry.owner.subject.clone()).or_default().insert(entry.turn, place);
        for word in &entry.words {
            self.words.entry(*word).or_default().places.push(place);
        }
    }

    /// Strikes an entry out.
    pub(super) fn strike(&mut self, place: Place, entry: &Entry) {
        self.places.clear(place);
        self.turns.remove(&entry.turn);
        if let Some(turns) = self.owners.get_mut(&entry.owner.subject) {
            turns.remove(&entry.turn);
            if turns.is_empty() {
                self.owners.remove(&entry.owner.subject);
            }
        }
        for word in &entry.words {
            let Some(of) = self.words.get_mut(word) else { continue };
            if let Some(at) = of.places.iter().position(|known| *known == place) {
                of.places.swap_remove(at);
            }
            if of.places.is_empty() {
                self.words.remove(word);
            }
        }
    }

    /// Gives an entry another turn.
    pub(super) fn turn(&mut self, place: Place, entry: &Entry, turn: u64) {
        self.turns.remove(&entry.turn);
        self.turns.insert(turn, place);
        let of_owner = self.owners.entry(entry.owner.subject.clone()).or_default();
        of_owner.remove(&entry.turn);
        of_owner.insert(turn, place);
    }

    /// Counts the words of an entry for a tool, or takes them back with a negative weight.
    pub(super) fn count(&mut self, words: &[Word], tool: u32, weight: f32) {
        for word in words {
            let Some(of) = self.words.get_mut(word) else { continue };
            match of.tools.iter_mut().position(|(known, _)| *known == tool) {
                Some(at) => {
                    of.tools[at].1 += weight;
                    // What was taken back whole is gone, up to rounding.
                    if of.tools[at].1 < 1e-3 {
                        of.tools.swap_remove(at);
                    }
                }
                None if weight > 0.0 => of.tools.push((tool, weight)),
                None => {}
            }
        }
    }
}

// === impl ToolUse ===

impl ToolUse {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self { id, sum: Vec::new(), of: FxHashMap::default() }
    }

    /// Adds a vector, or takes it back with a negative weight.
    pub(super) fn add(&mut self, vector: &[f32], weight: f32) {
        if self.sum.len() != vector.len() {
            self.sum = vec![0.0; vector.len()];
        }
        self.sum.iter_mut().zip(vector).for_each(|(sum, number)| *sum += weight * number);
    }
}
