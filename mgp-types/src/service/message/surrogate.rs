//! Replacement of surrogates without their other half, which many JSON parsers refuse.
//!
//! JavaScript writes such a surrogate if a text was cut within a character, e.g. an emoji. A peer that refuses the
//! surrogate would lose the whole message, and the call would wait until its time limit.

use bytestring::ByteString;
use memchr::memchr;

/// The length of an escape `\uXXXX`.
const ESCAPE: usize = 6;

/// Replaces each escaped surrogate that is not part of a pair with U+FFFD. A line without such surrogates is returned
/// without a copy.
pub(super) fn replace_lone_surrogates(line: ByteString) -> ByteString {
    // Few lines contain escapes of surrogates. Return all other lines after a text search, which is faster than the
    // scan below.
    let begins = [r"\ud", r"\uD"];
    let has_escape = memchr(b'\\', line.as_bytes()).is_some() && line.contains(r"\u");
    let may_have_one = has_escape && begins.into_iter().any(|mark| line.contains(mark));
    if !may_have_one {
        return line;
    }
    let bytes = line.as_bytes();
    let mut replaced: Option<Vec<u8>> = None;
    let mut at = 0;
    let next_escape = |at: usize| bytes.get(at..)?.iter().position(|byte| *byte == b'\\');
    while let Some(offset) = next_escape(at) {
        at += offset;
        let is_lone = match escaped_unit(bytes, at) {
            Some(0xD800..=0xDBFF) => {
                let is_pair = matches!(escaped_unit(bytes, at + ESCAPE), Some(0xDC00..=0xDFFF));
                at += if is_pair { ESCAPE } else { 0 };
                !is_pair
            }
            Some(0xDC00..=0xDFFF) => true,
            Some(_) => false,
            // Another escape has two characters. Skip both: the second character can be a backslash, which does not
            // begin an escape.
            None => {
                at += 2;
                continue;
            }
        };
        if is_lone {
            let replaced = replaced.get_or_insert_with(|| bytes.to_vec());
            replaced[at..at + ESCAPE].copy_from_slice(br"\ufffd");
        }
        at += ESCAPE;
    }
    // Cannot fail: only ASCII characters were replaced, by ASCII characters.
    replaced.and_then(|bytes| String::from_utf8(bytes).ok()).map_or(line, ByteString::from)
}

/// Returns the UTF-16 code unit of the escape `\uXXXX` at a position; `None` if the text at the position is not such an
/// escape.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + ESCAPE)?.strip_prefix(br"\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(&*replace_lone_surrogates(line.into()), expected);
    }

    #[test]
    fn a_surrogate_without_its_other_half_is_replaced() {
        check(r#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#);
        check(r#"{"a":"\uDE00x"}"#, r#"{"a":"\ufffdx"}"#);
        check(r#""\ud83d\ud83d\ude00\ude00""#, r#""\ufffd\ud83d\ude00\ufffd""#);
        check(r#""\\\ud83d""#, r#""\\\ufffd""#);
        check(r#""\ud83d\"#, r#""\ufffd\"#);
    }

    #[test]
    fn all_other_text_stays_as_it_is() {
        for line in [
            r#"{"a":"\ud83d\ude00"}"#,
            r#"{"a":"\uD83D\uDE00\u00e9"}"#,
            r#"{"path":"C:\\ud83d\\uDE00"}"#,
            r#""\ud7ff\ue000""#,
            r#""\ud8"#,
            r#""\ud"#,
            r"\ud83",
        ] {
            check(line, line);
        }
        let line = ByteString::from(r#"{"a":"\ud83d\ude00"}"#);
        let start = line.as_ptr();
        assert_eq!(replace_lone_surrogates(line).as_ptr(), start, "it is not copied");
    }
}
