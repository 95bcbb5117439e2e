//! Splits a text into the word pieces of the table (MGP §16.4).
//!
//! The rules are the rules of BERT's uncased word pieces, with three differences. Punctuation only separates words. A
//! compound such as `readFile` is also split into its parts, unless the table has the whole compound, e.g. `GitHub`. In
//! a language without spaces, each character is a word. `training/words.py` follows the same rules; a test compares
//! both.

use std::ops::ControlFlow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::file::{File, Hash, Place};

/// The maximum length of a word, in bytes; anything longer is likely a key, a hash or an encoded file.
const MAX_WORD_BYTES: usize = 100;

/// Calls `each` with the row of every piece, in order, until `each` returns `Break`.
pub(super) fn pieces(
    file: &File,
    text: &str,
    each: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut words = Words { file, word: String::new(), each };
    let mut begins = None;
    for (at, c) in text.char_indices() {
        let alone = is_wide(c);
        if !alone && is_part(c) {
            begins.get_or_insert(at);
            continue;
        }
        if let Some(from) = begins.take()
            && words.run(&text[from..at]).is_break()
        {
            return ControlFlow::Break(());
        }
        if alone && words.run(&text[at..at + c.len_utf8()]).is_break() {
            return ControlFlow::Break(());
        }
    }
    begins.map_or(ControlFlow::Continue(()), |from| words.run(&text[from..]))
}

struct Words<'a> {
    file: &'a File,
    /// The current word in the form for look-ups: in lower case, without accents.
    word: String,
    each: &'a mut dyn FnMut(u32) -> ControlFlow<()>,
}

impl Words<'_> {
    /// Looks up an uninterrupted sequence of letters and digits: first as a whole, then, if the table does not have it,
    /// its parts.
    fn run(&mut self, run: &str) -> ControlFlow<()> {
        self.fold(run);
        if let Some(row) = self.file.find_word(&self.word) {
            return (self.each)(row);
        }
        let bytes = run.as_bytes();
        let mut from = 0;
        let mut parted = false;
        for at in 1..bytes.len() {
            if is_hump(bytes, at) {
                parted = true;
                self.fold(&run[from..at]);
                if self.word().is_break() {
                    return ControlFlow::Break(());
                }
                from = at;
            }
        }
        if parted {
            self.fold(&run[from..]);
        }
        self.word()
    }

    /// Splits the word into pieces of the table: first the longest piece at its beginning, then repeatedly the longest
    /// piece that continues it. Omits a word that cannot be split completely.
    fn word(&mut self) -> ControlFlow<()> {
        let bytes = self.word.as_bytes();
        if bytes.is_empty() || bytes.len() > MAX_WORD_BYTES {
            return ControlFlow::Continue(());
        }
        let mut rows = [0; MAX_WORD_BYTES];
        let mut hashes = [Hash::FIRST; MAX_WORD_BYTES + 1];
        let (mut from, mut found) = (0, 0);
        while from < bytes.len() {
            let (place, mut hash) =
                if from == 0 { (Place::First, Hash::FIRST) } else { (Place::Next, Hash::NEXT) };
            let reach = (bytes.len() - from).min(self.file.longest());
            for (slot, byte) in hashes[1..].iter_mut().zip(&bytes[from..from + reach]) {
                hash = hash.with(*byte);
                *slot = hash;
            }
            let hit = (1..=reach).rev().find_map(|length| {
                let row = self.file.find(hashes[length], place, &bytes[from..from + length])?;
                Some((row, length))
            });
            let Some((row, length)) = hit else { return ControlFlow::Continue(()) };
            rows[found] = row;
            found += 1;
            from += length;
        }
        for row in &rows[..found] {
            if (self.each)(*row).is_break() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Stores a part of the text in `word`, in lower case and without accents; a part that is too long becomes empty.
    fn fold(&mut self, part: &str) {
        self.word.clear();
        if part.is_ascii() {
            if part.len() <= MAX_WORD_BYTES {
                self.word.push_str(part);
                self.word.make_ascii_lowercase();
            }
            return;
        }
        let lower = part.chars().flat_map(char::to_lowercase);
        for c in lower.nfd().filter(|c| !is_combining_mark(*c)) {
            if self.word.len() > MAX_WORD_BYTES {
                return self.word.clear();
            }
            self.word.push(c);
        }
    }
}

/// Returns whether a character is part of a word: a letter, a digit, or an accent that follows a letter or digit.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || (!c.is_ascii() && (c.is_alphanumeric() || is_combining_mark(c)))
}

/// Returns whether a character belongs to a language without spaces: Chinese, or Japanese with its syllables.
fn is_wide(c: char) -> bool {
    matches!(u32::from(c),
        0x2E80..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2FA1F)
}

/// Returns whether a new word begins at a position inside an identifier: `read|File`, `HTTP|Server`.
fn is_hump(bytes: &[u8], at: usize) -> bool {
    let (before, here) = (bytes[at - 1], bytes[at]);
    here.is_ascii_uppercase()
        && (before.is_ascii_lowercase()
            || before.is_ascii_digit()
            || (before.is_ascii_uppercase()
                && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase)))
}
