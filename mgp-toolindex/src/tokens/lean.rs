//! What a model reads of a tool: name, description and parameters (MGP §16.5).
//!
//! Applies to: both.

use std::borrow::Cow;
use std::fmt::Write as _;

use mgp_types::{Payload, RawObject};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The members of a definition that reach a model.
#[derive(Deserialize)]
pub(crate) struct Members<'a> {
    /// As JSON.
    #[serde(skip)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) description: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "inputSchema")]
    input_schema: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "name")]
    raw_name: Option<&'a RawValue>,
}

impl Members<'_> {
    /// The schema as it stands.
    pub(crate) fn schema_text(&self) -> &str {
        self.input_schema.map_or("{}", RawValue::get)
    }

    /// The schema without spaces.
    pub(crate) fn schema(&self) -> RawObject {
        let mut text = String::with_capacity(self.schema_text().len());
        compact(self.schema_text(), &mut text);
        RawObject::try_from(Payload::from_trusted(text)).unwrap_or_default()
    }
}

/// Reads the members of a definition; of what is no definition there are none.
pub(crate) fn members(definition: &str) -> Members<'_> {
    let read = serde_json::from_str(definition);
    let mut members = read.unwrap_or(Members {
        name: Cow::Borrowed(""),
        description: None,
        input_schema: None,
        raw_name: None,
    });
    members.name = Cow::Borrowed(members.raw_name.map_or("\"\"", RawValue::get));
    members
}

/// The compact JSON of name, description and `inputSchema`, in this order.
///
/// Hosts show a model these three; titles, icons, hints and schemas of results cost it nothing.
pub(crate) fn lean(definition: &str) -> String {
    let members = members(definition);
    let schema = members.schema();
    lean_of(&members.name, members.description.as_deref(), schema.as_payload().as_str())
}

/// The same from its parts; the name is JSON.
pub(crate) fn lean_of(name: &str, description: Option<&str>, schema: &str) -> String {
    let length = name.len() + description.map_or(0, str::len) + schema.len() + 48;
    let mut out = String::with_capacity(length);
    let _ = write!(out, "{{\"name\":{name}");
    if let Some(description) = description {
        out.push_str(",\"description\":");
        out.push_str(&serde_json::to_string(description).unwrap_or_default());
    }
    let _ = write!(out, ",\"inputSchema\":{schema}}}");
    out
}

/// Appends JSON without the space between its tokens.
fn compact(json: &str, out: &mut String) {
    let (mut in_text, mut escaped, mut from) = (false, false, 0);
    for (at, byte) in json.bytes().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
        } else if byte == b'"' {
            in_text = true;
        } else if byte.is_ascii_whitespace() {
            out.push_str(&json[from..at]);
            from = at + 1;
        }
    }
    out.push_str(&json[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(definition: &str, expected: &str) {
        assert_eq!(lean(definition), expected);
    }

    #[test]
    fn only_what_a_model_reads_is_left() {
        check(
            r#"{"title":"T","inputSchema":{ "type" : "object", "d": "a b\" c" },"name":"n","icons":[]}"#,
            r#"{"name":"n","inputSchema":{"type":"object","d":"a b\" c"}}"#,
        );
        check(
            r#"{"name":"n\u0041","description":"x  \u0041\n","inputSchema":{}}"#,
            r#"{"name":"n\u0041","description":"x  A\n","inputSchema":{}}"#,
        );
        check(r#"{"name":"n"}"#, r#"{"name":"n","inputSchema":{}}"#);
        check("no json", r#"{"name":"","inputSchema":{}}"#);
    }
}
