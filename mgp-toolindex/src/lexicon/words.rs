//! The packed lexicon: the words of each language, and the English words that each means (MGP §16.5).
//!
//! `lexicon/*.tsv` are its sources; a test packs them again and compares. A key is the mark of a language and the stems
//! of one word or phrase. Its value holds up to five numbers of twelve bits: places in the list of English words, best
//! first. The file is read where it lies, so that loading takes no time.

use std::sync::LazyLock;

use tantivy_fst::raw::{CompiledAddr, Fst};

use super::language::Language;

static PACKED: &[u8] = include_bytes!("../../data/lexicon.fst");
static HEADS: &str = include_str!("../../data/lexicon.txt");

/// The bits of a number in a value.
const BITS: usize = 12;
/// The maximum number of English words of a foreign word.
pub(super) const MAX_SENSES: usize = 5;
/// The number of words that mean nothing by themselves: articles, pronouns, auxiliary verbs.
pub(super) const FUNCTION_WORD: u64 = (1 << BITS) - 1;

/// The byte before English words that other English words are related to.
pub(super) const RELATED_MARK: u8 = b'~';

/// The byte before everyday words and pairs of them that lead to the words of tools.
pub(super) const EVERYDAY_MARK: u8 = b'&';

/// The bit of a value that is set if everyday words rarely mean anything else.
const CERTAIN: u64 = 1 << (MAX_SENSES * BITS);

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon {
    words: Fst::new(PACKED).expect("the lexicon is part of the crate, and a test reads it"),
    heads: HEADS.lines().collect(),
});

/// The packed lexicon and its English words.
pub(super) struct Lexicon {
    words: Fst<&'static [u8]>,
    heads: Vec<&'static str>,
}

/// The entry of a word in the lexicon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Senses(u64);

/// The place in the lexicon after an everyday word, where the pairs that begin with it continue.
pub(super) struct Place {
    pub(super) senses: Option<Senses>,
    /// The address of the node after the word and a space, and the sum of the outputs before it.
    pairs: Option<(CompiledAddr, u64)>,
}

mgp_types::opaque_debug!(Lexicon);
mgp_types::opaque_debug!(Place);

// === impl Lexicon ===

impl Lexicon {
    /// Returns the lexicon of this crate.
    pub(super) fn get() -> &'static Self {
        &LEXICON
    }

    /// Returns what is known of a stem, or of the stems of a phrase with spaces between them.
    pub(super) fn find(&self, language: Language, stems: &str) -> Option<Senses> {
        let mut key = Vec::with_capacity(stems.len() + 1);
        key.push(language.mark());
        key.extend_from_slice(stems.as_bytes());
        self.words.get(&key).map(|value| Senses(value.value()))
    }

    /// Returns the English words of tools for the stem of another English word.
    pub(super) fn related(&self, stem: &str) -> Option<Senses> {
        let key = [&[RELATED_MARK], stem.as_bytes()].concat();
        self.words.get(&key).map(|value| Senses(value.value()))
    }

    /// Returns what is known of an everyday word by its stem.
    pub(super) fn everyday(&self, stem: &str) -> Option<Place> {
        let root = (self.words.root().addr(), 0);
        let word = self.walk(self.walk(root, &[EVERYDAY_MARK])?, stem.as_bytes())?;
        Some(Place { senses: self.senses(word), pairs: self.walk(word, b" ") })
    }

    /// Returns what is known of a pair of everyday words: the place of the first, and the stem of the second.
    pub(super) fn pair(&self, first: &Place, stem: &str) -> Option<Senses> {
        self.senses(self.walk(first.pairs?, stem.as_bytes())?)
    }

    /// Follows bytes from a node, with the sum of the outputs before it.
    fn walk(&self, from: (CompiledAddr, u64), bytes: &[u8]) -> Option<(CompiledAddr, u64)> {
        bytes.iter().try_fold(from, |(address, sum), byte| {
            let node = self.words.node(address);
            let transition = node.transition(node.find_input(*byte)?);
            Some((transition.addr, sum + transition.out.value()))
        })
    }

    fn senses(&self, (address, sum): (CompiledAddr, u64)) -> Option<Senses> {
        let node = self.words.node(address);
        node.is_final().then(|| Senses(sum + node.final_output().value()))
    }

    /// Returns the length in bytes of the longest beginning of a text that is a word, with what is known of it.
    pub(super) fn longest(&self, language: Language, text: &str) -> Option<(usize, Senses)> {
        let mut node = self.words.root();
        let mut sum = 0;
        let mut found = None;
        for (read, byte) in std::iter::once(language.mark()).chain(text.bytes()).enumerate() {
            let Some(index) = node.find_input(byte) else { break };
            let transition = node.transition(index);
            sum += transition.out.value();
            node = self.words.node(transition.addr);
            if node.is_final() && read > 0 {
                found = Some((read, Senses(sum + node.final_output().value())));
            }
        }
        found
    }

    /// Returns the English words of a foreign word, best first.
    pub(super) fn english(&self, senses: Senses) -> impl Iterator<Item = &'static str> {
        senses.numbers().filter_map(|number| self.heads.get(usize::try_from(number).ok()?).copied())
    }
}

// === impl Senses ===

impl Senses {
    /// Returns whether the word means nothing by itself.
    pub(super) fn is_function_word(self) -> bool {
        self.0 == FUNCTION_WORD
    }

    /// Returns whether everyday words rarely mean anything else.
    pub(super) fn is_certain(self) -> bool {
        self.0 & CERTAIN != 0
    }

    fn numbers(self) -> impl Iterator<Item = u64> {
        let all = (0..MAX_SENSES).map(move |place| self.0 >> (place * BITS) & FUNCTION_WORD);
        all.filter(|number| !matches!(*number, 0 | FUNCTION_WORD)).map(|number| number - 1)
    }

    /// Packs numbers of English words, best first.
    #[cfg(test)]
    pub(super) fn pack(numbers: impl Iterator<Item = u64>) -> u64 {
        let places = numbers.take(MAX_SENSES).enumerate();
        places.fold(0, |value, (place, number)| value | (number + 1) << (place * BITS))
    }

    /// Marks the value of everyday words that rarely mean anything else.
    #[cfg(test)]
    pub(super) fn certain(value: u64) -> u64 {
        value | CERTAIN
    }
}
