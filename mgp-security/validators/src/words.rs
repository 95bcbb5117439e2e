//! Sets of words.

use std::{collections::HashSet, sync::OnceLock};

/// A set of the words of a text.
#[derive(Debug)]
pub(crate) struct Words {
    text: &'static str,
    /// The words, and a bit for each of their lengths: most texts that are looked up have another one.
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

/// Returns whether a text has a word.
pub(crate) fn has(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|known| known == word)
}
