//! A remembered query: what is kept of it, and the tools that were called after it.
//!
//! Applies to: inbound.

use mgp_types::service::{Principal, Subject, TenantId};

use crate::text::Words;

/// The most that is kept of a query's text, in bytes.
pub(super) const TEXT: usize = 1024;

/// The most different words that are kept of a query.
const WORDS: usize = 64;

/// The most tools that are kept of a query.
pub(super) const CALLS: usize = 64;

/// What a tool counts at most after a query, however often it was called.
const WEIGHT: f32 = 4.0;

/// A word, as its hash.
pub(super) type Word = u64;

/// Tells a query of a subject from all others.
pub(super) type Key = u128;

/// Where an entry is kept.
pub(super) type Place = u32;

/// Whose a query is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) tenant: TenantId,
    pub(super) subject: Subject,
}

/// A remembered query.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) key: Key,
    pub(super) text: Option<Box<str>>,
    pub(super) words: Box<[Word]>,
    pub(super) calls: Vec<Call>,
    /// Orders entries by their last use.
    pub(super) turn: u64,
    /// When it was used last, in seconds since 1970.
    pub(super) last: u64,
}

/// A tool that was called after a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) tool: u32,
    pub(super) count: u32,
}

/// Makes hashes that mean nothing without it.
#[derive(Clone)]
pub(super) struct Secret(pub(super) [u8; 32]);

// === impl Owner ===

impl Owner {
    pub(super) fn of(who: &Principal) -> Self {
        Self { tenant: who.tenant().clone(), subject: who.subject().clone() }
    }
}

// === impl Entry ===

impl Entry {
    /// What a tool counts after this query, and what the one counts that counts most.
    pub(super) fn weight_of(&self, tool: u32) -> f32 {
        self.calls.iter().find(|call| call.tool == tool).map_or(0.0, |call| call.weight())
    }

    /// Whether a word is in it.
    pub(super) fn says(&self, word: Word) -> bool {
        self.words.binary_search(&word).is_ok()
    }

    /// What the tool counts that counts most.
    pub(super) fn most(&self) -> f32 {
        self.calls.iter().copied().map(Call::weight).fold(f32::MIN_POSITIVE, f32::max)
    }
}

// === impl Call ===

impl Call {
    /// What it counts: the second time adds less than the first, and nothing adds after some time.
    #[expect(clippy::cast_precision_loss, reason = "large counts all weigh the same")]
    pub(super) fn weight(self) -> f32 {
        (1.0 + (self.count.max(1) as f32).ln()).min(WEIGHT)
    }
}

// === impl Secret ===

impl Secret {
    /// Tells queries apart by their words as they are written, whatever lies between them.
    pub(super) fn key(&self, owner: &Owner, text: &str) -> Key {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        for name in [owner.tenant.as_str(), owner.subject.as_str()] {
            hash.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        }
        for word in text.split_whitespace() {
            hash.update(word.to_lowercase().as_bytes()).update(b" ");
        }
        number(hash.finalize().as_bytes())
    }

    /// The words of a query, each once.
    pub(super) fn words(&self, words: &Words) -> Vec<Word> {
        let mut hashes: Vec<_> =
            words.terms.iter().take(WORDS).map(|term| self.word(&term.text)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    fn word(&self, word: &str) -> Word {
        #[expect(clippy::cast_possible_truncation, reason = "half of it is enough for a word")]
        let word = number(blake3::keyed_hash(&self.0, word.as_bytes()).as_bytes()) as Word;
        word
    }
}

/// The first half of a hash.
fn number(hash: &[u8; 32]) -> Key {
    hash[..16].iter().fold(0, |sum, byte| sum << 8 | Key::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Analyzer;

    #[test]
    fn a_query_is_known_again_in_other_spacing_and_case_and_only_to_its_owner() {
        let secret = Secret([7; 32]);
        let owner =
            |tenant: &str, subject: &str| Owner { tenant: tenant.into(), subject: subject.into() };
        let key = secret.key(&owner("t", "s"), "Read a file");
        assert_eq!(key, secret.key(&owner("t", "s"), "  read A\n file "));
        for other in [owner("t", "x"), owner("x", "s"), owner("ts", ""), owner("", "ts")] {
            assert_ne!(key, secret.key(&other, "read a file"), "{other:?}");
        }
        assert_ne!(key, secret.key(&owner("t", "s"), "reada file"));
        assert_ne!(key, Secret([8; 32]).key(&owner("t", "s"), "read a file"));
    }

    #[test]
    fn words_are_bounded_and_sorted() {
        let secret = Secret([7; 32]);
        let text: String =
            (0..500).flat_map(|n| ["word".to_owned(), n.to_string(), " ".to_owned()]).collect();
        let words = secret.words(&Analyzer::new().query(&text));
        assert!(words.len() <= WORDS && words.is_sorted());
        assert_eq!(
            secret.words(&Analyzer::new().query("reading files")),
            secret.words(&Analyzer::new().query("file read")),
        );
    }

    #[test]
    fn the_hundredth_call_counts_little_more_than_the_tenth() {
        let weight = |count| Call { tool: 0, count }.weight();
        assert!((weight(1) - 1.0).abs() < 1e-6 && (weight(0) - 1.0).abs() < 1e-6);
        assert!(weight(2) < 2.0 && weight(1_000_000) <= WEIGHT);
    }
}
