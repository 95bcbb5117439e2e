//! Splits a text into words, splits identifiers into parts, and splits text in scripts without spaces into pairs of
//! characters (MGP §16.4).

use super::fold::plain;

/// The maximum length of a word, in bytes; a longer word is usually a key, a hash or binary data.
const MAX_WORD_BYTES: usize = 64;

/// The maximum number of parts of an identifier that is also kept as a whole.
const MAX_PARTS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A word, or a part of an identifier, in lower case.
    Word(&'a str),
    /// All parts of an identifier, joined, e.g. `readfile` for `read_file`.
    Whole(&'a str),
    /// Two adjacent characters of a script without spaces.
    Pair(&'a str),
    /// A single character of a script without spaces.
    Single {
        text: &'a str,
        /// `true` if no neighbour of the character is in a script without spaces.
        alone: bool,
    },
}

/// Splits a text into pieces.
///
/// All characters except letters and digits separate words. Identifiers (`readFile`, `read_file`, `read-file`,
/// `HTTPServer`, `base64`) are split at changes of case, digits and punctuation, and are also kept as a whole.
pub(super) fn split(text: &str, piece: &mut dyn FnMut(Piece<'_>)) {
    let text = plain(text);
    let mut identifier = Identifier::default();
    let mut run = DenseRun::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if is_dense(c) {
            identifier.end(piece);
            run.push(c, piece);
            continue;
        }
        run.end(piece);
        if c.is_alphanumeric() {
            identifier.push(c, chars.peek().copied());
        } else if c == '_' || c == '-' && chars.peek().is_some_and(|c| c.is_alphanumeric()) {
            identifier.part();
        } else {
            identifier.end(piece);
        }
    }
    identifier.end(piece);
    run.end(piece);
}

/// Returns the first words of a text, in lower case.
pub(crate) fn words_of(text: &str, max: usize) -> Vec<String> {
    let mut words = Vec::new();
    split(text, &mut |piece| match piece {
        Piece::Word(word) if words.len() < max => words.push(word.to_owned()),
        _ => {}
    });
    words
}

/// Returns the first words of a text, in lower case. An identifier with a digit, e.g. `k8s`, is also returned as a
/// whole, after its parts.
pub(crate) fn words_and_abbreviations_of(text: &str, max: usize) -> Vec<String> {
    let mut words = Vec::new();
    split(text, &mut |piece| match piece {
        Piece::Word(word) if words.len() < max => words.push(word.to_owned()),
        Piece::Whole(word) if words.len() < max && word.contains(|c: char| c.is_ascii_digit()) => {
            words.push(word.to_owned());
        }
        _ => {}
    });
    words
}

/// Returns whether a character belongs to a script that is written without spaces, or whose words carry particles.
fn is_dense(c: char) -> bool {
    // Compare with the lowest code point first: most characters are below it, so the comparison ends there.
    c >= '\u{0e00}'
        && matches!(c,
        '\u{0e00}'..='\u{0eff}'      // Thai, Lao
        | '\u{1000}'..='\u{109f}'    // Burmese
        | '\u{1100}'..='\u{11ff}'    // Hangul parts
        | '\u{1780}'..='\u{17ff}'    // Khmer
        | '\u{3005}'..='\u{3007}'    // Repeated and zero
        | '\u{3040}'..='\u{30ff}'    // Japanese syllables
        | '\u{3130}'..='\u{318f}'    // Hangul parts
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'    // Han
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'    // Hangul
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
        && c != '\u{30fb}'
        && c != '\u{30a0}'
}

/// The kind of a character; an identifier is split where the kind changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharKind {
    Lower,
    Upper,
    Digit,
}

impl CharKind {
    #[inline]
    fn of(c: char) -> Self {
        if c.is_ascii_lowercase() {
            Self::Lower
        } else if c.is_numeric() {
            Self::Digit
        } else if c.is_uppercase() {
            Self::Upper
        } else {
            Self::Lower
        }
    }
}

#[derive(Debug, Default)]
struct Identifier {
    /// The parts of the current identifier that were read so far, joined and in lower case.
    whole: String,
    /// The start positions of the parts in `whole`.
    starts: Vec<usize>,
    last: Option<CharKind>,
}

impl Identifier {
    fn push(&mut self, c: char, next: Option<char>) {
        let kind = CharKind::of(c);
        let starts_part = match (self.last, kind) {
            (None, _) | (Some(CharKind::Lower), CharKind::Upper) => true,
            // In `HTTPServer`, the last of several capitals begins the next part. The plurals `URLs` and `IDs` are
            // exceptions.
            (Some(CharKind::Upper), CharKind::Upper) => next.is_some_and(|next| {
                next.is_lowercase() && !(next == 's' && self.part_length() >= 1)
            }),
            (Some(last), kind) => (last == CharKind::Digit) != (kind == CharKind::Digit),
        };
        if starts_part {
            self.starts.push(self.whole.len());
        }
        if c.is_ascii() {
            self.whole.push(c.to_ascii_lowercase());
        } else {
            self.whole.extend(c.to_lowercase());
        }
        self.last = Some(kind);
    }

    fn part_length(&self) -> usize {
        self.whole.len() - self.starts.last().copied().unwrap_or(0)
    }

    /// Ends the current part; the next character begins another part.
    fn part(&mut self) {
        self.last = None;
    }

    fn end(&mut self, piece: &mut dyn FnMut(Piece<'_>)) {
        let ends = self.starts.iter().skip(1).copied().chain([self.whole.len()]);
        for (start, end) in self.starts.iter().copied().zip(ends) {
            if (1..=MAX_WORD_BYTES).contains(&(end - start)) {
                piece(Piece::Word(&self.whole[start..end]));
            }
        }
        if (2..=MAX_PARTS).contains(&self.starts.len()) && self.whole.len() <= MAX_WORD_BYTES {
            piece(Piece::Whole(&self.whole));
        }
        self.whole.clear();
        self.starts.clear();
        self.last = None;
    }
}

/// The current sequence of characters of a script without spaces; only its last character is stored.
#[derive(Debug, Default)]
struct DenseRun {
    last: Option<char>,
    paired: bool,
}

impl DenseRun {
    fn push(&mut self, c: char, piece: &mut dyn FnMut(Piece<'_>)) {
        let mut buffer = [0; 8];
        if let Some(last) = self.last {
            let first = last.encode_utf8(&mut buffer).len();
            let second = c.encode_utf8(&mut buffer[first..]).len();
            let pair = std::str::from_utf8(&buffer[..first + second]).unwrap_or_default();
            piece(Piece::Single { text: &pair[..first], alone: false });
            piece(Piece::Pair(pair));
            self.paired = true;
        }
        self.last = Some(c);
    }

    fn end(&mut self, piece: &mut dyn FnMut(Piece<'_>)) {
        if let Some(last) = self.last.take() {
            let alone = !std::mem::take(&mut self.paired);
            piece(Piece::Single { text: last.encode_utf8(&mut [0; 4]), alone });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut pieces = Vec::new();
        split(text, &mut |piece| {
            pieces.push(match piece {
                Piece::Word(text) | Piece::Pair(text) => text.to_owned(),
                Piece::Whole(text) => format!("={text}"),
                Piece::Single { text, alone: true } => format!("!{text}"),
                Piece::Single { text, alone: false } => format!("'{text}"),
            });
        });
        assert_eq!(pieces.join(" "), expected, "{text}");
    }

    #[test]
    fn identifiers_are_indexed_split_and_whole() {
        check("read_file", "read file =readfile");
        check("readFile", "read file =readfile");
        check("read-file", "read file =readfile");
        check("HTTPServer2", "http server 2 =httpserver2");
        check("list_URLs now", "list urls =listurls now");
        check("base64", "base 64 =base64");
        check("PostgreSQL", "postgre sql =postgresql");
        check("parseIDs", "parse ids =parseids");
        check("_private__name_", "private name =privatename");
    }

    #[test]
    fn an_abbreviation_with_a_digit_is_also_a_word() {
        let words = words_and_abbreviations_of("list K8s pods, not read_file", 8);
        assert_eq!(words, ["list", "k", "8", "s", "k8s", "pods", "not", "read"]);
    }

    #[test]
    fn prose_is_split_at_everything_else() {
        check("Reads a file, then stops.", "reads a file then stops");
        check("a/b c:d  (e)", "a b c d e");
        check("well - no", "well no");
        check("", "");
        check("\u{0}\u{1b}[31mred\u{7}", "31 mred =31mred");
    }

    #[test]
    fn scripts_without_spaces_are_paired() {
        check("读文件", "'读 读文 '文 文件 '件");
        check("用PDF读", "!用 pdf !读");
        check("파일을 읽다", "'파 파일 '일 일을 '을 '읽 읽다 '다");
        check("ファイル", "'フ ファ 'ァ ァイ 'イ イル 'ル");
    }

    #[test]
    fn blobs_are_not_words() {
        check(&"a".repeat(65), "");
        check(&format!("x {} y", "ab1".repeat(40)), &format!("x {} y", ["ab 1"; 40].join(" ")));
    }
}
