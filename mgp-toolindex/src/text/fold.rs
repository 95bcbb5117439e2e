//! Converts texts to a form for comparison, without case, width, accents or separators (MGP §16.4).

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The maximum length of a name that can be compared as a whole, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 128;

/// Replaces compatibility forms and accented letters by plain letters. Keeps the case, because words are later split
/// where it changes.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().flat_map(strip_accents).collect())
}

/// Removes soft hyphens, spaces without width and marks of direction, which texts copied from a page have inside words.
///
/// Keeps joiners, because they change the words of some scripts.
pub(crate) fn without_invisible(text: &str) -> Cow<'_, str> {
    let is_invisible = |c: char| {
        matches!(c,
            '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}')
    };
    if text.is_ascii() || !text.contains(is_invisible) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(is_invisible, ""))
}

/// Removes the accents of a Latin, Greek or Cyrillic letter. Keeps the marks of other scripts, because e.g. in Japanese
/// they change the syllable.
fn strip_accents(letter: char) -> impl Iterator<Item = char> {
    let accented = matches!(letter, '\u{c0}'..='\u{52f}' | '\u{1e00}'..='\u{1fff}');
    let mut plain = [letter, '\0'];
    if accented {
        let mut parts = std::iter::once(letter).nfd().filter(|part| !is_combining_mark(*part));
        plain = [parts.next().unwrap_or(letter), parts.next().unwrap_or('\0')];
    }
    plain.into_iter().filter(|part| *part != '\0')
}

/// Returns the letters and digits of a name in lower case, so that `read_file` and `Read File` become equal.
///
/// Returns an empty string if the name has no letters or digits, or is too long.
pub(crate) fn fold_name(name: &str) -> String {
    if name.len() > MAX_NAME_BYTES {
        return String::new();
    }
    if name.is_ascii() {
        let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
        return letters.map(|letter| char::from(letter.to_ascii_lowercase())).collect();
    }
    plain(name).chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_one() {
        for name in ["read_file", "readFile", "Read File", "READ-FILE", "ｒｅａｄ.file"] {
            assert_eq!(fold_name(name), "readfile", "{name}");
        }
        assert_eq!(fold_name("Café été"), "cafeete");
        assert_eq!(fold_name("--"), "");
        assert_eq!(fold_name(&"a".repeat(MAX_NAME_BYTES + 1)), "");
    }

    #[test]
    fn marks_that_make_other_syllables_stay() {
        assert_eq!(plain("が ガ ｶﾞ"), "が ガ ガ");
    }
}
