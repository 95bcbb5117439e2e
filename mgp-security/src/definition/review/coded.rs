//! Decoding of parts of a text that a reader cannot read directly.

/// Returns the decoded contents of the encoded parts of a text.
pub(super) fn decoded(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || "\"'`<>()[]{},;".contains(c)) {
        let word = word.trim_end_matches(['.', ':']);
        let bytes = match word.len() {
            ..20 => continue,
            length if length % 2 == 0 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                hex(word)
            }
            _ => base64(word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric())),
        };
        if let Some(said) = bytes.and_then(prose) {
            found.push(said);
        }
    }
    found
}

/// Returns the bytes as text if they look like a sentence, i.e. letters and blanks with at least three words.
fn prose(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let letters = text.chars().filter(|c| c.is_alphabetic() || *c == ' ').count();
    let total = text.chars().count();
    (letters * 10 >= total * 8 && text.split_whitespace().count() >= 3).then_some(text)
}

fn hex(word: &str) -> Option<Vec<u8>> {
    (0..word.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(word.get(at..at + 2)?, 16).ok())
        .collect()
}

/// Returns the text with escapes such as `%69`, `\x69` and `\u0069` decoded; empty if it has only few of them.
pub(super) fn unescaped(text: &str) -> String {
    const FEW: usize = 4;
    let mut out = String::new();
    let mut rest = text;
    let mut count = 0;
    while let Some(at) = rest.find(['%', '\\']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = match rest.as_bytes() {
            [b'%', ..] => 1..3,
            [b'\\', b'x', ..] => 2..4,
            [b'\\', b'u', ..] => 2..6,
            _ => 0..0,
        };
        let code = rest.get(digits.clone()).and_then(|code| u32::from_str_radix(code, 16).ok());
        if let Some(c) = code.and_then(char::from_u32) {
            out.push(c);
            rest = &rest[digits.end..];
            // A backslash escape is never accidental, so a single one is enough.
            count += if digits.start > 1 { FEW } else { 1 };
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    if count < FEW { String::new() } else { out }
}

fn base64(word: &str) -> Option<Vec<u8>> {
    let word = word.trim_end_matches('=');
    let mut out = Vec::with_capacity(word.len());
    let (mut held, mut bits) = (0_u32, 0);
    for byte in word.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(held >> bits & 0xFF).ok()?);
        }
    }
    Some(out)
}

/// Returns the text with each letter shifted by 13 places.
pub(super) fn rot13(text: &str) -> String {
    let turn = |c: char, first: u8| {
        let at = u8::try_from(c).unwrap_or(first) - first;
        char::from(first + (at + 13) % 26)
    };
    text.chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a'),
            'A'..='Z' => turn(c, b'A'),
            c => c,
        })
        .collect()
}
