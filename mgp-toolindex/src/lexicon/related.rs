//! Finds the words that tools use for a related word of a user: an umbrella is about weather (MGP §16.5).

use super::language::Language;
use super::words::Lexicon;

/// Returns the words that tools use and that are related to an English word in lower case.
pub(crate) fn related(word: &str) -> impl Iterator<Item = &'static str> {
    let lexicon = Lexicon::get();
    lexicon
        .related(&Language::English.stem(word))
        .into_iter()
        .flat_map(|senses| lexicon.english(senses))
}
