//! One state of the keyword index, for any number of readers (MGP §16.4).
//!
//! Applies to: inbound.

use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::query::Bm25StatisticsProvider as _;
use tantivy::schema::Field;
use tantivy::{DocSet, Searcher, TERMINATED, Term};

use super::asked::Asked;
use super::writer::Fields;
use crate::catalog::{Bitmap, Chunks, Slot};
use crate::error::IndexError;
use crate::text::{Place, Words};

/// Where a tool is: in which segment, as which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) segment: u32,
    pub(super) doc: u32,
}

impl Standing {
    /// Of a tool that is not in the index; segments are counted from one.
    pub(super) const NOWHERE: Self = Self { segment: 0, doc: 0 };
}

impl Default for Standing {
    fn default() -> Self {
        Self::NOWHERE
    }
}

/// Which tools the documents of a segment are.
#[derive(Clone, Debug)]
pub(super) struct SegmentSlots {
    /// Names the segment in [`Standing`].
    pub(super) number: u32,
    /// The tool of each document.
    pub(super) slots: Arc<[Slot]>,
}

/// One state of the keyword index.
#[derive(Clone)]
pub(crate) struct KeywordReader {
    pub(super) searcher: Searcher,
    pub(super) fields: Fields,
    /// In the order of the searcher.
    pub(super) segments: Arc<[SegmentSlots]>,
    pub(super) standing: Chunks<Standing>,
    totals: Totals,
    /// What the length of a text adds, by the byte that stands for it: in texts, in names.
    norms: Arc<[[f32; 256]; 2]>,
}

/// How soon saying a word again adds nothing, as BM25 calls it.
pub(super) const K1: f32 = 1.2;

/// How much the length of a text counts.
const B: f32 = 0.75;

/// What every score is made with.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    documents: u64,
    text: u64,
    name: u64,
}

impl KeywordReader {
    pub(super) fn new(
        searcher: Searcher,
        fields: Fields,
        segments: Vec<SegmentSlots>,
        standing: Chunks<Standing>,
    ) -> Result<Self, IndexError> {
        let totals = Totals {
            documents: searcher.total_num_docs()?,
            text: searcher.total_num_tokens(fields.text)?,
            name: searcher.total_num_tokens(fields.name)?,
        };
        let norms = [totals.text, totals.name].map(|tokens| norms(tokens, totals.documents));
        let segments = segments.into();
        Ok(Self { searcher, fields, segments, standing, totals, norms: Arc::new(norms) })
    }

    /// Prepares words for being looked for.
    pub(crate) fn ask(&self, words: &Words) -> Result<Asked<'_>, IndexError> {
        Asked::new(self, words)
    }

    /// Whether a word occurs in any tool.
    pub(crate) fn knows(&self, word: &str) -> bool {
        self.count(&self.term(word, Place::Text)).is_ok_and(|count| count > 0)
    }

    /// How much a word says: the rarer, the more.
    pub(crate) fn idf(&self, word: &str) -> f32 {
        let count = self.count(&self.term(word, Place::Text)).unwrap_or(0);
        idf(count, self.totals.documents)
    }

    /// The tools that have a word among their types of input and output.
    pub(crate) fn of_kind(&self, word: &str) -> Result<Bitmap, IndexError> {
        let term = Term::from_field_text(self.fields.kinds, word);
        let mut all = Bitmap::with_len(self.standing.reach());
        for (segment, known) in self.searcher.segment_readers().iter().zip(&*self.segments) {
            let index = segment.inverted_index(self.fields.kinds)?;
            let option = tantivy::schema::IndexRecordOption::Basic;
            let Some(mut postings) =
                index.read_postings(&term, option).map_err(tantivy::TantivyError::from)?
            else {
                continue;
            };
            let alive = segment.alive_bitset();
            let mut doc = postings.doc();
            while doc != TERMINATED {
                if alive.is_none_or(|alive| alive.is_alive(doc)) {
                    all.set(known.slots[doc as usize]);
                }
                doc = postings.advance();
            }
        }
        Ok(all)
    }

    /// How many segments there are.
    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    pub(super) fn term(&self, word: &str, place: Place) -> Term {
        Term::from_field_text(self.field(place), word)
    }

    pub(super) fn field(&self, place: Place) -> Field {
        match place {
            Place::Text => self.fields.text,
            Place::Name => self.fields.name,
        }
    }

    pub(super) fn norms(&self, place: Place) -> &[f32; 256] {
        match place {
            Place::Text => &self.norms[0],
            Place::Name => &self.norms[1],
        }
    }

    /// How many documents there are, those that are gone and not yet merged away included.
    pub(crate) fn documents(&self) -> u64 {
        self.totals.documents
    }

    pub(super) fn count(&self, term: &Term) -> tantivy::Result<u64> {
        self.searcher.doc_freq(term)
    }
}

impl std::fmt::Debug for KeywordReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeywordReader")
            .field("documents", &self.totals.documents)
            .field("segments", &self.segments.len())
            .finish_non_exhaustive()
    }
}

/// How much a word says that occurs in so many of all tools, as BM25 counts it.
#[expect(clippy::cast_precision_loss, reason = "how much a word says needs no more digits")]
pub(super) fn idf(count: u64, all: u64) -> f32 {
    let without = all.saturating_sub(count) as f32;
    (1.0 + (without + 0.5) / (count as f32 + 0.5)).ln()
}

/// What a text of each length adds, where so many texts have so many words.
#[expect(clippy::cast_precision_loss, reason = "how long texts are needs no more digits")]
fn norms(words: u64, texts: u64) -> [f32; 256] {
    let usual = (words as f32 / texts.max(1) as f32).max(1.0);
    let length =
        |at: usize| FieldNormReader::id_to_fieldnorm(u8::try_from(at).unwrap_or(u8::MAX)) as f32;
    std::array::from_fn(|at| K1 * (1.0 - B + B * length(at) / usual))
}
