//! What speaks for a tool after a query: near past queries, their words, their mean vector.
//!
//! Applies to: inbound.

use std::sync::Arc;

use super::book::Book;
use super::entry::{Call, Entry, Place, Word};
use super::model::{Example, Hints, OF_TOOL};
use super::order::Remembered;
use super::shelf::Shelf;

/// How many of the nearest past queries vote, and by which power of their nearness.
const VOTERS: usize = 12;
const POWER: i32 = 4;

/// How many are looked at closely, by words and by vector each.
const CLOSE: usize = 40;

/// How many tools get a share.
const TOOLS: usize = 24;

/// How many queries a tool is thought to have had that were like all others.
const LIKE_ALL: f32 = 2.0;

/// What the word hint is divided by to be about one, and how quickly a worse mean vector falls behind the best.
const WORDS: f32 = 6.0;
const STEEP: f32 = 8.0;

/// A query, as far as it can be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) words: &'a [Word],
    pub(super) vector: Option<&'a [f32]>,
    /// The entries that must not answer it: the one that it comes from.
    pub(super) but: &'a [(Place, &'a Entry)],
}

impl Question<'_> {
    /// What those entries count for a tool.
    fn own(&self, tool: u32) -> f32 {
        self.but.iter().map(|(_, entry)| entry.weight_of(tool)).sum()
    }
}

/// Tools that may be called, with what speaks for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) tools: Vec<u32>,
    pub(super) hints: Hints,
}

/// What the words of a question say.
struct ByWord {
    /// For each place, how much of the question's words are there.
    shared: Vec<f32>,
    /// The places where any is.
    places: Vec<Place>,
    length: f32,
    /// For each tool, how much more often its queries have these words than others.
    tools: Vec<f32>,
}

impl Shelf {
    /// What speaks for each tool after a question; nothing where nothing is remembered.
    pub(super) fn hints(&self, book: &Book, question: Question<'_>) -> Seen {
        let of = book.len().saturating_sub(question.but.len());
        if of == 0 {
            return Seen::default();
        }
        let by_word = self.by_word(book, question, of);
        let near = self.nearest(book, question, &by_word, of);
        let (votes, nearest) = self.votes(&near);
        let mut tools: Vec<u32> = votes.iter().map(|(tool, ..)| *tool).collect();
        let mut by_words: Vec<(u32, f32)> =
            (0..).zip(by_word.tools.iter().copied()).filter(|(_, lift)| *lift > 0.0).collect();
        best_of(&mut by_words, TOOLS);
        tools.extend(by_words.iter().map(|(tool, _)| *tool));
        let most_words = by_words.first().map_or(0.0, |(_, lift)| *lift).max(f32::MIN_POSITIVE);
        if let (Some(centres), Some(vector)) = (&self.centres, question.vector) {
            let mut top = centres.top(&[vector], TOOLS, Some(&book.tools));
            tools.extend(top.pop().unwrap_or_default().into_iter().map(|(tool, _)| tool));
        }
        tools.sort_unstable();
        tools.dedup();
        let mut rows: Vec<_> = tools
            .into_iter()
            .filter_map(|tool| {
                let own = question.own(tool);
                let weight = self.weights[tool as usize] - own;
                if weight < 1e-3 {
                    return None;
                }
                let (vote, near) = votes
                    .iter()
                    .find(|(known, ..)| *known == tool)
                    .map_or((0.0, 0.0), |(_, vote, near)| (*vote, *near));
                let words = by_word.tools.get(tool as usize).copied().unwrap_or(0.0);
                let mean = self.mean(question, tool, own);
                Some((tool, [vote, near, words / most_words, words / WORDS, mean, 0.0, weight]))
            })
            .collect();
        let best = rows.iter().map(|(_, row)| row[4]).fold(f32::NEG_INFINITY, f32::max);
        for (_, row) in &mut rows {
            if question.vector.is_some() {
                row[5] = (STEEP * (row[4] - best)).exp();
            }
            row[4] = row[4].max(0.0);
            row[6] = row[6].ln_1p();
        }
        let speaks = |row: &[f32; OF_TOOL]| row[0] + row[2] + row[5];
        rows.sort_by(|(left_tool, left), (right_tool, right)| {
            speaks(right).total_cmp(&speaks(left)).then(left_tool.cmp(right_tool))
        });
        rows.truncate(TOOLS);
        let (tools, rows) = rows.into_iter().unzip();
        Seen { tools, hints: Hints { tools: rows, nearest } }
    }

    /// What an entry would have been told, had it not been remembered, and what was called.
    pub(super) fn example(&self, book: &Book, place: Place) -> Option<Example> {
        let entry = self.entries.get(place)?;
        let vector = self.rows.as_ref().and_then(|rows| rows.vector(place));
        let but = [(place, entry)];
        let question = Question { words: &entry.words, vector: vector.as_deref(), but: &but };
        let seen = self.hints(book, question);
        let all: f32 = entry.calls.iter().copied().map(Call::weight).sum();
        let called = seen.tools.iter().map(|tool| entry.weight_of(*tool) / all).collect();
        Some(Example { hints: seen.hints, called })
    }

    /// An entry with what it would be told by others; none without a text.
    ///
    /// Neither it nor the nearest other one tells: that is often of the same piece of work, and would promise more than
    /// the past says of the next one.
    pub(super) fn remembered(&self, book: &Book, place: Place) -> Option<Remembered> {
        let entry = self.entries.get(place)?;
        let text = entry.text.clone()?;
        let vector = self.rows.as_ref().and_then(|rows| rows.vector(place));
        let own = [(place, entry)];
        let question = Question { words: &entry.words, vector: vector.as_deref(), but: &own };
        let of = book.len().saturating_sub(1);
        let near = self.nearest(book, question, &self.by_word(book, question, of), of);
        let nearest = near.first().and_then(|(near, _)| Some((*near, self.entries.get(*near)?)));
        let but: Vec<_> = own.into_iter().chain(nearest).collect();
        let question = Question { but: &but, ..question };
        let seen = self.hints(book, question);
        let id = |tool: u32| self.tools.get(tool).map(|tool| Arc::clone(&tool.id));
        let told = seen.tools.iter().zip(seen.hints.tools);
        Some(Remembered {
            text,
            told: told.filter_map(|(tool, hints)| Some((id(*tool)?, hints))).collect(),
            called: entry
                .calls
                .iter()
                .filter_map(|call| Some((id(call.tool)?, call.weight())))
                .collect(),
        })
    }

    fn by_word(&self, book: &Book, question: Question<'_>, of: usize) -> ByWord {
        let mut found = ByWord {
            shared: vec![0.0; self.entries.len()],
            places: Vec::new(),
            length: 0.0,
            tools: vec![0.0; self.tools.len()],
        };
        let mut known = 0_u16;
        for word in question.words {
            let used = book.words.get(word);
            let said = || question.but.iter().filter(|(_, entry)| entry.says(*word));
            let with = used.map_or(0, |used| used.places.len()).saturating_sub(said().count());
            let telling = Book::telling(of, with).powi(2);
            found.length += telling;
            let Some(used) = used.filter(|_| with > 0) else { continue };
            known += 1;
            for place in &used.places {
                let shared = &mut found.shared[*place as usize];
                if *shared == 0.0 {
                    found.places.push(*place);
                }
                *shared += telling;
            }
            #[expect(clippy::cast_precision_loss, reason = "there are at most some ten thousand")]
            let usual = with as f32 / of as f32;
            for (tool, weight) in &used.tools {
                let own: f32 = said().map(|(_, entry)| entry.weight_of(*tool)).sum();
                let all = self.weights[*tool as usize] - question.own(*tool);
                let often = (weight - own + LIKE_ALL * usual) / (all + LIKE_ALL);
                if often > usual && all > 1e-3 {
                    found.tools[*tool as usize] += (often / usual).ln();
                }
            }
        }
        let even = 1.0 / f32::from(known.max(1)).sqrt();
        found.tools.iter_mut().for_each(|lift| *lift *= even);
        found.length = found.length.sqrt().max(f32::MIN_POSITIVE);
        found
    }

    /// The nearest past queries, by words and vector in equal parts.
    fn nearest(
        &self,
        book: &Book,
        question: Question<'_>,
        by_word: &ByWord,
        of: usize,
    ) -> Vec<(Place, f32)> {
        let mut close: Vec<(Place, f32)> = by_word
            .places
            .iter()
            .map(|place| {
                let at = *place as usize;
                (*place, by_word.shared[at] / self.lengths[at])
            })
            .collect();
        best_of(&mut close, CLOSE);
        let mut places: Vec<Place> = close.into_iter().map(|(place, _)| place).collect();
        let rows = self.rows.as_ref().zip(question.vector);
        if let Some((rows, vector)) = rows {
            let mut top = rows.top(&[vector], CLOSE, Some(&book.places));
            places.extend(top.pop().unwrap_or_default().into_iter().map(|(place, _)| place));
        }
        places.sort_unstable();
        places.dedup();
        let is_own = |place: &Place| question.but.iter().any(|(own, _)| own == place);
        let mut near: Vec<(Place, f32)> = places
            .into_iter()
            .filter(|place| !is_own(place))
            .filter_map(|place| {
                let entry = self.entries.get(place)?;
                let without = usize::from(!question.but.is_empty());
                let length = match by_word.shared[place as usize] {
                    0.0 => 1.0,
                    _ => book.length(&entry.words, of, without),
                };
                let words = by_word.shared[place as usize] / (length * by_word.length);
                let meaning = rows.and_then(|(rows, vector)| rows.cosine(vector, place));
                Some((place, meaning.map_or(words, |meaning| f32::midpoint(words, meaning))))
            })
            .collect();
        best_of(&mut near, VOTERS);
        near
    }

    /// For each tool of the nearest past queries its votes, and how near the nearest of them is.
    fn votes(&self, near: &[(Place, f32)]) -> (Vec<(u32, f32, f32)>, f32) {
        let mut votes: Vec<(u32, f32, f32)> = Vec::new();
        let (mut all, mut nearest) = (f32::MIN_POSITIVE, 0.0_f32);
        for (place, near) in near {
            let (near, Some(entry)) = (near.max(0.0), self.entries.get(*place)) else { continue };
            let voice = near.powi(POWER);
            all += voice;
            nearest = nearest.max(near);
            let most = entry.most();
            for call in &entry.calls {
                let part = call.weight() / most;
                match votes.iter_mut().find(|(tool, ..)| *tool == call.tool) {
                    Some((_, vote, nearest)) => {
                        *vote += voice * part;
                        *nearest = nearest.max(near * part);
                    }
                    None => votes.push((call.tool, voice * part, near * part)),
                }
            }
        }
        for (_, vote, _) in &mut votes {
            *vote /= all;
        }
        (votes, nearest)
    }

    /// How near the mean of a tool's past queries is.
    fn mean(&self, question: Question<'_>, tool: u32, own: f32) -> f32 {
        let (Some(vector), Some(centres)) = (question.vector, &self.centres) else { return 0.0 };
        let Some(used) = self.tools.get(tool) else { return 0.0 };
        if own <= 0.0 {
            return centres.cosine(vector, tool).unwrap_or(0.0);
        }
        let mut rest = used.sum.clone();
        for (place, entry) in question.but {
            let own = entry.weight_of(tool);
            let row = self.rows.as_ref().filter(|_| own > 0.0).and_then(|rows| rows.vector(*place));
            let Some(row) = row else { continue };
            rest.iter_mut().zip(&row).for_each(|(rest, number)| *rest -= own * number);
        }
        let product: f32 = rest.iter().zip(vector).map(|(rest, number)| rest * number).sum();
        let square: f32 = rest.iter().map(|rest| rest * rest).sum();
        product / square.max(1e-6).sqrt()
    }
}

/// Keeps the best, best first and of equal ones the lower number.
fn best_of(scored: &mut Vec<(u32, f32)>, most: usize) {
    let order = |left: &(u32, f32), right: &(u32, f32)| {
        right.1.total_cmp(&left.1).then(left.0.cmp(&right.0))
    };
    if scored.len() > most {
        scored.select_nth_unstable_by(most, order);
        scored.truncate(most);
    }
    scored.sort_unstable_by(order);
}
