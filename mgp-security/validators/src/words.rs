//! Sets of words, each written as one text.

use std::{collections::HashSet, sync::OnceLock};

/// A set of words, given as one text with blanks between the words.
#[derive(Debug)]
pub(crate) struct Words {
    text: &'static str,
    /// The words, and a bit set of their lengths. Most texts that are looked up have a length that no word has. For
    /// these texts, no hash is computed.
    set: OnceLock<(HashSet<&'static str>, u64)>,
}

impl Words {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, set: OnceLock::new() }
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        let bit = |word: &str| 1 << word.len().min(63);
        let (words, lengths) = self.set.get_or_init(|| {
            (self.iter().collect(), self.iter().fold(0, |lengths, word| lengths | bit(word)))
        });
        lengths & bit(word) != 0 && words.contains(word)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.text.split_ascii_whitespace()
    }
}

/// Returns whether a text contains a word as a whole.
pub(crate) fn has(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|known| known == word)
}
