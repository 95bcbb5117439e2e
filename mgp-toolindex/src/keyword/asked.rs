//! Words that are looked for in one state of the keyword index (MGP §16.4).
//!
//! Applies to: inbound.

use tantivy::query::{
    Bm25StatisticsProvider, BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery,
    Weight,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::reader::KeywordReader;
use super::top::Top;
use crate::catalog::{Bitmap, Slot};
use crate::error::IndexError;
use crate::text::{Term, Words};

/// Below so many tools each of them is scored, because a scan cannot skip what the filter drops anyway.
const FEW: usize = 2_000;

/// Words that are looked for.
pub(crate) struct Asked<'a> {
    reader: &'a KeywordReader,
    /// One for each word; none for a word that occurs nowhere.
    words: Vec<Option<Box<dyn Weight>>>,
    /// All of them.
    all: Option<Box<dyn Weight>>,
}

/// In how many tools the words occur, looked up once for all that is made of them.
struct Counts<'a> {
    reader: &'a KeywordReader,
    known: Vec<(tantivy::Term, u64)>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(reader: &'a KeywordReader, words: &Words) -> Result<Self, IndexError> {
        let mut counts = Counts { reader, known: Vec::with_capacity(words.terms.len()) };
        for term in &words.terms {
            let word = reader.term(&term.text, term.place);
            let count = reader.doc_freq(&word)?;
            counts.known.push((word, count));
        }
        let scoring =
            EnableScoring::Enabled { searcher: &reader.searcher, statistics_provider: &counts };
        let mut each = Vec::with_capacity(words.terms.len());
        let mut all = Vec::new();
        for (term, (word, count)) in words.terms.iter().zip(&counts.known) {
            if *count == 0 {
                each.push(None);
                continue;
            }
            let query = query(word, term);
            each.push(Some(query.weight(scoring)?));
            all.push((Occur::Should, query));
        }
        let all = match all.is_empty() {
            true => None,
            false => Some(BooleanQuery::new(all).weight(scoring)?),
        };
        Ok(Self { reader, words: each, all })
    }

    /// The tools that the words fit best, best first, of equal ones the one with the smaller number.
    pub(crate) fn top(
        &self,
        k: usize,
        within: Option<&Bitmap>,
    ) -> Result<Vec<(Slot, f32)>, IndexError> {
        let Some(all) = self.all.as_ref().filter(|_| k > 0) else { return Ok(Vec::new()) };
        let mut top = Top::new(k);
        if let Some(within) = within.filter(|within| within.count() <= FEW) {
            let slots: Vec<Slot> = within.iter().collect();
            let scores = self.scores(&slots)?;
            for (slot, score) in slots.into_iter().zip(scores).filter(|(_, score)| *score > 0.0) {
                top.offer(slot, score);
            }
            return Ok(top.into_sorted());
        }
        let segments = self.reader.searcher.segment_readers();
        for (segment, known) in segments.iter().zip(&*self.reader.segments) {
            let alive = segment.alive_bitset();
            all.for_each_pruning(top.threshold(), segment, &mut |doc, score| {
                let slot = known.slots[doc as usize];
                let counts = alive.is_none_or(|alive| alive.is_alive(doc))
                    && within.is_none_or(|within| within.contains(slot));
                if counts {
                    top.offer(slot, score);
                }
                top.threshold()
            })?;
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
        let mut places: Vec<(u32, u32, usize)> = slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| {
                let standing = self.reader.standing.get(*slot)?;
                Some((standing.segment, standing.doc, at))
            })
            .collect();
        places.sort_unstable();
        let segments = self.reader.searcher.segment_readers();
        for (segment, known) in segments.iter().zip(&*self.reader.segments) {
            let start = places.partition_point(|place| place.0 < known.number);
            let end = places.partition_point(|place| place.0 <= known.number);
            let here = &places[start..end];
            if here.is_empty() {
                continue;
            }
            for (number, word) in self.words.iter().enumerate() {
                let Some(word) = word else { continue };
                let mut scorer = word.scorer(segment, 1.0)?;
                for (_, doc, at) in here {
                    if scorer.doc() < *doc {
                        scorer.seek(*doc);
                    }
                    if scorer.doc() == *doc {
                        visitor(number, *at, scorer.score());
                    }
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("words", &self.words.len()).finish_non_exhaustive()
    }
}

impl Bm25StatisticsProvider for Counts<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.reader.total_num_tokens(field)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.reader.total_num_docs()
    }

    fn doc_freq(&self, term: &tantivy::Term) -> tantivy::Result<u64> {
        match self.known.iter().find(|(known, _)| known == term) {
            Some((_, count)) => Ok(*count),
            None => self.reader.doc_freq(term),
        }
    }
}

fn query(word: &tantivy::Term, term: &Term) -> Box<dyn Query> {
    let query = TermQuery::new(word.clone(), IndexRecordOption::WithFreqs);
    if (term.weight - 1.0).abs() < f32::EPSILON {
        Box::new(query)
    } else {
        Box::new(BoostQuery::new(Box::new(query), term.weight))
    }
}
