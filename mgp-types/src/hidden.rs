//! Escapes of invisible characters in texts that a peer wrote.

/// Escapes invisible characters: control characters, characters without a glyph, and characters that change the
/// direction of text.
///
/// ```
/// use mgp_types::escape_hidden;
///
/// assert_eq!(escape_hidden("plain"), "plain");
/// assert_eq!(escape_hidden("a\nb\u{202e}c"), "a\\nb\\u{202e}c");
/// assert_eq!(escape_hidden("a\u{1bca0}b\u{13437}c"), "a\\u{1bca0}b\\u{13437}c");
/// ```
#[must_use]
pub fn escape_hidden(text: &str) -> String {
    if !text.contains(is_hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut out, c| {
        if is_hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

/// Returns whether a character is a control character, has no glyph, or changes the direction of text.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{16fe4}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
