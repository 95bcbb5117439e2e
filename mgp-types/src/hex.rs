//! Bytes in hexadecimal, which hashes, keys and trace ids are written in.
//!
//! Applies to: both.

/// Both digits of every byte: one look instead of two.
static PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// The hexadecimal form of 16 bytes, as they are used for traces and digests.
#[cfg(feature = "service")]
#[must_use]
pub(crate) fn hex_of_16(bytes: [u8; 16]) -> [u8; 32] {
    let mut out = [0; 32];
    for (pair, byte) in out.as_chunks_mut().0.iter_mut().zip(bytes) {
        *pair = PAIRS[usize::from(byte)];
    }
    out
}

/// Writes bytes in hexadecimal behind what is there.
///
/// ```
/// let mut text = b"0x".to_vec();
/// mgp_types::push_hex(&[0, 255], &mut text);
/// assert_eq!(text, b"0x00ff");
/// ```
pub fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + 2 * bytes.len(), 0);
    let (pairs, _) = out[from..].as_chunks_mut();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = PAIRS[usize::from(*byte)];
    }
}

/// Writes bytes in hexadecimal.
///
/// ```
/// assert_eq!(mgp_types::to_hex(b"mgp"), "6d6770");
/// ```
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut out);
    // Digits are ASCII.
    String::from_utf8(out).unwrap_or_default()
}
