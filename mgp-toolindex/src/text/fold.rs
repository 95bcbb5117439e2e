//! Forms in which texts are compared: without case, width, accents or anything between the words (MGP §16.4).
//!
//! Applies to: both.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The longest name that is compared as a whole, in bytes.
pub(crate) const LONGEST_NAME: usize = 128;

/// Brings compatibility forms and accented letters into their plain form; case stays, because it separates words.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().flat_map(bare).collect())
}

/// A letter without its accents. Only where accents are accents: the marks of Japanese make other syllables.
fn bare(letter: char) -> impl Iterator<Item = char> {
    let accented = matches!(letter, '\u{c0}'..='\u{52f}' | '\u{1e00}'..='\u{1fff}');
    let mut plain = [letter, '\0'];
    if accented {
        let mut parts = std::iter::once(letter).nfd().filter(|part| !is_combining_mark(*part));
        plain = [parts.next().unwrap_or(letter), parts.next().unwrap_or('\0')];
    }
    plain.into_iter().filter(|part| *part != '\0')
}

/// A name without anything but its letters and digits, in lower case: `read_file` and `Read File` are the same.
///
/// Empty where nothing is left or the name is longer than names are.
pub(crate) fn fold_name(name: &str) -> String {
    if name.len() > LONGEST_NAME {
        return String::new();
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
        assert_eq!(fold_name(&"a".repeat(LONGEST_NAME + 1)), "");
    }

    #[test]
    fn marks_that_make_other_syllables_stay() {
        assert_eq!(plain("が ガ ｶﾞ"), "が ガ ガ");
    }
}
