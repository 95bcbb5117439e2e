//! Bounded copies of texts that a peer wrote, for messages and logs.

/// Returns a copy of at most `max` bytes of a text, without control characters; `…` is appended if the text was
/// cut.
///
/// Control characters become spaces, so that a peer's text cannot start a new log line or move a terminal's cursor.
///
/// ```
/// use mgp_types::clip;
///
/// assert_eq!(clip("a tool", 80), "a tool");
/// assert_eq!(clip("two\nlines", 80), "two lines");
/// assert_eq!(clip("cut off here", 3), "cut…");
/// ```
#[must_use]
pub fn clip(text: &str, max: usize) -> String {
    let kept = &text[..text.floor_char_boundary(max)];
    let mut clipped: String = kept.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if kept.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_never_split_and_no_control_character_is_left() {
        assert_eq!(clip("äöü", 3), "ä…");
        assert_eq!(clip("\u{1b}[2Jgone\u{7}", 80), " [2Jgone ");
        assert_eq!(clip("", 0), "");
        assert_eq!(clip("x", 0), "…");
    }
}
