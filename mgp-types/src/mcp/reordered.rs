//! Comparison of definitions that ignores the order of words in lists whose order has no meaning.
//!
//! Some servers write such lists from an unordered set, e.g. the allowed commands of a shell in Python, or the keys of
//! a map in Go. Each process of the server then lists the same definition in another order.

use serde_json::Value;

use crate::wire::Payload;

/// Members of a schema that may be a list of words, or a text that contains words separated by commas.
const UNORDERED: [&str; 5] = ["default", "enum", "examples", "required", "type"];

/// The labels of sets: a line of a description that has a colon lists a set only if one of these words is before the
/// colon, e.g. `Allowed commands: cat, ls`.
const SET_LABELS: [&str; 7] =
    ["allowed", "available", "permitted", "possible", "supported", "valid", "values"];

/// The labels of ordered lists: a line with one of these words before its colon lists no set, e.g. `Valid order: read,
/// write`.
const ORDER_LABELS: [&str; 14] = [
    "after", "before", "first", "format", "last", "next", "order", "ordered", "priority", "range",
    "sequence", "step", "steps", "then",
];

/// The members of a definition that are schemas.
const SCHEMAS: [&str; 2] = ["inputSchema", "outputSchema"];

/// Returns whether two definitions in canonical JSON are equal apart from the order of some words: the plain words in
/// lists of their schemas, and the words that a line of a description lists as a set or as quoted values. A text with
/// blanks is not a plain word, because another order of its words can have another meaning.
///
/// ```
/// use mgp_types::Payload;
/// use mgp_types::mcp::differ_only_in_order;
///
/// let listed = |text: &str| Payload::parse(format!(r#"{{"description":"Allowed: {text}","name":"t"}}"#)).unwrap();
/// assert!(differ_only_in_order(&listed("cat, ls"), &listed("ls, cat")));
/// assert!(!differ_only_in_order(&listed("cat, ls"), &listed("cat, sh")));
/// ```
#[must_use]
pub fn differ_only_in_order(one: &Payload, other: &Payload) -> bool {
    // Another order of the same words does not change the length of the text, so most changed definitions need not be
    // parsed.
    if one.as_str().len() != other.as_str().len() {
        return false;
    }
    match (sorted(one), sorted(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Returns a definition whose unordered words are sorted.
fn sorted(definition: &Payload) -> Option<Value> {
    let mut definition: Value = definition.get().ok()?;
    if let Some(Value::String(text)) = definition.get_mut("description") {
        sort_listed_words(text);
    }
    for name in SCHEMAS {
        if let Some(schema) = definition.get_mut(name) {
            sort(schema);
        }
    }
    Some(definition)
}

fn sort(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if UNORDERED.contains(&name.as_str()) {
                    sort_words(member);
                } else if let (Value::String(text), "description") = (&mut *member, name.as_str()) {
                    sort_listed_words(text);
                }
                sort(member);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(sort),
        _ => {}
    }
}

fn sort_words(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(words) = sorted_words(text) {
                *text = words;
            }
        }
        Value::Array(words) if words.iter().all(|word| word.as_str().is_some_and(is_plain)) => {
            words.sort_unstable_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        _ => {}
    }
}

/// Sorts the words that lines of a description list as a set.
fn sort_listed_words(text: &mut String) {
    let (mut lines, mut above) = (Vec::new(), "");
    for line in text.split('\n') {
        lines.push(with_sorted_set(line, above).unwrap_or_else(|| line.to_owned()));
        if !line.trim().is_empty() {
            above = line;
        }
    }
    *text = lines.join("\n");
}

/// Returns the line with its words sorted if the line lists a set; `None` for other lines. Such a line has a label
/// before the words, e.g. `Allowed commands: cat, ls`, or consists of quoted values only. `above` is the last line
/// before it that is not blank.
fn with_sorted_set(line: &str, above: &str) -> Option<String> {
    if let Some((label, words)) = line.split_once(": ") {
        if !has_word(label, &SET_LABELS) || has_word(label, &ORDER_LABELS) {
            return None;
        }
        let (words, end) = words.strip_suffix('.').map_or((words, ""), |words| (words, "."));
        let sorted = sorted_words(words)?;
        return Some(format!("{label}: {sorted}{end}"));
    }
    let is_list = line.contains(',') && line.split(',').all(|word| is_quoted(word.trim()));
    if is_list && !has_word(above, &ORDER_LABELS) { sorted_words(line) } else { None }
}

fn has_word(label: &str, known: &[&str]) -> bool {
    let mut words = label.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|word| known.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Returns the sorted words of a text that consists of plain or quoted words with commas between them, or else `None`.
fn sorted_words(text: &str) -> Option<String> {
    let mut words: Vec<&str> = text.split(',').map(str::trim).collect();
    if !words.iter().all(|word| is_plain(word) || is_quoted(word)) {
        return None;
    }
    words.sort_unstable();
    Some(words.join(","))
}

/// Returns whether a plain word is between backticks or quotation marks, so that it is a value and not a part of a
/// sentence.
fn is_quoted(word: &str) -> bool {
    let within = |mark: char| word.strip_prefix(mark)?.strip_suffix(mark);
    ['`', '\'', '"'].into_iter().filter_map(within).any(is_plain)
}

fn is_plain(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*');
    !word.is_empty() && word.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether two tools with one parameter count as equal if the schemas of the parameter are `one` and
    /// `other`.
    fn is_same(one: &str, other: &str) -> bool {
        let tool = |schema: &str| {
            let schema = format!(r#"{{"properties":{{"fields":{schema}}}}}"#);
            Payload::parse(format!(r#"{{"inputSchema":{schema},"name":"read"}}"#)).unwrap()
        };
        differ_only_in_order(&tool(one), &tool(other))
    }

    #[test]
    fn the_order_of_plain_words_in_a_schema_is_no_change() {
        for (one, other) in [
            (r#"{"default":"status,summary,*all"}"#, r#"{"default":"*all,status,summary"}"#),
            (r#"{"default":"status, due_date"}"#, r#"{"default":"due_date, status"}"#),
            (r#"{"default":["a","b"]}"#, r#"{"default":["b","a"]}"#),
            (r#"{"enum":["open","closed"]}"#, r#"{"enum":["closed","open"]}"#),
            (r#"{"anyOf":[{"required":["a","b"]}]}"#, r#"{"anyOf":[{"required":["b","a"]}]}"#),
            (
                r#"{"description":"Possible values: open, closed."}"#,
                r#"{"description":"Possible values: closed, open."}"#,
            ),
        ] {
            assert!(is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn the_order_of_a_set_in_the_description_of_a_tool_is_no_change() {
        let is_same = |one: &str, other: &str| {
            let tool = |text: &str| {
                let text = serde_json::to_string(text).unwrap();
                Payload::parse(format!(r#"{{"description":{text},"name":"run"}}"#)).unwrap()
            };
            differ_only_in_order(&tool(one), &tool(other))
        };
        let run = "Runs a command.\nAllowed commands: find, cat, ls\nTimeout: 30s";
        for (other, expected) in [
            ("Runs a command.\nAllowed commands: ls, find, cat\nTimeout: 30s", true),
            ("Runs a command.\nAllowed commands: ls, find, sh \nTimeout: 30s", false),
            ("Allowed commands: find, cat, ls\nRuns a command.\nTimeout: 30s", false),
        ] {
            assert_eq!(is_same(run, other), expected, "{other}");
        }
        assert!(!is_same("Steps: backup, delete", "Steps: delete, backup"));
        assert!(!is_same("Valid order: backup, delete", "Valid order: delete, backup"));
        assert!(!is_same("Valid values (in order): a, b", "Valid values (in order): b, a"));
        assert!(!is_same("Valid format: from, to", "Valid format: to, from"));
        assert!(!is_same("Allowed: never, ask me", "Allowed: ask me, never"));
        assert!(is_same("Allowed: `cat`, `ls`.", "Allowed: `ls`, `cat`."));
    }

    /// `mcp-time`, a server in Go, lists the keys of a map in a line of quoted values, so their order can differ in
    /// each process.
    #[test]
    fn the_order_of_quoted_values_in_a_line_of_their_own_is_no_change() {
        let is_same = |one: &str, other: &str| {
            let schema = |text: &str| {
                serde_json::json!({ "description": format!("A value.\n\n{text}\n") }).to_string()
            };
            is_same(&schema(one), &schema(other))
        };
        assert!(is_same("## Formats\n\n`ANSIC`, `Kitchen`", "## Formats\n\n`Kitchen`, `ANSIC`"));
        assert!(is_same("'a', \"b\"", "\"b\", 'a'"));
        assert!(!is_same("## Order\n\n`backup`, `delete`", "## Order\n\n`delete`, `backup`"));
        assert!(!is_same("Call first:\n`backup`, `delete`", "Call first:\n`delete`, `backup`"));
        assert!(!is_same("`a`, `b`", "`b`, `c`"));
        assert!(!is_same("`a`, send", "send, `a`"));
        assert!(!is_same("`never`, `ask me`", "`ask me`, `never`"));
    }

    #[test]
    fn other_words_sentences_and_texts_elsewhere_are_a_change() {
        for (one, other) in [
            (r#"{"default":"status,summary"}"#, r#"{"default":"status,content"}"#),
            (r#"{"default":"a,b"}"#, r#"{"default":"a,a"}"#),
            (r#"{"default":"never,ask me"}"#, r#"{"default":"ask me,never"}"#),
            (r#"{"description":"send,never"}"#, r#"{"description":"never,send"}"#),
            (r#"{"enum":["do not","stop"]}"#, r#"{"enum":["stop","do not"]}"#),
            (r#"{"prefixItems":["a","b"]}"#, r#"{"prefixItems":["b","a"]}"#),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }
}
