//! Estimates token counts without the tables of the encoding. An estimate is never too low (MGP §16.8).
//!
//! The encoding splits a text into pieces, and each piece into tokens. It joins two adjacent tokens whenever the result
//! is also a token. So two letters that form a token together never need two tokens, and a word that is a token needs
//! only one. The facts about tokens in this file come from the tables of the encoding; tests compare them with the
//! tables.

use super::o200k::{FIRST_TWO_BYTES, NO_TOKEN_PAIRS, SIGN_RUNS};
use super::words::is_one_token;

/// Returns an upper bound of the number of tokens of a text in the encoding `o200k`.
///
/// The bound is never lower than the exact count; for definitions, it is about a third higher.
#[must_use]
pub fn max_tokens_of(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut count = 0_u32;
    while at < bytes.len() {
        let (end, cost) = match Kind::of(bytes, at) {
            Kind::Letters => letters(bytes, at),
            Kind::Digits => digits(bytes, at),
            Kind::Signs => signs(bytes, at),
            Kind::Foreign => foreign(bytes, at),
            Kind::Space => (at + 1, 1),
        };
        count = count.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX));
        at = end;
    }
    count
}

/// The kind of a run, i.e. of adjacent characters of one kind. A space before letters or punctuation belongs to their
/// run.
enum Kind {
    Letters,
    Digits,
    Signs,
    Foreign,
    Space,
}

impl Kind {
    fn of(bytes: &[u8], at: usize) -> Self {
        match bytes[at] {
            b'a'..=b'z' | b'A'..=b'Z' => Self::Letters,
            b'0'..=b'9' => Self::Digits,
            b' ' => match bytes.get(at + 1) {
                Some(next) if next.is_ascii_alphabetic() => Self::Letters,
                Some(next) if is_sign(*next) => Self::Signs,
                _ => Self::Space,
            },
            sign if is_sign(sign) => Self::Signs,
            0x80.. => Self::Foreign,
            _ => Self::Space,
        }
    }
}

/// Returns whether a byte is ASCII punctuation. Control characters are not punctuation; they count as spaces, each a
/// separate piece.
fn is_sign(byte: u8) -> bool {
    byte.is_ascii_punctuation()
}

/// Returns the end of a run of letters, and its maximum number of tokens. A run ends before a capital letter that
/// follows a small letter, because the encoding splits a text there.
fn letters(bytes: &[u8], start: usize) -> (usize, usize) {
    let first = start + usize::from(bytes[start] == b' ');
    let mut end = first + 1;
    while end < bytes.len()
        && bytes[end].is_ascii_alphabetic()
        && !(bytes[end - 1].is_ascii_lowercase() && bytes[end].is_ascii_uppercase())
    {
        end += 1;
    }
    let before = start.checked_sub(1).map(|at| bytes[at]);
    let after = bytes.get(end);
    // The tokenizer does not split words before an apostrophe (`it's`), or between ASCII letters and other letters. So
    // a run of letters next to such a character is only a part of a word.
    let ends_here = after.is_none_or(|byte| byte.is_ascii() && *byte != b'\'');
    let begins_here = before.is_none_or(|byte| byte.is_ascii() && byte != b'\'');
    let is_known = || std::str::from_utf8(&bytes[first..end]).is_ok_and(is_one_token);
    if begins_here && ends_here && is_known() {
        return (end, 1);
    }
    (end, within(&bytes[start..end], ends_here))
}

/// Returns the maximum number of tokens of a run of letters. Two letters that are known to form a token are never two
/// separate tokens.
fn within(run: &[u8], ends_here: bool) -> usize {
    // `alone` is the maximum number of tokens up to the current byte if the last token is only this byte, and `longer`
    // if the last token begins earlier.
    let (mut alone, mut longer) = (1, 0);
    let mut before = 0;
    for pair in run.windows(2) {
        let next_alone = 1 + if is_pair(pair[0], pair[1]) { longer } else { longer.max(alone) };
        let next_longer = before + 1;
        before = alone.max(longer);
        (alone, longer) = (next_alone, next_longer);
    }
    // The last byte of the run can be the beginning of a token that extends beyond the run.
    alone.max(longer).max(if ends_here { 0 } else { before + 1 })
}

/// Returns whether two characters are known to form a token.
fn is_pair(first: u8, second: u8) -> bool {
    match (first, second) {
        (b' ', _) => true,
        (b'a'..=b'z', b'a'..=b'z') => !NO_TOKEN_PAIRS.contains(&[first, second]),
        (b'A'..=b'Z', b'a' | b'e' | b'i' | b'o' | b'u') => !b"AEIOUQX".contains(&first),
        _ => false,
    }
}

/// Returns the end of a run of digits, and its maximum number of tokens; every three digits are one token.
fn digits(bytes: &[u8], start: usize) -> (usize, usize) {
    let end = end_of(bytes, start, |byte| byte.is_ascii_digit());
    let count = end - start;
    // Count one token per digit next to digits of other scripts: they can belong to the same piece, so the digits may
    // be grouped differently.
    let is_alone = |at: Option<&u8>| at.is_none_or(u8::is_ascii);
    if is_alone(start.checked_sub(1).map(|at| &bytes[at])) && is_alone(bytes.get(end)) {
        (end, count.div_ceil(3))
    } else {
        (end, count)
    }
}

/// Returns the end of a run of punctuation, and its maximum number of tokens; a table has the runs that are frequent in
/// JSON.
fn signs(bytes: &[u8], start: usize) -> (usize, usize) {
    let first = start + usize::from(bytes[start] == b' ');
    let end = end_of(bytes, first, is_sign);
    let run = &bytes[start..end];
    // The piece may continue after the run, with the end of a line or with punctuation of other scripts. Then the table
    // does not apply.
    let ends_here = bytes.get(end).is_none_or(|byte| byte.is_ascii() && !b"\r\n".contains(byte));
    let begins_here =
        start.checked_sub(1).is_none_or(|at| bytes[at].is_ascii() && !b"\r\n".contains(&bytes[at]));
    // Do not look up a single sign, because it can belong to the next piece, e.g. to `'s`. Two or more signs in a row
    // stay in one piece.
    if run.len() > 1
        && begins_here
        && ends_here
        && let Ok(at) = SIGN_RUNS.binary_search_by(|(known, _)| known.as_bytes().cmp(run))
    {
        return (end, usize::from(SIGN_RUNS[at].1));
    }
    (end, run.len())
}

/// Returns the end of a run of non-ASCII characters, and its maximum number of tokens. This is one token per byte,
/// except that the first two bytes of a character need only one token if they are known to form a token.
fn foreign(bytes: &[u8], start: usize) -> (usize, usize) {
    let end = end_of(bytes, start, |byte| !byte.is_ascii());
    let mut cost = end - start;
    for pair in bytes[start..end].windows(2) {
        let mask = match pair[0] {
            0xc2..=0xf4 => FIRST_TWO_BYTES[usize::from(pair[0] - 0xc2)],
            _ => 0,
        };
        // Only the first byte of a character has a mask, so at most one token is saved for each character.
        cost -= usize::from(pair[1] >= 0x80 && mask >> (pair[1] & 0x3f) & 1 == 1);
    }
    (end, cost)
}

fn end_of(bytes: &[u8], start: usize, is_in: impl Fn(u8) -> bool) -> usize {
    bytes[start..].iter().position(|byte| !is_in(*byte)).map_or(bytes.len(), |count| start + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_texts_are_estimated_closely() {
        for (text, expected) in [
            ("", 0),
            ("read", 1),
            ("read the file", 3),
            ("readFile", 2),
            ("1234567", 3),
            (r#"{"name":"read_file"}"#, 8),
            ("文", 2),
            ("é", 1),
        ] {
            assert_eq!(max_tokens_of(text), expected, "{text}");
        }
    }

    #[test]
    fn runs_are_sorted() {
        assert!(SIGN_RUNS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[cfg(feature = "tokens")]
    mod tables {
        use proptest::prelude::*;
        use std::sync::LazyLock;

        use super::*;

        static ENCODER: LazyLock<tiktoken_rs::CoreBPE> =
            LazyLock::new(|| tiktoken_rs::o200k_base().unwrap());

        fn exact(text: &str) -> usize {
            ENCODER.encode_ordinary(text).len()
        }

        #[track_caller]
        fn check(text: &str) {
            assert!(max_tokens_of(text) as usize >= exact(text), "{text:?}");
        }

        #[test]
        fn tables_agree() {
            let tokens: std::collections::HashSet<Vec<u8>> =
                (0..199_998).filter_map(|token| ENCODER.decode_bytes(&[token]).ok()).collect();
            let letters = || (b'a'..=b'z').chain(b'A'..=b'Z');
            for (first, second) in
                letters().chain([b' ']).flat_map(|a| letters().map(move |b| (a, b)))
            {
                assert!(
                    !is_pair(first, second) || tokens.contains(&[first, second][..]),
                    "{first} {second}"
                );
            }
            for first in 0xc2..=0xf4_u8 {
                for second in 0x80..0xc0_u8 {
                    let is_known =
                        FIRST_TWO_BYTES[usize::from(first - 0xc2)] >> (second & 0x3f) & 1 == 1;
                    assert_eq!(
                        is_known,
                        tokens.contains(&[first, second][..]),
                        "{first:x} {second:x}"
                    );
                }
            }
            for (run, count) in SIGN_RUNS {
                for text in
                    [(*run).to_owned(), format!("a{run}b"), format!("1{run}2"), format!("a{run} b")]
                {
                    let rest = exact(&text) - usize::from(*count);
                    assert!(rest <= 3, "{text:?} {count}");
                    check(&text);
                }
                assert_eq!(exact(run), usize::from(*count), "{run:?}");
            }
        }

        #[test]
        fn pieces_that_continue_are_not_taken_for_complete() {
            #[rustfmt::skip]
            let texts = [
                "it's", "it'save", "don'tread", "it'LLAMA", "'read", "l'été", "éread", "readé",
                "—read", "read—", "—\":\"read", "\":\"—", "\n\":\"", "\":\"\n", ";\n/\"read",
                "a /\n/b", "1２34５", "２1", "  read", "\tread", "\u{a0}read", "\u{3000}read", "readЖ",
                "Жread", "READme", "ABCdef", "XMLHttp", "zvzvzvzv", "QQQQ", "\u{301}read",
                "read\u{301}", "ǅread", "a\u{200d}b", "🙂read", "read🙂", "한국어로read", "\u{0}read",
            ];
            for text in texts {
                check(text);
            }
        }

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(2000))]

            #[test]
            fn the_estimate_is_never_too_low(text in "\\PC{0,80}") {
                prop_assert!(max_tokens_of(&text) as usize >= exact(&text));
            }

            #[test]
            fn the_estimate_is_never_too_low_for_mixed_kinds(parts in proptest::collection::vec(
                prop_oneof![
                    "[a-zA-Z']{1,9}", "[ \\n\\r\\t]{1,3}", "[0-9０-９]{1,5}", "[\"':,{}\\[\\]/._\\\\-]{1,6}",
                    "[éЖ文のー한ǅ\u{301}\u{200d}🙂—…“]{1,4}",
                    Just("read".to_owned()), Just("\":\"".to_owned()), Just("'s".to_owned()), Just("The".to_owned()),
                ], 0..24)) {
                let text = parts.concat();
                prop_assert!(max_tokens_of(&text) as usize >= exact(&text), "{:?}", text);
            }

            #[test]
            fn the_estimate_is_never_too_low_for_json(words in proptest::collection::vec("\\PC{0,12}", 0..12), number in any::<i64>()) {
                let value = serde_json::json!({
                    "name": words.first(), "inputSchema": {"type": "object", "properties": {"a": words, "b": number}},
                });
                let text = value.to_string();
                prop_assert!(max_tokens_of(&text) as usize >= exact(&text), "{}", text);
            }
        }
    }
}
