//! The encoding of header values: plain if that is safe, else Base64 between markers (MCP 2026-07-28, value encoding).
//!
//! Used for `Mcp-Name` and the `Mcp-Param-*` headers.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The markers before and after Base64; they are case-sensitive.
const MARKER_START: &str = "=?base64?";
const MARKER_END: &str = "?=";

/// Encodes a text as the value of a header: unchanged if that is safe, else as Base64 between markers.
///
/// ```
/// use mgp_types::service::{decode_header, encode_header};
///
/// assert_eq!(encode_header("us-west1"), "us-west1");
/// assert_eq!(encode_header(" padded "), "=?base64?IHBhZGRlZCA=?=");
/// assert_eq!(decode_header("=?base64?IHBhZGRlZCA=?=").unwrap(), " padded ");
/// ```
#[must_use]
pub fn encode_header(text: &str) -> Cow<'_, str> {
    let padded = text.starts_with(' ') || text.ends_with(' ');
    // Plain text that looks like an encoded value must be encoded, or the receiver would decode it. An empty value is
    // encoded too, because some HTTP implementations drop empty headers.
    if !text.is_empty() && text.bytes().all(is_plain) && !padded && inside(text).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{MARKER_START}{}{MARKER_END}", STANDARD.encode(text)))
}

/// Decodes the value of a header; returns `None` for characters that are not allowed, or invalid Base64.
#[must_use]
pub fn decode_header(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim_matches([' ', '\t']);
    if let Some(coded) = inside(value) {
        return String::from_utf8(STANDARD.decode(coded).ok()?).ok().map(Cow::Owned);
    }
    value.bytes().all(|byte| is_plain(byte) || byte == b'\t').then_some(Cow::Borrowed(value))
}

fn inside(value: &str) -> Option<&str> {
    value.strip_prefix(MARKER_START)?.strip_suffix(MARKER_END)
}

/// Returns whether a byte is visible ASCII or a space, and can therefore be sent without Base64. A tab is excluded
/// although HTTP allows it, because implementations treat it differently.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, value: &str) {
        assert_eq!(encode_header(text), value);
        assert_eq!(decode_header(value).as_deref(), Some(text));
    }

    #[test]
    fn unsafe_text_is_encoded() {
        check("us-west1", "us-west1");
        check("us west 1", "us west 1");
        check("", "=?base64??=");
        check("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?=");
        check(" padded ", "=?base64?IHBhZGRlZCA=?=");
        check("line1\nline2", "=?base64?bGluZTEKbGluZTI=?=");
        check("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?=");
        check("\tindented", "=?base64?CWluZGVudGVk?=");
        check("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
        check("=?base64?SGVsbG8=", "=?base64?SGVsbG8=");
        check("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?=");
    }

    #[test]
    fn invalid_values_are_refused() {
        let broken =
            ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?=", "é", "a\u{1}b"];
        for value in broken {
            assert_eq!(decode_header(value), None, "{value}");
        }
        assert_eq!(decode_header("  a\t").as_deref(), Some("a"));
        assert_eq!(decode_header("").as_deref(), Some(""));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in ".*") {
            let value = encode_header(&text);
            prop_assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')));
            let read = decode_header(&value);
            prop_assert_eq!(read.as_deref(), Some(&*text));
        }

        #[test]
        fn no_value_panics(value in any::<String>()) {
            let _ = decode_header(&value);
        }
    }
}
