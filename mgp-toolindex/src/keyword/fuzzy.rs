//! Finds names in spite of typing errors: one or two letters missing, wrong, added or swapped (MGP §16.4).
//!
//! Applies to: inbound.

use rustc_hash::FxHashMap;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

use super::nearby::Nearby;
use super::reader::{KeywordReader, idf};
use super::top::Top;
use crate::catalog::{Bitmap, Slot};
use crate::error::IndexError;
use crate::text::Words;

/// Shorter words may not differ at all: too many others are near them.
const SHORTEST: usize = 4;

/// From this length on two letters may differ.
const LONG: usize = 8;

/// The longest word that is compared; longer ones are no names.
const LONGEST: usize = 64;

/// How many words a query may have to be taken for a name.
const NAME_WORDS: usize = 8;

/// How many words are compared.
const MOST_WORDS: usize = 12;

/// How many tools are looked at for one word of a name; a word in more of them says little.
const MOST_TOOLS: u64 = 20_000;

/// What words of a name count where the name as a whole counts one.
const PARTS: f32 = 0.9;

/// Words of names that are near to a word.
struct Near {
    /// In which part each occurs, and how near it is.
    found: Vec<(usize, TermInfo, f32)>,
    /// In how many tools.
    tools: u64,
}

impl KeywordReader {
    /// The tools whose names are near to the words in spite of typing errors; the nearer, the higher the score, up to 1.
    pub(crate) fn fuzzy(
        &self,
        words: &Words,
        k: usize,
        within: Option<&Bitmap>,
    ) -> Result<Vec<(Slot, f32)>, IndexError> {
        let mut scores: FxHashMap<Slot, f32> = FxHashMap::default();
        let mut all = 0.0;
        for word in words.raw.iter().take(MOST_WORDS) {
            let near = self.near(word)?;
            let weight = idf(near.tools, self.documents().max(near.tools));
            all += weight;
            if near.tools > MOST_TOOLS {
                continue;
            }
            let mut best: FxHashMap<Slot, f32> = FxHashMap::default();
            self.collect(&near, within, &mut best)?;
            for (slot, nearness) in best {
                *scores.entry(slot).or_default() += weight * nearness;
            }
        }
        for score in scores.values_mut() {
            *score *= PARTS / all;
        }
        let is_name = words.raw.len() <= NAME_WORDS && words.whole.len() <= LONGEST;
        if is_name && words.whole.len() >= SHORTEST {
            let near = self.near(&words.whole)?;
            if near.tools <= MOST_TOOLS {
                self.collect(&near, within, &mut scores)?;
            }
        }
        let mut top = Top::new(k);
        for (slot, score) in scores {
            top.offer(slot, score);
        }
        Ok(top.into_sorted())
    }

    /// The words of names that are near to a word.
    fn near(&self, word: &str) -> Result<Near, IndexError> {
        let (mut found, mut tools) = (Vec::new(), 0);
        for (at, part) in self.parts.iter().enumerate() {
            let known = part.body.name.index.terms().get(word);
            if let Some(info) = known.map_err(tantivy::TantivyError::from)? {
                tools += u64::from(info.doc_freq);
                found.push((at, info, 1.0));
            }
        }
        let most = match word.chars().count() {
            // A word that names have as it is was not misspelled, or so that nobody could tell.
            _ if tools > 0 => 0,
            SHORTEST..LONG => 1,
            LONG..=LONGEST => 2,
            _ => 0,
        };
        if most == 0 {
            return Ok(Near { found, tools });
        }
        let nearby = Nearby::new(word, most);
        let letters: Vec<char> = word.chars().collect();
        for (at, part) in self.parts.iter().enumerate() {
            let mut stream = part
                .body
                .name
                .index
                .terms()
                .search(&nearby)
                .into_stream()
                .map_err(tantivy::TantivyError::from)?;
            while let Some((term, info)) = stream.next() {
                let Ok(term) = std::str::from_utf8(term) else { continue };
                found.push((at, info.clone(), nearness(&letters, term)));
                tools += u64::from(info.doc_freq);
            }
        }
        Ok(Near { found, tools })
    }

    /// Notes the tools that have one of the words, each with the nearest.
    fn collect(
        &self,
        near: &Near,
        within: Option<&Bitmap>,
        best: &mut FxHashMap<Slot, f32>,
    ) -> Result<(), IndexError> {
        for (at, info, nearness) in &near.found {
            let part = &self.parts[*at];
            let mut postings = part
                .body
                .name
                .index
                .read_postings_from_terminfo(info, IndexRecordOption::Basic)
                .map_err(tantivy::TantivyError::from)?;
            let mut doc = postings.doc();
            while doc != TERMINATED {
                let slot = part.body.slots[doc as usize];
                let counts =
                    part.is_alive(doc) && within.is_none_or(|within| within.contains(slot));
                if counts {
                    let score = best.entry(slot).or_default();
                    *score = score.max(*nearness);
                }
                doc = postings.advance();
            }
        }
        Ok(())
    }
}

/// How near two words are, from 0 to 1: the share of letters that need no change.
#[expect(clippy::cast_precision_loss, reason = "words are short")]
fn nearness(word: &[char], other: &str) -> f32 {
    let other: Vec<char> = other.chars().collect();
    let longer = word.len().max(other.len()).max(1);
    1.0 - changes(word, &other) as f32 / longer as f32
}

/// How many letters must be inserted, deleted, replaced or swapped with their neighbour.
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
