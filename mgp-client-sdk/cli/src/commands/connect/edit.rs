//! Inserts one member into the JSON file of another program and keeps every other byte.
//!
//! Such files have comments and trailing commas.

use std::ops::Range;

const MAX_DEPTH: usize = 128;

/// Sets a member of the object at a top-level name; creates the object if it is missing.
///
/// # Errors
/// If the file is not such an object.
pub(super) fn put(text: &str, table: &str, name: &str, value: &str) -> Result<String, String> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(format!(
            "{{\n  {}: {{\n    {}: {}\n  }}\n}}\n",
            quoted(table),
            quoted(name),
            indented(value, 4)
        ));
    }
    let mut reader = Reader { text, at: 0 };
    reader.skip_to_value()?;
    let root = reader.object()?;
    let Some(servers) = root.get(table, text) else {
        let value = format!("{{\n    {}: {}\n  }}", quoted(name), indented(value, 4));
        return Ok(root.insert(text, table, &value, 2));
    };
    let mut reader = Reader { text, at: servers.start };
    if !text[servers.clone()].starts_with('{') {
        return Err(format!("its `{table}` is not an object"));
    }
    let servers = reader.object()?;
    Ok(match servers.get(name, text) {
        Some(there) => {
            format!("{}{}{}", &text[..there.start], indented(value, 4), &text[there.end..])
        }
        None => servers.insert(text, name, &indented(value, 4), 4),
    })
}

/// Returns the member names of the object at a top-level name.
pub(super) fn names(text: &str, table: &str) -> Result<Vec<String>, String> {
    let mut reader = Reader { text, at: 0 };
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Vec::new());
    }
    reader.skip_to_value()?;
    let root = reader.object()?;
    let Some(servers) = root.get(table, text) else { return Ok(Vec::new()) };
    if !text[servers.clone()].starts_with('{') {
        return Err(format!("its `{table}` is not an object"));
    }
    let servers = Reader { text, at: servers.start }.object()?;
    Ok(servers.members.iter().map(|(name, _)| unquoted(&text[name.clone()])).collect())
}

/// The positions of an object and its members in a text.
struct Object {
    open: usize,
    members: Vec<(Range<usize>, Range<usize>)>,
}

impl Object {
    fn get(&self, name: &str, text: &str) -> Option<Range<usize>> {
        // JSON readers take the last of several members of one name.
        let named = |(key, _): &&(Range<usize>, Range<usize>)| unquoted(&text[key.clone()]) == name;
        self.members.iter().rev().find(named).map(|(_, value)| value.clone())
    }

    /// Returns the text with a new first member, where no comma precedes it.
    fn insert(&self, text: &str, name: &str, value: &str, indent: usize) -> String {
        let (before, after) = text.split_at(self.open + 1);
        let comma = if self.members.is_empty() { "" } else { "," };
        // Text on the line of the bracket moves to a new line.
        let rest = after.trim_start_matches([' ', '\t', '\r']);
        let gap = match (rest.starts_with('\n'), self.members.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!("\n{:1$}", "", indent.saturating_sub(2)),
            (false, false) => format!("\n{:indent$}", ""),
        };
        let after = if gap.is_empty() { after } else { rest };
        format!("{before}\n{:indent$}{}: {value}{comma}{gap}{after}", "", quoted(name))
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
        if self.rest().starts_with('{') { Ok(()) } else { Err(self.wrong("an object")) }
    }

    /// Reads the object that begins here.
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
                        return Err(self.wrong("`:`"));
                    }
                    self.at += 1;
                    self.skip();
                    let value = self.value(0)?;
                    object.members.push((name, value));
                }
                _ => return Err(self.wrong("a name or `}`")),
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
                        Some(b'}' | b']') | None => return Err(self.wrong("a value")),
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
                    return Err(self.wrong("a value"));
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
        Err(self.wrong("the end of a text"))
    }

    fn wrong(&self, expected: &str) -> String {
        let line = 1 + self.text[..self.at].matches('\n').count();
        format!("it is not JSON at line {line}: expected {expected}")
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn unquoted(text: &str) -> String {
    serde_json::from_str(text).unwrap_or_default()
}

/// Indents every line but the first.
fn indented(value: &str, indent: usize) -> String {
    value.replace('\n', &format!("\n{:indent$}", ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(put(text, "mcpServers", "mgp", "1").unwrap(), expected);
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
    fn text_that_is_not_an_object_is_refused() {
        for text in [
            "[]",
            "{\"mcpServers\": []}",
            "{\"a\": }",
            "{\"a\" 1}",
            "{\"a\": \"",
            "{\"a\": [}",
            "{",
        ] {
            assert!(put(text, "mcpServers", "mgp", "1").is_err(), "{text}");
        }
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(put(&deep, "mcpServers", "mgp", "1").unwrap_err().contains("too deeply"));
    }

    #[test]
    fn names_are_the_members_of_the_table() {
        let text = "{\"mcpServers\": {\"a\": 1, /* \"b\": 2 */ \"c\": {\"d\": 1}}}";
        assert_eq!(names(text, "mcpServers").unwrap(), ["a", "c"]);
        assert!(names(text, "servers").unwrap().is_empty());
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
            let once = put(&text, "mcpServers", "mgp", "1").unwrap();
            let twice = put(&once, "mcpServers", "mgp", "2").unwrap();
            let mut expected = before;
            expected["mcpServers"] = json!({ "mgp": 2 });
            prop_assert_eq!(serde_json::from_str::<Value>(&twice).unwrap(), expected);
        }

        #[test]
        fn nothing_panics(text in "[\"/*,:\\\\\\]\\[{}\na é]{0,60}") {
            let _ = put(&text, "mcpServers", "mgp", "1");
            let _ = names(&text, "mcpServers");
        }
    }
}
