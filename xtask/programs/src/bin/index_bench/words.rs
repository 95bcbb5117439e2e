//! The words of a catalogue, grouped by kind, and their replacement in copies of servers.

use std::collections::HashMap;

use super::catalogue::Server;

/// The number of most frequent words, which are never replaced.
const FREQUENT: usize = 150;

/// A word with fewer occurrences than this number is rare, e.g. a product, a place or a typing error.
const RARE: usize = 3;

/// The percentage of the words that a copy replaces, counted among the words that are neither frequent nor rare.
const SWAPPED: usize = 30;

/// The percentage of rare words whose replacement is an invented word, not a word of the catalogue.
const INVENTED: usize = 40;

/// The endings by which words are grouped into kinds.
const ENDINGS: [&str; 10] = ["ing", "ed", "tion", "s", "er", "ly", "al", "ity", "ment", "e"];

const SYLLABLES: [&str; 32] = [
    "ba", "bri", "ca", "cor", "da", "del", "en", "fi", "flo", "ga", "gri", "ho", "in", "jo", "ka",
    "lu", "ma", "mo", "ne", "no", "ori", "pa", "plex", "qui", "ra", "so", "sta", "ta", "ti", "ver",
    "vo", "zen",
];

/// The replaceable words of a catalogue, grouped by kind.
pub(crate) struct Words {
    /// The kind of each word that can be replaced.
    kinds: HashMap<Box<str>, Kind>,
    by_kind: HashMap<Kind, Vec<Box<str>>>,
}

/// The kind of a word: its ending and its frequency band. A word is replaced by another word of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    ending: usize,
    band: u32,
}

/// The word replacements for one copy of a server.
pub(crate) struct Swap<'a> {
    words: &'a Words,
    /// The seed of the replacements; `None` for the original, whose words are not replaced.
    seed: Option<u64>,
}

impl Words {
    /// Counts the words of all servers, and groups them by kind.
    pub(crate) fn of(servers: &[Server]) -> Self {
        let mut counts: HashMap<Box<str>, usize> = HashMap::new();
        let mut count = |text: &str| {
            pieces(text, |piece| {
                if is_word(piece) {
                    *counts.entry(piece.to_ascii_lowercase().into()).or_default() += 1;
                }
            });
        };
        for server in servers {
            count(&server.name);
            count(&server.description);
            for tool in &server.tools {
                count(&tool.name);
                count(&tool.description);
            }
        }
        let mut counted: Vec<_> = counts.into_iter().collect();
        counted.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        let mut words = Self { kinds: HashMap::new(), by_kind: HashMap::new() };
        for (word, count) in counted.into_iter().skip(FREQUENT) {
            let ending = ENDINGS.iter().position(|ending| word.ends_with(ending));
            let band = if count < RARE { 0 } else { 1 + count.ilog2() / 2 };
            let kind = Kind { ending: ending.unwrap_or(ENDINGS.len()), band };
            words.by_kind.entry(kind).or_default().push(word.clone());
            words.kinds.insert(word, kind);
        }
        words
    }

    /// Returns the replacements for a copy of a server; copy 0 is the original.
    pub(crate) fn swap(&self, copy: u64, seed: u64, server: &str) -> Swap<'_> {
        let own = hash(seed.wrapping_add(copy.wrapping_mul(0x9e37_79b9)), server);
        Swap { words: self, seed: (copy > 0).then_some(own) }
    }
}

impl Swap<'_> {
    /// Returns the text with its words and numbers replaced as in this copy.
    pub(crate) fn text(&self, text: &str) -> String {
        let Some(seed) = self.seed else { return text.to_owned() };
        let mut swapped = String::with_capacity(text.len() + 8);
        pieces(text, |piece| {
            if piece.starts_with(|c: char| c.is_ascii_digit()) {
                number(seed, piece, &mut swapped);
            } else if is_word(piece) {
                self.word(seed, piece, &mut swapped);
            } else {
                swapped.push_str(piece);
            }
        });
        swapped
    }

    fn word(&self, seed: u64, piece: &str, swapped: &mut String) {
        let lower = piece.to_ascii_lowercase();
        let Some(kind) = self.words.kinds.get(&*lower) else {
            swapped.push_str(piece);
            return;
        };
        let dice = hash(seed, &lower);
        let rare = kind.band == 0;
        // Rare words are always replaced: they name the product, and each copy is a different product.
        if !rare && below(dice, 100) >= SWAPPED {
            swapped.push_str(piece);
            return;
        }
        let again = hash(dice, &lower);
        let start = swapped.len();
        if rare && below(again, 100) < INVENTED {
            swapped.push_str(&word(again, 2 + u64::from(piece.len() > 6)));
        } else {
            let alike = &self.words.by_kind[kind];
            swapped.push_str(&alike[below(again, alike.len())]);
        }
        let upper = piece.bytes().take_while(u8::is_ascii_uppercase).count();
        let end =
            if upper == piece.len() && upper > 1 { swapped.len() } else { start + upper.min(1) };
        // Words are ASCII, so every index is a character boundary.
        swapped[start..end].make_ascii_uppercase();
    }
}

/// Generates a word from syllables; the same seed produces the same word.
pub(crate) fn word(seed: u64, syllables: u64) -> String {
    let each =
        |number: u64| SYLLABLES[below(hash(seed.wrapping_add(number), "word"), SYLLABLES.len())];
    (0..syllables).map(each).collect()
}

/// Appends a number with as many digits as `piece`. A number of one or two digits stays as it is.
fn number(seed: u64, piece: &str, swapped: &mut String) {
    let mut dice = hash(seed, piece);
    for digit in piece.chars() {
        let other = char::from(b'1' + u8::try_from(below(dice, 9)).unwrap_or(0));
        // Short numbers are kept, because they are versions and small counts.
        swapped.push(if piece.len() < 3 { digit } else { other });
        dice = hash(dice, piece);
    }
}

/// Splits a text into words, parts of identifiers, numbers, and the characters between them.
fn pieces<'a>(text: &'a str, mut each: impl FnMut(&'a str)) {
    let bytes = text.as_bytes();
    let class = |at: usize| match bytes[at] {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let mut start = 0;
    for at in 1..=bytes.len() {
        // An upper-case letter begins a word; lower-case letters continue it.
        let joined = at < bytes.len()
            && match (class(at - 1), class(at)) {
                (2, 1) => true,
                (one, other) => one == other,
            };
        if !joined {
            // Every cut is next to an ASCII letter or digit, so it is a character boundary.
            if let Some(piece) = text.get(start..at).filter(|piece| !piece.is_empty()) {
                each(piece);
                start = at;
            }
        }
    }
}

/// Returns whether a piece counts as a word: at least three characters, all of them ASCII letters.
fn is_word(piece: &str) -> bool {
    piece.len() > 2 && piece.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns a hash of a word and a seed.
pub(crate) fn hash(seed: u64, word: &str) -> u64 {
    let mixed = word.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // Mix the bits once more, because the last bytes of a word have not yet affected the high bits.
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// Reduces a hash to a number below `bound`.
fn below(hash: u64, bound: usize) -> usize {
    usize::try_from(hash >> 33).unwrap_or(0) % bound.max(1)
}
