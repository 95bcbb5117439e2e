//! Describes entries of a server's tool list that cannot be read as tools.

use std::fmt;

use mgp_types::Payload;
use mgp_types::mcp::Tool;
use serde_json::Value;

use crate::output::first_line;

/// The maximum length of a quoted name, in bytes.
const MAX_NAME_BYTES: usize = 40;

/// An entry in a server's list of tools that is not a readable tool, and the reason.
#[derive(Debug)]
pub(in crate::commands) struct UnreadableTool {
    entry: String,
    reason: String,
}

impl UnreadableTool {
    /// Describes an entry; `at` is its place in the list, from 0.
    pub(in crate::commands) fn new(at: usize, raw: &Payload) -> Self {
        let value: Value = raw.get().unwrap_or_default();
        let name = value.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let entry = match name {
            Some(name) => format!("the tool `{}`", first_line(name, MAX_NAME_BYTES)),
            None => format!("entry {} of its list of tools", at + 1),
        };
        let reason = match (value.get("name"), value.get("inputSchema")) {
            (None, _) => "it has no `name`".to_owned(),
            (Some(name), _) if !name.is_string() => "its `name` is not a text".to_owned(),
            (_, None | Some(Value::Null)) => "it has no `inputSchema`".to_owned(),
            (_, Some(schema)) if !schema.is_object() => {
                "its `inputSchema` is not an object".to_owned()
            }
            _ => match raw.get::<Tool>() {
                Err(error) => error.message().to_owned(),
                Ok(_) => "its definition cannot be read".to_owned(),
            },
        };
        Self { entry, reason }
    }
}

impl fmt::Display for UnreadableTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used: {}", self.entry, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_wrong_member() {
        for (raw, expected) in [
            (r#"{"name":"bare"}"#, "the tool `bare` cannot be used: it has no `inputSchema`"),
            (
                r#"{"name":"null","inputSchema":null}"#,
                "the tool `null` cannot be used: it has no `inputSchema`",
            ),
            (
                r#"{"name":"list","inputSchema":[7]}"#,
                "the tool `list` cannot be used: its `inputSchema` is not an object",
            ),
            (
                r#"{"inputSchema":{}}"#,
                "entry 3 of its list of tools cannot be used: it has no `name`",
            ),
            ("7", "entry 3 of its list of tools cannot be used: it has no `name`"),
        ] {
            let raw = Payload::parse(raw.to_owned()).unwrap();
            assert_eq!(UnreadableTool::new(2, &raw).to_string(), expected);
        }
    }
}
