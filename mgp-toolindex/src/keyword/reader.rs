//! One state of the keyword index, for any number of readers (MGP §16.4).
//!
//! Applies to: inbound.

use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::IndexRecordOption;
use tantivy::termdict::TermDictionary;
use tantivy::{DocSet, TERMINATED};

use super::asked::Asked;
use super::part::Part;
use crate::catalog::{Bitmap, Chunks};
use crate::error::IndexError;
use crate::text::{Place, Words};

/// Where a tool is: in which part, as which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) part: u32,
    pub(super) doc: u32,
}

impl Standing {
    /// Of a tool that is not in the index; parts are counted from one.
    pub(super) const NOWHERE: Self = Self { part: 0, doc: 0 };
}

impl Default for Standing {
    fn default() -> Self {
        Self::NOWHERE
    }
}

/// One state of the keyword index.
#[derive(Clone)]
pub(crate) struct KeywordReader {
    pub(super) parts: Arc<[Part]>,
    pub(super) standing: Chunks<Standing>,
    /// How many documents there are.
    documents: u64,
    /// What the length of a text adds, by the byte that stands for it: in texts, in names.
    norms: Arc<[[f32; 256]; 2]>,
}

/// How soon saying a word again adds nothing, as BM25 calls it.
pub(super) const K1: f32 = 1.2;

/// How much the length of a text counts.
const B: f32 = 0.75;

impl KeywordReader {
    pub(super) fn new(parts: Vec<Part>, standing: Chunks<Standing>) -> Self {
        let documents = parts.iter().map(|part| u64::from(part.documents())).sum();
        let norms = [Place::Text, Place::Name].map(|place| {
            let words = |part: &Part| part.body.lists(place).index.total_num_tokens();
            norms(parts.iter().map(words).sum(), documents)
        });
        Self { parts: parts.into(), standing, documents, norms: Arc::new(norms) }
    }

    /// Prepares words for being looked for.
    pub(crate) fn ask(&self, words: &Words) -> Result<Asked<'_>, IndexError> {
        Asked::new(self, words)
    }

    /// Whether a word occurs in any tool.
    pub(crate) fn knows(&self, word: &str) -> bool {
        self.count(word, Place::Text).is_ok_and(|count| count > 0)
    }

    /// How much a word says: the rarer, the more.
    pub(crate) fn idf(&self, word: &str) -> f32 {
        let count = self.count(word, Place::Text).unwrap_or(0);
        idf(count, self.documents)
    }

    /// The tools that have a word among their types of input and output.
    pub(crate) fn of_kind(&self, word: &str) -> Result<Bitmap, IndexError> {
        let mut all = Bitmap::with_len(self.standing.reach());
        for part in &*self.parts {
            let kinds = &part.body.kinds;
            let Some(info) = kinds.terms().get(word).map_err(tantivy::TantivyError::from)? else {
                continue;
            };
            let mut postings = kinds
                .read_postings_from_terminfo(&info, IndexRecordOption::Basic)
                .map_err(tantivy::TantivyError::from)?;
            let mut doc = postings.doc();
            while doc != TERMINATED {
                if part.is_alive(doc) {
                    all.set(part.body.slots[doc as usize]);
                }
                doc = postings.advance();
            }
        }
        Ok(all)
    }

    /// How many parts there are.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn norms(&self, place: Place) -> &[f32; 256] {
        match place {
            Place::Text => &self.norms[0],
            Place::Name => &self.norms[1],
        }
    }

    /// How many documents there are, those that are gone and not yet merged away included.
    pub(crate) fn documents(&self) -> u64 {
        self.documents
    }

    /// In how many documents a word occurs.
    pub(super) fn count(&self, word: &str, place: Place) -> tantivy::Result<u64> {
        let mut count = 0;
        for part in &*self.parts {
            let words: &TermDictionary = part.body.lists(place).index.terms();
            count += words.get(word)?.map_or(0, |info| u64::from(info.doc_freq));
        }
        Ok(count)
    }
}

impl std::fmt::Debug for KeywordReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeywordReader")
            .field("documents", &self.documents)
            .field("parts", &self.parts.len())
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
