//! Tells words that are near to a word from others, letter by letter, so that a list of words is walked and not read.
//!
//! A table of all ways to be near to a word takes longer to make than some thousand names to walk.
//!
//! Applies to: inbound.

use tantivy_fst::Automaton;

/// The most letters that may differ.
const MOST: usize = 2;

/// How many places a letter may have been moved to.
const BAND: usize = 2 * MOST + 1;

/// More than may differ.
const TOO_MANY: u8 = 100;

/// The words in which at most so many letters are missing, wrong, added or swapped with their neighbour.
#[derive(Debug)]
pub(super) struct Nearby {
    letters: Vec<char>,
    most: u8,
}

/// What is known after some bytes of a word.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// How many letters differ, if those read so far were all that was meant up to each place of the band.
    row: [u8; BAND],
    /// The same before the last letter.
    before: [u8; BAND],
    /// How many letters were read.
    read: usize,
    last: char,
    /// The bits of a letter whose bytes are not all read, and how many are missing.
    begun: (u32, u8),
}

impl Nearby {
    /// Looks for words in which at most so many letters differ, two if it is more.
    pub(super) fn new(word: &str, most: u8) -> Self {
        Self { letters: word.chars().collect(), most: most.min(2) }
    }

    /// The place in the word that a place of the band stands for, after so many letters were read.
    fn place(&self, band: usize, read: usize) -> Option<usize> {
        (read + band).checked_sub(MOST).filter(|place| *place <= self.letters.len())
    }

    fn read(&self, state: &State, letter: char) -> State {
        let read = state.read + 1;
        let mut row = [TOO_MANY; BAND];
        for band in 0..BAND {
            let Some(place) = self.place(band, read) else { continue };
            // All that was read is too much here.
            let mut differ =
                if place == 0 { u8::try_from(read).unwrap_or(TOO_MANY) } else { TOO_MANY };
            if place > 0 {
                let wrong = u8::from(self.letters[place - 1] != letter);
                differ = differ.min(state.row[band] + wrong);
            }
            if let Some(added) = state.row.get(band + 1) {
                differ = differ.min(added + 1);
            }
            if band > 0 {
                differ = differ.min(row[band - 1] + 1);
            }
            let is_swapped = place > 1
                && read > 1
                && self.letters[place - 2] == letter
                && self.letters[place - 1] == state.last;
            if is_swapped {
                differ = differ.min(state.before[band] + 1);
            }
            row[band] = differ.min(TOO_MANY);
        }
        State { row, before: state.row, read, last: letter, begun: (0, 0) }
    }
}

impl Automaton for Nearby {
    type State = State;

    fn start(&self) -> State {
        let mut row = [TOO_MANY; BAND];
        for (band, differ) in row.iter_mut().enumerate() {
            if let Some(place) = self.place(band, 0) {
                *differ = u8::try_from(place).unwrap_or(TOO_MANY);
            }
        }
        State { row, before: [TOO_MANY; BAND], read: 0, last: '\0', begun: (0, 0) }
    }

    fn is_match(&self, state: &State) -> bool {
        let band = (self.letters.len() + MOST).checked_sub(state.read);
        let differ = band.and_then(|band| state.row.get(band));
        state.begun.1 == 0 && differ.is_some_and(|differ| *differ <= self.most)
    }

    fn can_match(&self, state: &State) -> bool {
        state.row.iter().any(|differ| *differ <= self.most)
    }

    fn accept(&self, state: &State, byte: u8) -> State {
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
            return State { begun: (bits, missing), ..state.clone() };
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
    fn check(word: &str, other: &str, most: u8, expected: bool) {
        assert_eq!(matches(&Nearby::new(word, most), other), expected, "{word} {other}");
    }

    #[test]
    fn letters_are_missing_wrong_added_and_swapped() {
        check("read", "read", 0, true);
        check("read", "reed", 0, false);
        for near in ["rad", "reed", "reads", "xread", "raed", "rea", "ead"] {
            check("read", near, 1, true);
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
        /// A table made for the word says the same.
        #[test]
        fn it_is_what_a_table_says(
            word in "[abcü]{1,9}|[a-c读]{1,9}",
            other in "[abcü]{0,11}|[a-c读]{0,11}",
            most in 0u8..=2,
        ) {
            let term = Term::from_field_text(Field::from_field_id(0), &word);
            let table = FuzzyTermQuery::new(term, most, true).automaton().unwrap();
            prop_assert_eq!(matches(&Nearby::new(&word, most), &other), matches(&table, &other));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), word in "\\PC{0,70}") {
            let nearby = Nearby::new(&word, 2);
            let end = bytes.iter().fold(nearby.start(), |state, byte| nearby.accept(&state, *byte));
            nearby.is_match(&end);
        }
    }
}
