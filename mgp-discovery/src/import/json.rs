//! Parses the files of hosts into JSON values (MGP §15.2). These files contain JSON with comments and trailing commas,
//! TOML, or YAML.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table, TomlError};

/// Reads JSON with comments and trailing commas, as hosts do. An empty text counts as an empty object. The escape of
/// half a surrogate pair is read as U+FFFD.
///
/// # Errors
/// Returns the position of the first error; the message contains no part of the text.
pub fn parse_json(text: &str) -> Result<Value, String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(Map::new().into());
    }
    let plain = without_half_pairs(&without_commas(&without_comments(text)));
    serde_json::from_str(&plain).map_err(|error| {
        // Report only the position, because values in the file may be secret.
        format!("it is not JSON at line {}, column {}", error.line(), error.column())
    })
}

pub(super) fn from_toml(text: &str) -> Result<Value, String> {
    // Report only the position, because values in the file may be secret.
    let document: DocumentMut = text.parse().map_err(|error: TomlError| {
        let before = error.span().and_then(|span| text.get(..span.start));
        format!("it is not TOML at line {}", before.unwrap_or_default().split('\n').count())
    })?;
    Ok(of_table(document.as_table()))
}

/// Parses YAML 1.2 into a JSON value; words such as `no` stay texts. The library limits nesting, aliases and size.
pub(super) fn from_yaml(text: &str) -> Result<Value, String> {
    // Do not include the text of the error, because values in the file may be secret.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| match error.location() {
        Some(at) => format!("it is not YAML at line {}, column {}", at.line(), at.column()),
        None => "it is not YAML".to_owned(),
    })
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_value(value),
        Item::Table(table) => of_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(of_table).collect(),
    }
}

fn of_table(table: &Table) -> Value {
    table.iter().map(|(name, item)| (name.to_owned(), of_item(item))).collect()
}

fn of_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(flag) => (*flag.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(array) => array.iter().map(of_value).collect(),
        toml_edit::Value::InlineTable(table) => {
            table.iter().map(|(name, value)| (name.to_owned(), of_value(value))).collect()
        }
    }
}

/// Removes comments without moving the text after them, so that the positions in errors stay the same.
fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['"', '/']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with('"') {
            let length = string(rest);
            out.push_str(&rest[..length]);
            length
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let length = comment.find("*/").map_or(rest.len(), |end| end + 4);
            out.extend(rest[..length].chars().map(|c| if c == '\n' { c } else { ' ' }));
            length
        } else {
            out.push('/');
            1
        };
        rest = &rest[length..];
    }
    out + rest
}

/// Replaces each comma before a closing bracket by a space, so that positions stay the same.
fn without_commas(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['"', ',']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with('"') { string(rest) } else { 1 };
        if rest.starts_with(',') && rest[1..].trim_start().starts_with(['}', ']']) {
            out.push(' ');
        } else {
            out.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    out + rest
}

/// Replaces each escape of half a surrogate pair by that of U+FFFD, so that positions stay the same.
///
/// Programs in JavaScript write such an escape, which `serde_json` refuses, if they have cut a text in the middle of a
/// character, e.g. in the history of `~/.claude.json`.
fn without_half_pairs(text: &str) -> String {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let next = rest.get(6..).and_then(unit);
        let (length, is_half) = match unit(rest) {
            Some(0xD800..=0xDBFF) if matches!(next, Some(0xDC00..=0xDFFF)) => (12, false),
            Some(0xD800..=0xDFFF) => (6, true),
            _ => (1 + rest[1..].chars().next().map_or(0, char::len_utf8), false),
        };
        out.push_str(if is_half { "\\ufffd" } else { &rest[..length] });
        rest = &rest[length..];
    }
    out + rest
}

/// Returns the length of the string at the beginning of a text, including its quotes.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_commas_go_and_strings_stay() {
        let text = "// a\n{\"a\": \"// b, ]\", /* c\n */ \"d\\\"\": [1, 2, ],\n}";
        assert_eq!(parse_json(text).unwrap(), json!({"a": "// b, ]", "d\"": [1, 2]}));
        assert_eq!(parse_json("{\n  oops").unwrap_err(), "it is not JSON at line 2, column 3");
        assert_eq!(parse_json("\u{feff} \n").unwrap(), json!({}));
        assert_eq!(from_toml("a = 1\nb = c\n").unwrap_err(), "it is not TOML at line 2");
        let nested = from_toml("[[a]]\nb = 1\n[[a.c]]\nd = { e = [2] }\n[a.c.f]\n").unwrap();
        assert_eq!(nested, json!({"a": [{"b": 1, "c": [{"d": {"e": [2]}, "f": {}}]}]}));
    }

    #[test]
    fn half_a_surrogate_pair_is_not_an_error() {
        let text = r#"{"a": "\ud83d", "b": "\udE00x\ud83d\ude00", "c": "\\ud83d \ud83d\n"}"#;
        let expected =
            json!({"a": "\u{fffd}", "b": "\u{fffd}x\u{1f600}", "c": "\\ud83d \u{fffd}\n"});
        assert_eq!(parse_json(text).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[\"/*,\\\\\\]\\[{}\na éud8]{0,60}") {
            let _ = parse_json(&text);
        }
    }
}
