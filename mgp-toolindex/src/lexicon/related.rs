//! The words of tools for what people say in other words: an umbrella is about weather (MGP §16.5).

use super::language::Language;
use super::words::Lexicon;

/// Returns the words that tools have for an English word in lower case.
pub(crate) fn related(word: &str) -> impl Iterator<Item = &'static str> {
    let lexicon = Lexicon::get();
    lexicon
        .related(&Language::English.stem(word))
        .into_iter()
        .flat_map(|senses| lexicon.english(senses))
}
