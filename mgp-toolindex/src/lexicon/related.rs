//! Finds the words in the texts of tools for the everyday words of users, e.g. `weather` for `umbrella` (MGP §16.5).

use std::cmp::Ordering;

use super::language::Language;
use super::words::{Lexicon, Senses};

/// The maximum length, in words, of a text whose everyday words are looked up; a longer text describes its request in
/// other words as well.
const MAX_WORDS: usize = 24;

/// The maximum number of words from the first to the second everyday word of a pair.
const MAX_DISTANCE: usize = 5;

/// The words in the texts of tools for an everyday word or a pair of such words, e.g. `weather` for `umbrella`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relation {
    senses: Senses,
    /// The index of the everyday word in the text; `None` for a pair of words.
    pub(crate) word: Option<usize>,
}

impl Relation {
    /// Returns the words that tools use, the likeliest first.
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        Lexicon::get().english(self.senses)
    }

    /// Returns whether the everyday word or pair rarely means anything other than these words of tools.
    pub(crate) fn is_certain(self) -> bool {
        self.senses.is_certain()
    }
}

/// Returns the words in the texts of tools that are related to an English word, which must be in lower case.
pub(crate) fn related(word: &str) -> impl Iterator<Item = &'static str> {
    let lexicon = Lexicon::get();
    lexicon
        .related(&Language::English.stem(word))
        .into_iter()
        .flat_map(|senses| lexicon.english(senses))
}

/// Returns the relations of the everyday words and pairs in a text; empty if the text has more than [`MAX_WORDS`]
/// words. A word that is part of a pair is not looked up alone.
pub(crate) fn relations(words: &[String]) -> Vec<Relation> {
    if words.len() > MAX_WORDS {
        return Vec::new();
    }
    let lexicon = Lexicon::get();
    let stems: Vec<String> = words.iter().map(|word| Language::English.stem(word)).collect();
    let places: Vec<_> = stems.iter().map(|stem| lexicon.everyday(stem)).collect();
    let mut found = Vec::new();
    let mut is_paired = vec![false; words.len()];
    for first in 0..stems.len() {
        for second in first + 1..stems.len().min(first + MAX_DISTANCE + 1) {
            // Look up the two stems of a pair in alphabetical order, in which the lexicon has them.
            let (begin, end) = match stems[first].cmp(&stems[second]) {
                Ordering::Less => (first, second),
                Ordering::Greater => (second, first),
                Ordering::Equal => continue,
            };
            let Some(place) = &places[begin] else { continue };
            if let Some(senses) = lexicon.pair(place, &stems[end]) {
                found.push(Relation { senses, word: None });
                (is_paired[first], is_paired[second]) = (true, true);
            }
        }
    }
    for (at, place) in places.iter().enumerate() {
        let is_repeated = stems[..at].contains(&stems[at]);
        let senses = place.as_ref().and_then(|place| place.senses);
        if let Some(senses) = senses.filter(|_| !is_paired[at] && !is_repeated) {
            found.push(Relation { senses, word: Some(at) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::words_and_abbreviations_of;

    #[track_caller]
    fn check(text: &str, is_pair: bool, expected: &str) {
        let all = relations(&words_and_abbreviations_of(text, MAX_WORDS));
        let is_found = |relation: &Relation| {
            relation.word.is_none() == is_pair && relation.words().any(|word| word == expected)
        };
        assert_eq!(all.iter().filter(|relation| is_found(relation)).count(), 1, "{text}: {all:?}");
    }

    #[test]
    fn a_pair_of_words_leads_to_words_of_tools_in_any_order() {
        check("get wet", true, "weather");
        check("wet, as I get", true, "weather");
        check("wet and a long walk before you get", false, "weather");
    }

    #[test]
    fn an_abbreviation_leads_to_words_of_tools() {
        for (word, expected) in
            [("pr", "pull"), ("msg", "message"), ("env", "variable"), ("k8s", "kubernetes")]
        {
            assert!(related(word).any(|word| word == expected), "{word}");
        }
        check("look for text inside files", true, "search");
        check("my k8s", false, "docker");
    }

    #[test]
    fn a_word_leads_to_words_of_tools_once() {
        check("drizzle or drizzle", false, "weather");
        assert!(relations(&[]).is_empty());
        assert!(relations(&vec!["drizzle".to_owned(); MAX_WORDS + 1]).is_empty());
    }
}
