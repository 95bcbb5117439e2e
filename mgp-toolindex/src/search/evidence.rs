//! Collects the evidence for each candidate tool: exact scores for the whole query and for each clause (MGP §16.5).
//!
//! - A *unit* is a part of the query that is scored separately: the whole query (unit 0) or one of its clauses.
//! - The *evidence* for a tool is a number without upper limit, its *strength*, for how well the tool fits a unit.
//! - *Hints* are the words that tools use for everyday words, e.g. `weather` for `umbrella`. If some tool fits a unit
//!   well without them, they count only in part; this part is their *share*.

use rustc_hash::FxHashMap;

use super::View;
use super::parsed_query::ParsedQuery;
use super::weight::{self, Weights};
use crate::catalog::{Bitmap, ServerNumber, Slot};
use crate::error::IndexError;

/// The number of tools found by words that become candidates; the number is higher if many results are wanted. One list
/// serves the whole query and all clauses, because the query contains the words of every clause.
const MAX_BY_WORDS: usize = 60;

/// The number of tools found by meaning that become candidates for each unit; the number is higher if many results are
/// wanted.
const MAX_BY_MEANING: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The candidates, sorted by slot.
    pub(super) slots: Vec<Slot>,
    /// The evidence for each unit and candidate: first the values of all candidates for the first unit, then those for
    /// the second unit, and so on.
    pub(super) strength: Vec<f32>,
    /// The score of each word of the query for each candidate: first the scores of all candidates for the first word,
    /// then those for the second word, and so on.
    pub(super) word_scores: Vec<f32>,
    /// The cosine between the whole query and each candidate; `None` for a candidate without a vector.
    pub(super) meaning: Vec<Option<f32>>,
    /// The cosine between the whole query and the server of each candidate.
    pub(super) server: Vec<f32>,
    /// `true` if a word of the query occurs in any tool.
    pub(super) has_words: bool,
}

impl Evidence {
    /// Collects candidates and their evidence. The tools in `more` become candidates even if they are found neither by
    /// words nor by meaning.
    pub(super) fn collect(
        view: &View<'_>,
        parsed: &ParsedQuery<'_>,
        weights: Weights,
        within: Option<&Bitmap>,
        more: &[Slot],
        k: usize,
    ) -> Result<Self, IndexError> {
        let terms = view.keywords.look_up(&parsed.words)?;
        let mut found = terms.top(MAX_BY_WORDS.max(2 * k), within)?;
        let has_words = !found.is_empty();
        let hints = view.keywords.look_up(&parsed.hints)?;
        if !parsed.hints.is_empty() {
            found.extend(hints.top(MAX_BY_WORDS.max(2 * k), within)?);
        }
        let vectors = parsed.vectors();
        let queries: Vec<&[f32]> = vectors.iter().map(|(_, vector)| *vector).collect();
        let near = match view.vectors.filter(|_| !queries.is_empty()) {
            Some(table) => table.top(&queries, MAX_BY_MEANING.max(k), within),
            None => Vec::new(),
        };
        let mut slots: Vec<Slot> =
            found.iter().chain(near.iter().flatten()).map(|(slot, _)| *slot).collect();
        slots.extend_from_slice(more);
        slots.sort_unstable();
        slots.dedup();
        // Every word of a name is also indexed as a word of the tool. So looking up the words in names too increases
        // scores, but finds no further candidates.
        let mut word_scores = terms.score_each(&slots)?;
        let named = view.keywords.look_up(&parsed.names)?.score_each(&slots)?;
        word_scores.iter_mut().zip(named).for_each(|(score, named)| *score += named);
        let hint_scores =
            if parsed.hints.is_empty() { Vec::new() } else { hints.score_each(&slots)? };
        let mut evidence = Self {
            strength: vec![0.0; slots.len() * parsed.units.len()],
            meaning: vec![None; slots.len()],
            server: vec![0.0; slots.len()],
            slots,
            word_scores,
            has_words,
        };
        evidence.add_words(parsed);
        let hint_cosines = evidence.add_meaning(view, parsed, &vectors, weights.meaning);
        evidence.add_servers(view, parsed, weights.server);
        evidence.add_hints(parsed, &hint_scores, &hint_cosines);
        Ok(evidence)
    }

    /// Adds the given values to the evidence of each unit for these tools.
    pub(super) fn add(&mut self, more: &[(Slot, f32)], units: usize) {
        for (slot, strength) in more {
            let Ok(at) = self.slots.binary_search(slot) else { continue };
            (0..units).for_each(|unit| self.unit_mut(unit)[at] += strength);
        }
    }

    /// Returns the evidence for all candidates for one unit.
    pub(super) fn of_unit(&self, unit: usize) -> &[f32] {
        let count = self.slots.len();
        &self.strength[unit * count..][..count]
    }

    fn unit_mut(&mut self, unit: usize) -> &mut [f32] {
        let count = self.slots.len();
        &mut self.strength[unit * count..][..count]
    }

    fn add_words(&mut self, parsed: &ParsedQuery<'_>) {
        let count = self.slots.len();
        for (at, unit) in parsed.units.iter().enumerate() {
            let strength = &mut self.strength[at * count..][..count];
            for term in &unit.terms {
                let scores = &self.word_scores[term * count..][..count];
                strength.iter_mut().zip(scores).for_each(|(strength, score)| *strength += score);
            }
        }
    }

    /// Adds the meaning to the evidence: for each unit with a vector, the weighted cosine of this vector and each
    /// candidate's vector. Before that, the part that all tools' vectors have in common is subtracted from the
    /// candidate's vector. A candidate without a vector gets the average of the other candidates.
    ///
    /// Returns the cosines between the units' hints and the candidates: first the cosines of all candidates for the
    /// first hint that has a vector, then those for the second such hint, and so on. Returns an empty list if vectors
    /// are not used.
    fn add_meaning(
        &mut self,
        view: &View<'_>,
        parsed: &ParsedQuery<'_>,
        vectors: &[(usize, &[f32])],
        weight: f32,
    ) -> Vec<f32> {
        let Some(table) = view.vectors.filter(|_| weight > 0.0) else { return Vec::new() };
        let count = self.slots.len();
        let hints: Vec<&[f32]> =
            parsed.units.iter().filter_map(|unit| unit.hint.vector.as_deref()).collect();
        let mut hint_cosines = vec![0.0; hints.len() * count];
        let queries: Vec<&[f32]> =
            vectors.iter().map(|(_, vector)| *vector).chain(hints.iter().copied()).collect();
        let common = CommonPart::of(view.mean(table));
        let shared: Vec<f32> = queries.iter().map(|query| common.product(query)).collect();
        let asked = queries.len();
        let mut queries = queries;
        queries.push(&common.vector);
        let mut own = vec![0.0; queries.len()];
        let mut row = Vec::new();
        let mut sums = vec![(0.0, 0usize); vectors.len()];
        let mut missing = Vec::new();
        for at in 0..count {
            if !table.products(&queries, self.slots[at], &mut row, &mut own) {
                missing.push(at);
                continue;
            }
            let scale = common.scale(own[asked]);
            for (number, (unit, _)) in vectors.iter().enumerate() {
                let cosine = (own[number] - shared[number]) * scale;
                self.strength[unit * count + at] += weight * cosine;
                sums[number].0 += cosine;
                sums[number].1 += 1;
                if *unit == 0 {
                    self.meaning[at] = Some(own[number]);
                }
            }
            for number in 0..hints.len() {
                let product = own[vectors.len() + number] - shared[vectors.len() + number];
                hint_cosines[number * count + at] = product * scale;
            }
        }
        // Give a tool without a vector the average of the other candidates.
        for (number, (unit, _)) in vectors.iter().enumerate() {
            let (sum, count) = sums[number];
            #[expect(clippy::cast_precision_loss, reason = "there are some hundred candidates")]
            let average = if count == 0 { 0.0 } else { sum / count as f32 };
            let strength = self.unit_mut(*unit);
            for at in &missing {
                strength[*at] += weight * average;
            }
        }
        hint_cosines
    }

    /// Adds the evidence of each unit's hints, i.e. of the words that tools use for everyday words of the query, e.g.
    /// `weather` for `umbrella`. The more evidence the best candidate already has for a unit, the less its hints count.
    fn add_hints(&mut self, parsed: &ParsedQuery<'_>, scores: &[f32], cosines: &[f32]) {
        let count = self.slots.len();
        let names = parsed.hints.terms.len() / 2;
        let mut cosines = cosines.chunks_exact(count.max(1));
        for (at, unit) in parsed.units.iter().enumerate() {
            let cosines = unit.hint.vector.as_ref().and_then(|_| cosines.next());
            let strength = &mut self.strength[at * count..][..count];
            let best = strength.iter().copied().fold(0.0, f32::max);
            let share = weight::hint_share(best);
            if share <= 0.0 {
                continue;
            }
            for (term, weight) in &unit.hint.terms {
                for term in [*term, names + *term] {
                    let scores = &scores[term * count..][..count];
                    let add =
                        |(strength, score): (&mut f32, &f32)| *strength += share * weight * score;
                    strength.iter_mut().zip(scores).for_each(add);
                }
            }
            for (strength, cosine) in strength.iter_mut().zip(cosines.into_iter().flatten()) {
                *strength += share * weight::HINT_MEANING_WEIGHT * cosine;
            }
        }
    }

    fn add_servers(&mut self, view: &View<'_>, parsed: &ParsedQuery<'_>, weight: f32) {
        let (Some(table), Some(vector)) =
            (view.servers.filter(|_| weight > 0.0), parsed.units[0].vector.as_deref())
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

/// The part that the vectors of all tools of the caller have in common. It does not distinguish tools, but makes some
/// of them similar to every query.
struct CommonPart {
    vector: Vec<f32>,
    /// The squared length of `vector`.
    square: f32,
}

impl CommonPart {
    /// Computes the common part from the mean of `many` vectors. The fewer vectors are averaged, the smaller is the
    /// part of their mean that is treated as common.
    #[expect(clippy::cast_precision_loss, reason = "how many tools there are needs no more digits")]
    fn of((mut vector, many): (Vec<f32>, usize)) -> Self {
        let share = many as f32 / (many as f32 + weight::HALF_COMMON_TOOLS);
        for number in &mut vector {
            *number *= share;
        }
        let square = vector.iter().map(|number| number * number).sum();
        Self { vector, square }
    }

    fn product(&self, query: &[f32]) -> f32 {
        self.vector.iter().zip(query).map(|(a, b)| a * b).sum()
    }

    /// Returns the factor that restores a tool's vector to length one after the common part was subtracted. `product`
    /// is the dot product of the tool's vector and the common part.
    fn scale(&self, product: f32) -> f32 {
        (1.0 - 2.0 * product + self.square).max(0.01).sqrt().recip()
    }
}
