//! Compares the JSON Schema keywords that restrict a value independently of other keywords.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::schema::Relation;

/// A function that receives each change of a keyword: the relation of the new values to the old values, the keyword,
/// and a description.
type Report<'a> = dyn FnMut(Relation, &str, String) + 'a;

/// The values that a schema lists in `const` or `enum`, as texts; each with the type of the value.
pub(super) type Listed = BTreeMap<String, &'static str>;

/// The keywords of bounds for which a higher number allows fewer values. Each is paired with the keyword of the
/// exclusive bound, or with an empty text if no such keyword exists.
const LOWER_BOUNDS: &[(&str, &str)] = &[
    ("minimum", "exclusiveMinimum"),
    ("minLength", ""),
    ("minItems", ""),
    ("minProperties", ""),
    ("minContains", ""),
];

/// The keywords of bounds for which a lower number allows fewer values, paired as in [`LOWER_BOUNDS`].
const UPPER_BOUNDS: &[(&str, &str)] = &[
    ("maximum", "exclusiveMaximum"),
    ("maxLength", ""),
    ("maxItems", ""),
    ("maxProperties", ""),
    ("maxContains", ""),
];

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

/// Returns whether [`compare`] examines a keyword, or `SchemaDiff` does so separately (`default`).
pub(super) fn is_known(keyword: &str) -> bool {
    let mut bounds = LOWER_BOUNDS.iter().chain(UPPER_BOUNDS);
    bounds.any(|bound| bound.0 == keyword || bound.1 == keyword)
        || RESTRICTIONS.contains(&keyword)
        || matches!(keyword, "type" | "enum" | "const" | "multipleOf" | "uniqueItems" | "default")
}

/// Returns whether a schema has a member, other than a reference, that restricts the values.
pub(super) fn restrict(schema: &Map<String, Value>) -> bool {
    let is_reference = |keyword: &str| REFERENCES.contains(&keyword);
    schema.keys().any(|keyword| is_restriction(keyword) && !is_reference(keyword))
}

/// Returns the schemas in the list of a keyword such as `anyOf`; `None` if the schema lacks the keyword, or if other
/// keywords restrict the values too.
pub(super) fn parts<'a>(schema: &'a Value, keyword: &str) -> Option<&'a [Value]> {
    let members = schema.as_object()?;
    let list = members.get(keyword)?.as_array()?;
    let is_plain = members.keys().all(|other| other == keyword || !is_restriction(other));
    is_plain.then_some(list.as_slice())
}

/// Returns whether two schemas have the same restricting members. They can then differ only in texts, in the default,
/// and in the content of the schemas to which they refer.
pub(super) fn are_alike(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let mut keywords = old.keys().chain(new.keys()).filter(|keyword| is_restriction(keyword));
    keywords.all(|keyword| old.get(keyword) == new.get(keyword))
}

/// Returns whether a keyword can affect which values are valid.
pub(super) fn is_restriction(keyword: &str) -> bool {
    !is_text(keyword) && !matches!(keyword, "default" | "definitions")
}

/// Returns whether a keyword does not affect which values are valid.
fn is_text(keyword: &str) -> bool {
    TEXTS.contains(&keyword)
        || keyword.starts_with("x-")
        || keyword.starts_with('$') && !REFERENCES.contains(&keyword)
}

/// Returns the relation between the values before and after the change of a keyword that [`compare`] does not examine.
pub(super) fn relation_of_other(
    keyword: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Relation {
    // If `additionalProperties` refuses or restricts unknown members, a pattern in `patternProperties` is an exception
    // that permits some of them. Without such a keyword, the pattern itself is a restriction.
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
    match (listed(old), listed(new)) {
        (None, None) => compare_types(old, new, report),
        (Some(before), Some(after)) => compare_enums(&before, &after, report),
        (None, Some(after)) => {
            report(Relation::Narrower, "enum", "only listed values are valid".into());
            if !after.values().all(|name| types_of(old).contains(name)) {
                report(Relation::Other, "type", "listed values have another type".into());
            }
        }
        (Some(before), None) => {
            report(Relation::Wider, "enum", "values need not be listed".into());
            if !before.values().all(|name| types_of(new).contains(name)) {
                report(Relation::Other, "type", "listed values have another type".into());
            }
        }
    }
    for &bound in LOWER_BOUNDS {
        compare_bound(bound, 1.0, old, new, report);
    }
    for &bound in UPPER_BOUNDS {
        compare_bound(bound, -1.0, old, new, report);
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

/// Returns the type of a value, as `type` names it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => {
            "integer"
        }
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether a value has one of the types that a schema permits.
pub(super) fn has_type(schema: &Map<String, Value>, value: &Value) -> bool {
    types_of(schema).contains(type_of(value))
}

/// Returns the values that a schema lists in `const` or `enum`, without those that its `type` excludes; `None` if it
/// lists no values.
pub(super) fn listed(schema: &Map<String, Value>) -> Option<Listed> {
    let values = match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
        (Some(value), Some(all)) if !all.contains(value) => &[][..],
        (Some(value), _) => std::slice::from_ref(value),
        (None, all) => all?.as_slice(),
    };
    let types = types_of(schema);
    let entry = |value: &Value| {
        // In JSON Schema, the numbers 1 and 1.0 are equal, so both get the text `1`.
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && value.is_f64());
        let text = whole.map_or_else(|| value.to_string(), |number| format!("{number:.0}"));
        (text, type_of(value))
    };
    Some(values.iter().map(entry).filter(|(_, name)| types.contains(name)).collect())
}

fn compare_enums(before: &Listed, after: &Listed, report: &mut Report<'_>) {
    for value in after.keys().filter(|value| !before.contains_key(*value)) {
        report(Relation::Wider, "enum", format!("the value {value} is added"));
    }
    for value in before.keys().filter(|value| !after.contains_key(*value)) {
        report(Relation::Narrower, "enum", format!("the value {value} is removed"));
    }
}

/// Returns whether no value can fit both schemas. This follows from their types or listed values, or from a member that
/// both require and for which they list different values, e.g. a discriminator.
pub(super) fn are_disjoint(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    let differ = |one: Option<Listed>, other: Option<Listed>| {
        one.zip(other)
            .is_some_and(|(one, other)| one.keys().all(|value| !other.contains_key(value)))
    };
    let types = |schema| match listed(schema) {
        Some(values) => values.into_values().collect(),
        None => types_of(schema),
    };
    if types(one).is_disjoint(&types(other)) || differ(listed(one), listed(other)) {
        return true;
    }
    let required = |schema: &Map<String, Value>, name: &String| {
        let names = schema.get("required")?.as_array()?;
        let member = schema.get("properties")?.get(name)?.as_object()?;
        listed(member).filter(|_| names.iter().any(|required| required == name))
    };
    let mut names = one.get("properties").and_then(Value::as_object).into_iter().flatten();
    let are_objects = [one, other].map(|schema| schema.get("type") == Some(&"object".into()));
    are_objects == [true; 2]
        && names.any(|(name, _)| differ(required(one, name), required(other, name)))
}

/// Reports the change of a bound. `sign` is 1 if a higher number allows fewer values, and -1 if a lower number does.
fn compare_bound(
    (inclusive, exclusive): (&'static str, &'static str),
    sign: f64,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    report: &mut Report<'_>,
) {
    // Multiply bounds by `sign`: the greater of two bounds then always allows fewer values.
    let bound = |schema: &Map<String, Value>| {
        let number = |keyword: &str| Some(schema.get(keyword)?.as_f64()? * sign);
        // In draft 4 of JSON Schema, `exclusiveMinimum` is not a number but a boolean: it makes the bound in `minimum`
        // exclusive.
        let is_open = schema.get(exclusive) == Some(&Value::Bool(true));
        let closed = number(inclusive).map(|bound| (bound, is_open));
        let open = number(exclusive).map(|bound| (bound, true));
        let bound = if open > closed { open } else { closed };
        let bound = if inclusive == "minContains" { bound.or(Some((1.0, false))) } else { bound };
        // A lower bound of zero for a length or a number of items restricts nothing, so it counts as absent.
        bound.filter(|bound| !exclusive.is_empty() || sign < 0.0 || bound.0 > 0.0)
    };
    let show = |(bound, is_open): (f64, bool)| {
        let keyword = if is_open { exclusive } else { inclusive };
        (keyword, format!("`{keyword}` {}", bound * sign))
    };
    let (before, after) = (bound(old), bound(new));
    if before == after {
        return;
    }
    let relation = if after > before { Relation::Narrower } else { Relation::Wider };
    let (keyword, what) = match (before.map(show), after.map(show)) {
        (None, None) => return,
        (None, Some((keyword, new))) => (keyword, format!("{new} is added")),
        (Some((keyword, old)), None) => (keyword, format!("{old} is removed")),
        (Some((_, old)), Some((keyword, new))) => (keyword, format!("{old} became {new}")),
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
