//! What speaks for each candidate: exact scores of all units for all of them (MGP §16.5).
//!
//! Applies to: inbound.

use rustc_hash::FxHashMap;

use super::View;
use super::question::Question;
use super::weight::{self, Weights};
use crate::catalog::{Bitmap, ServerNumber, Slot};
use crate::error::IndexError;

/// How many tools are candidates for their words. The clauses' words are the query's, so that its list has theirs.
const BY_WORDS: usize = 60;

/// How many tools are candidates for what they mean, for each clause.
const BY_MEANING: usize = 16;

/// What speaks for each candidate.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The candidates, by number.
    pub(super) slots: Vec<Slot>,
    /// For each unit what speaks for each candidate.
    pub(super) strength: Vec<f32>,
    /// What each word says of each candidate, all candidates of a word together.
    pub(super) said: Vec<f32>,
    /// The cosine of the whole query and each candidate.
    pub(super) meaning: Vec<Option<f32>>,
    /// The cosine of the whole query and each candidate's server.
    pub(super) server: Vec<f32>,
    /// Whether a word of the query occurs anywhere.
    pub(super) has_words: bool,
}

impl Evidence {
    /// Collects candidates and what speaks for them. `more` are candidates in any case.
    pub(super) fn collect(
        view: &View<'_>,
        question: &Question<'_>,
        weights: Weights,
        within: Option<&Bitmap>,
        more: &[Slot],
        k: usize,
    ) -> Result<Self, IndexError> {
        let asked = view.keywords.ask(&question.words)?;
        let found = asked.top(BY_WORDS.max(2 * k), within)?;
        let has_words = !found.is_empty();
        let vectors = question.vectors();
        let queries: Vec<&[f32]> = vectors.iter().map(|(_, vector)| *vector).collect();
        let near = match view.vectors.filter(|_| !queries.is_empty()) {
            Some(table) => table.top(&queries, BY_MEANING.max(k), within),
            None => Vec::new(),
        };
        let mut slots: Vec<Slot> =
            found.iter().chain(near.iter().flatten()).map(|(slot, _)| *slot).collect();
        slots.extend_from_slice(more);
        slots.sort_unstable();
        slots.dedup();
        // Words of a name are words of its tool, so that names need only be looked at where these occur.
        let mut said = asked.each(&slots)?;
        let named = view.keywords.ask(&question.names)?.each(&slots)?;
        said.iter_mut().zip(named).for_each(|(said, named)| *said += named);
        let mut evidence = Self {
            strength: vec![0.0; slots.len() * question.units.len()],
            meaning: vec![None; slots.len()],
            server: vec![0.0; slots.len()],
            slots,
            said,
            has_words,
        };
        evidence.add_words(question);
        evidence.add_meaning(view, &vectors, weights.meaning);
        evidence.add_servers(view, question, weights.server);
        Ok(evidence)
    }

    /// Adds something to the evidence of all units for some candidates.
    pub(super) fn add(&mut self, more: &[(Slot, f32)], units: usize) {
        for (slot, strength) in more {
            let Ok(at) = self.slots.binary_search(slot) else { continue };
            (0..units).for_each(|unit| self.unit_mut(unit)[at] += strength);
        }
    }

    /// What speaks for the candidates by a unit.
    pub(super) fn of_unit(&self, unit: usize) -> &[f32] {
        let many = self.slots.len();
        &self.strength[unit * many..][..many]
    }

    fn unit_mut(&mut self, unit: usize) -> &mut [f32] {
        let many = self.slots.len();
        &mut self.strength[unit * many..][..many]
    }

    fn add_words(&mut self, question: &Question<'_>) {
        let many = self.slots.len();
        for (at, unit) in question.units.iter().enumerate() {
            let strength = &mut self.strength[at * many..][..many];
            for term in &unit.terms {
                let said = &self.said[term * many..][..many];
                strength.iter_mut().zip(said).for_each(|(strength, said)| *strength += said);
            }
        }
    }

    /// Adds cosines, with what all tools have in common taken out of the tool.
    fn add_meaning(&mut self, view: &View<'_>, vectors: &[(usize, &[f32])], weight: f32) {
        let Some(table) = view.vectors.filter(|_| weight > 0.0) else { return };
        let many = self.slots.len();
        let queries: Vec<&[f32]> = vectors.iter().map(|(_, vector)| *vector).collect();
        let common = Common::of(table.mean());
        let shared: Vec<f32> = queries.iter().map(|query| common.with(query)).collect();
        let asked = queries.len();
        let mut queries = queries;
        queries.push(&common.vector);
        let mut own = vec![0.0; queries.len()];
        let mut row = Vec::new();
        let mut sums = vec![(0.0, 0usize); asked];
        let mut missing = Vec::new();
        for at in 0..many {
            if !table.products(&queries, self.slots[at], &mut row, &mut own) {
                missing.push(at);
                continue;
            }
            let left = common.left(own[asked]);
            for (number, (unit, _)) in vectors.iter().enumerate() {
                let cosine = (own[number] - shared[number]) * left;
                self.strength[unit * many + at] += weight * cosine;
                sums[number].0 += cosine;
                sums[number].1 += 1;
                if *unit == 0 {
                    self.meaning[at] = Some(own[number]);
                }
            }
        }
        // A tool whose vector is still being made is as near as candidates are on average.
        for (number, (unit, _)) in vectors.iter().enumerate() {
            let (sum, count) = sums[number];
            #[expect(clippy::cast_precision_loss, reason = "there are some hundred candidates")]
            let usual = if count == 0 { 0.0 } else { sum / count as f32 };
            let strength = self.unit_mut(*unit);
            for at in &missing {
                strength[*at] += weight * usual;
            }
        }
    }

    fn add_servers(&mut self, view: &View<'_>, question: &Question<'_>, weight: f32) {
        let (Some(table), Some(vector)) =
            (view.servers.filter(|_| weight > 0.0), question.units[0].vector.as_deref())
        else {
            return;
        };
        let mut known: FxHashMap<ServerNumber, f32> = FxHashMap::default();
        for (at, slot) in self.slots.iter().enumerate() {
            let Some(number) = view.catalog.server_of(*slot) else { continue };
            let cosine =
                *known.entry(number).or_insert_with(|| table.cosine(vector, number).unwrap_or(0.0));
            self.server[at] = cosine;
            self.strength[at] += weight * cosine;
        }
    }
}

/// What the vectors of all tools have in common. It tells no tool from another, but pulls some to every query.
struct Common {
    vector: Vec<f32>,
    /// The square of its length.
    square: f32,
}

impl Common {
    /// Of the mean of so many vectors; the fewer there are, the less of it is common.
    #[expect(clippy::cast_precision_loss, reason = "how many tools there are needs no more digits")]
    fn of((mut vector, many): (Vec<f32>, usize)) -> Self {
        let share = many as f32 / (many as f32 + weight::FEW_TOOLS);
        for number in &mut vector {
            *number *= share;
        }
        let square = vector.iter().map(|number| number * number).sum();
        Self { vector, square }
    }

    fn with(&self, query: &[f32]) -> f32 {
        self.vector.iter().zip(query).map(|(a, b)| a * b).sum()
    }

    /// What a tool is divided by once the common part is taken out, from its product with it.
    fn left(&self, product: f32) -> f32 {
        (1.0 - 2.0 * product + self.square).max(0.01).sqrt().recip()
    }
}
