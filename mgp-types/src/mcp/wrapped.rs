//! Comparison of tool definitions that ignores the difference between the legacy and the modern form of an output
//! schema.
//!
//! Before 2026-07-28, an output schema had to describe an object. Some SDKs that serve both eras, e.g. the TypeScript
//! SDK, wrap any other schema for legacy peers: they list the schema of an object with the member `result`. Other SDKs
//! follow a reference at the root of the schema (see [`legacy_output_schema`]).

use serde_json::Value;

use super::legacy_schema::legacy_output_schema;
use crate::record::RawObject;
use crate::wire::Payload;

/// The JSON Pointer of the inner schema in the outer schema. After the wrapping, references of the inner schema to its
/// own parts begin with this pointer.
const INNER: &str = "#/properties/result";

/// Returns whether two definitions of a tool in canonical JSON are equal, except that the output schema of one
/// definition is the legacy form of the other's: wrapped in the schema of an object, or with the reference at its root
/// followed.
///
/// ```
/// use mgp_types::Payload;
/// use mgp_types::mcp::differ_only_in_wrapping;
///
/// let modern = Payload::parse(r#"{"name":"t","outputSchema":{"type":"string"}}"#).unwrap();
/// let legacy = r#"{"properties":{"result":{"type":"string"}},"required":["result"],"type":"object"}"#;
/// let legacy = Payload::parse(format!(r#"{{"name":"t","outputSchema":{legacy}}}"#)).unwrap();
/// assert!(differ_only_in_wrapping(&modern, &legacy));
/// ```
#[must_use]
pub fn differ_only_in_wrapping(one: &Payload, other: &Payload) -> bool {
    // Most changed definitions have no output schema in a legacy form, so they need not be parsed.
    let may_differ = |definition: &Payload| {
        let text = definition.as_str();
        text.contains(r#""required":["result"]"#) || text.contains(r#""$ref""#)
    };
    if !may_differ(one) && !may_differ(other) {
        return false;
    }
    let (Ok(mut one), Ok(mut other)) = (one.get::<Value>(), other.get::<Value>()) else {
        return false;
    };
    match (take_output_schema(&mut one), take_output_schema(&mut other)) {
        (Some(left), Some(right)) => {
            one == other && (is_legacy_form(&left, &right) || is_legacy_form(&right, &left))
        }
        _ => false,
    }
}

/// Returns whether `legacy` is one of the forms that the schema `modern` has in the legacy era.
fn is_legacy_form(legacy: &Value, modern: &Value) -> bool {
    let followed = || legacy_output_schema(RawObject::of(modern).ok()?)?.get::<Value>().ok();
    wraps(legacy, modern) || modern.get("$ref").is_some() && followed().as_ref() == Some(legacy)
}

fn take_output_schema(definition: &mut Value) -> Option<Value> {
    definition.as_object_mut()?.remove("outputSchema")
}

/// Returns whether `outer` is the schema of an object with the only member `result`, whose schema is `inner`.
fn wraps(outer: &Value, inner: &Value) -> bool {
    let describes_object =
        |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("object");
    let is_expected = |(name, member): (&String, &Value)| match name.as_str() {
        "type" => true,
        "$schema" => inner.get("$schema") == Some(member),
        "required" => member.as_array().is_some_and(|names| *names == ["result"]),
        "properties" => member.as_object().is_some_and(|properties| {
            properties.len() == 1
                && properties.get("result").is_some_and(|result| is_moved(inner, result))
        }),
        _ => false,
    };
    describes_object(outer)
        && !describes_object(inner)
        && outer.get("properties").is_some()
        && outer.as_object().is_some_and(|members| members.iter().all(is_expected))
}

/// Returns whether `moved` is equal to `schema`, except that the references of the schema to its own parts begin with
/// [`INNER`].
fn is_moved(schema: &Value, moved: &Value) -> bool {
    match (schema, moved) {
        (Value::Object(schema), Value::Object(moved)) => {
            let is_member_moved = |(name, member): (&String, &Value)| {
                moved.get(name).is_some_and(|other| {
                    is_moved(member, other) || is_moved_reference(name, member, other)
                })
            };
            schema.len() == moved.len() && schema.iter().all(is_member_moved)
        }
        (Value::Array(schema), Value::Array(moved)) => {
            let mut pairs = schema.iter().zip(moved);
            schema.len() == moved.len() && pairs.all(|(one, other)| is_moved(one, other))
        }
        _ => schema == moved,
    }
}

fn is_moved_reference(name: &str, reference: &Value, moved: &Value) -> bool {
    let (Some(reference), Some(moved)) = (reference.as_str(), moved.as_str()) else { return false };
    let (before, after) = (reference.strip_prefix('#'), moved.strip_prefix(INNER));
    matches!(name, "$ref" | "$dynamicRef") && before.is_some() && before == after
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether two definitions of a tool count as equal if their output schemas are `one` and `other`.
    fn is_same(one: &str, other: &str) -> bool {
        let tool = |schema: &str| {
            Payload::parse(format!(r#"{{"name":"read","outputSchema":{schema}}}"#)).unwrap()
        };
        let (one, other) = (tool(one), tool(other));
        let is_same = differ_only_in_wrapping(&one, &other);
        assert_eq!(differ_only_in_wrapping(&other, &one), is_same);
        is_same
    }

    /// Returns the schema of an object with the member `result`; `more` contains further members of this schema.
    fn object(result: &str, more: &str) -> String {
        format!(
            r#"{{{more}"properties":{{"result":{result}}},"required":["result"],"type":"object"}}"#
        )
    }

    #[test]
    fn the_form_of_the_legacy_era_is_no_change() {
        for schema in [
            r#"{"items":{"type":"number"},"type":"array"}"#,
            r#"{"type":"string"}"#,
            r#"{"anyOf":[{"type":"object"},{"type":"null"}]}"#,
        ] {
            assert!(is_same(schema, &object(schema, "")), "{schema}");
        }
        let recursive = r##"{"items":{"$ref":"#"},"prefixItems":[{"$ref":"#/$defs/a"}]}"##;
        let moved = recursive.replace('#', INNER);
        assert!(is_same(recursive, &object(&moved, "")));
        let dialect = r#"{"$schema":"a","type":"array"}"#;
        assert!(is_same(dialect, &object(dialect, r#""$schema":"a","#)));
    }

    #[test]
    fn a_followed_reference_is_no_change() {
        let node = r##""properties":{"kid":{"$ref":"#/$defs/a"}},"type":"object""##;
        let modern = format!(r##"{{"$defs":{{"a":{{{node}}}}},"$ref":"#/$defs/a"}}"##);
        let legacy = |rest: &str| {
            let root = modern.strip_suffix(r##""$ref":"#/$defs/a"}"##).unwrap();
            format!("{root}{rest}}}")
        };
        assert!(is_same(&modern, &legacy(node)));
        for other in [
            legacy(&format!(r#"{node},"description":"x""#)),
            legacy(r#""type":"object""#),
            legacy(node).replacen("kid", "child", 1),
        ] {
            assert!(!is_same(&modern, &other), "{other}");
        }
        let values = modern.replace("object", "array");
        assert!(!is_same(&values, &legacy(node).replace("object", "array")));
    }

    #[test]
    fn every_other_difference_is_a_change() {
        let array = r#"{"type":"array"}"#;
        for other in [
            array.to_owned(),
            object(r#"{"type":"string"}"#, ""),
            object(r#"{"description":"x","type":"array"}"#, ""),
            object(array, r#""description":"x","#),
            object(array, r#""$schema":"x","#),
            object(array, "").replace("properties", "patternProperties"),
            object(array, "").replace(r#"["result"]"#, r#"["result","x"]"#),
            object(&format!(r#"{array},"x":{array}"#), ""),
        ] {
            assert!(!is_same(array, &other), "{other}");
        }
        let nested = object(array, "");
        assert!(!is_same(&nested, &object(&nested, "")), "it is an object in both eras");
        let named = |name: &str| {
            let schema = object(array, "");
            Payload::parse(format!(r#"{{"name":"{name}","outputSchema":{schema}}}"#)).unwrap()
        };
        assert!(!differ_only_in_wrapping(&named("a"), &named("b")));
    }
}
