//! The words of a query, looked up in one state of the keyword index and scored by BM25 (MGP §16.4).
//!
//! Every tool with at least one word of the query gets a score; the words are processed one after the other. Queries
//! have many words, and texts are short, so nearly every tool has such a word. Algorithms that skip tools with low
//! scores would therefore cost more than they save.

use tantivy::TantivyError;
use tantivy::postings::{BlockSegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;

use super::reader::{K1, KeywordReader, idf};
use super::segment::IndexSegment;
use super::top::TopTools;
use crate::catalog::{Bitmap, Slot};
use crate::error::IndexError;
use crate::text::{Field, QueryWords};

/// If a word has more than this number of postings for each wanted document, seeking the wanted documents is faster
/// than scanning all postings.
const SEEK_RATIO: u32 = 40;

#[derive(Debug)]
pub(crate) struct QueryTerms<'a> {
    reader: &'a KeywordReader,
    words: Vec<QueryTerm>,
}

/// A word of the query, and its postings.
#[derive(Debug)]
struct QueryTerm {
    field: Field,
    /// The maximum score that the word can contribute.
    weight: f32,
    /// For each segment, the location of the word's postings; `None` if the segment does not contain the word.
    postings: Vec<Option<TermInfo>>,
}

impl<'a> QueryTerms<'a> {
    pub(super) fn new(reader: &'a KeywordReader, words: &QueryWords) -> Result<Self, IndexError> {
        let mut all = Vec::with_capacity(words.terms.len());
        for term in &words.terms {
            let mut postings = Vec::with_capacity(reader.segments.len());
            let mut tools = 0;
            for segment in &*reader.segments {
                let index = &segment.body.index(term.place).index;
                let info = index.terms().get(&term.text).map_err(TantivyError::from)?;
                if let Some(info) = &info {
                    tools += reader.count_in(segment, index, info)?;
                }
                postings.push(info);
            }
            let weight = term.weight * (K1 + 1.0) * idf(tools, reader.documents());
            all.push(QueryTerm { field: term.place, weight, postings });
        }
        Ok(Self { reader, words: all })
    }

    /// Returns the tools with the highest scores, best first; tools with equal scores are in the order of their slots.
    pub(crate) fn top(
        &self,
        k: usize,
        within: Option<&Bitmap>,
    ) -> Result<Vec<(Slot, f32)>, IndexError> {
        let mut top = TopTools::new(k);
        let mut scores: Vec<f32> = Vec::new();
        for (at, segment) in self.reader.segments.iter().enumerate() {
            if k == 0 || self.words.iter().all(|word| word.postings[at].is_none()) {
                continue;
            }
            scores.clear();
            scores.resize(segment.body.slots.len(), 0.0);
            self.for_each_list(at, segment, |word, list| {
                let word = &self.words[word];
                let norms = self.reader.norms(word.field);
                let lengths = &*segment.body.index(word.field).lengths;
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
                    let slot = segment.body.slots[doc as usize];
                    if segment.is_live(doc) && within.is_none_or(|within| within.contains(slot)) {
                        top.offer(slot, *score);
                        threshold = top.threshold();
                    }
                }
            }
        }
        Ok(top.into_sorted())
    }

    /// Returns the score of each word for each of these tools: first the scores of the first word for all tools, then
    /// the scores of the second word, and so on.
    pub(crate) fn score_each(&self, slots: &[Slot]) -> Result<Vec<f32>, IndexError> {
        if self.words.is_empty() {
            return Ok(Vec::new());
        }
        let mut scores = vec![0.0; slots.len() * self.words.len()];
        let mut wanted: Vec<WantedTool> = slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| {
                let address = self.reader.addresses.get(*slot)?;
                Some((address.segment, address.doc, at))
            })
            .collect();
        wanted.sort_unstable();
        for (number, segment) in self.reader.segments.iter().enumerate() {
            let start = wanted.partition_point(|tool| tool.0 < segment.number);
            let end = wanted.partition_point(|tool| tool.0 <= segment.number);
            let tools = &wanted[start..end];
            let Ok(count) = u32::try_from(tools.len()) else { continue };
            if count == 0 {
                continue;
            }
            let wanted: Bitmap = tools.iter().map(|(_, doc, _)| *doc).collect();
            self.for_each_list(number, segment, |number, list| {
                let word = &self.words[number];
                let norms = self.reader.norms(word.field);
                let lengths = &*segment.body.index(word.field).lengths;
                let mut visit = |at: usize, doc: u32, times: u32| {
                    let norm = norms[usize::from(lengths[doc as usize])];
                    scores[number * slots.len() + at] = word.weight * saturated(times, norm);
                };
                if list.doc_freq() / SEEK_RATIO > count {
                    seek(list, tools, &mut visit);
                } else {
                    scan(list, tools, &wanted, &mut visit);
                }
            })?;
        }
        Ok(scores)
    }

    /// Calls `visit` for each word of the query that a segment contains, with the index of the word and its postings in
    /// the segment.
    fn for_each_list(
        &self,
        at: usize,
        segment: &IndexSegment,
        mut visit: impl FnMut(usize, &mut BlockSegmentPostings),
    ) -> Result<(), IndexError> {
        for (number, word) in self.words.iter().enumerate() {
            let Some(info) = &word.postings[at] else { continue };
            let index = &segment.body.index(word.field).index;
            let list = index.read_block_postings_from_terminfo(info, IndexRecordOption::WithFreqs);
            visit(number, &mut list.map_err(TantivyError::from)?);
        }
        Ok(())
    }
}

/// A tool whose scores are wanted: its segment, its document there, and its position in the list of wanted tools.
type WantedTool = (u32, u32, usize);

/// Visits the wanted documents by scanning all postings of a word.
fn scan(
    list: &mut BlockSegmentPostings,
    tools: &[WantedTool],
    wanted: &Bitmap,
    visit: &mut impl FnMut(usize, u32, u32),
) {
    while !list.docs().is_empty() {
        for (doc, times) in list.docs().iter().zip(list.freqs()) {
            if wanted.contains(*doc)
                && let Ok(index) = tools.binary_search_by_key(doc, |(_, doc, _)| *doc)
            {
                visit(tools[index].2, *doc, *times);
            }
        }
        list.advance();
    }
}

/// Visits the wanted documents by seeking from each wanted document to the next.
fn seek(
    list: &mut BlockSegmentPostings,
    tools: &[WantedTool],
    visit: &mut impl FnMut(usize, u32, u32),
) {
    let mut last = 0;
    for (_, doc, at) in tools {
        if *doc > last || last == 0 {
            list.seek(*doc);
            last = list.docs().last().copied().unwrap_or(u32::MAX);
        }
        if let Ok(index) = list.docs().binary_search(doc) {
            visit(*at, *doc, list.freqs()[index]);
        }
    }
}

/// Returns the term frequency of BM25, which grows ever more slowly with the number of occurrences; `norm` depends on
/// the length of the text.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "a text is short")]
fn saturated(times: u32, norm: f32) -> f32 {
    let times = times as f32;
    times / (times + norm)
}
