//! Finds tools by names with typing errors: one or two letters missing, wrong, added or swapped (MGP §16.4).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

use super::reader::{KeywordReader, idf};
use super::top::TopTools;
use super::typo_automaton::TypoAutomaton;
use crate::catalog::{Bitmap, Slot};
use crate::error::IndexError;
use crate::text::QueryWords;

/// The minimum length of a word for which a search also looks for words with one different letter. A shorter word would
/// be similar to too many words.
const MIN_LETTERS: usize = 4;

/// The minimum length of a word for which a search also looks for words with two different letters.
const MIN_LETTERS_OF_TWO: usize = 8;

/// The maximum length of a word for which similar words are also searched; longer words do not occur in names.
const MAX_LETTERS: usize = 64;

/// The maximum number of words of a query that is also compared as a whole with names.
const MAX_NAME_WORDS: usize = 8;

/// The maximum number of words of a query that are compared one by one with the words of names.
const MAX_WORDS: usize = 12;

/// A word is skipped if more than this number of the caller's tools have it in their names. Tools that are hidden from
/// the caller do not count, because they must not change a result.
const MAX_TOOLS: u64 = 20_000;

/// The score of a tool whose name contains every word of the query as a separate word. The score is 1 if the name as a
/// whole matches the query as a whole.
const WORDS_SHARE: f32 = 0.9;

/// The indexed words of names that are similar to one word of the query.
#[derive(Default)]
struct SimilarWords {
    /// The segment of each word, its postings, and its similarity.
    found: Vec<(usize, TermInfo, f32)>,
    /// The number of the caller's tools whose names have a similar word.
    tools: u64,
}

/// A word that might be meant by a misspelled word.
struct Correction {
    word: String,
    /// The number of changed letters, and `true` if the word is not English. The correction with the smallest value is
    /// the best.
    distance: (usize, bool),
    /// The number of tools whose names have the word.
    tools: usize,
}

impl KeywordReader {
    /// Returns the tools whose names are similar to the words of a query, with the similarity as the score, up to 1.
    pub(crate) fn find_similar(
        &self,
        words: &QueryWords,
        k: usize,
        within: Option<&Bitmap>,
    ) -> Result<Vec<(Slot, f32)>, IndexError> {
        let mut scores: FxHashMap<Slot, f32> = FxHashMap::default();
        let mut all = 0.0;
        for word in words.raw.iter().take(MAX_WORDS) {
            let similar = self.similar(word, within)?;
            let weight = idf(similar.tools, self.documents().max(similar.tools));
            all += weight;
            if similar.tools > MAX_TOOLS {
                continue;
            }
            let mut best: FxHashMap<Slot, f32> = FxHashMap::default();
            self.collect(&similar, within, &mut best)?;
            for (slot, similarity) in best {
                *scores.entry(slot).or_default() += weight * similarity;
            }
        }
        for score in scores.values_mut() {
            *score *= WORDS_SHARE / all;
        }
        let is_name = words.raw.len() <= MAX_NAME_WORDS && words.whole.len() <= MAX_LETTERS;
        if is_name && words.whole.len() >= MIN_LETTERS {
            let similar = self.similar(&words.whole, within)?;
            if similar.tools <= MAX_TOOLS {
                self.collect(&similar, within, &mut scores)?;
            }
        }
        let mut top = TopTools::new(k);
        for (slot, score) in scores {
            top.offer(slot, score);
        }
        Ok(top.into_sorted())
    }

    /// Finds the words in names of tools that are similar to a word. If a tool in `within` has the word itself, returns
    /// only this word, because it was probably not misspelled.
    fn similar(&self, word: &str, within: Option<&Bitmap>) -> Result<SimilarWords, IndexError> {
        let (mut found, mut tools) = (Vec::new(), 0);
        for (at, segment) in self.segments.iter().enumerate() {
            let index = &segment.body.name.index;
            let known = index.terms().get(word).map_err(tantivy::TantivyError::from)?;
            if let Some(info) = known
                && segment.has_word(index, &info, within)?
            {
                tools += self.count_in(segment, index, &info)?;
                found.push((at, info, 1.0));
            }
        }
        if found.is_empty() {
            let letters: Vec<char> = word.chars().collect();
            for (at, info, term) in self.terms_near(word)? {
                let segment = &self.segments[at];
                tools += self.count_in(segment, &segment.body.name.index, &info)?;
                found.push((at, info, similarity(&letters, &term)));
            }
        }
        Ok(SimilarWords { found, tools })
    }

    /// Returns the indexed words of names that differ from a word in at most one or two letters, depending on its
    /// length. Each has its segment, and its postings in that segment.
    fn terms_near(&self, word: &str) -> Result<Vec<(usize, TermInfo, String)>, IndexError> {
        let Some(max) = max_changes(word.chars().count()) else { return Ok(Vec::new()) };
        let automaton = TypoAutomaton::new(word, max);
        let mut near = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            let mut stream = segment
                .body
                .name
                .index
                .terms()
                .search(&automaton)
                .into_stream()
                .map_err(tantivy::TantivyError::from)?;
            while let Some((term, info)) = stream.next() {
                if let Ok(term) = std::str::from_utf8(term) {
                    near.push((at, info.clone(), term.to_owned()));
                }
            }
        }
        Ok(near)
    }

    /// Returns the word that is most likely meant by a misspelled word. Compares the words with the same beginning in
    /// the names of the tools in `within`, and prefers the word with the fewest changed letters, then English words,
    /// then the most frequent word.
    pub(crate) fn correction(
        &self,
        word: &str,
        within: Option<&Bitmap>,
        is_english: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, IndexError> {
        let letters: Vec<char> = word.chars().collect();
        let mut candidates: BTreeMap<String, SimilarWords> = BTreeMap::new();
        for (at, info, term) in self.terms_near(word)? {
            candidates.entry(term).or_default().found.push((at, info, 1.0));
        }
        let mut best: Option<Correction> = None;
        for (term, similar) in candidates {
            let other: Vec<char> = term.chars().collect();
            // If the misspelled word is short, skip words that lack one of its letters, because they are usually
            // different words: `mapo` does not mean `maps`.
            let is_other_word = letters.len() == MIN_LETTERS
                && letters.iter().any(|letter| !other.contains(letter));
            if is_other_word || other.len() < MIN_LETTERS || !have_same_beginning(&letters, &other)
            {
                continue;
            }
            let distance = (changes(&letters, &other), !is_english(&term));
            if best.as_ref().is_some_and(|best| best.distance < distance) {
                continue;
            }
            let mut tools = FxHashMap::default();
            self.collect(&similar, within, &mut tools)?;
            let is_better = best
                .as_ref()
                .is_none_or(|best| distance < best.distance || tools.len() > best.tools);
            if is_better && !tools.is_empty() {
                best = Some(Correction { word: term, distance, tools: tools.len() });
            }
        }
        Ok(best.map(|best| best.word))
    }

    /// Collects the tools that have one of the words, each with the highest similarity.
    fn collect(
        &self,
        similar: &SimilarWords,
        within: Option<&Bitmap>,
        best: &mut FxHashMap<Slot, f32>,
    ) -> Result<(), IndexError> {
        for (at, info, similarity) in &similar.found {
            let segment = &self.segments[*at];
            let mut postings = segment
                .body
                .name
                .index
                .read_postings_from_terminfo(info, IndexRecordOption::Basic)
                .map_err(tantivy::TantivyError::from)?;
            let mut doc = postings.doc();
            while doc != TERMINATED {
                let slot = segment.body.slots[doc as usize];
                let counts =
                    segment.is_live(doc) && within.is_none_or(|within| within.contains(slot));
                if counts {
                    let score = best.entry(slot).or_default();
                    *score = score.max(*similarity);
                }
                doc = postings.advance();
            }
        }
        Ok(())
    }
}

/// Returns the number of letters that may differ in a word of this length; `None` if no similar words are searched.
fn max_changes(letters: usize) -> Option<u8> {
    match letters {
        MIN_LETTERS..MIN_LETTERS_OF_TWO => Some(1),
        MIN_LETTERS_OF_TWO..=MAX_LETTERS => Some(2),
        _ => None,
    }
}

/// Returns whether a word may be a misspelling of another word: both have the same beginning, and one or two different
/// letters.
pub(crate) fn is_misspelling(word: &str, other: &str) -> bool {
    let (word, other): (Vec<char>, Vec<char>) = (word.chars().collect(), other.chars().collect());
    let max = max_changes(word.len()).unwrap_or(0);
    have_same_beginning(&word, &other) && changes(&word, &other) <= usize::from(max)
}

/// Returns whether two words begin with the same letter, or with the same two letters in the other order.
fn have_same_beginning(a: &[char], b: &[char]) -> bool {
    match (a, b) {
        ([first, second, ..], [other, next, ..]) => {
            first == other || (first, second) == (next, other)
        }
        _ => false,
    }
}

/// Returns the similarity of two words, 0 to 1: the share of letters that need no change.
#[expect(clippy::cast_precision_loss, reason = "words are short")]
fn similarity(word: &[char], other: &str) -> f32 {
    let other: Vec<char> = other.chars().collect();
    let longer = word.len().max(other.len()).max(1);
    1.0 - changes(word, &other) as f32 / longer as f32
}

/// Returns the number of letters to insert, delete, replace or swap with their neighbour to convert one text to the
/// other.
pub(crate) fn letter_changes(a: &str, b: &str) -> usize {
    changes(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
}

/// Returns the number of letters to insert, delete, replace or swap with their neighbour to convert one word to the
/// other.
fn changes(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut row = vec![0; b.len() + 1];
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, expected: usize) {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(changes(&letters(a), &letters(b)), expected, "{a} {b}");
        assert_eq!(changes(&letters(b), &letters(a)), expected, "{b} {a}");
    }

    #[test]
    fn changes_are_counted() {
        check("read", "read", 0);
        check("read", "raed", 1);
        check("read", "reads", 1);
        check("read", "read_", 1);
        check("read", "rad", 1);
        check("read", "rod", 2);
        check("", "abc", 3);
    }
}
