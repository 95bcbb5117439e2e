//! A lexicon of words that occur in tools and queries, in twelve languages and English (MGP §16.5).
//!
//! Most tools are described in English, but users ask in their own language. [`translate`] replaces foreign words by
//! English words, in queries and in tools. Searches by words and by meaning then work as they do in English.

#[cfg(feature = "lexicon")]
mod language;
#[cfg(feature = "lexicon")]
mod negation;
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
use std::ops::Range;

#[cfg(feature = "lexicon")]
pub(crate) use crate::embed::has_english;
#[cfg(feature = "lexicon")]
pub(crate) use related::{related, relations};
#[cfg(feature = "lexicon")]
pub(crate) use sum::calculator;
#[cfg(feature = "lexicon")]
pub(crate) use translate::{misspelled, translate};

/// A text in which English words replaced the foreign words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Translation {
    pub(crate) text: String,
    /// English words that are less likely translations, each with a weight below 1.
    pub(crate) lesser: Vec<(&'static str, f32)>,
    /// The ranges in `text` of the translations of words that the original text negates, e.g. `nicht löschen`.
    pub(crate) negated: Vec<Range<usize>>,
}

/// Returns `None`, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn translate(_: &str, _: &dyn Fn(&str) -> bool) -> Option<Translation> {
    None
}

/// Returns no words, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn misspelled(_: &str, _: &dyn Fn(&str) -> bool) -> Vec<Range<usize>> {
    Vec::new()
}

/// Returns `false` for every word, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn has_english(_: &str) -> bool {
    false
}

/// Returns no words, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn related(_: &str) -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// The words that tools use for an everyday word of a user. This type has no values, because the crate is built without
/// the lexicon.
#[cfg(not(feature = "lexicon"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relation {
    pub(crate) word: Option<usize>,
    never: std::convert::Infallible,
}

#[cfg(not(feature = "lexicon"))]
impl Relation {
    pub(crate) fn words(self) -> std::iter::Empty<&'static str> {
        match self.never {}
    }

    pub(crate) fn is_certain(self) -> bool {
        match self.never {}
    }
}

/// Returns no relations, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn relations(_: &[String]) -> Vec<Relation> {
    Vec::new()
}

/// Returns no words, because the crate is built without the lexicon.
#[cfg(not(feature = "lexicon"))]
pub(crate) fn calculator(_: &str) -> &'static [&'static str] {
    &[]
}

/// Words that occur in most English descriptions, and in no other language of the lexicon.
const SURELY_ENGLISH: &[&str] = &["the", "of", "and", "with", "from", "this", "that", "for", "to"];

/// The number of words at the beginning of a description that are read to recognize its language.
const GUESSED_WORDS: usize = 40;

/// Translates the description of a tool to English. Returns `None` quickly for an English description, as most are.
pub(crate) fn translate_definition(text: &str) -> Option<String> {
    let mut words = text.split(' ').take(GUESSED_WORDS);
    if text.is_ascii() && words.any(|word| SURELY_ENGLISH.contains(&word)) {
        return None;
    }
    Some(translate(text, &|_| true)?.text)
}

/// Replaces the foreign words of a text by English words.
pub(crate) fn to_english(text: &str) -> Cow<'_, str> {
    translate(text, &|_| true)
        .map_or(Cow::Borrowed(text), |translation| Cow::Owned(translation.text))
}
