//! The phrases that address a model, and their weights; `phrases.txt` explains its own syntax.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::rule::Rule;
use super::token::Token;

/// A pattern for several words that have one meaning together.
pub(super) struct Phrase {
    pub(super) rule: Rule,
    /// The sequence number of the heading above the phrase; all phrases below one heading count only once per text.
    pub(super) group: usize,
    pub(super) weight: u32,
    pub(super) slots: Vec<Slot>,
}

/// One word of a phrase, and the gap that is allowed before it.
pub(super) struct Slot {
    /// The maximum number of other words before this word.
    pub(super) gap: usize,
    orders: Orders,
    any: Vec<&'static str>,
}

/// The places in a text where a word must be an order, i.e. an imperative.
#[derive(Clone, Copy)]
enum Orders {
    No,
    Anywhere,
    /// The word must be an order outside the first sentence of a description, because many tools describe themselves in
    /// that sentence with an imperative.
    Later,
}

impl Orders {
    fn fits(self, token: &Token) -> bool {
        match self {
            Self::No => true,
            Self::Anywhere => token.orders,
            Self::Later => token.orders && !token.first,
        }
    }
}

impl Slot {
    pub(super) fn fits(&self, token: &Token) -> bool {
        self.orders.fits(token)
            && self.any.iter().any(|wanted| match *wanted {
                "@secret" => token.is_secret_file(),
                "@tool" => token.is_tool(),
                "@address" => token.is_address(),
                "@path" => token.is_path(),
                "@variable" => token.is_secret_variable(),
                "@account" => token.is_account(),
                "@sender" => token.is_sender(),
                "@private" => token.is_private(),
                wanted => token.is(wanted),
            })
    }
}

/// All phrases, indexed by the words with which they can begin.
pub(super) struct Phrases {
    all: Vec<Phrase>,
    /// For each word, the indices of the phrases that begin with it.
    words: HashMap<&'static str, Vec<usize>>,
    /// The indices of phrases whose first word is given as a kind (`@path`) or a stem (`ignor*`), so that it cannot be
    /// looked up in `words`.
    kinds: Vec<usize>,
}

impl Phrases {
    /// Returns the phrases that can begin with this word.
    pub(super) fn from(&self, token: &Token) -> impl Iterator<Item = &Phrase> {
        let known = token.spellings().filter_map(|word| self.words.get(word)).flatten();
        known.chain(&self.kinds).map(|index| &self.all[*index])
    }
}

pub(super) static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let mut phrases = Phrases { all: Vec::new(), words: HashMap::new(), kinds: Vec::new() };
    for phrase in read(SAID) {
        let index = phrases.all.len();
        let first = phrase.slots.first().map(|slot| slot.any.as_slice()).unwrap_or_default();
        if first.iter().any(|word| word.starts_with('@') || word.ends_with('*')) {
            phrases.kinds.push(index);
        } else {
            for word in first {
                phrases.words.entry(word).or_default().push(index);
            }
        }
        phrases.all.push(phrase);
    }
    phrases
});

/// The phrases for languages that separate words with blanks.
const SAID: &str = include_str!("phrases.txt");

/// Parses a list of phrases; a heading names the rule of the phrases below it.
fn read(text: &'static str) -> impl Iterator<Item = Phrase> {
    let (mut rule, mut group) = (None, 0);
    text.lines().filter_map(move |line| {
        if let Some(heading) = line.strip_prefix("# ") {
            rule = Rule::ALL.iter().copied().find(|rule| rule.id() == heading);
            group += 1;
            return None;
        }
        let (weight, words) = line.split_once(' ')?;
        Some(Phrase { rule: rule?, group, weight: weight.parse().ok()?, slots: slots(words) })
    })
}

fn slots(text: &'static str) -> Vec<Slot> {
    let mut gap = 0;
    let mut slots = Vec::new();
    for word in text.split_ascii_whitespace() {
        if let Some(count) = word.strip_prefix('~').and_then(|count| count.parse().ok()) {
            gap = count;
            continue;
        }
        let (orders, word) = match (word.strip_prefix('^'), word.strip_prefix('!')) {
            (Some(word), _) => (Orders::Anywhere, word),
            (_, Some(word)) => (Orders::Later, word),
            _ => (Orders::No, word),
        };
        let any = word.split('|').collect();
        slots.push(Slot { gap: std::mem::take(&mut gap), orders, any });
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_phrase() {
        let lines = SAID.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(read(SAID).count(), lines.count());
        assert!(read(SAID).all(|phrase| !phrase.slots.is_empty()));
    }
}
