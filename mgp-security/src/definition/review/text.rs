//! Detection of text that addresses the model: finds signs and adds up their weights.

use super::payload;
use super::phrases::{OVERRIDES, PHRASES, Phrase, WORDS_ELSEWHERE};
use super::plain::plain_text;
use super::token::{Place, Token, tokens};

/// The sum of weights from which on an operator must review a text.
pub(super) const ENOUGH: u32 = 100;

/// The maximum length of a text that is analysed; a longer text is flagged because of its length.
const READ_MAX: usize = 20_000;

/// A sign that a text addresses the model: its description, its weight, and the matching text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) what: &'static str,
    pub(super) weight: u32,
    pub(super) evidence: String,
}

/// Returns the signs that a text instructs the model; empty if their weights do not reach [`ENOUGH`].
pub(super) fn instructions(text: &str, place: Place) -> Vec<(&'static str, String)> {
    if text.len() > READ_MAX {
        let evidence = format!("{} bytes", text.len());
        return vec![("the text is so long that it crowds out everything else", evidence)];
    }
    let plain = plain_text(text);
    let mut signs = said(&plain, place);
    signs.extend(payload::signs(text, &plain));
    if signs.iter().map(|sign| sign.weight).sum::<u32>() < ENOUGH {
        return Vec::new();
    }
    signs.into_iter().map(|sign| (sign.what, sign.evidence)).collect()
}

/// Returns the signs in the words of a normalized text.
pub(super) fn said(plain: &str, place: Place) -> Vec<Sign> {
    let words = tokens(plain, place);
    let mut signs = Vec::new();
    // The end of the last phrase that protects from instructions in data, and so gives none.
    let mut protected = 0;
    for (start, word) in words.iter().enumerate() {
        for phrase in PHRASES.from(word).filter(|phrase| phrase.weight == 0) {
            let end = phrase.ends(&words, start).filter(|end| is_about_data(&words, start, *end));
            protected = protected.max(end.unwrap_or_default());
        }
        for phrase in PHRASES.from(word).filter(|phrase| phrase.weight > 0) {
            if start < protected && phrase.what == OVERRIDES {
                continue;
            }
            if let Some(end) = phrase.ends(&words, start) {
                let said: Vec<_> =
                    words[start..end].iter().map(|token| token.word.as_str()).collect();
                signs.push(Sign {
                    what: phrase.what,
                    weight: phrase.weight,
                    evidence: said.join(" "),
                });
            }
        }
    }
    if !plain.is_ascii() {
        for (what, one, other) in WORDS_ELSEWHERE {
            if let Some(evidence) = near(plain, one, other) {
                signs.push(Sign { what, weight: ENOUGH, evidence });
            }
        }
    }
    // Several phrases with the same meaning count as one sign, with the highest weight.
    signs.sort_by_key(|sign| (sign.what, std::cmp::Reverse(sign.weight)));
    signs.dedup_by_key(|sign| sign.what);
    signs
}

/// Returns whether a sentence speaks of instructions in data alone, not of those that the model has.
fn is_about_data(words: &[Token], start: usize, end: usize) -> bool {
    const OWN: [&str; 14] = [
        "your",
        "you",
        "previous",
        "prior",
        "earlier",
        "above",
        "system",
        "developer",
        "user",
        "users",
        "original",
        "other",
        "safety",
        "all",
    ];
    let rest = words[end..].iter().take_while(|word| !word.begins);
    let mut sentence = words[start..end].iter().chain(rest);
    sentence.all(|word| !OWN.iter().any(|own| word.is(own)))
}

/// Returns the match of two words close to each other, for languages without blanks between words.
fn near(text: &str, one: &[&str], other: &[&str]) -> Option<String> {
    const WITHIN: usize = 20;
    for one in one {
        for (at, _) in text.match_indices(one) {
            let rest: String = text[at..].chars().take(WITHIN).collect();
            if other.iter().any(|other| rest[one.len()..].contains(other)) {
                return Some(rest);
            }
        }
    }
    None
}

impl Phrase {
    /// Returns the end of this phrase if it begins at a certain word.
    fn ends(&self, words: &[Token], start: usize) -> Option<usize> {
        let (first, rest) = self.slots.split_first()?;
        if !first.fits(&words[start]) {
            return None;
        }
        let mut at = start + 1;
        for slot in rest {
            let reach = words.len().min(at + slot.gap + 1);
            // A phrase must not continue into the next sentence.
            let found = (at..reach)
                .take_while(|index| !words[*index].begins)
                // A phrase with a negation inside does not match.
                .take_while(|index| slot.fits(&words[*index]) || !words[*index].is("not"))
                .find(|index| slot.fits(&words[*index]))?;
            at = found + 1;
        }
        Some(at)
    }
}
