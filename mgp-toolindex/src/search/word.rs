//! The words of a query, with their positions.

use crate::text::is_stop_word;

/// A word of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    /// The position of the word's first byte in the text.
    pub(super) start: usize,
    pub(super) text: &'a str,
}

impl Word<'_> {
    /// Returns the position after the word's last byte in the text.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Returns whether the word equals the expected word, regardless of case.
    pub(super) fn is(&self, expected: &str) -> bool {
        self.text.eq_ignore_ascii_case(expected)
    }

    pub(super) fn is_stop_word(&self) -> bool {
        is_stop_word(&self.text.to_lowercase())
    }
}

pub(super) fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = rest.find(is_part)?;
        let word = &rest[from..];
        let word = &word[..word.find(|c| !is_part(c)).unwrap_or(word.len())];
        let start = text.len() - rest.len() + from;
        rest = &rest[from + word.len()..];
        Some(Word { start, text: word })
    })
}

/// Returns whether the word at a position is one of the expected words.
pub(super) fn is_one_of(words: &[Word<'_>], at: usize, expected: &[&str]) -> bool {
    words.get(at).is_some_and(|word| expected.iter().any(|own| word.is(own)))
}

/// Returns whether punctuation follows the word at a position, before the next word.
pub(super) fn has_punctuation(text: &str, words: &[Word<'_>], at: usize) -> bool {
    let (Some(word), Some(next)) = (words.get(at), words.get(at + 1)) else { return false };
    text[word.end()..next.start].contains(|c: char| c.is_ascii_punctuation() && c != '-')
}

/// Returns the number of words of the first phrase with which the words begin; 0 if they begin with no phrase, or if no
/// other word follows the phrase.
pub(super) fn leading_phrase(words: &[Word<'_>], phrases: &[&[&str]]) -> usize {
    let begins = |phrase: &&&[&str]| {
        phrase.len() < words.len()
            && phrase.iter().zip(words).all(|(expected, word)| word.is(expected))
    };
    phrases.iter().find(begins).map_or(0, |phrase| phrase.len())
}
