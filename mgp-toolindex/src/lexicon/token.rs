//! Splits a text into tokens, each of adjacent letters of one script (MGP §16.5).

use std::ops::Range;

use super::language::Script;

/// A sequence of adjacent letters of one script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) range: Range<usize>,
    pub(super) script: Script,
    /// `true` if the token is a part of an identifier: `file` in `read_file` and `readFile2`.
    pub(super) is_identifier: bool,
}

/// Returns the first `max` tokens of a text.
pub(super) fn tokens(text: &str, max: usize) -> Vec<Token> {
    let mut all: Vec<Token> = Vec::new();
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        let script = Script::of(letter);
        let last = all.last_mut().filter(|token| token.range.end == at);
        match (script, last) {
            (Some(script), Some(last)) if last.script == script => {
                last.range.end = at + letter.len_utf8();
                last.is_identifier |= before.is_lowercase() && letter.is_uppercase();
            }
            (Some(script), _) => {
                if all.len() == max {
                    break;
                }
                all.push(Token {
                    range: at..at + letter.len_utf8(),
                    script,
                    is_identifier: is_joint(before),
                });
            }
            (None, Some(last)) => last.is_identifier |= is_joint(letter),
            (None, None) => {}
        }
        before = letter;
    }
    all
}

/// Returns whether this character joins the letters before and after it to an identifier.
fn is_joint(letter: char) -> bool {
    letter == '_' || letter == '@' || letter == '/' || letter.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let all = tokens(text, 100);
        let words = all.iter().filter(|token| !token.is_identifier);
        let words: Vec<_> = words.map(|token| &text[token.range.clone()]).collect();
        assert_eq!(words, expected, "{text}");
    }

    #[test]
    fn each_run_of_one_script_is_a_token() {
        check("Wie spät ist es in Tokio?", &["Wie", "spät", "ist", "es", "in", "Tokio"]);
        check("l'heure à Paris", &["l", "heure", "à", "Paris"]);
        check("PDFを読む", &["PDF", "を読む"]);
        check("फ़ाइल खोलो", &["फ़ाइल", "खोलो"]);
        check("12 €, 3", &[]);
    }

    #[test]
    fn parts_of_identifiers_are_marked() {
        check("call read_file with readMe and base64 at a/b", &["call", "with", "and", "at"]);
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        assert_eq!(tokens(&"a ".repeat(500), 64).len(), 64);
    }
}
