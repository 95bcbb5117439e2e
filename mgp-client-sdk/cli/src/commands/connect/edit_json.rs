//! Edits single members in the JSON file of a host and keeps every other byte.
//!
//! Hosts accept comments and trailing commas in these files, which a JSON parser and printer would refuse or drop.

use std::ops::Range;

use mgp_discovery::import::parse_json;

use super::syntax::line_end;

const MAX_DEPTH: usize = 128;

/// Sets a member of the object at a path. A missing object is created at the top level.
///
/// # Errors
/// Returns an error if the file is not a JSON object, e.g. because a comma is missing, or if the value at the path is
/// not an object.
pub(super) fn put(text: &str, path: &[String], name: &str, value: &str) -> Result<String, String> {
    let unit = indent_unit(text);
    let table = path.first().map(String::as_str).unwrap_or_default();
    if is_blank(text) {
        let value = indented(value, "    ");
        return Ok(format!(
            "{{\n  {}: {{\n    {}: {value}\n  }}\n}}\n",
            quoted(table),
            quoted(name)
        ));
    }
    let value = indented(&reindented(value, unit), &unit.repeat(path.len() + 1));
    let value = value.replace('\n', line_end(text));
    let after =
        insert(text, path, name, &value)?.map_or_else(|| create(text, table, name, &value), Ok)?;
    // The reader of this module accepts more than hosts do, e.g. a missing comma or text after the object.
    parse_json(text)?;
    Ok(after)
}

/// Sets a member of the object at a path to a value that is inserted verbatim; returns `None` if the object is missing.
pub(super) fn insert(
    text: &str,
    path: &[String],
    name: &str,
    value: &str,
) -> Result<Option<String>, String> {
    let Some(object) = find(text, path)? else { return Ok(None) };
    Ok(Some(match object.get(name, text) {
        Some(there) => format!("{}{value}{}", &text[..there.start], &text[there.end..]),
        None => object.insert(text, name, value, path.len() + 1),
    }))
}

fn create(text: &str, table: &str, name: &str, value: &str) -> Result<String, String> {
    let (unit, end) = (indent_unit(text), line_end(text));
    let root = find(text, &[])?.ok_or("it is not an object")?;
    let value = format!("{{{end}{unit}{unit}{}: {value}{end}{unit}}}", quoted(name));
    Ok(root.insert(text, table, &value, 1))
}

/// Removes a member of the object at a path. Returns the new text and the removed value; `None` if the member is
/// missing. If several members have the name, removes all of them and returns the last value, which is the one that
/// programs use: one of the others would otherwise take effect now.
pub(super) fn remove(
    text: &str,
    path: &[String],
    name: &str,
) -> Result<Option<(String, String)>, String> {
    let Some((mut text, value)) = remove_last(text, path, name)? else { return Ok(None) };
    while let Some((without, _)) = remove_last(&text, path, name)? {
        text = without;
    }
    Ok(Some((text, value)))
}

/// Removes the last of the members with a name; otherwise like [`remove`].
fn remove_last(
    text: &str,
    path: &[String],
    name: &str,
) -> Result<Option<(String, String)>, String> {
    let Some(object) = find(text, path)? else { return Ok(None) };
    let named = |(key, _): &(Range<usize>, Range<usize>)| unquoted(&text[key.clone()]) == name;
    let Some(at) = object.members.iter().rposition(named) else { return Ok(None) };
    let (key, value) = &object.members[at];
    let comma = |from: usize| {
        let mut reader = Reader { text, at: from };
        reader.skip();
        reader.rest().starts_with(',').then_some(reader.at)
    };
    // The last member has no comma after it, so remove the comma before it.
    let (mut head, end) = if let Some(comma) = comma(value.end) {
        (text[..key.start].to_owned(), comma + 1)
    } else {
        let before = at.checked_sub(1).and_then(|at| comma(object.members[at].1.end));
        let head = match before {
            Some(comma) => format!("{}{}", &text[..comma], &text[comma + 1..key.start]),
            None => text[..key.start].to_owned(),
        };
        (head, value.end)
    };
    let mut tail = &text[end..];
    // Remove the whole line if nothing else is on it.
    let indent = head.trim_end_matches([' ', '\t']).len();
    let rest = tail.trim_start_matches([' ', '\t', '\r']);
    if head[..indent].ends_with('\n') && rest.starts_with('\n') {
        head.truncate(indent);
        tail = &rest[1..];
    }
    Ok(Some((format!("{head}{tail}"), text[value.clone()].to_owned())))
}

/// Returns the members of the object at a path, with the texts of their values; empty if the object is missing.
pub(super) fn members(text: &str, path: &[String]) -> Result<Vec<(String, String)>, String> {
    let Some(object) = find(text, path)? else { return Ok(Vec::new()) };
    let own = |(key, value): &(Range<usize>, Range<usize>)| {
        (unquoted(&text[key.clone()]), text[value.clone()].to_owned())
    };
    Ok(object.members.iter().map(own).collect())
}

fn find(text: &str, path: &[String]) -> Result<Option<Object>, String> {
    if is_blank(text) {
        return Ok(None);
    }
    let mut reader = Reader { text, at: 0 };
    reader.skip_to_value()?;
    let mut object = reader.object()?;
    for name in path {
        let Some(value) = object.get(name, text) else { return Ok(None) };
        if !text[value.clone()].starts_with('{') {
            return Err(format!("its `{name}` is not an object; write `\"{name}\": {{}}`"));
        }
        object = Reader { text, at: value.start }.object()?;
    }
    Ok(Some(object))
}

fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

/// Returns the indentation that a file uses, i.e. the indentation of its first indented line.
fn indent_unit(text: &str) -> &str {
    let indents = text.lines().map(|line| &line[..line.len() - line.trim_start().len()]);
    indents.into_iter().find(|indent| !indent.is_empty() && indent.len() <= 8).unwrap_or("  ")
}

/// The positions of an object and its members in a text.
struct Object {
    open: usize,
    members: Vec<(Range<usize>, Range<usize>)>,
}

impl Object {
    fn get(&self, name: &str, text: &str) -> Option<Range<usize>> {
        // Search from the end: if a name occurs several times, most JSON parsers use the last member.
        let named = |(key, _): &&(Range<usize>, Range<usize>)| unquoted(&text[key.clone()]) == name;
        self.members.iter().rev().find(named).map(|(_, value)| value.clone())
    }

    /// Returns the text with a new first member, which needs no comma before it.
    fn insert(&self, text: &str, name: &str, value: &str, depth: usize) -> String {
        let (unit, end) = (indent_unit(text), line_end(text));
        let (outer, indent) = (unit.repeat(depth - 1), unit.repeat(depth));
        let (before, after) = text.split_at(self.open + 1);
        let comma = if self.members.is_empty() { "" } else { "," };
        // Move text that follows the opening bracket on the same line to a new line.
        let rest = after.trim_start_matches([' ', '\t', '\r']);
        let gap = match (rest.starts_with('\n'), self.members.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!("{end}{outer}"),
            (false, false) => format!("{end}{indent}"),
        };
        let after = if gap.is_empty() { after } else { rest };
        format!("{before}{end}{indent}{}: {value}{comma}{gap}{after}", quoted(name))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            let mut length = rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                length += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                length += comment.find("*/").map_or(trimmed.len(), |end| end + 4);
            }
            if length == 0 {
                return;
            }
            self.at += length;
        }
    }

    fn skip_to_value(&mut self) -> Result<(), String> {
        self.skip();
        if self.rest().starts_with('{') { Ok(()) } else { Err(self.wrong()) }
    }

    /// Reads the object that starts at the current position.
    fn object(&mut self) -> Result<Object, String> {
        let mut object = Object { open: self.at, members: Vec::new() };
        self.at += 1;
        loop {
            self.skip();
            match self.rest().bytes().next() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(object);
                }
                Some(b',') => self.at += 1,
                Some(b'"') => {
                    let name = self.string()?;
                    self.skip();
                    if !self.rest().starts_with(':') {
                        return Err(self.wrong());
                    }
                    self.at += 1;
                    self.skip();
                    let value = self.value(0)?;
                    object.members.push((name, value));
                }
                _ => return Err(self.wrong()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Range<usize>, String> {
        let begin = self.at;
        if depth > MAX_DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        match self.rest().bytes().next() {
            Some(b'"') => return self.string(),
            Some(open @ (b'{' | b'[')) => {
                let close = if open == b'{' { b'}' } else { b']' };
                self.at += 1;
                loop {
                    self.skip();
                    match self.rest().bytes().next() {
                        Some(byte) if byte == close => {
                            self.at += 1;
                            break;
                        }
                        Some(b',' | b':') => self.at += 1,
                        Some(b'}' | b']') | None => return Err(self.wrong()),
                        Some(_) => {
                            self.value(depth + 1)?;
                        }
                    }
                }
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || ",:]}/\"[{".contains(c);
                let length = self.rest().find(ends).unwrap_or(self.rest().len());
                if length == 0 {
                    return Err(self.wrong());
                }
                self.at += length;
            }
        }
        Ok(begin..self.at)
    }

    fn string(&mut self) -> Result<Range<usize>, String> {
        let begin = self.at;
        let mut escaped = false;
        for (at, byte) in self.rest().bytes().enumerate().skip(1) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.at += at + 1;
                    return Ok(begin..self.at);
                }
                _ => {}
            }
        }
        Err(self.wrong())
    }

    /// Returns the error that the import reports for this text. A text that the import accepts is not an object.
    fn wrong(&self) -> String {
        parse_json(self.text).err().unwrap_or_else(|| "it is not an object".to_owned())
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a name as the import reads it.
fn unquoted(text: &str) -> String {
    let name = parse_json(text).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Replaces every two spaces at the beginning of a line by `unit`.
fn reindented(value: &str, unit: &str) -> String {
    let lines = value.split('\n').map(|line| {
        let text = line.trim_start_matches(' ');
        format!("{}{text}", unit.repeat((line.len() - text.len()) / 2))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Indents every line except the first.
fn indented(value: &str, indent: &str) -> String {
    value.replace('\n', &format!("\n{indent}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn servers() -> [String; 1] {
        ["mcpServers".to_owned()]
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(put(text, &servers(), "mgp", "1").unwrap(), expected);
    }

    #[test]
    fn a_member_is_inserted_and_the_rest_is_kept() {
        check("", "{\n  \"mcpServers\": {\n    \"mgp\": 1\n  }\n}\n");
        check("{}", "{\n  \"mcpServers\": {\n    \"mgp\": 1\n  }\n}");
        check(
            "{\n  // mine\n  \"a\": [1, 2,], /* b */\n}\n",
            "{\n  \"mcpServers\": {\n    \"mgp\": 1\n  },\n  // mine\n  \"a\": [1, 2,], /* b */\n}\n",
        );
        check(
            "{\"mcpServers\": {\"x\": {\"command\": \"y\"}}}",
            "{\"mcpServers\": {\n    \"mgp\": 1,\n    \"x\": {\"command\": \"y\"}}}",
        );
        check(
            "{\"mcpServers\": {\"mgp\": {\"command\": \"}\\\"\"}, \"x\": 2}, \"mgp\": 3}",
            "{\"mcpServers\": {\"mgp\": 1, \"x\": 2}, \"mgp\": 3}",
        );
    }

    #[test]
    fn an_entry_gets_the_line_ends_of_its_file() {
        for text in
            ["{\n  \"mcpServers\": {\n    \"x\": 1\n  }\n}\n", "{\n  \"a\": 1\n}\n", "{ \"a\":\n1}"]
        {
            let entry = "{\n  \"b\": 1\n}";
            let with = put(text, &servers(), "mgp", entry).unwrap();
            let text = text.replace('\n', "\r\n");
            let with_returns = put(&text, &servers(), "mgp", entry).unwrap();
            assert_eq!(with_returns, with.replace('\n', "\r\n"));
            let (without, _) = remove(&with_returns, &servers(), "mgp").unwrap().unwrap();
            assert_eq!(without.matches('\n').count(), without.matches("\r\n").count());
        }
    }

    #[test]
    fn text_that_is_not_an_object_is_refused() {
        for text in [
            "[]",
            "{\"mcpServers\": []}",
            "{\"a\": }",
            "{\"a\" 1}",
            "{\"a\": \"",
            "{\"a\": [}",
            "{",
            "{\"a\": 1 \"b\": 2}",
            "{\"a\": 1}}",
            "{\"a\": 1,, \"b\": [1 2]}",
        ] {
            assert!(put(text, &servers(), "mgp", "1").is_err(), "{text}");
        }
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(put(&deep, &servers(), "mgp", "1").unwrap_err().contains("too deeply"));
    }

    #[test]
    fn a_broken_file_gets_the_error_of_the_import() {
        for text in ["{", "{\n  oops", "{\"a\": [}", "{\"a\" 1}", "{\"mcpServers\": {"] {
            assert_eq!(members(text, &[]).unwrap_err(), parse_json(text).unwrap_err(), "{text}");
        }
        assert_eq!(members("[1]", &[]).unwrap_err(), "it is not an object");
    }

    #[test]
    fn a_member_is_removed_with_its_comma_and_its_line() {
        let path = ["s".to_owned()];
        let removed = |text: &str, name: &str| remove(text, &path, name).unwrap();
        let taken = |text: &str, value: &str| Some((text.to_owned(), value.to_owned()));
        let text = "{\"s\": {\n\t\"a\": 1, // one\n\t\"b\": {\"c\": 2}\n}}";
        assert_eq!(removed(text, "a"), taken("{\"s\": {\n\t // one\n\t\"b\": {\"c\": 2}\n}}", "1"));
        assert_eq!(removed(text, "b"), taken("{\"s\": {\n\t\"a\": 1 // one\n}}", "{\"c\": 2}"));
        assert_eq!(removed("{\"s\": {\"a\": 1,}}", "a"), taken("{\"s\": {}}", "1"));
        let twice = "{\"s\": {\"a\": 1, \"b\": 2, \"a\": 3}}";
        assert_eq!(removed(twice, "a"), taken("{\"s\": { \"b\": 2 }}", "3"));
        assert_eq!(removed(text, "c"), None);
        assert_eq!(removed("{}", "a"), None);
    }

    #[test]
    fn an_entry_is_indented_as_the_file_is() {
        let text = "{\n\t\"mcpServers\": {\n\t\t\"a\": 1\n\t}\n}\n";
        let put = put(text, &servers(), "mgp", "{\n  \"b\": [\n    1\n  ]\n}").unwrap();
        assert!(put.contains("\n\t\t\"mgp\": {\n\t\t\t\"b\": [\n"), "{put}");
    }

    #[test]
    fn members_are_those_of_the_table() {
        let text = "{\"mcpServers\": {\"a\": 1, /* \"b\": 2 */ \"c\": {\"d\": 1}}}";
        let names = |table: &str| -> Vec<String> {
            members(text, &[table.to_owned()]).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("mcpServers"), ["a", "c"]);
        assert!(names("servers").is_empty());
        let half = [("x\u{fffd}".to_owned(), "1".to_owned())];
        assert_eq!(members(r#"{"x\ud83d": 1}"#, &[]).unwrap(), half);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i32>().prop_map(Value::from),
            "[a\"\\\\{}/,: é]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c\"/]{0,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_other_member_keeps_its_value(
            members in proptest::collection::btree_map("[a-c\"/]{0,3}", value(), 0..4),
            is_pretty in any::<bool>(),
        ) {
            let before = Value::Object(members.into_iter().collect());
            let text = if is_pretty { serde_json::to_string_pretty(&before).unwrap() } else { before.to_string() };
            let once = put(&text, &servers(), "mgp", "1").unwrap();
            let twice = put(&once, &servers(), "mgp", "2").unwrap();
            let mut expected = before;
            expected["mcpServers"] = json!({ "mgp": 2 });
            prop_assert_eq!(serde_json::from_str::<Value>(&twice).unwrap(), expected.clone());
            for (name, value) in expected.as_object().unwrap() {
                let (left, _) = remove(&twice, &[], name).unwrap().unwrap();
                let mut other = expected.clone();
                other.as_object_mut().unwrap().remove(name);
                prop_assert_eq!(serde_json::from_str::<Value>(&left).unwrap(), other, "{}", value);
            }
        }

        #[test]
        fn nothing_panics(text in "[\"/*,:\\\\\\]\\[{}\na é]{0,60}") {
            let _ = put(&text, &servers(), "mgp", "1");
            let _ = remove(&text, &["a".to_owned()], "a");
        }
    }
}
