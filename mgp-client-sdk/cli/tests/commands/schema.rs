//! Checks JSON output against the schemas in `docs/schema/cli`; supports only the keywords that these schemas use.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Checks a document against the schema `docs/schema/cli/NAME.json`.
#[track_caller]
pub(crate) fn check(name: &str, value: &Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/cli");
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let schema = serde_json::from_str(&text).unwrap();
    if let Err(why) = fits(&schema, &schema, value, "") {
        panic!("{name}{why}: {value}");
    }
}

fn fits(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Some(schema) = schema.as_object() else {
        return if schema == &Value::Bool(false) {
            Err(format!("{place}: nothing fits"))
        } else {
            Ok(())
        };
    };
    let wrong = |what: &str| Err(format!("{place}: not {what}"));
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference}"));
        fits(root, target, value, place)?;
    }
    for (word, needed) in [("anyOf", 1), ("oneOf", 1)] {
        if let Some(all) = schema.get(word).and_then(Value::as_array) {
            let fitting = all.iter().filter(|one| fits(root, one, value, place).is_ok()).count();
            if fitting < needed {
                return wrong(word);
            }
        }
    }
    for one in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        fits(root, one, value, place)?;
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong("the constant");
    }
    if schema.get("enum").and_then(Value::as_array).is_some_and(|all| !all.contains(value)) {
        return wrong("one of the words");
    }
    if let Some(kind) = schema.get("type") {
        let kinds: Vec<&str> = match kind {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        let is = |kind: &str| match kind {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            _ => value.is_object(),
        };
        if !kinds.iter().any(|kind| is(kind)) {
            return wrong(&kinds.join(" or "));
        }
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(items) = schema.get("items") {
            fits(root, items, item, &format!("{place}/{at}"))?;
        }
    }
    let Some(members) = value.as_object() else { return Ok(()) };
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !members.contains_key(name.as_str().unwrap()) {
            return wrong(&format!("without {name}"));
        }
    }
    for (name, value) in members {
        let known = schema.get("properties").and_then(|known| known.get(name));
        if let Some(known) = known.or_else(|| schema.get("additionalProperties")) {
            fits(root, known, value, &format!("{place}/{name}"))?;
        } else if schema.contains_key("properties")
            && !schema.contains_key("$ref")
            && place.is_empty()
        {
            return Err(format!("{place}: `{name}` is not in the schema"));
        }
    }
    Ok(())
}

#[test]
fn documents_that_do_not_fit_are_refused() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"],
        "properties": { "a": { "type": "array", "items": { "enum": ["x"] } } },
    });
    let fits =
        |text: &str| fits(&schema, &schema, &serde_json::from_str(text).unwrap(), "").is_ok();
    assert!(fits(r#"{"a": ["x"]}"#));
    for text in ["1", "{}", r#"{"a": 1}"#, r#"{"a": ["y"]}"#, r#"{"a": [], "b": 1}"#] {
        assert!(!fits(text), "{text}");
    }
}
