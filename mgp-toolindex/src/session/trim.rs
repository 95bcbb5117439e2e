//! Reduces the definition of a tool to a maximum number of tokens, so that the tool can still be called (MGP §16.8).

use std::borrow::Cow;

use mgp_types::RawObject;
use mgp_types::{Payload, RpcError};
use serde_json::{Map, Value};

use crate::catalog::IndexedTool;
use crate::tokens::{lean, lean_of, max_tokens_of};

/// The parts of a definition that a model reads, possibly reduced.
#[derive(Clone, Debug)]
pub(crate) struct Fitted {
    pub(crate) description: Option<String>,
    pub(crate) schema: RawObject,
    /// The number of tokens of name, description and schema: the exact count, or an upper bound.
    pub(crate) tokens: u32,
    pub(crate) is_trimmed: bool,
}

struct Step {
    /// The maximum length, in bytes, of the tool's description after the step.
    description: usize,
    /// The maximum length, in bytes, of a parameter's description after the step.
    text: usize,
    /// The maximum nesting depth of the schemas that the step keeps.
    depth: usize,
    /// The maximum number of elements of the enumerations and lists of alternatives (such as `anyOf`) that the step
    /// keeps.
    words: usize,
    /// The members of a schema that the step keeps.
    members: &'static [&'static str],
    properties: Properties,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Properties {
    All,
    Required,
    None,
}

/// The maximum size of a schema that can be reduced, in bytes: three times the longest schema found in a real tool.
const MAX_REDUCED_BYTES: usize = 128 << 10;

/// Members of a schema that constrain a value.
#[rustfmt::skip]
const CONSTRAINTS: &[&str] = &[
    "type", "enum", "const", "format", "pattern", "default", "minimum", "maximum", "minLength",
    "maxLength", "minItems", "maxItems", "additionalProperties", "$ref",
];
/// Members of a schema that a model needs, because otherwise it would have to guess the arguments.
const ESSENTIALS: &[&str] = &["type", "enum", "const"];

/// The reduction steps, from the mildest to the strongest. The strongest step leaves only the name and a sentence.
const STEPS: [Step; 6] = [
    Step {
        description: 1000,
        text: 160,
        depth: 6,
        words: 40,
        members: CONSTRAINTS,
        properties: Properties::All,
    },
    Step {
        description: 500,
        text: 80,
        depth: 4,
        words: 20,
        members: CONSTRAINTS,
        properties: Properties::All,
    },
    Step {
        description: 300,
        text: 40,
        depth: 2,
        words: 12,
        members: ESSENTIALS,
        properties: Properties::All,
    },
    Step {
        description: 160,
        text: 0,
        depth: 1,
        words: 6,
        members: ESSENTIALS,
        properties: Properties::All,
    },
    Step {
        description: 120,
        text: 0,
        depth: 1,
        words: 3,
        members: ESSENTIALS,
        properties: Properties::Required,
    },
    Step {
        description: 80,
        text: 0,
        depth: 0,
        words: 0,
        members: &["type"],
        properties: Properties::None,
    },
];

/// Fits a tool into `max` tokens by the mildest sufficient step; returns `None` if even the strongest step is not
/// sufficient.
pub(crate) fn fit(tool: &IndexedTool, max: u32) -> Option<Fitted> {
    fit_definition(tool.definition(), tool.tokens(), max)
}

fn fit_definition(definition: &str, tokens: u32, max: u32) -> Option<Fitted> {
    let members = lean::members(definition);
    let description = || members.description.as_deref();
    if tokens <= max {
        return Some(Fitted {
            description: description().map(str::to_owned),
            schema: members.schema(),
            tokens,
            is_trimmed: false,
        });
    }
    // Replace a schema that is nested too deeply or too long by a schema that accepts any object.
    let text = Some(members.schema_text()).filter(|text| text.len() <= MAX_REDUCED_BYTES);
    let schema = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    STEPS.iter().find_map(|step| {
        let description = description().map(|text| shorten(text, step.description).into_owned());
        let schema = without_dangling(reduce(&schema, step, step.depth));
        let schema = object(&schema).ok()?;
        let text = lean_of(&members.name, description.as_deref(), schema.as_payload().as_str());
        let tokens = max_tokens_of(&text);
        (tokens <= max).then_some(Fitted { description, schema, tokens, is_trimmed: true })
    })
}

/// Returns a valid argument schema; a schema that is empty or not an object becomes `{"type":"object"}`.
fn object(schema: &Value) -> Result<RawObject, RpcError> {
    match schema {
        Value::Object(members) if !members.is_empty() => RawObject::of(schema),
        _ => RawObject::try_from(Payload::from_trusted(r#"{"type":"object"}"#)),
    }
}

/// Reduces a schema to a schema that accepts at least the same values. The recursion is bounded, because the JSON
/// parser limits the nesting.
fn reduce(schema: &Value, step: &Step, depth: usize) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (name, value) in members {
        // Replace `oneOf` by `anyOf`: after the reduction, several alternatives can accept the same value, which
        // `oneOf` would forbid.
        let is_only = name == "oneOf" && !members.contains_key("anyOf");
        let name = if is_only { "anyOf" } else { name.as_str() };
        let kept = match name {
            "description" => value.as_str().and_then(|text| match shorten(text, step.text) {
                text if text.is_empty() => None,
                text => Some(Value::from(text.into_owned())),
            }),
            "enum" if step.members.contains(&"enum") => {
                Some(value).filter(|words| keeps_words(words, step)).cloned()
            }
            "properties" if depth > 0 => properties(members, value, step, depth),
            "additionalProperties" => additional(members, value, step, depth),
            // Without `prefixItems`, which the step removes, `items` would apply to the first items too. So keep
            // `items` only if the schema has no `prefixItems`.
            "items" if value.is_object() && !members.contains_key("prefixItems") => {
                (depth > 0).then(|| reduce(value, step, depth - 1))
            }
            "anyOf" if depth > 0 => value
                .as_array()
                .filter(|all| all.len() <= step.words)
                .map(|all| all.iter().map(|one| reduce(one, step, depth - 1)).collect()),
            "allOf" if depth > 0 => value.as_array().map(|all| {
                all.iter().take(step.words).map(|one| reduce(one, step, depth - 1)).collect()
            }),
            // Keep definitions as long as the step keeps references to them.
            "$defs" | "definitions" if step.members.contains(&"$ref") => {
                value.as_object().map(|all| {
                    all.iter().map(|(name, one)| (name.clone(), reduce(one, step, depth))).collect()
                })
            }
            "required" if depth > 0 && step.properties != Properties::None => Some(value.clone()),
            name if step.members.contains(&name) && is_short(value) => Some(value.clone()),
            _ => None,
        };
        if let Some(value) = kept {
            out.insert(name.to_owned(), value);
        }
    }
    if let Some(words) = members.get("enum").filter(|words| !keeps_words(words, step)) {
        add_examples(&mut out, words, step);
    }
    Value::Object(out)
}

/// Removes each reference to a part of the schema that the step has removed, because validators refuse such a schema.
fn without_dangling(mut schema: Value) -> Value {
    fn remove(schema: &mut Value, root: &Value) {
        match schema {
            Value::Object(members) => {
                let target = members.get("$ref").and_then(Value::as_str);
                let place = target.and_then(|target| target.strip_prefix('#'));
                if place.is_some_and(|place| root.pointer(place).is_none()) {
                    members.remove("$ref");
                }
                members.values_mut().for_each(|value| remove(value, root));
            }
            Value::Array(all) => all.iter_mut().for_each(|value| remove(value, root)),
            _ => {}
        }
    }
    let root = schema.clone();
    remove(&mut schema, &root);
    schema
}

/// Returns whether a step keeps an enumeration. A step keeps an enumeration as a whole or not at all, because a part of
/// it would forbid valid values.
fn keeps_words(words: &Value, step: &Step) -> bool {
    words.as_array().is_some_and(|all| all.len() <= step.words && all.iter().all(is_short))
}

/// Writes the first values of an enumeration that a step removes into the description.
fn add_examples(out: &mut Map<String, Value>, words: &Value, step: &Step) {
    let all = words.as_array().into_iter().flatten().filter(|word| is_short(word));
    let texts: Vec<&str> = all.filter_map(Value::as_str).take(step.words).collect();
    if texts.is_empty() || !step.members.contains(&"enum") {
        return;
    }
    let texts = texts.join(", ");
    let text = match out.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description} E.g. {texts}"),
        None => format!("E.g. {texts}"),
    };
    out.insert("description".to_owned(), text.into());
}

/// Returns the reduced `additionalProperties`. Returns `None` at the maximum depth, or if the step removes properties,
/// because `additionalProperties` would then apply to the removed properties.
fn additional(
    schema: &Map<String, Value>,
    value: &Value,
    step: &Step,
    depth: usize,
) -> Option<Value> {
    if depth == 0 || step.properties != Properties::All || schema.contains_key("patternProperties")
    {
        return None;
    }
    if value.is_object() {
        return Some(reduce(value, step, depth - 1));
    }
    step.members.contains(&"additionalProperties").then(|| value.clone())
}

/// Returns the properties that a step does not remove.
fn properties(
    schema: &Map<String, Value>,
    all: &Value,
    step: &Step,
    depth: usize,
) -> Option<Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
    let kept = all.as_object()?.iter().filter(|(name, _)| match step.properties {
        Properties::All => true,
        Properties::Required => is_required(name),
        Properties::None => false,
    });
    Some(kept.map(|(name, one)| (name.clone(), reduce(one, step, depth - 1))).collect())
}

/// Returns whether a value is short enough to be worth its tokens, e.g. a number or a list of a few words.
fn is_short(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= 64,
        Value::Array(all) => {
            all.len() <= 4 && all.iter().all(|one| !one.is_array() && is_short(one))
        }
        Value::Object(_) => false,
        _ => true,
    }
}

/// Shortens a text at the end of a sentence if that leaves at least half of the maximum length, otherwise at the end of
/// a word or, if the last word is longer than this half, within the word. If `max` is too small for that, returns an
/// empty text.
fn shorten(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(max)];
    let sentence = head.rfind(". ").map(|at| at + 1).into_iter().chain(head.rfind('\n')).max();
    if let Some(at) = sentence.filter(|at| *at * 2 >= max) {
        return Cow::Borrowed(head[..at].trim_end());
    }
    if max < 20 {
        return Cow::Borrowed("");
    }
    let word = head.rfind(char::is_whitespace).filter(|at| *at * 2 >= max).unwrap_or(head.len());
    Cow::Owned(format!("{}…", head[..word].trim_end()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn large() -> String {
        let properties: Map<String, Value> = (0..80)
            .map(|number| {
                let text = format!("Says which of the many things number {number} is. ").repeat(8);
                let deep = json!({"type": "object", "description": text, "title": "T",
                    "properties": {"inner": {"type": "string", "enum": ["a", "b"], "examples": [text]}}});
                (format!("parameter_{number}"), deep)
            })
            .collect();
        json!({"name": "create_everything", "description": "Creates it. ".repeat(200),
            "inputSchema": {"$schema": "x", "type": "object", "properties": properties,
                "required": ["parameter_7", "parameter_9"]}})
        .to_string()
    }

    fn text_of(fitted: &Fitted) -> String {
        lean_of(
            "\"create_everything\"",
            fitted.description.as_deref(),
            fitted.schema.as_payload().as_str(),
        )
    }

    #[test]
    fn a_tool_that_fits_is_not_changed() {
        let text = r#"{"name":"a","title":"A","description":"b\n","inputSchema":{"type":"object","x":[1, 2]}}"#;
        let fitted = fit_definition(text, 20, 20).unwrap();
        assert!(!fitted.is_trimmed);
        assert_eq!(fitted.description.as_deref(), Some("b\n"));
        assert_eq!(fitted.schema.as_payload().as_str(), r#"{"type":"object","x":[1,2]}"#);
    }

    #[test]
    fn a_tool_that_is_too_large_is_reduced_and_can_be_called() {
        let definition = large();
        let tokens = max_tokens_of(&lean::lean(&definition));
        let mut last = usize::MAX;
        for max in [20_000, 6_000, 3_000, 1_000, 250, 100] {
            let fitted = fit_definition(&definition, tokens, max).unwrap();
            assert!(fitted.is_trimmed && fitted.tokens <= max, "{max}");
            let text = text_of(&fitted);
            assert_eq!(max_tokens_of(&text), fitted.tokens);
            assert!(text.len() <= last && !text.contains("$schema") && !text.contains("examples"));
            last = text.len();
            let schema: Value = fitted.schema.get().unwrap();
            assert_eq!(schema["type"], "object");
            assert!(
                max < 200 || schema["properties"]["parameter_7"]["type"] == "object",
                "{max} {schema}"
            );
            assert!(max < 200 || schema["required"][1] == "parameter_9", "{max} {schema}");
        }
        assert!(fit_definition(&definition, tokens, 5).is_none());
    }

    #[test]
    fn every_valid_argument_fits_the_reduced_schema() {
        let words: Vec<String> = (0..60).map(|number| format!("word_{number}")).collect();
        let constants: Vec<Value> = words.iter().map(|word| json!({"const": word})).collect();
        let (mut deep, mut nested) = (json!({"type": "string"}), json!("deepest"));
        for _ in 0..8 {
            deep = json!({"type": "object", "properties": {"inner": deep},
                "required": ["inner"], "additionalProperties": false});
            nested = json!({"inner": nested});
        }
        let mut schema = json!({"type": "object", "required": ["few"],
        "additionalProperties": false, "properties": {
            "few": {"enum": ["a", "b"]},
            "many": {"type": "string", "enum": words},
            "long": {"enum": ["l".repeat(80), "short"]},
            "deep": deep,
            "patterns": {"type": "object", "patternProperties": {"^x-": {"type": "string"}},
                "additionalProperties": false},
            "negated": {"type": "object", "not": {"required": ["x"]}},
            "one": {"oneOf": [{"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 3}]},
            "both": {"anyOf": [{"type": "string"}, {"type": "integer"}], "oneOf": constants},
            "any": {"anyOf": constants},
            "tuple": {"type": "array", "prefixItems": [{"type": "integer"}],
                "items": {"type": "string"}},
        }});
        for number in 0..80 {
            schema["properties"][format!("other_{number}")] =
                json!({"type": "string", "description": "One of many texts. ".repeat(20)});
        }
        let arguments = json!({"few": "b", "many": "word_59", "long": "l".repeat(80),
            "deep": nested, "patterns": {"x-a": "1"}, "negated": {}, "one": 4, "both": "word_50",
            "any": "word_59", "tuple": [1, "a"], "other_79": "text"});
        let accepts =
            |schema: &Value| jsonschema::validator_for(schema).unwrap().is_valid(&arguments);
        assert!(accepts(&schema));
        let definition = json!({"name": "do", "inputSchema": schema}).to_string();
        for max in [6_000, 3_000, 1_000, 250, 100] {
            let fitted = fit_definition(&definition, 90_000, max).unwrap();
            assert!(fitted.is_trimmed && fitted.tokens <= max, "{max}");
            let reduced: Value = fitted.schema.get().unwrap();
            assert!(accepts(&reduced), "{max}: {reduced}");
        }
        for step in &STEPS {
            let reduced = reduce(&schema, step, step.depth);
            assert!(accepts(&reduced), "{} bytes: {reduced}", step.description);
        }
        let mild = reduce(&schema, &STEPS[0], STEPS[0].depth);
        let properties = &mild["properties"];
        assert_eq!(properties["few"]["enum"], json!(["a", "b"]));
        assert!(properties["one"]["anyOf"].is_array() && mild["additionalProperties"] == false);
        let examples = properties["many"]["description"].as_str().unwrap();
        assert!(examples.starts_with("E.g. word_0, word_1, "), "{examples}");
    }

    #[test]
    fn a_reference_to_a_part_that_is_removed_is_removed_too() {
        let mut deep = json!({"type": "string"});
        for _ in 0..8 {
            deep = json!({"type": "array", "items": deep});
        }
        let inner = format!("#/properties/d{}", "/items".repeat(8));
        let schema = json!({"type": "object", "$defs": {"id": {"type": "integer"}}, "properties": {
            "d": deep, "gone": {"$ref": inner}, "kept": {"$ref": "#/$defs/id"}, "self": {"$ref": "#"}}});
        assert!(jsonschema::validator_for(&schema).is_ok());
        for step in &STEPS {
            let reduced = without_dangling(reduce(&schema, step, step.depth));
            assert!(jsonschema::validator_for(&reduced).is_ok(), "{reduced}");
        }
        let mild = without_dangling(reduce(&schema, &STEPS[0], STEPS[0].depth));
        let properties = &mild["properties"];
        assert_eq!(properties["gone"], json!({}));
        assert_eq!(properties["kept"]["$ref"], "#/$defs/id");
        assert_eq!(properties["self"]["$ref"], "#");
    }

    #[test]
    fn a_hostile_schema_becomes_that_of_any_object() {
        let deep = format!(
            r#"{{"name":"a","inputSchema":{}1{}}}"#,
            r#"{"items":"#.repeat(500),
            "}".repeat(500)
        );
        let fitted = fit_definition(&deep, 9_000, 100).unwrap();
        assert_eq!(fitted.schema.as_payload().as_str(), r#"{"type":"object"}"#);
        let odd = r#"{"name":"a","inputSchema":{"properties":7,"required":{},"enum":"x","$defs":[],"anyOf":{}}}"#;
        assert!(fit_definition(odd, 9_000, 100).is_some());
        let wide = format!(r#"{{"name":"{}","inputSchema":{{}}}}"#, "n".repeat(60_000));
        assert!(fit_definition(&wide, 90_000, 3_000).is_none());
    }

    #[test]
    fn texts_are_shortened_between_sentences_or_words() {
        assert_eq!(shorten("One. Two. Three four five.", 12), "One. Two.");
        assert_eq!(shorten("Onetwothreefour five six seven eight", 22), "Onetwothreefour five…");
        assert_eq!(shorten("文字文字文字文字文字文字文字文字", 25), "文字文字文字文字…");
        assert_eq!(shorten("anything", 0), "");
        assert_eq!(shorten("short", 9), "short");
    }
}
