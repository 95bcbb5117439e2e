//! Skeletons: texts that look alike have equal skeletons (UTS 39).

use unicode_normalization::UnicodeNormalization;

// `build.rs` writes these tables: the characters that look like others, sorted, and the texts that they look like. The
// text of each character ends at the position with the same index.
include!(concat!(env!("OUT_DIR"), "/looks.rs"));

/// Returns the skeleton of a text: its characters are replaced by the ones that they look like, and invisible ones are
/// left out.
pub(super) fn skeleton(text: &str) -> impl Iterator<Item = char> {
    text.nfd().flat_map(Looks::of).nfd()
}

/// The characters that a character looks like; none for an invisible character.
enum Looks {
    Itself(Option<char>),
    Others(std::str::Chars<'static>),
}

impl Looks {
    fn of(c: char) -> Self {
        let Ok(index) = CHARS.binary_search(&c) else { return Self::Itself(Some(c)) };
        let begin = index.checked_sub(1).map_or(0, |before| ENDS[before]);
        Self::Others(TEXTS[begin.into()..ENDS[index].into()].chars())
    }
}

impl Iterator for Looks {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self {
            Self::Itself(c) => c.take(),
            Self::Others(chars) => chars.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skeleton_is_that_of_the_unicode_tables() {
        let is_equal = |text: &str| skeleton(text).eq(unicode_security::skeleton(text));
        for c in '\0'..=char::MAX {
            assert!(is_equal(c.encode_utf8(&mut [0; 4])), "{c:?}");
        }
        // Marks are sorted again after their letters were replaced.
        for (n, c) in CHARS.iter().enumerate() {
            let (next, other) = (CHARS[(n + 1) % CHARS.len()], CHARS[n * 31 % CHARS.len()]);
            let text = format!("a{c}\u{323}\u{302}{next}é{other}{c}");
            assert!(is_equal(&text), "{text:?}");
        }
    }
}
