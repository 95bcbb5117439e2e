//! Generates JSON Schemas (2020-12) of arguments and results. [`SchemaStyle`] determines whether the types of fields
//! are described in place or under `$defs`.

use std::borrow::Cow;

use mgp_types::{Payload, RawObject};
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::Value;

/// The way in which a schema describes the types of fields: in place or under `$defs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaStyle {
    /// The schema of a field's type is written wherever the type is used, because several model APIs reject `$defs`.
    /// Recursive types still use `$defs`.
    #[default]
    Inlined,
    /// The schema of a field's type is written once, in `$defs` at the root; this is shorter if a type is used several
    /// times.
    Hoisted,
}

pub(super) fn arguments_of<T: JsonSchema>(style: SchemaStyle) -> RawObject {
    let mut schema = schema_of::<T>(style, Contract::Deserialize);
    let object = schema.ensure_object();
    let permits_anything = object.is_empty();
    // The schema of an enum has no `type` at its root, and the schema of an `Option` permits null as well. Arguments
    // are always an object, so set this type.
    let permits_objects = object.get("type").is_none_or(|kind| {
        kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
    });
    if permits_objects {
        object.insert("type".to_owned(), "object".into());
    }
    // OpenAI refuses all tools of a host if the schema of one tool has no `properties`, so add an empty object.
    if object.get("type").is_some_and(|kind| kind == "object") {
        object.entry("properties").or_insert_with(|| serde_json::Map::new().into());
    }
    if permits_anything {
        // Permit further properties. Otherwise a kernel would conclude from the empty list of properties that the tool
        // ignores all arguments.
        object.insert("additionalProperties".to_owned(), true.into());
    }
    RawObject::of(&schema).unwrap_or_else(|_| any_object())
}

/// Returns the schema of a tool's structured content, or `None` if the schema allows any value. The schema describes
/// the type as it is serialized: a member that may be left out is not required.
pub(super) fn result_of<T: JsonSchema>(style: SchemaStyle) -> Option<RawObject> {
    let mut schema = schema_of::<T>(style, Contract::Serialize);
    // The schemas `true` and `{}` allow any value, so return no schema.
    if schema.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    if schema.get("type").is_none() && has_only_objects(&schema) {
        schema.insert("type".to_owned(), "object".into());
    }
    RawObject::of(&schema).ok()
}

/// Returns whether a schema lists alternatives, all of which are objects, as that of a tagged enum does.
fn has_only_objects(schema: &Schema) -> bool {
    let is_object = |one: &Value| one.get("type").is_some_and(|kind| kind == "object");
    ["oneOf", "anyOf"].into_iter().any(|keyword| {
        let alternatives = schema.get(keyword).and_then(Value::as_array);
        alternatives.is_some_and(|all| !all.is_empty() && all.iter().all(is_object))
    })
}

/// Returns whether a schema describes an object; callers of revisions before 2026-07-28 accept no
/// other structured content.
pub(super) fn is_of_objects(schema: &RawObject) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
    }
    let kind: Result<Kind<'_>, _> = serde_json::from_str(schema.as_payload().as_str());
    kind.is_ok_and(|schema| schema.kind.as_deref() == Some("object"))
}

/// Returns the `type` of a schema as JSON text; `None` if it has none.
pub(super) fn root_type(schema: &RawObject) -> Option<String> {
    let schema: Value = schema.get().ok()?;
    schema.get("type").map(ToString::to_string)
}

/// Returns the schema of the arguments of a tool without arguments; it accepts any object.
pub(super) fn any_object() -> RawObject {
    let schema = Payload::from_trusted(r#"{"type":"object","properties":{}}"#);
    RawObject::try_from(schema).unwrap_or_default()
}

fn schema_of<T: JsonSchema>(style: SchemaStyle, contract: Contract) -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract;
        settings.inline_subschemas = style == SchemaStyle::Inlined;
        settings.meta_schema = None;
    });
    let settings = settings.with_transform(Portable);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema
}

/// The transform that removes from a schema what not all clients accept.
///
/// - Boolean schemas, such as that of `serde_json::Value`, are replaced by equivalent objects: the TypeScript SDK
///   refuses all tools of a server if the schema of one property is a boolean.
/// - The formats that `schemars` gives to numbers and IP addresses are removed: JSON Schema does not define them, so
///   validators refuse such a schema, or print a warning for each use.
#[derive(Clone, Copy, Debug)]
struct Portable;

impl Transform for Portable {
    fn transform(&mut self, schema: &mut Schema) {
        // All clients know the boolean values of these keywords.
        let kept = ["additionalProperties", "unevaluatedProperties"].map(|name| {
            let value = schema.get(name).filter(|value| value.is_boolean()).cloned();
            (name, value)
        });
        schema.ensure_object();
        let format = schema.get("format").and_then(Value::as_str);
        if format.is_some_and(is_undefined_format) {
            schema.remove("format");
        }
        transform_subschemas(self, schema);
        // `transform_subschemas` leaves this keyword out.
        let others = schema.get_mut("unevaluatedProperties");
        if let Some(others) = others.and_then(|others| <&mut Schema>::try_from(others).ok()) {
            self.transform(others);
        }
        for (name, value) in kept {
            if let Some(value) = value {
                schema.insert(name.to_owned(), value);
            }
        }
    }
}

/// Returns whether `schemars` uses a format that JSON Schema does not define, e.g. `uint32`.
fn is_undefined_format(format: &str) -> bool {
    let bits = format.strip_prefix('u').unwrap_or(format).strip_prefix("int");
    let is_integer = bits.is_some_and(|bits| bits.bytes().all(|digit| digit.is_ascii_digit()));
    is_integer || ["double", "float", "ip"].contains(&format)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Route {
        from: Place,
        to: Place,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Place {
        lat: f64,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Tree {
        name: String,
        children: Vec<Self>,
    }

    #[derive(JsonSchema)]
    #[serde(tag = "kind")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Shape {
        Circle { radius: f64 },
        Square { side: f64 },
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Either {
        Nothing,
        Some(u8),
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Loose {
        any: Value,
        count: usize,
        size: Option<u64>,
        ratio: f64,
        host: std::net::IpAddr,
        #[schemars(url)]
        page: String,
        many: Vec<Value>,
        #[serde(flatten)]
        rest: HashMap<String, Value>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Mixed {
        #[serde(flatten)]
        shape: Shape,
        #[serde(flatten)]
        rest: HashMap<String, u64>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Report {
        lines: u32,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Renamed {
        #[serde(rename(serialize = "b"))]
        a: u32,
    }

    fn text(schema: &RawObject) -> &str {
        schema.as_payload().as_str()
    }

    #[test]
    fn shared_types_are_written_in_place_or_once_at_the_root() {
        let inlined = arguments_of::<Route>(SchemaStyle::Inlined);
        assert!(!text(&inlined).contains("$defs") && !text(&inlined).contains("$ref"));
        assert_eq!(text(&inlined).matches("\"lat\":{").count(), 2, "{inlined:?}");
        let hoisted = arguments_of::<Route>(SchemaStyle::Hoisted);
        assert_eq!(text(&hoisted).matches("\"lat\":{").count(), 1);
        assert!(text(&hoisted).contains(r#""$defs":{"Place":"#), "{hoisted:?}");
    }

    #[test]
    fn a_type_that_contains_itself_ends() {
        for style in [SchemaStyle::Inlined, SchemaStyle::Hoisted] {
            let schema = arguments_of::<Tree>(style);
            assert!(text(&schema).len() < 500, "{schema:?}");
            assert!(text(&schema).contains("\"$ref\""), "{schema:?}");
            assert!(result_of::<Tree>(style).is_some());
        }
    }

    #[test]
    fn arguments_are_objects_and_results_may_be_anything() {
        let shape: Value = arguments_of::<Shape>(SchemaStyle::Inlined).get().unwrap();
        assert_eq!(shape["type"], "object");
        assert_eq!(shape["oneOf"].as_array().map(Vec::len), Some(2));
        assert!(shape["properties"].is_object(), "{shape}");
        let map = arguments_of::<HashMap<String, u8>>(SchemaStyle::Inlined);
        for schema in [map, any_object()] {
            let schema: Value = schema.get().unwrap();
            assert!(schema["properties"].is_object(), "{schema}");
        }
        let any: Value = arguments_of::<Value>(SchemaStyle::Inlined).get().unwrap();
        let expected =
            serde_json::json!({ "type": "object", "properties": {}, "additionalProperties": true });
        assert_eq!(any, expected);
        for style in [SchemaStyle::Inlined, SchemaStyle::Hoisted] {
            assert!(is_of_objects(&arguments_of::<Option<Place>>(style)));
            assert!(!is_of_objects(&arguments_of::<Vec<Place>>(style)));
        }
        let results = |schema: Option<RawObject>| schema.map(|schema| is_of_objects(&schema));
        assert_eq!(results(result_of::<Vec<u8>>(SchemaStyle::Inlined)), Some(false));
        assert_eq!(results(result_of::<Shape>(SchemaStyle::Inlined)), Some(true));
        assert_eq!(results(result_of::<Either>(SchemaStyle::Inlined)), Some(false));
        assert_eq!(results(result_of::<Value>(SchemaStyle::Inlined)), None);
        assert_eq!(results(result_of::<Place>(SchemaStyle::Inlined)), Some(true));
        let nullable =
            Some(RawObject::of(&serde_json::json!({ "type": ["object", "null"] })).unwrap());
        assert_eq!(results(nullable), Some(false));
    }

    #[test]
    fn schemas_have_only_what_all_clients_accept() {
        for style in [SchemaStyle::Inlined, SchemaStyle::Hoisted] {
            for schema in [arguments_of::<Loose>(style), result_of::<Loose>(style).unwrap()] {
                let schema: Value = schema.get().unwrap();
                let any = serde_json::json!({});
                assert_eq!(schema["properties"]["any"], any, "{schema}");
                assert_eq!(schema["properties"]["many"]["items"], any, "{schema}");
                assert_eq!(schema["additionalProperties"], true, "{schema}");
                assert_eq!(schema["properties"]["page"]["format"], "uri", "{schema}");
                assert_eq!(schema.to_string().matches("\"format\"").count(), 1, "{schema}");
            }
            let mixed: Value = arguments_of::<Mixed>(style).get().unwrap();
            assert_eq!(mixed["unevaluatedProperties"]["type"], "integer", "{mixed}");
            assert!(!mixed.to_string().contains("\"format\""), "{mixed}");
        }
    }

    #[test]
    fn results_are_described_as_they_are_serialized() {
        let value = |schema: &RawObject| schema.get::<Value>().unwrap();
        for style in [SchemaStyle::Inlined, SchemaStyle::Hoisted] {
            let required = |schema: &RawObject| value(schema)["required"].clone();
            assert_eq!(
                required(&arguments_of::<Report>(style)),
                serde_json::json!(["lines", "warnings"])
            );
            assert_eq!(
                required(&result_of::<Report>(style).unwrap()),
                serde_json::json!(["lines"])
            );
            let members = |schema: &RawObject| value(schema)["properties"].clone();
            assert!(members(&arguments_of::<Renamed>(style))["a"].is_object());
            assert!(members(&result_of::<Renamed>(style).unwrap())["b"].is_object());
        }
    }
}
