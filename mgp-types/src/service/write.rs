//! Numbers and strings written as JSON, without the cost of `std::fmt`.

/// Formats a number into `buffer`. `write!` is not used, because it would take as long as writing the rest of a short
/// answer.
pub(super) fn format_u64(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Search for characters that need escapes: few texts have any, and the search is faster than the JSON writer. It
    // examines every byte without an early exit, so that the compiler can vectorize the loop.
    let special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |found, byte| found | special(byte)) {
        // Writing a string into memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    } else {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}
