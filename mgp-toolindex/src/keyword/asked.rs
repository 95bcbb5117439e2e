//! Words that are looked for in one state of the keyword index, scored by BM25 (MGP §16.4).
//!
//! All tools with one of the words are scored, word by word: a list of a query's words is long and the texts are short,
//! so that nearly every tool has one of them, and skipping ahead would cost more than it saves.
//!
//! Applies to: inbound.

use tantivy::TantivyError;
use tantivy::postings::{BlockSegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;

use super::part::Part;
use super::reader::{K1, KeywordReader, idf};
use super::top::Top;
use crate::catalog::{Bitmap, Slot};
use crate::error::IndexError;
use crate::text::{Place, Words};

/// From how many times as many tools as are asked for on their word's list is walked in leaps.
const LEAP: u32 = 40;

/// Words that are looked for.
pub(crate) struct Asked<'a> {
    reader: &'a KeywordReader,
    words: Vec<Word>,
}

/// A word, and where it is.
struct Word {
    place: Place,
    /// What it counts at most.
    weight: f32,
    /// In each part.
    lists: Vec<Option<TermInfo>>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(reader: &'a KeywordReader, words: &Words) -> Result<Self, IndexError> {
        let mut all = Vec::with_capacity(words.terms.len());
        for term in &words.terms {
            let mut lists = Vec::with_capacity(reader.parts.len());
            let mut tools = 0;
            for part in &*reader.parts {
                let info = part.body.lists(term.place).index.terms().get(&term.text);
                let info = info.map_err(TantivyError::from)?;
                tools += info.as_ref().map_or(0, |info| u64::from(info.doc_freq));
                lists.push(info);
            }
            let weight = term.weight * (K1 + 1.0) * idf(tools, reader.documents());
            all.push(Word { place: term.place, weight, lists });
        }
        Ok(Self { reader, words: all })
    }

    /// The tools that the words fit best, best first, of equal ones the one with the smaller number.
    pub(crate) fn top(
        &self,
        k: usize,
        within: Option<&Bitmap>,
    ) -> Result<Vec<(Slot, f32)>, IndexError> {
        let mut top = Top::new(k);
        let mut scores: Vec<f32> = Vec::new();
        for (at, part) in self.reader.parts.iter().enumerate() {
            if k == 0 || self.words.iter().all(|word| word.lists[at].is_none()) {
                continue;
            }
            scores.clear();
            scores.resize(part.body.slots.len(), 0.0);
            self.lists(at, part, |word, list| {
                let word = &self.words[word];
                let norms = self.reader.norms(word.place);
                let lengths = &*part.body.lists(word.place).lengths;
                while !list.docs().is_empty() {
                    for (doc, times) in list.docs().iter().zip(list.freqs()) {
                        let norm = norms[usize::from(lengths[*doc as usize])];
                        scores[*doc as usize] += word.weight * saturated(*times, norm);
                    }
                    list.advance();
                }
            })?;
            let mut threshold = top.threshold();
            for (doc, score) in (0u32..).zip(&scores) {
                if *score > threshold {
                    let slot = part.body.slots[doc as usize];
                    if part.is_alive(doc) && within.is_none_or(|within| within.contains(slot)) {
                        top.offer(slot, *score);
                        threshold = top.threshold();
                    }
                }
            }
        }
        Ok(top.into_sorted())
    }

    /// What each word says of each of these tools, all tools of a word together.
    pub(crate) fn each(&self, slots: &[Slot]) -> Result<Vec<f32>, IndexError> {
        let mut said = vec![0.0; slots.len() * self.words.len()];
        self.visit(slots, |word, at, score| said[word * slots.len() + at] = score)?;
        Ok(said)
    }

    /// Visits each word in each of these tools that has it.
    fn visit(
        &self,
        slots: &[Slot],
        mut visitor: impl FnMut(usize, usize, f32),
    ) -> Result<(), IndexError> {
        let mut places: Vec<Wanted> = slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| {
                let standing = self.reader.standing.get(*slot)?;
                Some((standing.part, standing.doc, at))
            })
            .collect();
        places.sort_unstable();
        for (number, part) in self.reader.parts.iter().enumerate() {
            let start = places.partition_point(|place| place.0 < part.number);
            let end = places.partition_point(|place| place.0 <= part.number);
            let here = &places[start..end];
            let Ok(many) = u32::try_from(here.len()) else { continue };
            if many == 0 {
                continue;
            }
            let wanted: Bitmap = here.iter().map(|(_, doc, _)| *doc).collect();
            self.lists(number, part, |number, list| {
                let word = &self.words[number];
                let norms = self.reader.norms(word.place);
                let lengths = &*part.body.lists(word.place).lengths;
                let mut visit = |at: usize, doc: u32, times: u32| {
                    let norm = norms[usize::from(lengths[doc as usize])];
                    visitor(number, at, word.weight * saturated(times, norm));
                };
                if list.doc_freq() / LEAP > many {
                    leap(list, here, &mut visit);
                } else {
                    walk(list, here, &wanted, &mut visit);
                }
            })?;
        }
        Ok(())
    }

    /// Opens the list of each word that occurs in a part.
    fn lists(
        &self,
        at: usize,
        part: &Part,
        mut visit: impl FnMut(usize, &mut BlockSegmentPostings),
    ) -> Result<(), IndexError> {
        for (number, word) in self.words.iter().enumerate() {
            let Some(info) = &word.lists[at] else { continue };
            let index = &part.body.lists(word.place).index;
            let list = index.read_block_postings_from_terminfo(info, IndexRecordOption::WithFreqs);
            visit(number, &mut list.map_err(TantivyError::from)?);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("words", &self.words.len()).finish_non_exhaustive()
    }
}

/// A tool that is asked for: its part, its document there, its place among those that are asked for.
type Wanted = (u32, u32, usize);

/// Visits the wanted documents of a list, looking at all of it.
fn walk(
    list: &mut BlockSegmentPostings,
    here: &[Wanted],
    wanted: &Bitmap,
    visit: &mut impl FnMut(usize, u32, u32),
) {
    while !list.docs().is_empty() {
        for (doc, times) in list.docs().iter().zip(list.freqs()) {
            if wanted.contains(*doc)
                && let Ok(place) = here.binary_search_by_key(doc, |(_, doc, _)| *doc)
            {
                visit(here[place].2, *doc, *times);
            }
        }
        list.advance();
    }
}

/// Visits the wanted documents of a list, leaping from one to the next.
fn leap(list: &mut BlockSegmentPostings, here: &[Wanted], visit: &mut impl FnMut(usize, u32, u32)) {
    let mut last = 0;
    for (_, doc, at) in here {
        if *doc > last || last == 0 {
            list.seek(*doc);
            last = list.docs().last().copied().unwrap_or(u32::MAX);
        }
        if let Ok(place) = list.docs().binary_search(doc) {
            visit(*at, *doc, list.freqs()[place]);
        }
    }
}

/// How far a word that occurs so many times is from counting in full, with what the length of the text adds.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "a text is short")]
fn saturated(times: u32, norm: f32) -> f32 {
    let times = times as f32;
    times / (times + norm)
}
