//! Generates example values that are valid for a JSON Schema.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use jsonschema::Validator;
use serde_json::{Map, Number, Value};

use crate::checker;
use crate::pattern::text_for;

/// The maximum depth of an example, so that the examples of recursive schemas end.
const MAX_DEPTH: usize = 24;

/// The maximum length of a text or list in a generated example.
const MAX_LENGTH: usize = 4096;

/// The maximum number of values, nested ones included, that are generated for an example.
const MAX_PARTS: usize = 20_000;

/// The maximum number of compiled schemas that are kept while examples are generated.
const MAX_VALIDATORS: usize = 256;

/// The error for a schema for which no example was found.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no example was found for the schema: {0}; add one under `examples`")]
pub struct NoExample(String);

/// The choice of the members that an example contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// The example contains only required members.
    Required,
    /// The example contains all members that the schema names.
    All,
}

/// Returns up to three different examples for a schema: those in the schema itself, an example with all members, and an
/// example with only the required members.
///
/// # Errors
/// Returns [`NoExample`] if the schema is not usable, or if none of its own examples and no generated value is valid.
pub fn examples(schema: &Value) -> Result<Vec<Value>, NoExample> {
    let validator = checker::compile(schema).map_err(NoExample)?;
    let own = schema.get("examples").and_then(Value::as_array).into_iter().flatten().cloned();
    let mut generator = Generator::new(schema);
    let generated =
        [Size::All, Size::Required].into_iter().filter_map(|size| generator.example(size));
    let mut found: Vec<Value> = Vec::new();
    for example in own.chain(generated) {
        if found.len() < 3 && validator.is_valid(&example) && !found.contains(&example) {
            found.push(example);
        }
    }
    if found.is_empty() {
        let value = Generator::new(schema).example(Size::Required);
        let reason = value.and_then(|value| checker::first_violation(schema, &value));
        return Err(NoExample(reason.unwrap_or_else(|| "it permits no value".to_owned())));
    }
    Ok(found)
}

struct Generator<'a> {
    root: &'a Value,
    size: Size,
    parts: usize,
    /// The validators of parts of the schema, by the text of the part, because many members can use the same
    /// definition; `None` for a part that is not usable.
    validators: HashMap<String, Option<Rc<Validator>>>,
}

impl<'a> Generator<'a> {
    fn new(root: &'a Value) -> Self {
        Self { root, size: Size::Required, parts: 0, validators: HashMap::new() }
    }

    fn example(&mut self, size: Size) -> Option<Value> {
        (self.size, self.parts) = (size, 0);
        self.value(self.root, 0)
    }

    /// Returns the validator of a part of the schema; `None` if the part is not usable.
    fn validator(&mut self, schema: &Value) -> Option<Rc<Validator>> {
        let text = schema.to_string();
        if let Some(known) = self.validators.get(&text) {
            return known.clone();
        }
        let validator = compiled(schema, self.root).map(Rc::new);
        if self.validators.len() < MAX_VALIDATORS {
            self.validators.insert(text, validator.clone());
        }
        validator
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        self.parts += 1;
        if depth > MAX_DEPTH || self.parts > MAX_PARTS {
            return None;
        }
        let members = match schema {
            Value::Bool(true) => return Some(Value::String("text".to_owned())),
            Value::Object(members) => self.merge(members, depth)?,
            _ => return None,
        };
        if let Some(value) = self.given(&members, schema) {
            return Some(value);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(choices) = members.get(keyword).and_then(Value::as_array) {
                return self.choose(&members, keyword, choices, depth);
            }
        }
        let kinds = kinds(&members);
        kinds.into_iter().find_map(|kind| match kind {
            "object" => self.object(&members, depth),
            "array" => self.array(&members, depth),
            "string" => text(&members).map(Value::String),
            "integer" => number(&members, true),
            "number" => number(&members, false),
            "boolean" => Some(Value::Bool(true)),
            _ => Some(Value::Null),
        })
    }

    /// Returns a schema with references replaced and the parts of `allOf` merged; `None` if that fails, e.g. because
    /// the schema is nested too deeply.
    fn merge(&self, members: &Map<String, Value>, depth: usize) -> Option<Map<String, Value>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut merged = members.clone();
        let reference = merged.remove("$ref");
        let target = reference.as_ref().and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
        if reference.is_some() {
            add(&mut merged, self.root.pointer(target?)?);
            return self.merge(&merged, depth + 1);
        }
        let Some(Value::Array(parts)) = merged.remove("allOf") else { return Some(merged) };
        for part in parts {
            match part {
                Value::Object(part) => {
                    add(&mut merged, &Value::Object(self.merge(&part, depth + 1)?));
                }
                Value::Bool(true) => {}
                _ => return None,
            }
        }
        Some(merged)
    }

    /// Returns the `const` of the schema, or else a valid value among its examples, its default and its `enum`; `None`
    /// if it contains none.
    fn given(&mut self, members: &Map<String, Value>, schema: &Value) -> Option<Value> {
        if let Some(value) = members.get("const") {
            return Some(value.clone());
        }
        let listed = |name| members.get(name).and_then(Value::as_array).into_iter().flatten();
        let candidates = listed("examples")
            .chain(members.get("example"))
            .chain(members.get("default"))
            .chain(listed("enum"));
        let is_listed = members.contains_key("enum");
        let mut candidates = candidates.filter(|value| is_listed || !value.is_null()).peekable();
        candidates.peek()?;
        let validator = self.validator(schema)?;
        candidates.find(|value| validator.is_valid(value)).cloned()
    }

    fn choose(
        &mut self,
        members: &Map<String, Value>,
        keyword: &str,
        choices: &[Value],
        depth: usize,
    ) -> Option<Value> {
        let mut validator = None;
        choices.iter().find_map(|choice| {
            let mut merged = members.clone();
            merged.remove(keyword);
            if choice.is_object() {
                add(&mut merged, choice);
            } else if *choice != true {
                return None;
            }
            let value = self.value(&Value::Object(merged), depth + 1)?;
            let whole = || self.validator(&Value::Object(members.clone()));
            let validator = validator.get_or_insert_with(whole).as_ref()?;
            validator.is_valid(&value).then_some(value)
        })
    }

    fn object(&mut self, members: &Map<String, Value>, depth: usize) -> Option<Value> {
        let named = members.get("properties").and_then(Value::as_object);
        let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        let others = members.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
        let mut object = Map::new();
        for name in &required {
            let schema = named.and_then(|named| named.get(*name)).unwrap_or(&others);
            object.insert((*name).to_owned(), self.value(schema, depth + 1)?);
        }
        let min = length(members, "minProperties").unwrap_or(0);
        let max = length(members, "maxProperties").unwrap_or(usize::MAX);
        for (name, schema) in named.into_iter().flatten() {
            let is_wanted = self.size == Size::All || object.len() < min;
            if is_wanted && object.len() < max && !object.contains_key(name) {
                // An optional member is omitted if no example is found for it.
                if let Some(value) = self.value(schema, depth + 1) {
                    object.insert(name.clone(), value);
                }
            }
        }
        for at in 0..min.min(MAX_LENGTH) {
            if object.len() >= min {
                break;
            }
            object.insert(format!("member{at}"), self.value(&others, depth + 1)?);
        }
        Some(Value::Object(object))
    }

    fn array(&mut self, members: &Map<String, Value>, depth: usize) -> Option<Value> {
        let first = members.get("prefixItems").and_then(Value::as_array);
        let first = first.map(Vec::as_slice).unwrap_or_default();
        let rest = members.get("items").cloned().unwrap_or(Value::Bool(true));
        let contains = members.get("contains");
        let (min, max) = (length(members, "minItems").unwrap_or(0), length(members, "maxItems"));
        let usual = usize::from(self.size == Size::All || contains.is_some());
        let wanted = min.max(usual).min(max.unwrap_or(usize::MAX)).min(MAX_LENGTH);
        let is_unique = members.get("uniqueItems") == Some(&true.into());
        let mut items: Vec<Value> = Vec::new();
        for at in 0..wanted {
            let schema = first.get(at).or(contains.filter(|_| at == first.len())).unwrap_or(&rest);
            let item = match self.value(schema, depth + 1) {
                Some(item) if is_unique && items.contains(&item) => {
                    distinct(schema, self.root, &items)?
                }
                Some(item) => item,
                // No value for a further item was found, e.g. because a recursive schema is nested too deeply. The list
                // is complete if it has enough items.
                None if at >= min => break,
                None => return None,
            };
            items.push(item);
        }
        Some(Value::Array(items))
    }
}

/// Returns the types that a schema allows, `null` last. If the schema names no type, returns the type to which its
/// keywords apply, or else `string`.
fn kinds(members: &Map<String, Value>) -> Vec<&str> {
    match members.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => {
            let mut kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.sort_by_key(|kind| *kind == "null");
            kinds
        }
        _ => {
            let has = |names: &[&str]| names.iter().any(|name| members.contains_key(*name));
            if has(&["properties", "required", "minProperties", "additionalProperties"]) {
                vec!["object"]
            } else if has(&["items", "prefixItems", "minItems", "contains"]) {
                vec!["array"]
            } else if has(&["minimum", "maximum", "multipleOf", "exclusiveMinimum"]) {
                vec!["number"]
            } else {
                vec!["string"]
            }
        }
    }
}

/// Adds the members of another schema, so that a value must be valid for both.
fn add(merged: &mut Map<String, Value>, other: &Value) {
    for (name, value) in other.as_object().into_iter().flatten() {
        match (name.as_str(), merged.get_mut(name)) {
            (_, None) => {
                merged.insert(name.clone(), value.clone());
            }
            ("properties", Some(Value::Object(old))) => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    match old.get_mut(name) {
                        Some(Value::Object(old)) => add(old, schema),
                        _ => drop(old.insert(name.clone(), schema.clone())),
                    }
                }
            }
            ("required", Some(Value::Array(old))) => {
                old.extend(value.as_array().into_iter().flatten().cloned());
            }
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems", Some(old))
                if value.as_f64() > old.as_f64() =>
            {
                *old = value.clone();
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems", Some(old))
                if value.as_f64() < old.as_f64() =>
            {
                *old = value.clone();
            }
            ("type", Some(old)) if value.is_string() => *old = value.clone(),
            _ => {}
        }
    }
}

/// Compiles a part of the schema `root`, so that its references to definitions of `root` work; `None` if the part is
/// not usable. Compiling takes long, so callers should compile a schema once, and check all candidates with the result.
fn compiled(schema: &Value, root: &Value) -> Option<Validator> {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        for keyword in ["$defs", "definitions"] {
            if let Some(definitions) = root.get(keyword) {
                members.entry(keyword).or_insert_with(|| definitions.clone());
            }
        }
    }
    checker::compile(&schema).ok()
}

/// Returns a value that fits the schema and differs from all `items`; `None` if no such value is found.
fn distinct(schema: &Value, root: &Value, items: &[Value]) -> Option<Value> {
    let validator = compiled(schema, root)?;
    let known: HashSet<&Value> = items.iter().collect();
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten().cloned();
    let start = schema.get("minimum").and_then(Value::as_i64).unwrap_or(0);
    let numbers = (0_i64..).take(items.len() + 1).map(|at| Value::from(start.saturating_add(at)));
    let min = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
    let width = usize::try_from(min).unwrap_or(MAX_LENGTH).min(MAX_LENGTH);
    let texts = (0..=items.len()).map(|at| Value::String(format!("{at:a>width$}")));
    let others = [Value::Bool(false), Value::Bool(true), Value::Null];
    let mut candidates = listed.chain(numbers).chain(texts).chain(others);
    candidates.find(|value| !known.contains(&value) && validator.is_valid(value))
}

fn length(members: &Map<String, Value>, name: &str) -> Option<usize> {
    // The number is read as a float, because some generators write integers as `1.0`.
    let number = members.get(name)?.as_f64()?;
    format!("{:.0}", number.clamp(-1.0, 1e9)).parse().ok()
}

fn text(members: &Map<String, Value>) -> Option<String> {
    let min = length(members, "minLength").unwrap_or(0);
    let max = length(members, "maxLength").unwrap_or(usize::MAX);
    if let Some(pattern) = members.get("pattern").and_then(Value::as_str) {
        return text_for(pattern, min);
    }
    let format = members.get("format").and_then(Value::as_str).and_then(formatted);
    if let Some(text) = format.filter(|text| (min..=max).contains(&text.len())) {
        return Some(text.to_owned());
    }
    if min > MAX_LENGTH {
        return None;
    }
    let text: String = "text".chars().take(max).collect();
    let missing = min.saturating_sub(text.len());
    Some(text + &"x".repeat(missing))
}

/// Returns an example text for a `format` of JSON Schema.
fn formatted(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2026-01-15T10:30:00Z",
        "date" => "2026-01-15",
        "time" => "10:30:00Z",
        "duration" => "PT1H",
        "email" | "idn-email" => "user@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" | "url" | "uri-reference" | "iri-reference" => "https://example.com/",
        "uuid" => "123e4567-e89b-42d3-a456-426614174000",
        "regex" => "^a$",
        "json-pointer" => "/a",
        _ => return None,
    })
}

fn number(members: &Map<String, Value>, is_integer: bool) -> Option<Value> {
    let bound = |name: &str| members.get(name).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let unit = step.unwrap_or(if is_integer { 1.0 } else { 0.5 });
    let above = bound("exclusiveMinimum")
        .map(|min| if is_integer { min.floor() + 1.0 } else { min + unit });
    let low = [bound("minimum"), above].into_iter().flatten().reduce(f64::max);
    let below =
        bound("exclusiveMaximum").map(|max| if is_integer { max.ceil() - 1.0 } else { max - unit });
    let high = [bound("maximum"), below].into_iter().flatten().reduce(f64::min);
    let mut value = match (low, high) {
        (Some(low), _) if low > 1.0 => low,
        (Some(low), Some(high)) if high < 1.0 => {
            if high > low {
                high
            } else {
                low
            }
        }
        (_, Some(high)) if high < 1.0 => high,
        _ => 1.0,
    };
    // The two exclusive bounds might be so close to each other that no round number is between them, so the number in
    // the middle is used.
    if let (Some(low), Some(high)) = (bound("exclusiveMinimum"), bound("exclusiveMaximum"))
        && !is_integer
        && (value <= low || value >= high)
    {
        value = f64::midpoint(low, high);
    }
    if let Some(step) = step {
        value = (value / step).ceil() * step;
        if high.is_some_and(|high| value > high) {
            value -= step;
        }
    } else if is_integer {
        value =
            if high.is_some_and(|high| value.ceil() > high) { value.floor() } else { value.ceil() };
    }
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return format!("{value:.0}").parse::<i64>().ok().map(Value::from);
    }
    Number::from_f64(value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_that_many_members_use_is_compiled_once() {
        let members = (0..50).map(|at| (format!("m{at}"), json!({ "$ref": "#/$defs/either" })));
        let schema = json!({
            "type": "object",
            "properties": members.collect::<Map<_, _>>(),
            "$defs": { "either": { "anyOf": [{ "type": "integer" }, { "type": "null" }] } },
        });
        let mut generator = Generator::new(&schema);
        let example = generator.example(Size::All);
        assert_eq!(example.as_ref().and_then(Value::as_object).map(Map::len), Some(50));
        assert_eq!(generator.validators.len(), 1);
    }
}
