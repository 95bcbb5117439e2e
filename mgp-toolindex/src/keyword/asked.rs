//! Words that are looked for in one state of the keyword index, scored by BM25 (MGP §16.4).
//!
//! All tools with one of the words are scored, word by word: a list of a query's words is long and the texts are short,
//! so that nearly every tool has one of them, and skipping ahead would cost more than it saves.
//!
//! Applies to: inbound.

use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{BlockSegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;
use tantivy::{InvertedIndexReader, SegmentReader, TantivyError};

use super::reader::{K1, KeywordReader, SegmentSlots, idf};
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
    /// In each segment.
    lists: Vec<Option<TermInfo>>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(reader: &'a KeywordReader, words: &Words) -> Result<Self, IndexError> {
        let segments = reader.searcher.segment_readers();
        let mut all: Vec<Word> = words
            .terms
            .iter()
            .map(|term| Word {
                place: term.place,
                weight: term.weight * (K1 + 1.0),
                lists: Vec::with_capacity(segments.len()),
            })
            .collect();
        for segment in segments {
            let indexes = Indexes::of(reader, segment)?;
            for (word, term) in all.iter_mut().zip(&words.terms) {
                let wanted = reader.term(&term.text, term.place);
                let info = indexes.of_place(term.place).get_term_info(&wanted);
                word.lists.push(info.map_err(TantivyError::from)?);
            }
        }
        for word in &mut all {
            let tools = word.lists.iter().flatten().map(|info| u64::from(info.doc_freq)).sum();
            word.weight *= idf(tools, reader.documents());
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
        for (at, segment, known) in self.segments() {
            if k == 0 || self.words.iter().all(|word| word.lists[at].is_none()) {
                continue;
            }
            scores.clear();
            scores.resize(segment.max_doc() as usize, 0.0);
            let lengths = Lengths::of(self.reader, segment)?;
            self.lists(at, segment, |word, mut list| {
                let word = &self.words[word];
                let (norms, lengths) = lengths.of_place(word.place);
                while !list.docs().is_empty() {
                    for (doc, times) in list.docs().iter().zip(list.freqs()) {
                        let norm = norms[usize::from(lengths.fieldnorm_id(*doc))];
                        scores[*doc as usize] += word.weight * saturated(*times, norm);
                    }
                    list.advance();
                }
            })?;
            let alive = segment.alive_bitset();
            for (doc, score) in (0u32..).zip(&scores) {
                if *score > top.threshold() {
                    let slot = known.slots[doc as usize];
                    if alive.is_none_or(|alive| alive.is_alive(doc))
                        && within.is_none_or(|within| within.contains(slot))
                    {
                        top.offer(slot, *score);
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

    /// How well the words fit each of these tools, in their order; zero where no word occurs.
    #[cfg(test)]
    pub(crate) fn scores(&self, slots: &[Slot]) -> Result<Vec<f32>, IndexError> {
        let mut scores = vec![0.0; slots.len()];
        self.visit(slots, |_, at, score| scores[at] += score)?;
        Ok(scores)
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
                Some((standing.segment, standing.doc, at))
            })
            .collect();
        places.sort_unstable();
        for (number, segment, known) in self.segments() {
            let start = places.partition_point(|place| place.0 < known.number);
            let end = places.partition_point(|place| place.0 <= known.number);
            let here = &places[start..end];
            let Ok(many) = u32::try_from(here.len()) else { continue };
            if many == 0 {
                continue;
            }
            let wanted: Bitmap = here.iter().map(|(_, doc, _)| *doc).collect();
            let lengths = Lengths::of(self.reader, segment)?;
            self.lists(number, segment, |number, mut list| {
                let word = &self.words[number];
                let (norms, lengths) = lengths.of_place(word.place);
                let mut visit = |at: usize, doc: u32, times: u32| {
                    let norm = norms[usize::from(lengths.fieldnorm_id(doc))];
                    visitor(number, at, word.weight * saturated(times, norm));
                };
                if list.doc_freq() / LEAP > many {
                    leap(&mut list, here, &mut visit);
                } else {
                    walk(&mut list, here, &wanted, &mut visit);
                }
            })?;
        }
        Ok(())
    }

    fn segments(&self) -> impl Iterator<Item = (usize, &SegmentReader, &SegmentSlots)> {
        let segments = self.reader.searcher.segment_readers().iter().zip(&*self.reader.segments);
        segments.enumerate().map(|(at, (segment, known))| (at, segment, known))
    }

    /// Opens the list of each word that occurs in a segment.
    fn lists(
        &self,
        at: usize,
        segment: &SegmentReader,
        mut visit: impl FnMut(usize, BlockSegmentPostings),
    ) -> Result<(), IndexError> {
        let indexes = Indexes::of(self.reader, segment)?;
        for (number, word) in self.words.iter().enumerate() {
            let Some(info) = &word.lists[at] else { continue };
            let list = indexes
                .of_place(word.place)
                .read_block_postings_from_terminfo(info, IndexRecordOption::WithFreqs);
            visit(number, list.map_err(TantivyError::from)?);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("words", &self.words.len()).finish_non_exhaustive()
    }
}

/// A tool that is asked for: its segment, its document there, its place among those that are asked for.
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

/// Where the words of a segment are listed.
struct Indexes {
    text: Arc<InvertedIndexReader>,
    name: Arc<InvertedIndexReader>,
}

impl Indexes {
    fn of(reader: &KeywordReader, segment: &SegmentReader) -> Result<Self, IndexError> {
        Ok(Self {
            text: segment.inverted_index(reader.field(Place::Text))?,
            name: segment.inverted_index(reader.field(Place::Name))?,
        })
    }

    fn of_place(&self, place: Place) -> &InvertedIndexReader {
        match place {
            Place::Text => &self.text,
            Place::Name => &self.name,
        }
    }
}

/// How long the texts of a segment are, and what a text of each length adds.
struct Lengths<'a> {
    text: (&'a [f32; 256], FieldNormReader),
    name: (&'a [f32; 256], FieldNormReader),
}

impl<'a> Lengths<'a> {
    fn of(reader: &'a KeywordReader, segment: &SegmentReader) -> Result<Self, IndexError> {
        let of = |place: Place| segment.get_fieldnorms_reader(reader.field(place));
        Ok(Self {
            text: (reader.norms(Place::Text), of(Place::Text)?),
            name: (reader.norms(Place::Name), of(Place::Name)?),
        })
    }

    fn of_place(&self, place: Place) -> &(&'a [f32; 256], FieldNormReader) {
        match place {
            Place::Text => &self.text,
            Place::Name => &self.name,
        }
    }
}
