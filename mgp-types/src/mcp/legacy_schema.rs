//! Converts output schemas to the form that legacy peers accept.
//!
//! Before 2026-07-28, an output schema had to be of type `object` at its root, so hosts may refuse a list with other
//! schemas. Libraries generate a reference at the root for types that contain themselves, e.g. `{"$ref":"#/$defs/A"}`.

use serde_json::{Map, Value, json};

use crate::record::{Object, RawObject};

type Schema = Map<String, Value>;

/// The maximum number of references that are followed from the root of a schema. It also ends a cycle of references.
const MAX_REFERENCES: usize = 16;

/// The members that do not restrict the values of a schema. If the root has only such members, the members of the
/// schema to which it refers can be copied into it without a change of the meaning.
const ANNOTATIONS: [&str; 12] = [
    "$comment",
    "$defs",
    "$ref",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// The members that change how references are resolved in a schema or in its copy. A schema with one of them is not
/// converted.
const BASES: [&str; 4] =
    [r#""$anchor""#, r#""$dynamicAnchor""#, r#""$id""#, r#""$recursiveAnchor""#];

/// Returns whether a schema is of type `object`.
#[must_use]
pub fn is_of_objects(schema: &RawObject) -> bool {
    let members = schema.get::<Object>().ok();
    let kind = members.and_then(|members| members.decode::<String>("type").ok().flatten());
    kind.as_deref() == Some("object")
}

/// Returns the form of an output schema for legacy peers; `None` if the schema might describe values that are not
/// objects.
///
/// ```
/// use mgp_types::mcp::legacy_output_schema;
/// use mgp_types::{Payload, RawObject};
///
/// let schema = |text: &str| RawObject::try_from(Payload::parse(text.to_owned()).unwrap()).unwrap();
/// let root = r##"{"$defs":{"a":{"type":"object"}},"$ref":"#/$defs/a"}"##;
/// let listed = legacy_output_schema(schema(root)).unwrap();
/// assert_eq!(listed.as_payload().as_str(), r#"{"$defs":{"a":{"type":"object"}},"type":"object"}"#);
/// assert!(legacy_output_schema(schema(r#"{"type":"array"}"#)).is_none());
/// ```
#[must_use]
pub fn legacy_output_schema(schema: RawObject) -> Option<RawObject> {
    if is_of_objects(&schema) {
        return Some(schema);
    }
    let text = schema.as_payload().as_str();
    if !text.contains(r#""$ref""#) || BASES.iter().any(|base| text.contains(base)) {
        return None;
    }
    let root = schema.get::<Value>().ok()?;
    RawObject::of(&follow(&root)?).ok()
}

/// Follows the references at the root of a schema, and returns an equivalent schema of type `object`; `None` if they do
/// not lead to such a schema. Copies the members of the referenced schema into the root if possible, because many
/// clients read the properties only there.
fn follow(root: &Value) -> Option<Schema> {
    let mut from = root.as_object()?;
    let (mut copied, mut can_copy) = (from.clone(), true);
    copied.remove("$ref");
    for _ in 0..MAX_REFERENCES {
        let Some(reference) = from.get("$ref") else { break };
        can_copy &= from.keys().all(|name| ANNOTATIONS.contains(&name.as_str()));
        let pointer = reference.as_str()?.strip_prefix('#').filter(|to| !to.contains('%'))?;
        from = root.pointer(pointer)?.as_object()?;
        for (name, member) in from.iter().filter(|(name, _)| *name != "$ref") {
            copied.entry(name.clone()).or_insert_with(|| member.clone());
        }
    }
    let is_object = from.get("type").and_then(Value::as_str) == Some("object");
    if !is_object || from.contains_key("$ref") {
        return None;
    }
    if can_copy {
        return Some(copied);
    }
    let mut typed = root.as_object()?.clone();
    typed.insert("type".to_owned(), json!("object"));
    Some(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(schema: &Value) -> Option<Value> {
        legacy_output_schema(RawObject::of(schema).unwrap()).map(|listed| listed.get().unwrap())
    }

    #[test]
    fn a_reference_to_a_schema_of_objects_is_listed_with_the_members_of_that_schema() {
        let node = json!({
            "type": "object", "title": "Node", "required": ["kids"],
            "properties": { "kids": { "type": "array", "items": { "$ref": "#/$defs/a~1b" } } },
        });
        let with = |more: Value| {
            let mut all = node.as_object().unwrap().clone();
            all.append(&mut more.as_object().unwrap().clone());
            Value::Object(all)
        };
        let definitions = json!({ "a/b": node, "c": { "$ref": "#/$defs/a~1b" } });
        let schema = json!({ "$ref": "#/$defs/a~1b", "$defs": definitions });
        assert_eq!(listed(&schema), Some(with(json!({ "$defs": definitions }))));
        // A title of the root must be kept, and references must be followed through several schemas.
        let schema = json!({ "$ref": "#/$defs/c", "$defs": definitions, "title": "Tree" });
        assert_eq!(listed(&schema), Some(with(json!({ "$defs": definitions, "title": "Tree" }))));
        // If the root has a restriction in addition to the reference, both the restriction and the reference apply.
        let mut schema = json!({ "$ref": "#/$defs/c", "$defs": definitions, "maxProperties": 3 });
        let seen = listed(&schema);
        schema["type"] = json!("object");
        assert_eq!(seen, Some(schema));
    }

    #[test]
    fn a_schema_that_may_describe_other_values_is_left_out() {
        let root = |definition: Value| json!({ "$ref": "#/$defs/a", "$defs": { "a": definition } });
        for schema in [
            json!({ "type": "array" }),
            json!({ "anyOf": [{ "type": "object" }] }),
            json!({ "$ref": "#" }),
            json!({ "$ref": "#/$defs/b", "$defs": { "a": { "type": "object" } } }),
            json!({ "$ref": "https://other.example/a" }),
            json!({ "$ref": 5 }),
            root(json!(true)),
            root(json!({ "type": "array" })),
            root(json!({ "type": ["object", "null"] })),
            root(json!({ "$ref": "#/$defs/a", "type": "object" })),
            root(json!({ "type": "object", "$id": "https://other.example/a" })),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "object" } }, "$id": "x" }),
        ] {
            assert_eq!(listed(&schema), None, "{schema}");
        }
        let schema = json!({ "type": "object", "$id": "x", "anyOf": [{ "$ref": "#/$defs/a" }] });
        assert_eq!(listed(&schema), Some(schema), "a schema of type `object` stays as it is");
    }
}
