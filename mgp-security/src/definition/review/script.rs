//! Scripts (alphabets) of characters, and the detection of words that mix scripts in order to look like other words
//! (UTS 39).

use unicode_security::mixed_script::AugmentedScriptSet;

use crate::definition::skeleton::skeleton;

/// The minimum length of a word for the check; shorter words mix scripts legitimately: `Δx`, `kΩ`, `µm`.
const WORD_MIN: usize = 4;

/// Returns whether two characters have a script in common. Characters that are used in all scripts do not count.
pub(super) fn same(c: char, example: char) -> bool {
    let mut set = AugmentedScriptSet::for_char(c);
    if set.is_all() {
        return false;
    }
    set.intersect_with(AugmentedScriptSet::for_char(example));
    !set.is_empty()
}

/// Returns whether a character belongs to one of several scripts, each given by one of its letters.
pub(super) fn any(c: char, examples: &str) -> bool {
    !c.is_ascii() && examples.chars().any(|example| same(c, example))
}

/// Returns the first word that looks Latin but contains letters of other scripts.
pub(super) fn mixed(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let is_part = |c: char| c.is_alphanumeric();
    let mut words = text.split(|c: char| !is_part(c));
    words.find(|word| is_disguised(word)).map(str::to_owned)
}

/// Returns whether a word mixes Latin letters with letters of other scripts that look Latin.
pub(super) fn is_disguised(word: &str) -> bool {
    !word.is_ascii()
        && word.chars().count() >= WORD_MIN
        && word.chars().any(|c| c.is_ascii_alphabetic())
        && AugmentedScriptSet::for_str(word).is_empty()
        && skeleton(word).all(|c| c.is_ascii())
}

/// Returns the Latin letter that a character looks like, if any.
pub(super) fn look_alike(c: char) -> Option<char> {
    let mut buffer = [0; 4];
    let mut prototype = skeleton(c.encode_utf8(&mut buffer));
    let first = prototype.next().filter(char::is_ascii)?;
    prototype.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disguised_words_are_found_and_foreign_ones_are_not() {
        for text in ["Adds two numb\u{435}rs.", "p\u{430}ssword", "send_em\u{430}il"] {
            assert!(mixed(text).is_some(), "{text}");
        }
        for text in [
            "Складывает числа",
            "kΩ and µm",
            "naïve café",
            "日本語text",
            "Δx/Δt",
            "αβγ decay",
            "Größe",
        ] {
            assert_eq!(mixed(text), None, "{text}");
        }
    }
}
