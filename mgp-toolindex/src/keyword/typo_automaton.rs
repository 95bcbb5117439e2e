//! An automaton that accepts words that are similar to a given word. It lets a search skip parts of a sorted list of
//! words, instead of reading all words.
//!
//! A Levenshtein automaton with a table would be slower: building the table takes longer than this automaton needs for
//! some thousand names.

use tantivy_fst::Automaton;

/// The maximum number of edits between a word and its misspelling.
const MAX_CHANGES: usize = 2;

/// The number of prefixes of the word that are compared with the letters read so far. A prefix can be up to
/// [`MAX_CHANGES`] letters shorter or longer than what was read; any other prefix has too great a distance.
const BAND: usize = 2 * MAX_CHANGES + 1;

/// The value that represents every distance greater than [`MAX_CHANGES`].
const TOO_MANY: u8 = 100;

/// An automaton that accepts words with at most `max` missing, wrong, added or swapped letters.
#[derive(Debug)]
pub(super) struct TypoAutomaton {
    letters: Vec<char>,
    max: u8,
}

/// The state of the automaton after some bytes of an indexed word.
#[derive(Clone, Debug)]
pub(super) struct TypoState {
    /// The edit distances between the letters read so far and each prefix of the word in the band, i.e. with a similar
    /// length.
    row: [u8; BAND],
    /// The value of `row` before the last letter was read.
    before: [u8; BAND],
    /// The number of letters read.
    read: usize,
    last: char,
    /// The bits of a partly read character, and the number of its missing bytes.
    begun: (u32, u8),
}

impl TypoAutomaton {
    /// Creates an automaton; `max` is at most 2.
    pub(super) fn new(word: &str, max: u8) -> Self {
        Self { letters: word.chars().collect(), max: max.min(2) }
    }

    /// Returns the length of the prefix at a position of the band after `read` letters; `None` if the word has no such
    /// prefix.
    fn field(&self, band: usize, read: usize) -> Option<usize> {
        (read + band).checked_sub(MAX_CHANGES).filter(|field| *field <= self.letters.len())
    }

    fn read(&self, state: &TypoState, letter: char) -> TypoState {
        let read = state.read + 1;
        let mut row = [TOO_MANY; BAND];
        for band in 0..BAND {
            let Some(field) = self.field(band, read) else { continue };
            // The distance to the empty prefix is the number of letters that were read.
            let mut differ =
                if field == 0 { u8::try_from(read).unwrap_or(TOO_MANY) } else { TOO_MANY };
            if field > 0 {
                let wrong = u8::from(self.letters[field - 1] != letter);
                differ = differ.min(state.row[band] + wrong);
            }
            if let Some(added) = state.row.get(band + 1) {
                differ = differ.min(added + 1);
            }
            if band > 0 {
                differ = differ.min(row[band - 1] + 1);
            }
            let is_swapped = field > 1
                && read > 1
                && self.letters[field - 2] == letter
                && self.letters[field - 1] == state.last;
            if is_swapped {
                differ = differ.min(state.before[band] + 1);
            }
            row[band] = differ.min(TOO_MANY);
        }
        TypoState { row, before: state.row, read, last: letter, begun: (0, 0) }
    }
}

impl Automaton for TypoAutomaton {
    type State = TypoState;

    fn start(&self) -> TypoState {
        let mut row = [TOO_MANY; BAND];
        for (band, differ) in row.iter_mut().enumerate() {
            if let Some(field) = self.field(band, 0) {
                *differ = u8::try_from(field).unwrap_or(TOO_MANY);
            }
        }
        TypoState { row, before: [TOO_MANY; BAND], read: 0, last: '\0', begun: (0, 0) }
    }

    fn is_match(&self, state: &TypoState) -> bool {
        let band = (self.letters.len() + MAX_CHANGES).checked_sub(state.read);
        let differ = band.and_then(|band| state.row.get(band));
        state.begun.1 == 0 && differ.is_some_and(|differ| *differ <= self.max)
    }

    fn can_match(&self, state: &TypoState) -> bool {
        state.row.iter().any(|differ| *differ <= self.max)
    }

    fn accept(&self, state: &TypoState, byte: u8) -> TypoState {
        let (bits, missing) = match byte {
            0x00..0x80 => (u32::from(byte), 0),
            0x80..0xc0 => {
                (state.begun.0 << 6 | u32::from(byte & 0x3f), state.begun.1.saturating_sub(1))
            }
            0xc0..0xe0 => (u32::from(byte & 0x1f), 1),
            0xe0..0xf0 => (u32::from(byte & 0x0f), 2),
            0xf0.. => (u32::from(byte & 0x07), 3),
        };
        if missing > 0 {
            return TypoState { begun: (bits, missing), ..state.clone() };
        }
        self.read(state, char::from_u32(bits).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tantivy::Term;
    use tantivy::query::FuzzyTermQuery;
    use tantivy::schema::Field;

    use super::*;

    fn matches<A: Automaton>(automaton: &A, word: &str) -> bool {
        let mut state = automaton.start();
        for byte in word.bytes() {
            if !automaton.can_match(&state) {
                return false;
            }
            state = automaton.accept(&state, byte);
        }
        automaton.is_match(&state)
    }

    #[track_caller]
    fn check(word: &str, other: &str, max: u8, expected: bool) {
        assert_eq!(matches(&TypoAutomaton::new(word, max), other), expected, "{word} {other}");
    }

    #[test]
    fn letters_are_missing_wrong_added_and_swapped() {
        check("read", "read", 0, true);
        check("read", "reed", 0, false);
        for similar in ["rad", "reed", "reads", "xread", "raed", "rea", "ead"] {
            check("read", similar, 1, true);
        }
        check("read", "ra", 1, false);
        check("read", "ra", 2, true);
        check("list_directory", "lsit_directroy", 2, true);
        check("list_directory", "lsit_directroys", 2, false);
        check("müller", "muller", 1, true);
        check("müller", "mülelr", 1, true);
        check("读文件", "读件文", 1, true);
        check("读文件", "写件文", 1, false);
        check("", "ab", 2, true);
        check("", "abc", 2, false);
    }

    proptest! {
        #[test]
        fn the_automaton_equals_that_of_tantivy(
            word in "[abcü]{1,9}|[a-c读]{1,9}",
            other in "[abcü]{0,11}|[a-c读]{0,11}",
            max in 0u8..=2,
        ) {
            let term = Term::from_field_text(Field::from_field_id(0), &word);
            let expected = FuzzyTermQuery::new(term, max, true).automaton().unwrap();
            prop_assert_eq!(matches(&TypoAutomaton::new(&word, max), &other), matches(&expected, &other));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), word in "\\PC{0,70}") {
            let automaton = TypoAutomaton::new(&word, 2);
            let end = bytes.iter().fold(automaton.start(), |state, byte| automaton.accept(&state, *byte));
            automaton.is_match(&end);
        }
    }
}
