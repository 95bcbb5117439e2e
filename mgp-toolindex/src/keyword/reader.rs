//! One state of the keyword index, which any number of readers can share (MGP §16.4).

use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
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
    /// The address of a tool that is not in the index. No document has this address, because segments are numbered from
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
    /// The figures that BM25 uses to weigh words and lengths.
    figures: TextFigures,
    /// The tools from which the figures are computed and whose words are counted; `None` means all tools.
    described: Option<Arc<Bitmap>>,
}

/// The figures about texts that BM25 needs.
#[derive(Clone)]
pub(crate) struct TextFigures {
    /// The number of documents; includes deleted documents if the figures describe all tools.
    documents: u64,
    /// The BM25 norms by encoded text length: one table for texts, one for names.
    norms: Arc<[[f32; 256]; 2]>,
}

/// The BM25 parameter k1. The lower it is, the less a repeated word adds to the score.
pub(super) const K1: f32 = 1.2;

/// The BM25 parameter b. The higher it is, the lower are the scores of long texts.
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
        let figures = TextFigures { documents, norms: Arc::new(norms) };
        Self { segments: segments.into(), addresses, figures, described: None }
    }

    /// Returns a reader of the same documents that weighs words and lengths by the tools in a set, whose figures
    /// [`figures_of`](Self::figures_of) returned.
    pub(crate) fn weighed_by(&self, tools: &Arc<Bitmap>, figures: &TextFigures) -> Self {
        Self { figures: figures.clone(), described: Some(Arc::clone(tools)), ..self.clone() }
    }

    pub(crate) fn figures_of(&self, tools: &Bitmap) -> TextFigures {
        let (mut documents, mut words) = (0, [0, 0]);
        for segment in &*self.segments {
            for (doc, _) in segment.live().filter(|(_, slot)| tools.contains(*slot)) {
                documents += 1;
                for (field, words) in [Field::Text, Field::Name].into_iter().zip(&mut words) {
                    let length = segment.body.index(field).lengths[doc as usize];
                    *words += u64::from(FieldNormReader::id_to_fieldnorm(length));
                }
            }
        }
        TextFigures { documents, norms: Arc::new(words.map(|words| norms(words, documents))) }
    }

    pub(crate) fn look_up(&self, words: &QueryWords) -> Result<QueryTerms<'_>, IndexError> {
        QueryTerms::new(self, words)
    }

    /// Returns whether a word occurs in a tool of `within`. Other tools do not count, because callers could otherwise
    /// find out which words occur in tools that are hidden from them.
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
        idf(count, self.documents())
    }

    /// Returns the tools that have a word among their input or output types.
    pub(crate) fn tools_of_kind(&self, word: &str) -> Result<Bitmap, IndexError> {
        self.tools_with_word(word, |segment| &segment.body.kinds)
    }

    pub(crate) fn tools_named(&self, word: &str) -> Result<Bitmap, IndexError> {
        self.tools_with_word(word, |segment| &segment.body.name.index)
    }

    fn tools_with_word(
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
            Field::Text => &self.figures.norms[0],
            Field::Name => &self.figures.norms[1],
        }
    }

    /// Returns the number of documents. If the figures describe all tools, deleted documents count until a merge
    /// removes them.
    pub(crate) fn documents(&self) -> u64 {
        self.figures.documents
    }

    /// Returns the number of documents of a segment that contain a word. `index` is the index of a field, and `info`
    /// the location of the word's postings in it.
    pub(super) fn count_in(
        &self,
        segment: &IndexSegment,
        index: &InvertedIndexReader,
        info: &TermInfo,
    ) -> tantivy::Result<u64> {
        match &self.described {
            Some(tools) => segment.count(index, info, tools),
            None => Ok(u64::from(info.doc_freq)),
        }
    }

    /// Returns the number of documents whose texts contain a word.
    fn count(&self, word: &str) -> tantivy::Result<u64> {
        let mut count = 0;
        for segment in &*self.segments {
            let index = &segment.body.index(Field::Text).index;
            if let Some(info) = index.terms().get(word)? {
                count += self.count_in(segment, index, &info)?;
            }
        }
        Ok(count)
    }
}

mgp_types::opaque_debug!(KeywordReader { figures });
mgp_types::opaque_debug!(TextFigures { documents });

/// Returns the inverse document frequency of BM25 for a word that `count` of `all` documents contain.
#[expect(clippy::cast_precision_loss, reason = "a weight needs no more digits")]
pub(super) fn idf(count: u64, all: u64) -> f32 {
    let without = all.saturating_sub(count) as f32;
    (1.0 + (without + 0.5) / (count as f32 + 0.5)).ln()
}

/// Returns the BM25 norm of each encoded text length. The average length of a text follows from the number of texts and
/// the total number of words.
#[expect(clippy::cast_precision_loss, reason = "an average needs no more digits")]
fn norms(words: u64, texts: u64) -> [f32; 256] {
    let average = (words as f32 / texts.max(1) as f32).max(1.0);
    let length =
        |at: usize| FieldNormReader::id_to_fieldnorm(u8::try_from(at).unwrap_or(u8::MAX)) as f32;
    std::array::from_fn(|at| K1 * (1.0 - B + B * length(at) / average))
}
