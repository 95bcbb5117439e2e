//! Collects the evidence for each candidate tool: exact scores for the whole query and for each clause (MGP §16.5).
//!
//! - A *unit* is a part of the query that is scored separately: the whole query (unit 0) or one of its clauses.
//! - The *evidence* for a tool is a number without upper limit that measures how well the tool fits a unit. The field
//!   `strength` contains it.
//! - *Hints* are the words that tools use for everyday words, e.g. `weather` for `umbrella`. If some tool fits a unit
//!   well without them, they count only in part (`hint_share`).
//!
//! A *table* of numbers about the candidates is a list of rows, one after the other; each row has a number for each
//! candidate.

use rustc_hash::FxHashMap;

use super::parsed_query::ParsedQuery;
use super::plan::Plan;
use super::view::{Search, View};
use super::weight::{self, SIMILAR_NAME_EVIDENCE};
use crate::catalog::{ServerNumber, Slot};
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
    /// The evidence: a table with a row for each unit.
    pub(super) strength: Vec<f32>,
    /// The scores by words: a table with a row for each word of the query.
    pub(super) word_scores: Vec<f32>,
    /// The cosine between the whole query and each candidate; `None` for a candidate without a vector.
    pub(super) meaning: Vec<Option<f32>>,
    /// The cosine between the whole query and the server of each candidate.
    pub(super) server: Vec<f32>,
    /// `true` if no tool contains a word of the query, and tools with similar names are among the candidates.
    pub(super) has_similar_names: bool,
}

impl Evidence {
    /// Finds the candidates, and collects their evidence. The tools in `known` become candidates even if they are found
    /// neither by words nor by meaning.
    pub(super) fn collect(
        search: &Search<'_>,
        plan: &Plan<'_>,
        known: Vec<Slot>,
    ) -> Result<Self, IndexError> {
        let (view, parsed) = (search.view, &plan.parsed);
        let words = view.keywords.look_up(&parsed.words)?;
        let hints = view.keywords.look_up(&parsed.hints)?;
        let max_by_words = MAX_BY_WORDS.max(2 * search.limit);
        let by_words = words.top(max_by_words, search.within)?;
        let by_hints = hints.top(max_by_words, search.within)?;
        let by_meaning = nearest(search, parsed);
        let similar = if by_words.is_empty() { similar_names(search, plan)? } else { Vec::new() };
        let found = by_words.iter().chain(&by_hints).chain(by_meaning.iter().flatten());
        let mut slots = known;
        slots.extend(found.chain(&similar).map(|(slot, _)| *slot));
        slots.sort_unstable();
        slots.dedup();

        // Look up the words in names only now: it increases scores, but finds no other candidates, because every word
        // of a name is also indexed as a word of the tool.
        let mut word_scores = words.score_each(&slots)?;
        let name_scores = view.keywords.look_up(&parsed.names)?.score_each(&slots)?;
        word_scores.iter_mut().zip(name_scores).for_each(|(score, of_name)| *score += of_name);
        let hint_scores = hints.score_each(&slots)?;
        let mut evidence = Self {
            strength: vec![0.0; slots.len() * parsed.units.len()],
            meaning: vec![None; slots.len()],
            server: vec![0.0; slots.len()],
            slots,
            word_scores,
            has_similar_names: !similar.is_empty(),
        };
        evidence.add_words(parsed);
        let hint_cosines = evidence.add_meaning(view, plan);
        evidence.add_servers(view, plan);
        evidence.add_hints(parsed, &hint_scores, &hint_cosines);
        evidence.add_similar_names(parsed, &similar);
        Ok(evidence)
    }

    /// Returns the evidence of all candidates for one unit.
    pub(super) fn of_unit(&self, unit: usize) -> &[f32] {
        row(&self.strength, unit, self.slots.len())
    }

    fn add_words(&mut self, parsed: &ParsedQuery<'_>) {
        let count = self.slots.len();
        for (number, unit) in parsed.units.iter().enumerate() {
            let strength = row_mut(&mut self.strength, number, count);
            for term in &unit.terms {
                let scores = row(&self.word_scores, *term, count);
                strength.iter_mut().zip(scores).for_each(|(strength, score)| *strength += score);
            }
        }
    }

    /// Adds the meaning: for each unit with a vector, the weighted cosine of this vector and each candidate's vector.
    /// Before that, the part that all tools' vectors have in common is subtracted from the candidate's vector. A
    /// candidate without a vector gets the average of the other candidates.
    ///
    /// Returns the cosines between the units' hints and the candidates: a table with a row for each hint that has a
    /// vector; empty if vectors are not used.
    fn add_meaning(&mut self, view: &View<'_>, plan: &Plan<'_>) -> Vec<f32> {
        let weight = plan.weights.meaning;
        let Some(table) = view.vectors.filter(|_| weight > 0.0) else { return Vec::new() };
        let count = self.slots.len();
        let units: Vec<usize> = plan.parsed.vectors().map(|(unit, _)| unit).collect();
        let hints = plan.parsed.units.iter().filter_map(|unit| unit.hint.vector.as_deref());
        let common = CommonPart::of(view.mean(table));
        // The vectors of the units, then the vectors of the hints, then the common part.
        let mut vectors: Vec<&[f32]> =
            plan.parsed.vectors().map(|(_, vector)| vector).chain(hints).collect();
        let common_products: Vec<f32> =
            vectors.iter().map(|vector| common.product(vector)).collect();
        vectors.push(&common.vector);
        let last = vectors.len() - 1;
        let mut hint_cosines = vec![0.0; (last - units.len()) * count];
        let (mut buffer, mut products) = (Vec::new(), vec![0.0; vectors.len()]);
        let mut sums = vec![(0.0, 0usize); units.len()];
        let mut missing = Vec::new();
        for at in 0..count {
            if !table.products(&vectors, self.slots[at], &mut buffer, &mut products) {
                missing.push(at);
                continue;
            }
            let scale = common.scale(products[last]);
            let cosine_of = |number: usize| (products[number] - common_products[number]) * scale;
            for (number, unit) in units.iter().enumerate() {
                let cosine = cosine_of(number);
                self.strength[unit * count + at] += weight * cosine;
                sums[number].0 += cosine;
                sums[number].1 += 1;
                if *unit == 0 {
                    self.meaning[at] = Some(products[number]);
                }
            }
            for number in units.len()..last {
                hint_cosines[(number - units.len()) * count + at] = cosine_of(number);
            }
        }
        for (unit, (sum, found)) in units.iter().zip(sums) {
            #[expect(clippy::cast_precision_loss, reason = "there are some hundred candidates")]
            let average = if found == 0 { 0.0 } else { sum / found as f32 };
            let strength = row_mut(&mut self.strength, *unit, count);
            for at in &missing {
                strength[*at] += weight * average;
            }
        }
        hint_cosines
    }

    /// Adds the cosine between the query and the server of each candidate to the evidence for the whole query; the
    /// evidence for clauses does not change.
    fn add_servers(&mut self, view: &View<'_>, plan: &Plan<'_>) {
        let weight = plan.weights.server;
        let table = view.servers.filter(|_| weight > 0.0);
        let query = plan.parsed.units[0].vector.as_deref();
        let Some((table, query)) = table.zip(query) else { return };
        let mut known: FxHashMap<ServerNumber, f32> = FxHashMap::default();
        for (at, slot) in self.slots.iter().enumerate() {
            let Some(server) = view.catalog.server_of(*slot) else { continue };
            let cosine = || table.cosine(query, server).unwrap_or(0.0);
            let cosine = *known.entry(server).or_insert_with(cosine);
            self.server[at] = cosine;
            self.strength[at] += weight * cosine;
        }
    }

    /// Adds the evidence of each unit's hints. The more evidence the best candidate already has for a unit, the less
    /// its hints count. `scores` is a table with a row for each word of `ParsedQuery::hints`, and `cosines` is the
    /// result of [`add_meaning`](Self::add_meaning).
    fn add_hints(&mut self, parsed: &ParsedQuery<'_>, scores: &[f32], cosines: &[f32]) {
        let count = self.slots.len();
        // The list has each word twice: in its first half for all texts of a tool, in its second half for names only.
        let half = parsed.hints.terms.len() / 2;
        let mut cosines = cosines.chunks_exact(count.max(1));
        for (number, unit) in parsed.units.iter().enumerate() {
            let cosines = unit.hint.vector.as_ref().and_then(|_| cosines.next());
            let strength = row_mut(&mut self.strength, number, count);
            let best = strength.iter().copied().fold(0.0, f32::max);
            let share = weight::hint_share(best);
            if share <= 0.0 {
                continue;
            }
            for (term, weight) in &unit.hint.terms {
                for term in [*term, half + *term] {
                    for (strength, score) in strength.iter_mut().zip(row(scores, term, count)) {
                        *strength += share * weight * score;
                    }
                }
            }
            for (strength, cosine) in strength.iter_mut().zip(cosines.into_iter().flatten()) {
                *strength += share * weight::HINT_MEANING_WEIGHT * cosine;
            }
        }
    }

    fn add_similar_names(&mut self, parsed: &ParsedQuery<'_>, similar: &[(Slot, f32)]) {
        let count = self.slots.len();
        for (slot, nearness) in similar {
            let Ok(at) = self.slots.binary_search(slot) else { continue };
            for unit in 0..parsed.units.len() {
                self.strength[unit * count + at] += SIMILAR_NAME_EVIDENCE * nearness;
            }
        }
    }
}

/// Returns the tools whose vectors are nearest to the vector of each unit.
fn nearest(search: &Search<'_>, parsed: &ParsedQuery<'_>) -> Vec<Vec<(Slot, f32)>> {
    let Some(table) = search.view.vectors else { return Vec::new() };
    let queries: Vec<&[f32]> = parsed.vectors().map(|(_, vector)| vector).collect();
    table.top(&queries, MAX_BY_MEANING.max(search.limit), search.within)
}

/// Returns the tools whose names are similar to words of the query, each with its nearness; empty if the search ignores
/// words.
fn similar_names(search: &Search<'_>, plan: &Plan<'_>) -> Result<Vec<(Slot, f32)>, IndexError> {
    if plan.weights.words <= 0.0 {
        return Ok(Vec::new());
    }
    search.view.keywords.find_similar(&plan.parsed.words, search.limit, search.within)
}

fn row(table: &[f32], number: usize, len: usize) -> &[f32] {
    &table[number * len..][..len]
}

fn row_mut(table: &mut [f32], number: usize, len: usize) -> &mut [f32] {
    &mut table[number * len..][..len]
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
