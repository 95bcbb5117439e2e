//! The part of a definition that a model reads: name, description and parameters (MGP §16.5).

use std::borrow::Cow;
use std::fmt::Write as _;

use mgp_types::{Payload, RawObject};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::compact;

#[derive(Deserialize)]
pub(crate) struct Members<'a> {
    /// The name as a JSON string, with quotes and escapes.
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
    pub(crate) fn schema_text(&self) -> &str {
        self.input_schema.map_or("{}", RawValue::get)
    }

    /// Returns the schema without white space.
    pub(crate) fn schema(&self) -> RawObject {
        let (text, _) = compact(self.schema_text());
        RawObject::try_from(Payload::from_trusted(text.into_owned())).unwrap_or_default()
    }
}

/// Parses a definition; if it is not valid, the result has no members.
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

/// Returns the compact JSON of name, description and `inputSchema`, in this order.
///
/// Hosts pass only these three members to a model; titles, icons, hints and output schemas need no tokens.
pub(crate) fn lean(definition: &str) -> String {
    let members = members(definition);
    let schema = members.schema();
    lean_of(&members.name, members.description.as_deref(), schema.as_payload().as_str())
}

/// Returns the same compact JSON as [`lean`], from its three members; `name` and `schema` must be JSON.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(definition: &str, expected: &str) {
        assert_eq!(lean(definition), expected);
    }

    #[test]
    fn only_the_members_that_a_model_reads_are_left() {
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
