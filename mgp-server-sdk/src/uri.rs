//! Percent-encoding of URIs.

use std::fmt::Write as _;

/// Returns the canonical form of a URI, which is the same for all URIs that differ only in their escapes. An escaped
/// `/`, `?` or `#` stays different from a literal one; a `%` that begins no escape counts as an escaped one.
pub(crate) fn canonical(uri: &str) -> String {
    let mut text = String::with_capacity(uri.len());
    let mut left = uri.as_bytes();
    while let [first, rest @ ..] = left {
        let escaped = if *first == b'%' { escaped_byte(rest) } else { None };
        let byte = escaped.unwrap_or(*first);
        left = if escaped.is_some() { &rest[2..] } else { rest };
        let is_delimiter = byte == b'%' || (escaped.is_some() && b"/?#".contains(&byte));
        push(&mut text, byte, byte.is_ascii_graphic() && !is_delimiter);
    }
    text
}

/// Appends a value to a URI, with each byte escaped for which `is_literal` returns `false`.
pub(crate) fn push_escaped(uri: &mut String, value: &str, is_literal: impl Fn(u8) -> bool) {
    for byte in value.bytes() {
        push(uri, byte, is_literal(byte));
    }
}

/// Returns the byte whose two hexadecimal digits begin a text; `None` if the text begins with other characters.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

fn push(uri: &mut String, byte: u8, is_literal: bool) {
    if is_literal {
        uri.push(char::from(byte));
    } else {
        // Writing to a string cannot fail.
        let _ = write!(uri, "%{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_uri_are_equal_and_delimiters_stay() {
        for (one, other) in [
            ("note://a b", "note://a%20b"),
            ("note://é", "note://%c3%A9"),
            ("note://%41!", "note://A%21"),
            ("note://100%", "note://100%25"),
        ] {
            assert_eq!(canonical(one), canonical(other));
        }
        for (one, other) in [("x:a/b", "x:a%2Fb"), ("x:a?b", "x:a%3fb"), ("x:%20", "x:%2520")] {
            assert_ne!(canonical(one), canonical(other));
        }
        assert_eq!(canonical("x:%2f%3F%"), "x:%2F%3F%25");
    }
}
