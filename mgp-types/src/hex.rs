//! Hexadecimal encoding of bytes: hashes, keys and trace ids.

/// Encodes 16 bytes, the size of a trace id. The loop has no branches, so that the compiler can vectorize it.
#[must_use]
pub(crate) fn hex_of_16(bytes: [u8; 16]) -> [u8; 32] {
    const fn digit(value: u8) -> u8 {
        value + b'0' + if value > 9 { b'a' - b'9' - 1 } else { 0 }
    }
    let mut out = [0; 32];
    for (pair, byte) in out.as_chunks_mut().0.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    out
}

/// Appends the lower-case hexadecimal digits of some bytes.
///
/// ```
/// let mut text = b"0x".to_vec();
/// mgp_types::push_hex(&[0, 255], &mut text);
/// assert_eq!(text, b"0x00ff");
/// ```
pub fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let (wholes, rest) = bytes.as_chunks::<16>();
    for whole in wholes {
        out.extend_from_slice(&hex_of_16(*whole));
    }
    if !rest.is_empty() {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        out.extend_from_slice(&hex_of_16(last)[..2 * rest.len()]);
    }
}

/// Returns the lower-case hexadecimal digits of some bytes.
///
/// ```
/// assert_eq!(mgp_types::to_hex(b"mgp"), "6d6770");
/// ```
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut out);
    // Cannot fail: hexadecimal digits are ASCII.
    String::from_utf8(out).unwrap_or_default()
}

/// Decodes the output of [`to_hex`]; returns `None` for other text. Upper-case digits are refused, so that each value
/// can be written in only one way.
///
/// ```
/// assert_eq!(mgp_types::from_hex("6d6770").as_deref(), Some(&b"mgp"[..]));
/// assert_eq!(mgp_types::from_hex("6D6770"), None);
/// ```
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8]) {
        let expected: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(to_hex(bytes), expected.concat());
        assert_eq!(from_hex(&to_hex(bytes)).as_deref(), Some(bytes));
    }

    #[test]
    fn every_byte_at_every_place_has_its_digits() {
        for length in 0..=40_usize {
            let bytes: Vec<u8> = (0..=255_u8).cycle().skip(length * 7).take(length).collect();
            check(&bytes);
        }
        check(&(0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn nothing_but_pairs_of_lower_case_digits_is_read() {
        for text in ["0", "0A", "zz", "é", "0x", " 00", "+1", "00\n"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
