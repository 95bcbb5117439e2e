//! One state of the keyword index, which any number of readers can share (MGP §16.4).

use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::schema::IndexRecordOption;
use tantivy::termdict::TermDictionary;
use tantivy::{DocSet, TERMINATED};

use super::query_terms::QueryTerms;
use super::segment::IndexSegment;
use crate::catalog::{Bitmap, ChunkedList};
use crate::error::IndexError;
use crate::text::{Field, QueryWords};

/// The address of a tool's document in the inverted index: the number of the segment, and the number of the document in
/// the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DocumentAddress {
    pub(super) segment: u32,
    pub(super) doc: u32,
}

impl DocumentAddress {
    /// The address that means that a tool is not in the index. No document has it, because segments are numbered from
    /// one.
    pub(super) const NONE: Self = Self { segment: 0, doc: 0 };
}

impl Default for DocumentAddress {
    fn default() -> Self {
        Self::NONE
    }
}

#[derive(Clone)]
pub(crate) struct KeywordReader {
    pub(super) segments: Arc<[IndexSegment]>,
    pub(super) addresses: ChunkedList<DocumentAddress>,
    /// The number of documents, deleted ones included.
    documents: u64,
    /// The BM25 length norms, by encoded text length: one table for texts, one for names.
    norms: Arc<[[f32; 256]; 2]>,
}

/// The BM25 parameter k1: how soon a repeated word stops adding to the score.
pub(super) const K1: f32 = 1.2;

/// The BM25 parameter b: how much long texts are penalised.
const B: f32 = 0.75;

impl KeywordReader {
    pub(super) fn new(
        segments: Vec<IndexSegment>,
        addresses: ChunkedList<DocumentAddress>,
    ) -> Self {
        let documents = segments.iter().map(|segment| u64::from(segment.documents())).sum();
        let norms = [Field::Text, Field::Name].map(|field| {
            let words = |segment: &IndexSegment| segment.body.index(field).index.total_num_tokens();
            norms(segments.iter().map(words).sum(), documents)
        });
        Self { segments: segments.into(), addresses, documents, norms: Arc::new(norms) }
    }

    /// Looks up the words of a query.
    pub(crate) fn look_up(&self, words: &QueryWords) -> Result<QueryTerms<'_>, IndexError> {
        QueryTerms::new(self, words)
    }

    /// Returns whether a word occurs in a tool of `within`. Other tools do not count: callers could otherwise find out
    /// which words occur in tools that are hidden from them.
    pub(crate) fn has_word(&self, word: &str, within: Option<&Bitmap>) -> bool {
        self.segments.iter().any(|segment| {
            let index = &segment.body.index(Field::Text).index;
            let info = index.terms().get(word).ok().flatten();
            info.is_some_and(|info| segment.has_word(index, &info, within).unwrap_or(false))
        })
    }

    /// Returns the inverse document frequency of a word.
    pub(crate) fn idf(&self, word: &str) -> f32 {
        let count = self.count(word).unwrap_or(0);
        idf(count, self.documents)
    }

    /// Returns the tools that have a word among their input or output types.
    pub(crate) fn of_kind(&self, word: &str) -> Result<Bitmap, IndexError> {
        self.with_word(word, |segment| &segment.body.kinds)
    }

    /// Returns the tools that have a word in their names.
    pub(crate) fn of_name(&self, word: &str) -> Result<Bitmap, IndexError> {
        self.with_word(word, |segment| &segment.body.name.index)
    }

    fn with_word(
        &self,
        word: &str,
        index: impl Fn(&IndexSegment) -> &InvertedIndexReader,
    ) -> Result<Bitmap, IndexError> {
        let mut all = Bitmap::with_len(self.addresses.reach());
        for segment in &*self.segments {
            let index = index(segment);
            let Some(info) = index.terms().get(word).map_err(tantivy::TantivyError::from)? else {
                continue;
            };
            let mut postings = index
                .read_postings_from_terminfo(&info, IndexRecordOption::Basic)
                .map_err(tantivy::TantivyError::from)?;
            let mut doc = postings.doc();
            while doc != TERMINATED {
                if segment.is_live(doc) {
                    all.set(segment.body.slots[doc as usize]);
                }
                doc = postings.advance();
            }
        }
        Ok(all)
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    pub(super) fn norms(&self, field: Field) -> &[f32; 256] {
        match field {
            Field::Text => &self.norms[0],
            Field::Name => &self.norms[1],
        }
    }

    /// Returns the number of documents; deleted ones count until a merge removes them.
    pub(crate) fn documents(&self) -> u64 {
        self.documents
    }

    /// Returns the number of documents whose texts contain a word.
    fn count(&self, word: &str) -> tantivy::Result<u64> {
        let mut count = 0;
        for segment in &*self.segments {
            let words: &TermDictionary = segment.body.index(Field::Text).index.terms();
            count += words.get(word)?.map_or(0, |info| u64::from(info.doc_freq));
        }
        Ok(count)
    }
}

mgp_types::opaque_debug!(KeywordReader { documents });

/// Returns the inverse document frequency of BM25 for a word that `count` of `all` documents contain.
#[expect(clippy::cast_precision_loss, reason = "a weight needs no more digits")]
pub(super) fn idf(count: u64, all: u64) -> f32 {
    let without = all.saturating_sub(count) as f32;
    (1.0 + (without + 0.5) / (count as f32 + 0.5)).ln()
}

/// Returns the BM25 norm of each encoded text length. There are `texts` texts with `words` words in total, from which
/// the average length of a text is computed.
#[expect(clippy::cast_precision_loss, reason = "an average needs no more digits")]
fn norms(words: u64, texts: u64) -> [f32; 256] {
    let average = (words as f32 / texts.max(1) as f32).max(1.0);
    let length =
        |at: usize| FieldNormReader::id_to_fieldnorm(u8::try_from(at).unwrap_or(u8::MAX)) as f32;
    std::array::from_fn(|at| K1 * (1.0 - B + B * length(at) / average))
}
