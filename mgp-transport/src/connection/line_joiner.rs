//! Joins the lines of a message if a child wrote it with line breaks, e.g. as JSON with indentation. Also removes
//! escape sequences of terminals before a message.

use bytestring::ByteString;
use serde_json::value::RawValue;

/// The character that begins an escape sequence of a terminal.
const ESCAPE: u8 = 0x1b;
/// The character that ends an escape sequence with a text, e.g. the title of a window.
const BELL: u8 = 0x07;

/// A joiner of lines. It begins to collect at a line that consists of an opening bracket only, because programs also
/// print lines that are not messages. It stops at the matching bracket.
#[derive(Default)]
pub(super) struct LineJoiner {
    text: String,
    /// The number of open brackets.
    depth: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinedLine {
    /// The line is part of a message that is not complete.
    Part,
    /// A text to parse: the line itself, or all collected lines as one line.
    Text(ByteString),
    /// The line is a message of its own; the lines collected before it are not a message.
    Interrupted { collected: String, line: ByteString },
}

impl LineJoiner {
    /// Adds a line. Collecting stops above `max_bytes` bytes, and at a line that cannot be a part of JSON.
    pub(super) fn add(&mut self, line: ByteString, max_bytes: usize) -> JoinedLine {
        let part = line.trim();
        let is_bracket = matches!(part, "{" | "[");
        if self.text.is_empty() && !is_bracket {
            return JoinedLine::Text(line);
        }
        if is_message(part) {
            return JoinedLine::Interrupted { collected: self.take(), line };
        }
        if is_bracket && !self.accepts_value() {
            // Another message begins, so the lines collected so far are not a message. Return them, so that the new
            // message can be collected.
            self.depth = 1;
            return JoinedLine::Text(std::mem::replace(&mut self.text, format!("{part} ")).into());
        }
        self.text.push_str(part);
        // JSON strings cannot contain line breaks, so a space may replace a line break.
        self.text.push(' ');
        match depth_after(part, self.depth) {
            Some(depth @ 1..) if self.text.len() <= max_bytes => {
                self.depth = depth;
                JoinedLine::Part
            }
            _ => JoinedLine::Text(self.take().into()),
        }
    }

    /// Returns whether an object or array may follow the collected lines.
    fn accepts_value(&self) -> bool {
        self.text.is_empty() || self.text.trim_end().ends_with(['[', ',', ':'])
    }

    fn take(&mut self) -> String {
        self.depth = 0;
        std::mem::take(&mut self.text)
    }
}

/// Returns a line without the escape sequences of a terminal that precede a JSON object or array. E.g. the command
/// `clear` in a start script writes such sequences without a line break. Any other line stays as it is, even a line
/// with further escape sequences: JSON contains none, so it is a log line with colors.
///
/// A progress bar writes its states on one line, separated by carriage returns, and a message can follow the last of
/// them. So if the whole line is not JSON, the text after the last carriage return is tried.
pub(super) fn without_escapes(line: ByteString) -> ByteString {
    if line.starts_with(['{', '[']) {
        return line;
    }
    let last = line.rsplit('\r').next().unwrap_or_default();
    match behind_escapes(&line).or_else(|| behind_escapes(last)) {
        Some(json) => line.slice_ref(json),
        None => line,
    }
}

/// Returns whether a line, after any escape sequences, is the beginning of a JSON text whose end is missing.
pub(super) fn is_cut_json(line: &ByteString) -> bool {
    serde_json::from_str::<&RawValue>(&without_escapes(line.clone()))
        .is_err_and(|error| error.is_eof())
}

/// Returns the JSON object or array at the beginning of a text, after any escape sequences; `None` if the text begins
/// with anything else.
fn behind_escapes(text: &str) -> Option<&str> {
    let mut rest = text.trim_start_matches(is_skipped);
    while let Some(length) = escape_length(rest.as_bytes()) {
        rest = rest[length..].trim_start_matches(is_skipped);
    }
    (rest.starts_with(['{', '[']) && !rest.contains(ESCAPE as char)).then_some(rest)
}

/// Returns whether a character before a message is ignored. .NET writes a byte order mark for each writer that a
/// program creates, so such a mark can precede any message.
fn is_skipped(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}' || c.is_control() && c != ESCAPE as char
}

/// Returns the length, in bytes, of the escape sequence at the beginning of a text; `None` if there is none.
fn escape_length(text: &[u8]) -> Option<usize> {
    let [ESCAPE, kind, rest @ ..] = text else { return None };
    let length = match kind {
        b'[' => 1 + rest.iter().position(|byte| matches!(byte, b'@'..=b'~'))?,
        b']' => 1 + rest.iter().position(|byte| *byte == BELL)?,
        // One more character follows, e.g. in a sequence that selects a character set.
        b'('..=b'/' => usize::from(rest.first()?.is_ascii()),
        _ if kind.is_ascii_graphic() => 0,
        _ => return None,
    };
    Some(2 + length)
}

/// Returns whether a line looks like a whole message or array of messages, and not like a part of a message.
fn is_message(part: &str) -> bool {
    let is_whole = part.starts_with('{') && part.ends_with('}')
        || part.starts_with('[') && part.ends_with(']');
    is_whole && part.contains("\"jsonrpc\"")
}

/// Returns the number of open brackets after a line; `None` if the line cannot be a part of JSON.
fn depth_after(part: &str, mut depth: usize) -> Option<usize> {
    let begins_value = ["true", "false", "null"].iter().any(|word| part.starts_with(word));
    let begins_token = part.starts_with(|c: char| c.is_ascii_digit() || r#"{}[]",:-"#.contains(c));
    if !begins_value && !begins_token && !part.is_empty() {
        return None;
    }
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in part.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (!is_text).then_some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds lines; returns the texts that are parsed.
    fn joined(lines: &str, max_bytes: usize) -> Vec<String> {
        let mut joiner = LineJoiner::default();
        let add = |line: &str| match joiner.add(line.into(), max_bytes) {
            JoinedLine::Part => None,
            JoinedLine::Text(text) => Some(text.trim_end().to_owned()),
            JoinedLine::Interrupted { line, .. } => Some(line.to_string()),
        };
        lines.lines().filter_map(add).collect()
    }

    #[test]
    fn the_lines_of_one_message_become_one_line() {
        let pretty = "{\r\n  \"id\": 1,\n  \"result\": {\n    \"a\": \"{\\\"\",\n    \"b\": [\n      {}\n    ]\n  }\n}";
        let line = r#"{ "id": 1, "result": { "a": "{\"", "b": [ {} ] } }"#;
        assert_eq!(joined(&format!("{pretty}\n{pretty}"), 1_000), [line, line]);
        assert_eq!(joined("[\n{\n\"id\": 1\n}\n]", 1_000), [r#"[ { "id": 1 } ]"#]);
    }

    #[test]
    fn lines_that_are_not_json_and_whole_messages_are_not_held_back() {
        let message = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for printed in ["started", "{ a: 1 }", "[1]", "{\n  port: 80\n}", "{\n  \"open", "]"] {
            let texts = joined(&format!("{printed}\n{message}\n{message}"), 1_000);
            assert_eq!(texts[texts.len() - 2..], [message, message], "{printed}");
        }
        assert_eq!(joined(&format!("{{\n\"a\": {{\n{message}\n{message}"), 1_000), [message; 2]);
        let array = format!("[{message}]");
        assert_eq!(joined(&format!("[\n{array}"), 1_000), [array]);
    }

    #[test]
    fn a_message_is_not_held_back_by_an_unfinished_one() {
        let (pretty, line) = ("{\n\"id\": 1\n}", r#"{ "id": 1 }"#);
        assert_eq!(joined(&format!("{{\n{pretty}\n{pretty}"), 1_000), ["{", line, line]);
        let unfinished = "{\n\"id\": 2,\n\"result\": {}";
        let before = r#"{ "id": 2, "result": {}"#;
        assert_eq!(joined(&format!("{unfinished}\n{pretty}"), 1_000), [before, line]);
        let nested = "{\n\"a\":\n{\n\"b\": [\n[\n1\n],\n{\n}\n]\n}\n}";
        assert_eq!(joined(nested, 1_000), [r#"{ "a": { "b": [ [ 1 ], { } ] } }"#]);
    }

    #[test]
    fn escape_sequences_are_removed_only_before_json() {
        let message = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let written = |line: String| without_escapes(line.into());
        for before in [
            "",
            "\u{1b}[H\u{1b}[2J\u{1b}[3J",
            "\u{1b}]0;title\u{7} \r",
            "\u{c}\u{1b}c",
            "\u{1b}(B",
            "\u{feff}",
            "loading 10%\rloading 100%\r",
            "\rloading {\r\u{1b}[K",
        ] {
            assert_eq!(written(format!("{before}{message}")), message, "{before:?}");
        }
        for other in [
            "\u{1b}[32mdone",
            "\u{1b}[32m{\"id\":1,\"result\":{}}\u{1b}[0m",
            "50% {}",
            "10% {}\r50%",
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}]0;{}",
            "\u{1b}(é{}",
            "\u{1b}é{}",
            "",
        ] {
            assert_eq!(written(other.to_owned()), other);
        }
    }

    #[test]
    fn the_collected_bytes_are_bounded() {
        let lines = format!("[\n{}", "[\n".repeat(100));
        let texts = joined(&lines, 20);
        assert!(texts.len() >= 9 && texts.iter().all(|text| text.len() <= 22), "{texts:?}");
    }
}
