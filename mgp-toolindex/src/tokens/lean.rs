//! What a model reads of a tool: name, description and parameters (MGP §16.5).
//!
//! Applies to: both.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The members of a definition that reach a model.
#[derive(Deserialize)]
pub(crate) struct Members<'a> {
    #[serde(borrow)]
    pub(crate) name: &'a RawValue,
    #[serde(borrow, default)]
    pub(crate) description: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "inputSchema")]
    pub(crate) input_schema: Option<&'a RawValue>,
}

/// The compact JSON of name, description and `inputSchema`, in this order.
///
/// Hosts show a model these three; titles, icons, hints and schemas of results cost it nothing.
/// What is no definition comes back as it is.
pub(crate) fn lean(definition: &str) -> String {
    let Ok(members) = serde_json::from_str::<Members<'_>>(definition) else {
        return definition.to_owned();
    };
    let mut out = String::with_capacity(definition.len());
    let _ = write!(out, "{{\"name\":{}", members.name.get());
    if let Some(description) = members.description {
        let _ = write!(out, ",\"description\":{}", description.get());
    }
    let schema = members.input_schema.map_or("{}", RawValue::get);
    out.push_str(",\"inputSchema\":");
    compact(schema, &mut out);
    out.push('}');
    out
}

/// Appends JSON without the space between its tokens.
pub(crate) fn compact(json: &str, out: &mut String) {
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
            r#"{"name":"n","description":"x  y","inputSchema":{}}"#,
            r#"{"name":"n","description":"x  y","inputSchema":{}}"#,
        );
        check(r#"{"name":"n"}"#, r#"{"name":"n","inputSchema":{}}"#);
        check("no json", "no json");
    }
}
