//! A tool within so many tokens: as it is, or with less said about it, and still callable (MGP §16.8).
//!
//! Applies to: outbound.

use std::borrow::Cow;

use mgp_types::RawObject;
use mgp_types::{Payload, RpcError};
use serde_json::{Map, Value};

use crate::catalog::Listed;
use crate::tokens::{lean, lean_of, tokens_at_most};

/// What a model is told of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Fitted {
    pub(crate) description: Option<String>,
    pub(crate) schema: RawObject,
    /// How many tokens name, description and schema cost, or a bound above.
    pub(crate) tokens: u32,
    pub(crate) is_trimmed: bool,
}

/// How much of a definition is left at a step.
struct Step {
    /// The longest description of the tool.
    description: usize,
    /// The longest description of a parameter.
    text: usize,
    /// How deep schemas go.
    depth: usize,
    /// How many words an enumeration has.
    words: usize,
    /// Which members of a schema stay.
    members: &'static [&'static str],
    /// Which properties stay.
    properties: Properties,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Properties {
    All,
    Required,
    None,
}

/// The longest schema that is looked into, in bytes: thrice the longest that is known of a real tool.
const LONGEST: usize = 128 << 10;

/// Members that say what a value must be.
const RULES: &[&str] = &[
    "type",
    "enum",
    "const",
    "format",
    "pattern",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "additionalProperties",
    "$ref",
];
/// Members without which a call would be guesswork.
const FEW: &[&str] = &["type", "enum", "const"];

/// From the gentlest to what leaves a name and a sentence.
const STEPS: [Step; 6] = [
    Step {
        description: 1000,
        text: 160,
        depth: 6,
        words: 40,
        members: RULES,
        properties: Properties::All,
    },
    Step {
        description: 500,
        text: 80,
        depth: 4,
        words: 20,
        members: RULES,
        properties: Properties::All,
    },
    Step {
        description: 300,
        text: 40,
        depth: 2,
        words: 12,
        members: FEW,
        properties: Properties::All,
    },
    Step {
        description: 160,
        text: 0,
        depth: 1,
        words: 6,
        members: FEW,
        properties: Properties::All,
    },
    Step {
        description: 120,
        text: 0,
        depth: 1,
        words: 3,
        members: FEW,
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

/// Fits a tool into so many tokens; none if not even its name and a sentence fit.
pub(crate) fn fit(tool: &Listed, most: u32) -> Option<Fitted> {
    fit_definition(tool.definition(), tool.tokens(), most)
}

fn fit_definition(definition: &str, tokens: u32, most: u32) -> Option<Fitted> {
    let members = lean::members(definition);
    let description = || members.description.as_deref();
    if tokens <= most {
        return Some(Fitted {
            description: description().map(str::to_owned),
            schema: members.schema(),
            tokens,
            is_trimmed: false,
        });
    }
    // A schema that cannot be read, because it is too deep, or that would take long, is told like one that says nothing.
    let text = Some(members.schema_text()).filter(|text| text.len() <= LONGEST);
    let schema = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    STEPS.iter().find_map(|step| {
        let description = description().map(|text| cut(text, step.description).into_owned());
        let schema = object(&reduced(&schema, step, step.depth)).ok()?;
        let text = lean_of(&members.name, description.as_deref(), schema.as_payload().as_str());
        let tokens = tokens_at_most(&text);
        (tokens <= most).then_some(Fitted { description, schema, tokens, is_trimmed: true })
    })
}

/// A schema of arguments is an object, whatever is left of it.
fn object(schema: &Value) -> Result<RawObject, RpcError> {
    match schema {
        Value::Object(members) if !members.is_empty() => RawObject::of(schema),
        _ => RawObject::try_from(Payload::from_trusted(r#"{"type":"object"}"#)),
    }
}

/// A schema with what a step leaves of it; how deep it goes is bounded by the reader of JSON too.
fn reduced(schema: &Value, step: &Step, depth: usize) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (name, value) in members {
        let kept = match name.as_str() {
            "description" => value.as_str().and_then(|text| match cut(text, step.text) {
                text if text.is_empty() => None,
                text => Some(Value::from(text.into_owned())),
            }),
            "enum" if step.members.contains(&"enum") => value.as_array().map(|words| {
                words.iter().filter(|word| is_short(word)).take(step.words).cloned().collect()
            }),
            "properties" if depth > 0 => properties(members, value, step, depth),
            "items" | "additionalProperties" | "not" if value.is_object() => {
                (depth > 0).then(|| reduced(value, step, depth - 1))
            }
            "anyOf" | "oneOf" | "allOf" if depth > 0 => value.as_array().map(|all| {
                all.iter().take(step.words).map(|one| reduced(one, step, depth - 1)).collect()
            }),
            // What is referred to stays as long as references do.
            "$defs" | "definitions" if step.members.contains(&"$ref") => {
                value.as_object().map(|all| {
                    all.iter()
                        .map(|(name, one)| (name.clone(), reduced(one, step, depth)))
                        .collect()
                })
            }
            "required" if depth > 0 && step.properties != Properties::None => Some(value.clone()),
            name if step.members.contains(&name) && is_short(value) => Some(value.clone()),
            _ => None,
        };
        if let Some(value) = kept {
            out.insert(name.clone(), value);
        }
    }
    Value::Object(out)
}

/// The properties of a schema that a step leaves.
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
    Some(kept.map(|(name, one)| (name.clone(), reduced(one, step, depth - 1))).collect())
}

/// Values that are worth their tokens: words and numbers.
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

/// The beginning of a text: whole sentences if that leaves half of what may stay, else whole words.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(most)];
    let sentence = head.rfind(". ").map(|at| at + 1).into_iter().chain(head.rfind('\n')).max();
    if let Some(at) = sentence.filter(|at| *at * 2 >= most) {
        return Cow::Borrowed(head[..at].trim_end());
    }
    if most < 20 {
        return Cow::Borrowed("");
    }
    let word = head.rfind(char::is_whitespace).filter(|at| *at * 2 >= most).unwrap_or(head.len());
    Cow::Owned(format!("{}…", head[..word].trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large() -> String {
        let properties: Map<String, Value> = (0..80)
            .map(|number| {
                let text = format!("Says which of the many things number {number} is. ").repeat(8);
                let deep = serde_json::json!({"type": "object", "description": text, "title": "T",
                    "properties": {"inner": {"type": "string", "enum": ["a", "b"], "examples": [text]}}});
                (format!("parameter_{number}"), deep)
            })
            .collect();
        serde_json::json!({"name": "create_everything", "description": "Creates it. ".repeat(200),
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
    fn what_fits_stays_as_it_is() {
        let text = r#"{"name":"a","title":"A","description":"b\n","inputSchema":{"type":"object","x":[1, 2]}}"#;
        let fitted = fit_definition(text, 20, 20).unwrap();
        assert!(!fitted.is_trimmed);
        assert_eq!(fitted.description.as_deref(), Some("b\n"));
        assert_eq!(fitted.schema.as_payload().as_str(), r#"{"type":"object","x":[1,2]}"#);
    }

    #[test]
    fn what_is_too_large_says_less_and_stays_callable() {
        let definition = large();
        let tokens = tokens_at_most(&lean::lean(&definition));
        let mut last = usize::MAX;
        for most in [20_000, 6_000, 3_000, 1_000, 250, 100] {
            let fitted = fit_definition(&definition, tokens, most).unwrap();
            assert!(fitted.is_trimmed && fitted.tokens <= most, "{most}");
            let text = text_of(&fitted);
            assert_eq!(tokens_at_most(&text), fitted.tokens);
            assert!(text.len() <= last && !text.contains("$schema") && !text.contains("examples"));
            last = text.len();
            let schema: Value = fitted.schema.get().unwrap();
            assert_eq!(schema["type"], "object");
            assert!(
                most < 200 || schema["properties"]["parameter_7"]["type"] == "object",
                "{most} {schema}"
            );
            assert!(most < 200 || schema["required"][1] == "parameter_9", "{most} {schema}");
        }
        assert!(fit_definition(&definition, tokens, 5).is_none());
    }

    #[test]
    fn hostile_schemas_are_told_as_any_object() {
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
    fn texts_are_cut_between_sentences_or_words() {
        assert_eq!(cut("One. Two. Three four five.", 12), "One. Two.");
        assert_eq!(cut("Onetwothreefour five six seven eight", 22), "Onetwothreefour five…");
        assert_eq!(cut("文字文字文字文字文字文字文字文字", 25), "文字文字文字文字…");
        assert_eq!(cut("anything", 0), "");
        assert_eq!(cut("short", 9), "short");
    }
}
