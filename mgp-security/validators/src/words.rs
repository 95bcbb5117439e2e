//! Sets of words.

use std::{collections::HashSet, sync::OnceLock};

/// A set of the words of a text.
#[derive(Debug)]
pub(crate) struct Words {
    text: &'static str,
    set: OnceLock<HashSet<&'static str>>,
}

impl Words {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, set: OnceLock::new() }
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.set.get_or_init(|| self.iter().collect()).contains(word)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.text.split_ascii_whitespace()
    }
}

/// Returns whether a text has a word.
pub(crate) fn has(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|known| known == word)
}
