//! A stored query, and the tools that were called after it.

use mgp_types::service::{Principal, Subject, TenantId};

use super::config::HistoryScope;
use crate::text::QueryWords;

/// The maximum length of a query's stored text, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 1024;

/// The maximum number of distinct words of a query.
const MAX_WORDS: usize = 64;

/// The maximum number of tools that are stored for a query.
pub(super) const MAX_TOOLS_PER_QUERY: usize = 64;

/// The maximum weight of a tool for a query, regardless of the number of calls.
const MAX_WEIGHT: f32 = 4.0;

pub(super) type WordHash = u64;

/// A hash of an owner and the text of a query; identifies a stored query.
pub(super) type QueryKey = u128;

/// The index of a query in the table.
pub(super) type QueryId = u32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) tenant: TenantId,
    pub(super) subject: Subject,
}

#[derive(Clone, Debug)]
pub(super) struct StoredQuery {
    pub(super) owner: Owner,
    pub(super) key: QueryKey,
    pub(super) text: Option<Box<str>>,
    pub(super) words: Box<[WordHash]>,
    pub(super) calls: Vec<ToolCalls>,
    /// The value of the table's counter at the last use of the query; it orders the queries by use.
    pub(super) last_use: u64,
    /// The time of the last use, in seconds since 1970.
    pub(super) last_used_at: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ToolCalls {
    pub(super) tool: u32,
    pub(super) count: u32,
}

/// The secret key of all hashes in a history.
#[derive(Clone)]
pub(super) struct HashKey(pub(super) [u8; 32]);

/// The character between a subject and its agent: a control character, which no name can contain.
pub(super) const AGENT_SEPARATOR: char = '\u{1f}';

impl Owner {
    pub(super) fn of(principal: &Principal, scope: HistoryScope) -> Self {
        let (tenant, subject) = (principal.tenant().clone(), principal.subject().clone());
        match principal.as_agent().filter(|_| scope == HistoryScope::Agent) {
            Some(agent) => {
                Self { tenant, subject: format!("{subject}{AGENT_SEPARATOR}{agent}").into() }
            }
            None => Self { tenant, subject },
        }
    }
}

impl StoredQuery {
    /// Returns the weight of a tool among the calls that callers made after this query; 0 if they did not call it.
    pub(super) fn weight_of(&self, tool: u32) -> f32 {
        self.calls.iter().find(|call| call.tool == tool).map_or(0.0, |call| call.weight())
    }

    pub(super) fn has_word(&self, word: WordHash) -> bool {
        self.words.binary_search(&word).is_ok()
    }

    /// Returns the greatest weight that any tool has among the calls that callers made after this query.
    pub(super) fn max_weight(&self) -> f32 {
        self.calls.iter().copied().map(ToolCalls::weight).fold(f32::MIN_POSITIVE, f32::max)
    }
}

impl ToolCalls {
    /// Returns the weight of these calls, which increases with the logarithm of their number up to a maximum.
    #[expect(clippy::cast_precision_loss, reason = "large counts all weigh the same")]
    pub(super) fn weight(self) -> f32 {
        (1.0 + (self.count.max(1) as f32).ln()).min(MAX_WEIGHT)
    }
}

impl HashKey {
    /// Returns the key of an owner's query. Queries that differ only in case and white space have the same key.
    pub(super) fn key(&self, owner: &Owner, text: &str) -> QueryKey {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        for name in [owner.tenant.as_str(), owner.subject.as_str()] {
            hash.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        }
        for word in text.split_whitespace() {
            hash.update(word.to_lowercase().as_bytes()).update(b" ");
        }
        number(hash.finalize().as_bytes())
    }

    /// Returns the hashes of a query's words, without duplicates.
    pub(super) fn words(&self, words: &QueryWords) -> Vec<WordHash> {
        let mut hashes: Vec<_> =
            words.terms.iter().take(MAX_WORDS).map(|term| self.word(&term.text)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    fn word(&self, word: &str) -> WordHash {
        #[expect(clippy::cast_possible_truncation, reason = "half of it is enough for a word")]
        let word = number(blake3::keyed_hash(&self.0, word.as_bytes()).as_bytes()) as WordHash;
        word
    }
}

/// Returns the first half of a hash as a number.
fn number(hash: &[u8; 32]) -> QueryKey {
    hash[..16].iter().fold(0, |sum, byte| sum << 8 | QueryKey::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Analyzer;

    #[test]
    fn a_query_is_known_again_in_other_spacing_and_case_and_only_to_its_owner() {
        let secret = HashKey([7; 32]);
        let owner =
            |tenant: &str, subject: &str| Owner { tenant: tenant.into(), subject: subject.into() };
        let key = secret.key(&owner("t", "s"), "Read a file");
        assert_eq!(key, secret.key(&owner("t", "s"), "  read A\n file "));
        for other in [owner("t", "x"), owner("x", "s"), owner("ts", ""), owner("", "ts")] {
            assert_ne!(key, secret.key(&other, "read a file"), "{other:?}");
        }
        assert_ne!(key, secret.key(&owner("t", "s"), "reada file"));
        assert_ne!(key, HashKey([8; 32]).key(&owner("t", "s"), "read a file"));
    }

    #[test]
    fn words_are_bounded_and_sorted() {
        let secret = HashKey([7; 32]);
        let text: String =
            (0..500).flat_map(|n| ["word".to_owned(), n.to_string(), " ".to_owned()]).collect();
        let words = secret.words(&Analyzer::new().query(&text));
        assert!(words.len() <= MAX_WORDS && words.is_sorted());
        assert_eq!(
            secret.words(&Analyzer::new().query("reading files")),
            secret.words(&Analyzer::new().query("file read")),
        );
    }

    #[test]
    fn the_hundredth_call_counts_little_more_than_the_tenth() {
        let weight = |count| ToolCalls { tool: 0, count }.weight();
        assert!((weight(1) - 1.0).abs() < 1e-6 && (weight(0) - 1.0).abs() < 1e-6);
        assert!(weight(2) < 2.0 && weight(1_000_000) <= MAX_WEIGHT);
    }
}
