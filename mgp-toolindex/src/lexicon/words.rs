//! The packed lexicon: the words of each language, with the English words that translate each (MGP §16.5).
//!
//! The packed file is made from `lexicon/*.tsv`; a test packs these files again and compares the result. A key consists
//! of the mark of a language and the stems of a word or phrase. Its value contains up to five numbers of twelve bits,
//! which are positions in the list of English words, the best first. The program reads the file in place, so loading
//! takes no time.

use std::sync::LazyLock;

use tantivy_fst::raw::{CompiledAddr, Fst};

use super::language::Language;

static PACKED: &[u8] = include_bytes!("../../data/lexicon.fst");
static HEADS: &str = include_str!("../../lexicon/english.txt");

/// The number of bits in a value for each English word.
const BITS: usize = 12;
/// The maximum number of English words in a value, which translate a foreign word or are related to an English word.
pub(super) const MAX_SENSES: usize = 5;
/// The value of words without a meaning of their own: articles, pronouns, auxiliary verbs.
pub(super) const FUNCTION_WORD: u64 = (1 << BITS) - 1;

/// The byte that precedes English words that have related words in the lexicon.
pub(super) const RELATED_MARK: u8 = b'~';

/// The byte that precedes everyday words, and pairs of such words, in the keys of the lexicon. Their values have the
/// words that tools use for them.
pub(super) const EVERYDAY_MARK: u8 = b'&';

/// The byte between the mark of a language and a word without a meaning of its own, if the word is stored exactly as it
/// is written. It is stored in this way if words with a meaning have the same stem: in Spanish, `como` has the stem of
/// `comer`.
pub(super) const EXACT_MARK: u8 = b'=';

/// The bit that is set in the value of an everyday word that rarely means anything other than the words in its value.
const CERTAIN: u64 = 1 << (MAX_SENSES * BITS);

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon {
    words: Fst::new(PACKED).expect("the lexicon is part of the crate, and a test reads it"),
    heads: HEADS.lines().collect(),
});

/// The packed lexicon, and the list of English words to which its values refer.
pub(super) struct Lexicon {
    words: Fst<&'static [u8]>,
    heads: Vec<&'static str>,
}

/// The value of a word in the lexicon: the packed numbers of English words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Senses(u64);

/// The result of looking up an everyday word: its entry, and the start position for looking up pairs that begin with
/// the word.
pub(super) struct Place {
    pub(super) senses: Option<Senses>,
    /// The node of the FST (finite-state transducer) from which the second words of pairs are looked up; `None` if no
    /// pair begins with the word. The first value is the address of the node, which is reached by the word and a space;
    /// the second is the sum of the outputs on the path to it.
    pairs: Option<(CompiledAddr, u64)>,
}

mgp_types::opaque_debug!(Lexicon);
mgp_types::opaque_debug!(Place);

impl Lexicon {
    pub(super) fn get() -> &'static Self {
        &LEXICON
    }

    /// Returns the entry of a stem, or of the stems of a phrase, which are separated by spaces.
    pub(super) fn find(&self, language: Language, stems: &str) -> Option<Senses> {
        let mut key = Vec::with_capacity(stems.len() + 1);
        key.push(language.mark());
        key.extend_from_slice(stems.as_bytes());
        self.words.get(&key).map(|value| Senses(value.value()))
    }

    /// Returns the entry of a word or phrase that has no meaning of its own and is stored exactly as it is written.
    /// `words` must be in lower case.
    pub(super) fn find_exact(&self, language: Language, words: &str) -> Option<Senses> {
        let key = [&[language.mark(), EXACT_MARK], words.as_bytes()].concat();
        self.words.get(&key).map(|value| Senses(value.value()))
    }

    /// Returns the entry with the words in the texts of tools that are related to an English word, given its stem.
    pub(super) fn related(&self, stem: &str) -> Option<Senses> {
        let key = [&[RELATED_MARK], stem.as_bytes()].concat();
        self.words.get(&key).map(|value| Senses(value.value()))
    }

    /// Looks up an everyday word by its stem.
    pub(super) fn everyday(&self, stem: &str) -> Option<Place> {
        let root = (self.words.root().addr(), 0);
        let word = self.walk(self.walk(root, &[EVERYDAY_MARK])?, stem.as_bytes())?;
        Some(Place { senses: self.senses(word), pairs: self.walk(word, b" ") })
    }

    /// Returns whether a stem belongs to an everyday word, to the first word of a pair of everyday words, or to a word
    /// with related words.
    pub(super) fn is_everyday(&self, stem: &str) -> bool {
        let is_whole = |place: Place| place.senses.is_some() || place.pairs.is_some();
        self.related(stem).is_some() || self.everyday(stem).is_some_and(is_whole)
    }

    /// Returns the entry of a pair of everyday words. The arguments are the result for the first word, and the stem of
    /// the second word.
    pub(super) fn pair(&self, first: &Place, stem: &str) -> Option<Senses> {
        self.senses(self.walk(first.pairs?, stem.as_bytes())?)
    }

    /// Follows the transitions for some bytes from a node of the FST. Both `from` and the result have the address of a
    /// node, and the sum of the outputs on the path to it.
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

    /// Returns the length in bytes of the longest beginning of a text that is a word of the lexicon, and the word's
    /// entry.
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

    /// Returns the English words of an entry, the best first.
    pub(super) fn english(&self, senses: Senses) -> impl Iterator<Item = &'static str> {
        senses.numbers().filter_map(|number| self.heads.get(usize::try_from(number).ok()?).copied())
    }
}

impl Senses {
    /// Returns whether the word has no meaning of its own, e.g. an article.
    pub(super) fn is_function_word(self) -> bool {
        self.0 == FUNCTION_WORD
    }

    /// Returns whether the everyday words rarely mean anything other than the words of this entry.
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

    /// Returns the value with the mark of everyday words that rarely mean anything else.
    #[cfg(test)]
    pub(super) fn certain(value: u64) -> u64 {
        value | CERTAIN
    }
}
