//! Percent-encoding of URIs (RFC 3986 §2.1).

/// Decodes the escapes `%XX` of a text; returns `None` if an escape is incomplete, or if the decoded bytes are not
/// UTF-8.
///
/// ```
/// assert_eq!(mgp_types::percent_decode("a%20b").as_deref(), Some("a b"));
/// assert_eq!(mgp_types::percent_decode("100%"), None);
/// ```
#[must_use]
pub fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(left.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
