//! Compares the JSON Schema keywords that restrict a value independently of other keywords.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::schema::Relation;

/// A function that receives each change of a keyword: the relation of the new values to the old ones, the keyword, and
/// a description.
type Report<'a> = dyn FnMut(Relation, &str, String) + 'a;

/// Bounds for which a higher number allows fewer values.
const LOWER_BOUNDS: &[&str] =
    &["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"];

/// Bounds for which a lower number allows fewer values.
const UPPER_BOUNDS: &[&str] =
    &["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"];

/// Keywords whose presence restricts the values; their contents are not compared further.
const RESTRICTIONS: &[&str] = &["pattern", "format"];

/// Keywords that refer to another schema.
pub(super) const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords that do not affect which values are valid.
const TEXTS: &[&str] = &[
    "title",
    "description",
    "examples",
    "example",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
];

/// Returns whether [`compare`] examines a keyword.
pub(super) fn is_known(keyword: &str) -> bool {
    let lists = [LOWER_BOUNDS, UPPER_BOUNDS, RESTRICTIONS];
    lists.iter().any(|list| list.contains(&keyword))
        || matches!(keyword, "type" | "enum" | "const" | "multipleOf" | "uniqueItems" | "default")
}

/// Returns whether a schema restricts values by other members than a reference.
pub(super) fn restrict(schema: &Map<String, Value>) -> bool {
    let is_reference = |keyword: &str| REFERENCES.contains(&keyword);
    schema.keys().any(|keyword| is_restriction(keyword) && !is_reference(keyword))
}

/// Returns the alternatives of a schema that restricts values only by `anyOf`.
pub(super) fn alternatives(schema: &Value) -> Option<&[Value]> {
    let members = schema.as_object()?;
    let list = members.get("anyOf")?.as_array()?;
    let is_plain = members.keys().all(|keyword| keyword == "anyOf" || !is_restriction(keyword));
    is_plain.then_some(list.as_slice())
}

/// Returns whether two schemas restrict values by the same members, so that they differ at most in texts, the default,
/// and the schemas to which they refer.
pub(super) fn are_alike(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let mut keywords = old.keys().chain(new.keys()).filter(|keyword| is_restriction(keyword));
    keywords.all(|keyword| old.get(keyword) == new.get(keyword))
}

/// Returns whether a keyword can affect which values are valid.
fn is_restriction(keyword: &str) -> bool {
    !is_text(keyword) && !matches!(keyword, "default" | "definitions")
}

/// Returns whether a keyword does not affect which values are valid.
fn is_text(keyword: &str) -> bool {
    TEXTS.contains(&keyword)
        || keyword.starts_with("x-")
        || keyword.starts_with('$') && !REFERENCES.contains(&keyword)
}

/// Returns how the change of a keyword that [`compare`] does not examine affects the valid values.
pub(super) fn relation_of_other(
    keyword: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Relation {
    // Where other members are refused or restricted, the members that match a pattern are an exception.
    let is_open = |schema: &Map<String, Value>| {
        ["additionalProperties", "unevaluatedProperties"]
            .iter()
            .all(|keyword| matches!(schema.get(*keyword), None | Some(Value::Bool(true))))
    };
    match (old.get(keyword), new.get(keyword)) {
        _ if is_text(keyword) => Relation::Text,
        _ if keyword == "patternProperties" && !(is_open(old) && is_open(new)) => Relation::Other,
        (None, Some(_)) => Relation::Narrower,
        (Some(_), None) => Relation::Wider,
        _ => Relation::Other,
    }
}

/// Reports the changes of all keywords that restrict a value independently of other keywords.
pub(super) fn compare(old: &Map<String, Value>, new: &Map<String, Value>, report: &mut Report<'_>) {
    compare_types(old, new, report);
    compare_enums(old, new, report);
    for &keyword in LOWER_BOUNDS {
        compare_bound(keyword, old, new, false, report);
    }
    for &keyword in UPPER_BOUNDS {
        compare_bound(keyword, old, new, true, report);
    }
    for &keyword in RESTRICTIONS {
        match (old.get(keyword), new.get(keyword)) {
            (old, new) if old == new => {}
            (None, Some(_)) => {
                report(Relation::Narrower, keyword, format!("`{keyword}` is added"));
            }
            (Some(_), None) => {
                report(Relation::Wider, keyword, format!("`{keyword}` is removed"));
            }
            _ => report(Relation::Other, keyword, format!("`{keyword}` changed")),
        }
    }
    compare_multiples(old, new, report);
    let is_unique = |schema: &Map<String, Value>| schema.get("uniqueItems") == Some(&true.into());
    match (is_unique(old), is_unique(new)) {
        (false, true) => report(Relation::Narrower, "uniqueItems", "items must be unique".into()),
        (true, false) => report(Relation::Wider, "uniqueItems", "items may repeat".into()),
        _ => {}
    }
}

const ALL_TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

fn types_of(schema: &Map<String, Value>) -> BTreeSet<&str> {
    let mut types: BTreeSet<&str> = match schema.get("type") {
        Some(Value::String(one)) => [one.as_str()].into(),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => ALL_TYPES.into(),
    };
    if types.contains("number") {
        types.insert("integer");
    }
    types
}

fn compare_types(old: &Map<String, Value>, new: &Map<String, Value>, report: &mut Report<'_>) {
    let (before, after) = (types_of(old), types_of(new));
    let relation = match (before.is_subset(&after), after.is_subset(&before)) {
        (true, true) => return,
        (true, false) => Relation::Wider,
        (false, true) => Relation::Narrower,
        (false, false) => Relation::Other,
    };
    let show = |schema: &Map<String, Value>| {
        schema.get("type").map_or_else(|| "any type".to_owned(), Value::to_string)
    };
    report(relation, "type", format!("the type changed from {} to {}", show(old), show(new)));
}

/// Returns the values that a schema lists, as text; `None` if it does not list them.
fn listed(schema: &Map<String, Value>) -> Option<BTreeSet<String>> {
    if let Some(value) = schema.get("const") {
        return Some([value.to_string()].into());
    }
    let values = schema.get("enum")?.as_array()?;
    Some(values.iter().map(Value::to_string).collect())
}

fn compare_enums(old: &Map<String, Value>, new: &Map<String, Value>, report: &mut Report<'_>) {
    let (before, after) = match (listed(old), listed(new)) {
        (Some(before), Some(after)) => (before, after),
        (None, None) => return,
        (None, Some(_)) => {
            return report(Relation::Narrower, "enum", "only listed values are valid".into());
        }
        (Some(_), None) => {
            return report(Relation::Wider, "enum", "values need not be listed".into());
        }
    };
    for value in after.difference(&before) {
        report(Relation::Wider, "enum", format!("the value {value} is added"));
    }
    for value in before.difference(&after) {
        report(Relation::Narrower, "enum", format!("the value {value} is removed"));
    }
}

/// Reports the change of a bound; `is_upper` means that a lower number allows fewer values.
fn compare_bound(
    keyword: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    is_upper: bool,
    report: &mut Report<'_>,
) {
    let bound = |schema: &Map<String, Value>| schema.get(keyword).and_then(Value::as_f64);
    let (relation, what) = match (bound(old), bound(new)) {
        (None, None) => return,
        (None, Some(bound)) => (Relation::Narrower, format!("`{keyword}` {bound} is added")),
        (Some(bound), None) => (Relation::Wider, format!("`{keyword}` {bound} is removed")),
        (Some(old), Some(new)) if old.total_cmp(&new).is_eq() => return,
        (Some(old), Some(new)) => {
            let is_narrower = (new < old) == is_upper;
            let relation = if is_narrower { Relation::Narrower } else { Relation::Wider };
            (relation, format!("`{keyword}` changed from {old} to {new}"))
        }
    };
    report(relation, keyword, what);
}

fn compare_multiples(old: &Map<String, Value>, new: &Map<String, Value>, report: &mut Report<'_>) {
    let step = |schema: &Map<String, Value>| schema.get("multipleOf").and_then(Value::as_f64);
    let is_multiple = |of: f64, step: f64| step > 0.0 && (of / step).fract().abs() < 1e-9;
    let relation = match (step(old), step(new)) {
        (None, None) => return,
        (None, Some(_)) => Relation::Narrower,
        (Some(_), None) => Relation::Wider,
        (Some(old), Some(new)) if old.total_cmp(&new).is_eq() => return,
        (Some(old), Some(new)) if is_multiple(new, old) => Relation::Narrower,
        (Some(old), Some(new)) if is_multiple(old, new) => Relation::Wider,
        _ => Relation::Other,
    };
    report(relation, "multipleOf", "`multipleOf` changed".into());
}
