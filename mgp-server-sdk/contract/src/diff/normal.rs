//! Converts schemas to a normal form, which is the same for different descriptions of the same values, e.g. for `anyOf`
//! of two types and for a list of two types. Without it, a new version of a schema generator would cause differences.

use serde_json::{Map, Value};

use super::keywords::{has_type, is_restriction, listed};

static NULL: Value = Value::Null;

/// Returns the normal form of a schema, which permits the same values. If schemas are joined, some of their texts can
/// be lost.
pub(super) fn normal(schema: &Value) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let members = members.iter().map(|(name, value)| (name.clone(), member(name, value)));
    let mut read: Map<String, Value> = members.collect();
    for keyword in ["allOf", "anyOf", "oneOf"] {
        join(&mut read, keyword);
    }
    if read.get("type").is_some_and(|name| name == "integer") {
        for (exclusive, inclusive, step) in
            [("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)]
        {
            let bound = read.get(exclusive).and_then(Value::as_i64);
            if let Some(bound) = bound.and_then(|bound| bound.checked_add(step))
                && !read.contains_key(inclusive)
            {
                read.remove(exclusive);
                read.insert(inclusive.to_owned(), bound.into());
            }
        }
    }
    read.into()
}

fn member(name: &str, value: &Value) -> Value {
    match (name, value) {
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            Value::Object(named),
        ) => {
            let named = named.iter().map(|(name, schema)| (name.clone(), normal(schema)));
            named.collect::<Map<_, _>>().into()
        }
        ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
            list.iter().map(normal).collect()
        }
        ("items" | "additionalProperties" | "contains" | "propertyNames", schema) => normal(schema),
        (_, value) => value.clone(),
    }
}

/// Replaces a list of schemas, e.g. that of `anyOf`, by the members of one equivalent schema. Does nothing if other
/// keywords restrict the values too, or if the listed schemas cannot be joined.
fn join(schema: &mut Map<String, Value>, keyword: &str) {
    let Some(Value::Array(list)) = schema.get(keyword) else { return };
    if schema.keys().any(|other| other != keyword && is_restriction(other)) {
        return;
    }
    let Some(parts) = list.iter().map(Value::as_object).collect::<Option<Vec<_>>>() else { return };
    let joined = match (&parts[..], keyword) {
        ([one], _) => Some((*one).clone()),
        (parts, "allOf") => all(parts),
        (parts, _) => values(parts, keyword == "oneOf").or_else(|| types(parts)),
    };
    let Some(joined) = joined else { return };
    schema.remove(keyword);
    for (name, value) in joined {
        schema.entry(name).or_insert(value);
    }
}

/// Joins the schemas of an `allOf` to one, if they restrict values by different keywords; otherwise returns `None`.
/// Schemas with `additionalProperties` are not joined, because this keyword depends on the `properties` of its own
/// schema.
fn all(parts: &[&Map<String, Value>]) -> Option<Map<String, Value>> {
    let mut joined = Map::new();
    for (name, value) in parts.iter().copied().flatten() {
        let is_joined = name == "type" || kind(name).is_some() || !is_restriction(name);
        let is_first = joined.insert(name.clone(), value.clone()).is_none();
        let is_bound_to_schema = matches!(name.as_str(), "additionalProperties" | "default");
        if !is_joined || is_bound_to_schema || is_restriction(name) && !is_first {
            return None;
        }
    }
    Some(joined)
}

/// Joins the alternatives of an `anyOf` or `oneOf` to one `enum`, if each of them lists its values or permits only
/// `null`; otherwise returns `None`.
fn values(parts: &[&Map<String, Value>], is_one_of: bool) -> Option<Map<String, Value>> {
    let mut values = Vec::new();
    for part in parts {
        let mut restrictions: Vec<&str> = part.keys().map(String::as_str).collect();
        restrictions.retain(|name| *name == "default" || *name != "type" && is_restriction(name));
        let listed = match (&restrictions[..], part.get("type")) {
            ([], Some(Value::String(name))) if name == "null" => std::slice::from_ref(&NULL),
            (["const"], None | Some(Value::String(_))) => std::slice::from_ref(&part["const"]),
            (["enum"], None | Some(Value::String(_))) => part["enum"].as_array()?.as_slice(),
            _ => return None,
        };
        values.extend(listed.iter().filter(|value| has_type(part, value)).cloned());
    }
    let count = values.len();
    let mut joined = Map::new();
    joined.insert("enum".to_owned(), values.into());
    // `oneOf` refuses a value that several of its schemas list, but the joined `enum` would accept it, so the
    // alternatives are joined only if no value is repeated.
    let is_unique = listed(&joined).is_some_and(|listed| listed.len() == count);
    (is_unique || !is_one_of).then_some(joined)
}

/// Joins the alternatives of an `anyOf` or `oneOf` to one schema, if they have different types; otherwise returns
/// `None`. A keyword keeps its meaning, because it restricts only values of its own type.
fn types(parts: &[&Map<String, Value>]) -> Option<Map<String, Value>> {
    let (mut types, mut joined) = (Vec::new(), Map::new());
    for part in parts {
        let own = part.get("type")?.as_str()?;
        // Keywords such as `minimum` apply to integers and to other numbers, so an integer has the keywords of a
        // number.
        let kind_of_own = if own == "integer" { "number" } else { own };
        for (name, value) in part.iter().filter(|(name, _)| *name != "type") {
            if name == "default" || is_restriction(name) && kind(name) != Some(kind_of_own) {
                return None;
            }
            joined.insert(name.clone(), value.clone());
        }
        types.push((kind_of_own, own));
    }
    types.sort_unstable();
    if types.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    joined.insert("type".to_owned(), types.into_iter().map(|(_, own)| own).collect());
    Some(joined)
}

/// Returns the type whose values a keyword restricts; `None` if it restricts values of several types.
fn kind(keyword: &str) -> Option<&'static str> {
    match keyword {
        "minLength" | "maxLength" | "pattern" | "format" => Some("string"),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            Some("number")
        }
        "items" | "minItems" | "maxItems" | "uniqueItems" => Some("array"),
        "properties" | "required" | "additionalProperties" | "minProperties" | "maxProperties" => {
            Some("object")
        }
        _ => None,
    }
}
