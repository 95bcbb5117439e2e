//! The text that explains a server's refusal, in the body or a header of a response with an error status.

use std::cmp::Reverse;

use mgp_types::{clip, is_hidden};
use serde_json::{Map, Value};

/// The maximum length, in bytes, of a body that is searched for the text.
pub(super) const MAX_REFUSAL_BYTES: usize = 256 << 10;
/// The minimum number of bytes of a secret that is left out. Leaving out shorter secrets would hide ordinary words.
const MIN_SECRET_BYTES: usize = 8;
/// The maximum number of bytes of a server's text in an error message.
const MAX_TEXT_BYTES: usize = 300;
/// The number of nested levels of objects and lists that are searched for a text, plus one for the text itself.
const MAX_DEPTH: usize = 4;
/// The members that name a kind of error.
const TITLES: [&str; 3] = ["error", "errors", "title"];
/// The members that explain an error, e.g. in problem documents (RFC 9457) and in errors of OAuth.
const DETAILS: [&str; 4] = ["message", "detail", "error_description", "msg"];

/// Returns the server's text in the body of a refusal, as one short line without invisible characters; empty if the
/// body contains no text, is an HTML page or is longer than [`MAX_REFUSAL_BYTES`].
///
/// The secrets of this side are left out, because some servers repeat them, e.g. with the URL of the request.
pub(super) fn server_text<'a>(body: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    if body.len() > MAX_REFUSAL_BYTES {
        return String::new();
    }
    let body = body.trim_start_matches('\u{feff}').trim();
    let text = match serde_json::from_str::<Value>(body) {
        Ok(value) => text_of(&value, MAX_DEPTH).unwrap_or_default(),
        Err(_) if body.starts_with('<') => String::new(),
        Err(_) => body.to_owned(),
    };
    one_line(&without_secrets(text, secrets))
}

fn without_secrets<'a>(text: String, secrets: impl Iterator<Item = &'a str>) -> String {
    let mut secrets: Vec<_> = secrets.filter(|secret| secret.len() >= MIN_SECRET_BYTES).collect();
    // Replace long secrets first, because a short secret can be a part of a longer secret.
    secrets.sort_unstable_by_key(|secret| Reverse(secret.len()));
    secrets.into_iter().fold(text, |text, secret| text.replace(secret, "…"))
}

/// Returns the text in a JSON value; the text of an object is its kind of error and its explanation.
fn text_of(value: &Value, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Array(values) => text_of(values.first()?, depth),
        Value::Object(members) => {
            let title = member_text(members, &TITLES, depth);
            let detail = member_text(members, &DETAILS, depth);
            match (title, detail) {
                (Some(title), Some(detail)) if title != detail => {
                    Some(format!("{title}: {detail}"))
                }
                (title, detail) => detail.or(title),
            }
        }
        _ => None,
    }
}

/// Returns the text of the first of these members that has a text.
fn member_text(members: &Map<String, Value>, names: &[&str], depth: usize) -> Option<String> {
    names.iter().find_map(|name| text_of(members.get(*name)?, depth))
}

/// Returns a text as one short line. Invisible characters become spaces, and backticks become single quotes, because
/// error messages quote the text with backticks.
fn one_line(text: &str) -> String {
    let visible = |c: char| if is_hidden(c) { ' ' } else { c };
    let line: String = text.chars().map(|c| if c == '`' { '\'' } else { visible(c) }).collect();
    clip(&line.split_whitespace().collect::<Vec<_>>().join(" "), MAX_TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str) -> String {
        server_text(body, std::iter::empty())
    }

    #[test]
    fn the_text_is_found_in_the_usual_forms() {
        for (body, expected) in [
            ("Workspace 17 is archived.\r\nAsk Bob.\n", "Workspace 17 is archived. Ask Bob."),
            (r#"{"error":"bad_request","message":"no such day"}"#, "bad_request: no such day"),
            (r#"{"error":"Not Found","message":"Not Found"}"#, "Not Found"),
            (r#"{"error":{"code":400,"message":"no such day"}}"#, "no such day"),
            (r#"{"title":"Out of credit","detail":"30 left"}"#, "Out of credit: 30 left"),
            (r#"{"error":"invalid_token","error_description":"old"}"#, "invalid_token: old"),
            (r#"{"detail":[{"loc":["body"],"msg":"Field required"}]}"#, "Field required"),
            (r#"{"errors":[{"message":"no such day"}]}"#, "no such day"),
            (r#""gone""#, "gone"),
            ("\u{feff}gone", "gone"),
            (r#"{"status":500}"#, ""),
            ("<html><title>oops</title></html>", ""),
            ("", ""),
        ] {
            assert_eq!(text(body), expected, "{body}");
        }
    }

    #[test]
    fn the_text_is_one_short_line_without_invisible_characters() {
        assert_eq!(text("a\u{1b}[31m\n\u{202e}b`c"), "a [31m b'c");
        let long = text(&"ä".repeat(100_000));
        assert!(long.len() <= MAX_TEXT_BYTES + '…'.len_utf8() && long.ends_with('…'), "{long}");
        let nested = format!(r#"{}"x"{}"#, "[".repeat(100), "]".repeat(100));
        assert_eq!(text(&nested), "");
        let too_long = format!("\"{}\"", "x".repeat(MAX_REFUSAL_BYTES));
        assert_eq!(text(&too_long), "");
    }
}
