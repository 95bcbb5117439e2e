//! Computes the stems of English words (MGP §16.4).

use std::borrow::Cow;
use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};

/// The maximum number of cached stems. When the cache is full, it is cleared, because that costs less than evicting
/// single stems.
const MAX_CACHED: usize = 32 * 1024;

const MIN_STEMMED_BYTES: usize = 3;

pub(super) struct WordStemmer {
    stemmer: Stemmer,
}

/// A stemmer with a cache, for a batch of texts.
pub(super) struct StemCache {
    stemmer: WordStemmer,
    /// The stems by word. The hashes have a random key, because hostile servers choose the words.
    stems: HashMap<Box<str>, Box<str>, ahash::RandomState>,
}

impl WordStemmer {
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English) }
    }

    pub(super) fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        if is_own_stem(word) { Cow::Borrowed(word) } else { self.stemmer.stem(word) }
    }
}

impl StemCache {
    pub(super) fn new() -> Self {
        Self { stemmer: WordStemmer::new(), stems: HashMap::default() }
    }

    /// Appends the stem of a word in lower case.
    pub(super) fn push(&mut self, word: &str, out: &mut String) {
        if is_own_stem(word) {
            out.push_str(word);
        } else if let Some(stem) = self.stems.get(word) {
            out.push_str(stem);
        } else {
            let stem = self.stemmer.stem(word);
            out.push_str(&stem);
            if self.stems.len() >= MAX_CACHED {
                self.stems.clear();
            }
            self.stems.insert(word.into(), stem.into());
        }
    }
}

mgp_types::opaque_debug!(WordStemmer);
mgp_types::opaque_debug!(StemCache);

/// Returns whether a word is its own stem, because it is short or not English; the stemmer knows only English.
fn is_own_stem(word: &str) -> bool {
    word.len() < MIN_STEMMED_BYTES || !word.bytes().all(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_stem_is_the_same() {
        let stems = WordStemmer::new();
        let mut cache = StemCache::new();
        for word in ["files", "reading", "database", "übung", "64", "as"] {
            let mut out = String::new();
            cache.push(word, &mut out);
            cache.push(word, &mut out);
            assert_eq!(out, format!("{0}{0}", stems.stem(word)));
        }
        assert_eq!(stems.stem("files"), stems.stem("file"));
    }

    #[test]
    fn the_cache_is_bounded() {
        let (mut cache, mut out) = (StemCache::new(), String::new());
        for number in 0..2 * MAX_CACHED {
            let letters: String =
                format!("{number:x}").bytes().map(|b| char::from(b'a' + b % 26)).collect();
            cache.push(&format!("words{letters}{}", "q".repeat(number % 7)), &mut out);
            out.clear();
        }
        assert!(cache.stems.len() <= MAX_CACHED);
    }
}
