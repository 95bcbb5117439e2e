//! Texts whose invisible characters are escaped, so that they cannot change what a terminal shows.

use std::fmt::Write as _;

use mgp_types::{escape_hidden, is_hidden};

/// Escapes invisible characters except line breaks.
pub(crate) fn escape_lines(text: &str) -> String {
    text.split('\n')
        .map(|line| escape_hidden(line.trim_end_matches('\r')))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Escapes invisible characters in a JSON document. Such characters occur only inside strings, so the value does not
/// change.
///
/// JSON does not require escaping DEL and the C1 control characters, but terminals interpret U+009B like `ESC [`.
pub(crate) fn safe_json(json: &str) -> String {
    let is_unsafe = |c: char| c != '\n' && is_hidden(c);
    if !json.contains(is_unsafe) {
        return json.to_owned();
    }
    json.chars().fold(String::new(), |mut out, c| {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_nobody_sees_is_shown_and_json_keeps_its_value() {
        let text =
            "a\u{61c}b\u{ad}\u{180e}\u{3164}\u{1160}\u{e0041}\u{fe0f}\u{9b}31m\u{7f}\r\nc\td";
        let shown = escape_lines(text);
        assert!(shown.chars().all(|c| c == '\n' || c.is_ascii_graphic()), "{shown}");
        assert!(shown.starts_with("a\\u{61c}b\\u{ad}") && shown.ends_with("\nc\\td"), "{shown}");
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let safe = safe_json(&json);
        assert!(
            safe.is_ascii() && safe.contains("\\u009b") && safe.contains("\\udb40\\udc41"),
            "{safe}"
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [text]);
    }
}
