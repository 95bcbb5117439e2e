//! Stems of English words, remembered (MGP §16.4).
//!
//! Applies to: both.

use std::borrow::Cow;
use std::fmt;

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::FxHashMap;

/// How many stems are remembered; at the bound all are forgotten, which costs less than choosing.
const MOST: usize = 32 * 1024;

/// Shorter words are their own stems.
const SHORTEST: usize = 3;

/// Finds stems.
pub(super) struct Stems {
    stemmer: Stemmer,
}

/// Finds stems and remembers them, while many texts are indexed.
pub(super) struct Memo {
    stems: Stems,
    known: FxHashMap<Box<str>, Box<str>>,
}

impl Stems {
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English) }
    }

    /// The stem of a word in lower case.
    pub(super) fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        if is_own_stem(word) { Cow::Borrowed(word) } else { self.stemmer.stem(word) }
    }
}

impl Memo {
    pub(super) fn new() -> Self {
        Self { stems: Stems::new(), known: FxHashMap::default() }
    }

    /// Appends the stem of a word in lower case.
    pub(super) fn push(&mut self, word: &str, out: &mut String) {
        if is_own_stem(word) {
            out.push_str(word);
        } else if let Some(stem) = self.known.get(word) {
            out.push_str(stem);
        } else {
            let stem = self.stems.stem(word);
            out.push_str(&stem);
            if self.known.len() >= MOST {
                self.known.clear();
            }
            self.known.insert(word.into(), stem.into());
        }
    }
}

impl fmt::Debug for Stems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stems").finish_non_exhaustive()
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// The stemmer knows English only.
fn is_own_stem(word: &str) -> bool {
    word.len() < SHORTEST || !word.bytes().all(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_same_stem() {
        let stems = Stems::new();
        let mut memo = Memo::new();
        for word in ["files", "reading", "database", "übung", "64", "as"] {
            let mut out = String::new();
            memo.push(word, &mut out);
            memo.push(word, &mut out);
            assert_eq!(out, format!("{0}{0}", stems.stem(word)));
        }
        assert_eq!(stems.stem("files"), stems.stem("file"));
    }

    #[test]
    fn the_memory_is_bounded() {
        let (mut memo, mut out) = (Memo::new(), String::new());
        for number in 0..2 * MOST {
            let letters: String =
                format!("{number:x}").bytes().map(|b| char::from(b'a' + b % 26)).collect();
            memo.push(&format!("words{letters}{}", "q".repeat(number % 7)), &mut out);
            out.clear();
        }
        assert!(memo.known.len() <= MOST);
    }
}
