//! A lexicon of the words of tools and wishes in twelve languages besides English (MGP §16.5).
//!
//! Tools describe themselves in English more often than not, and people ask in their own language. [`translate`] puts
//! English words in the place of foreign ones, of queries and of tools alike; search by words and by meaning then work
//! as they do for English.

#[cfg(feature = "lexicon")]
mod language;
#[cfg(all(test, feature = "lexicon"))]
mod pack;
#[cfg(feature = "lexicon")]
mod related;
#[cfg(feature = "lexicon")]
mod sum;
#[cfg(feature = "lexicon")]
mod token;
#[cfg(feature = "lexicon")]
mod translate;
#[cfg(feature = "lexicon")]
mod words;

use std::borrow::Cow;

#[cfg(feature = "lexicon")]
pub(crate) use related::{related, relations};
#[cfg(feature = "lexicon")]
pub(crate) use sum::calculator;
#[cfg(feature = "lexicon")]
pub(crate) use translate::translate;

/// A text with English words in place of foreign ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Translation {
    pub(crate) text: String,
    /// English words that are less likely meant, and their weights below 1.
    pub(crate) lesser: Vec<(&'static str, f32)>,
}

/// Translates nothing, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn translate(_: &str, _: &dyn Fn(&str) -> bool) -> Option<Translation> {
    None
}

/// Knows no related words, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn related(_: &str) -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// The words of tools that everyday words lead to; there are none without the lexicon.
#[cfg(not(feature = "lexicon"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relation {
    pub(crate) word: Option<usize>,
}

#[cfg(not(feature = "lexicon"))]
impl Relation {
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        std::iter::empty()
    }

    pub(crate) fn is_certain(self) -> bool {
        false
    }
}

/// Knows no everyday words, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn relations(_: &[String]) -> Vec<Relation> {
    Vec::new()
}

/// Recognises no sums, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn calculator(_: &str) -> &'static [&'static str] {
    &[]
}

/// Words that most English descriptions contain and that no other language of the lexicon has.
const SURELY_ENGLISH: &[&str] = &["the", "of", "and", "with", "from", "this", "that", "for", "to"];

/// The number of words of a description by which its language is recognised.
const GUESSED_WORDS: usize = 40;

/// Translates a description of a tool; `None` if it is in English. Most are, and cost little here.
pub(crate) fn translate_definition(text: &str) -> Option<String> {
    let mut words = text.split(' ').take(GUESSED_WORDS);
    if text.is_ascii() && words.any(|word| SURELY_ENGLISH.contains(&word)) {
        return None;
    }
    Some(translate(text, &|_| true)?.text)
}

/// Returns a text with English words in place of foreign ones.
pub(crate) fn to_english(text: &str) -> Cow<'_, str> {
    translate(text, &|_| true)
        .map_or(Cow::Borrowed(text), |translation| Cow::Owned(translation.text))
}
