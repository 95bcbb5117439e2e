//! Converts the schemas of a document to schemas of arguments: JSON Schema 2020-12 without references to other
//! documents.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::name;
use crate::reference::{resolve, target};

/// The maximum size of the schemas of one tool; a schema beyond it is replaced by a schema that allows any value.
const MAX_BYTES: usize = 16 << 10;

/// The maximum number of schemas that are read for one tool.
const MAX_SCHEMAS: usize = 2_000;

const MAX_DEPTH: usize = 32;

/// The maximum length of a chain of references in a document's schemas.
const MAX_CHAIN: usize = 24;

/// The maximum length of an argument's description.
const MAX_DESCRIPTION: usize = 400;

/// The maximum number of alternatives that a description names, and of values for each; long descriptions are clipped.
const MAX_SELECTED: usize = 30;

/// The maximum size of a copied schema member, such as a list of values.
const MAX_MEMBER: usize = 4 << 10;

/// The keywords whose lists must not repeat an item.
const LISTS: [&str; 3] = ["enum", "required", "type"];

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A converter of the schemas that the arguments of one tool need; it collects the schemas to which they refer.
pub(crate) struct Schemas<'a> {
    root: &'a Value,
    /// For each reference that was found in the document, the name of its target in the tool's schema.
    names: HashMap<&'a str, String>,
    used: HashSet<String>,
    waiting: VecDeque<&'a str>,
    bytes: usize,
    read: usize,
}

impl<'a> Schemas<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        let (names, used) = (HashMap::new(), HashSet::new());
        Self { root, names, used, waiting: VecDeque::new(), bytes: 0, read: 0 }
    }

    /// Converts a schema so that its references point only to schemas of the same tool.
    pub(crate) fn read(&mut self, schema: &'a Value) -> Value {
        let read = self.converted(schema, 0);
        self.bounded(read)
    }

    /// Returns the converted schemas to which the references point, by name.
    pub(crate) fn definitions(mut self) -> BTreeMap<String, Value> {
        let (mut definitions, mut names) = (BTreeMap::new(), Vec::new());
        while let Some(reference) = self.waiting.pop_front() {
            let read = target(self.root, reference)
                .map_or_else(|| json!({}), |schema| self.converted(schema, 0));
            let read = self.bounded(read);
            definitions.insert(self.names[reference].clone(), read);
            names.push(self.names[reference].clone());
        }
        // Begin with the schemas to which the arguments refer directly, so that cyclic references are cut as far inside
        // as possible.
        let (mut open, mut chains) = (Vec::new(), HashMap::new());
        for name in names {
            cut_circles(&name, &mut definitions, &mut open, &mut chains);
        }
        definitions
    }

    fn bounded(&mut self, schema: Value) -> Value {
        let bytes = schema.to_string().len();
        if self.bytes + bytes > MAX_BYTES {
            return json!({});
        }
        self.bytes += bytes;
        schema
    }

    fn converted(&mut self, schema: &'a Value, depth: usize) -> Value {
        self.read += 1;
        let Some(members) = schema.as_object() else {
            // `true` and `false` are schemas, too; an invalid schema is replaced by a schema that allows any value.
            return if schema.is_boolean() { schema.clone() } else { json!({}) };
        };
        if depth > MAX_DEPTH || self.read > MAX_SCHEMAS {
            return json!({});
        }
        if let Some(reference) = members.get("$ref") {
            let mut target = self.reference(reference.as_str().unwrap_or_default());
            // Since OpenAPI 3.1, a reference can have a description of its own.
            if let (Some(text), Some(target)) =
                (members.get("description").and_then(Value::as_str), target.as_object_mut())
            {
                let text = mgp_types::clip(text, MAX_DESCRIPTION);
                target.insert("description".to_owned(), text.into());
            }
            let is_nullable = members.get("nullable") == Some(&Value::Bool(true));
            return if is_nullable { or_null(target) } else { target };
        }
        let mut read = Map::new();
        for (name, value) in members {
            // `oneOf` is converted to `anyOf`. A reference that is cut permits any value, so several alternatives can
            // fit the same value, which `oneOf` would forbid.
            let is_one_of = name == "oneOf";
            if is_one_of && members.contains_key("anyOf") {
                continue;
            }
            if let Some(value) = self.member(name, value, depth + 1) {
                let name = if is_one_of { "anyOf" } else { name.as_str() };
                read.insert(name.to_owned(), value);
            }
        }
        self.leave_out_read_only(&mut read, members);
        if let Some((member, text)) = self.selection(members) {
            describe_member(&mut read, member, text);
        }
        in_newer_form(read, members)
    }

    /// Returns the member that selects one of the alternatives (`discriminator`), and a text with its values and the
    /// schemas that they select, because JSON Schema has no keyword for this.
    fn selection(&self, members: &'a Map<String, Value>) -> Option<(&'a str, String)> {
        let discriminator = members.get("discriminator")?;
        let member = discriminator["propertyName"].as_str()?;
        let schemas = ["oneOf", "anyOf"].iter().find_map(|list| members.get(*list)?.as_array())?;
        let mut values = Vec::new();
        let references = schemas.iter().filter_map(|schema| schema["$ref"].as_str());
        for reference in references.take(MAX_SELECTED) {
            let Some(own) = self.names.get(reference) else { continue };
            // Without a mapping, the name of a schema is the value that selects it. A mapping has its own values, each
            // with the name of a schema or a reference to it.
            let last = reference.rsplit('/').next().unwrap_or_default();
            let mapping = discriminator["mapping"].as_object().into_iter().flatten();
            let mapped = mapping.filter(|(_, to)| **to == reference || **to == last);
            let mapped = mapped.map(|(value, _)| value.as_str());
            let mut mapped: Vec<&str> = mapped.take(MAX_SELECTED).collect();
            if mapped.is_empty() {
                mapped.push(last);
            }
            values.extend(mapped.iter().map(|value| format!("`{value}` selects `{own}`")));
        }
        let text = mgp_types::clip(&values.join(", "), MAX_DESCRIPTION);
        (!text.is_empty()).then_some((member, text))
    }

    fn reference(&mut self, reference: &'a str) -> Value {
        if let Some(known) = self.names.get(reference) {
            return json!({ "$ref": format!("#/$defs/{known}") });
        }
        if !reference.starts_with("#/") {
            return json!({});
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let own = name::unique(last, &mut self.used);
        let pointer = format!("#/$defs/{own}");
        self.names.insert(reference, own);
        self.waiting.push_back(reference);
        json!({ "$ref": pointer })
    }

    fn member(&mut self, name: &str, value: &'a Value, depth: usize) -> Option<Value> {
        // A schema with more than `MAX_BYTES` members is too long and will be replaced, so the rest is not converted.
        match name {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let members = value.as_object()?.iter().take(MAX_BYTES);
                let read =
                    members.map(|(name, schema)| (name.clone(), self.converted(schema, depth)));
                Some(read.collect::<Map<_, _>>().into())
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?.iter();
                Some(schemas.take(MAX_BYTES).map(|schema| self.converted(schema, depth)).collect())
            }
            // If the conversion makes the schema inside wider, `not` would refuse more values, and `if` would apply to
            // more values, so such a keyword is dropped.
            "not" | "if" if can_become_wider(value) => None,
            "not" => {
                let read = self.converted(value, depth);
                (read == *value || read != json!({})).then_some(read)
            }
            "items"
            | "additionalProperties"
            | "contains"
            | "if"
            | "then"
            | "else"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties" => Some(self.converted(value, depth)),
            "description" | "title" => {
                Some(mgp_types::clip(value.as_str()?, MAX_DESCRIPTION).into())
            }
            _ => {
                let is_kept = is_short(value) && is_usable(name, value);
                let list = value.as_array().filter(|_| LISTS.contains(&name));
                is_kept.then(|| list.map_or_else(|| value.clone(), |list| distinct(list)))
            }
        }
    }

    /// Leaves out properties that are `readOnly`, because they occur only in responses.
    fn leave_out_read_only(&self, read: &mut Map<String, Value>, members: &'a Map<String, Value>) {
        let Some(properties) = members.get("properties").and_then(Value::as_object) else { return };
        let is_read_only = |schema: &'a Value| {
            resolve(self.root, schema).is_some_and(|schema| schema["readOnly"] == true)
        };
        let left_out: HashSet<&str> = properties
            .iter()
            .filter(|(_, schema)| is_read_only(schema))
            .map(|(name, _)| name.as_str())
            .collect();
        if left_out.is_empty() {
            return;
        }
        if let Some(Value::Object(properties)) = read.get_mut("properties") {
            properties.retain(|name, _| !left_out.contains(name.as_str()));
        }
        if let Some(Value::Array(required)) = read.get_mut("required") {
            required.retain(|name| name.as_str().is_none_or(|name| !left_out.contains(name)));
            if required.is_empty() {
                read.remove("required");
            }
        }
    }
}

/// Adds a description to the schema of a member, unless it already has one. Only the description is added, so the
/// member's values are not restricted.
fn describe_member(schema: &mut Map<String, Value>, member: &str, text: String) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    let described = properties.entry(member).or_insert_with(|| json!({}));
    if let Some(described) = described.as_object_mut() {
        described.entry("description").or_insert_with(|| text.into());
    }
}

/// Returns whether the converted schema might permit more values than `schema`: a reference might be cut, a `oneOf`
/// becomes `anyOf`, and a part of a schema with more than [`MAX_MEMBER`] bytes might be left out.
fn can_become_wider(schema: &Value) -> bool {
    if !is_short(schema) {
        return true;
    }
    let text = schema.to_string();
    text.contains("\"$ref\"") || text.contains("\"oneOf\"")
}

/// Returns whether a value has at most [`MAX_MEMBER`] bytes in JSON. Stops writing it at the limit, because many
/// operations can share one long value.
fn is_short(value: &Value) -> bool {
    serde_json::to_writer(&mut [0_u8; MAX_MEMBER][..], value).is_ok()
}

/// Returns a copy of a list without repeated items, because hosts refuse them.
fn distinct(list: &[Value]) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    for item in list {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    kept.into()
}

/// Returns whether a keyword that contains no schemas restricts arguments, and has a value that JSON Schema permits.
/// Wrong values such as `"required": true` or `"type": "file"` are left out, because hosts and the review of
/// definitions would refuse the tool.
fn is_usable(keyword: &str, value: &Value) -> bool {
    let list = |is_fit: fn(&Value) -> bool| {
        value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_fit))
    };
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match keyword {
        "const" | "default" => true,
        "type" => is_type(value) || list(is_type),
        "enum" => list(|_| true),
        "required" => list(Value::is_string),
        "format" | "pattern" | "contentEncoding" | "contentMediaType" => value.is_string(),
        "minimum" | "maximum" => value.is_number(),
        "exclusiveMinimum" | "exclusiveMaximum" => value.is_number() || value.is_boolean(),
        "multipleOf" => value.as_f64().is_some_and(|step| step > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => value.is_u64(),
        "uniqueItems" => value.is_boolean(),
        "dependentRequired" => value.is_object(),
        _ => false,
    }
}

/// Breaks the cycles of references: replaces each reference that leads back to its own schema by a schema that allows
/// any value, because hosts and argument checks do not accept cycles. A chain of more than [`MAX_CHAIN`] references is
/// cut in the same way. `chains` has the length of the longest chain from each schema that is done.
fn cut_circles(
    name: &str,
    definitions: &mut BTreeMap<String, Value>,
    open: &mut Vec<String>,
    chains: &mut HashMap<String, usize>,
) {
    if chains.contains_key(name) {
        return;
    }
    let Some(mut schema) = definitions.remove(name) else { return };
    open.push(name.to_owned());
    let mut referred = Vec::new();
    let mut parts = vec![&mut schema];
    while let Some(part) = parts.pop() {
        let to = part.get("$ref").and_then(Value::as_str);
        if let Some(to) = to.and_then(|to| to.strip_prefix("#/$defs/")).map(str::to_owned) {
            let length = open.len() + chains.get(&to).unwrap_or(&1);
            if open.contains(&to) || length > MAX_CHAIN {
                if let Some(members) = part.as_object_mut() {
                    members.remove("$ref");
                }
            } else {
                referred.push(to);
            }
            continue;
        }
        match part {
            Value::Array(items) => parts.extend(items),
            Value::Object(members) => parts.extend(members.values_mut()),
            _ => {}
        }
    }
    let mut longest = 0;
    for name in referred {
        cut_circles(&name, definitions, open, chains);
        longest = longest.max(chains.get(&name).copied().unwrap_or_default());
    }
    open.pop();
    chains.insert(name.to_owned(), longest + 1);
    definitions.insert(name.to_owned(), schema);
}

/// Translates keywords of OpenAPI 3.0 to JSON Schema 2020-12: `nullable`, and the boolean forms of `exclusiveMinimum`
/// and `exclusiveMaximum`. Also adds `items` to a list that has none.
fn in_newer_form(mut read: Map<String, Value>, members: &Map<String, Value>) -> Value {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match read.get(exclusive) {
            Some(Value::Bool(true)) => match read.remove(bound) {
                Some(number) => read.insert(exclusive.to_owned(), number),
                None => read.remove(exclusive),
            },
            Some(Value::Bool(false)) => read.remove(exclusive),
            _ => None,
        };
    }
    let has_items = ["items", "prefixItems"].iter().any(|list| read.contains_key(*list));
    let is_list = read.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "array"),
        kind => kind == "array",
    });
    if is_list && !has_items {
        // Some model providers refuse a list without this keyword, so add it.
        read.insert("items".to_owned(), json!({}));
    }
    if members.get("nullable") != Some(&Value::Bool(true)) {
        return read.into();
    }
    // The schemas in the list do not permit `null`, even if the `type` of this schema did. So permit `null` as an
    // alternative to the whole schema.
    if ["allOf", "anyOf"].iter().any(|list| read.contains_key(*list)) {
        return or_null(read.into());
    }
    if let Some(Value::String(kind)) = read.get("type").cloned() {
        read.insert("type".to_owned(), json!([kind, "null"]));
    }
    if let Some(Value::Array(values)) = read.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    read.into()
}

/// Returns a schema that permits `null` and the values of another schema.
fn or_null(schema: Value) -> Value {
    let mut either = Map::new();
    either.insert("anyOf".to_owned(), Value::Array(vec![schema, json!({ "type": "null" })]));
    either.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_definitions_and_circles_are_cut() {
        let root = json!({"components": {"schemas": {
            "Node": {"type": "object", "x-go": 1, "properties": {
                "id": {"type": "integer", "readOnly": true},
                "next": {"$ref": "#/components/schemas/Node", "description": "the next one"},
                "size": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "nullable": true},
            }, "required": ["id", "next"]},
        }}});
        let start = json!({"$ref": "#/components/schemas/Node"});
        let described = json!({"$ref": "#/components/schemas/Node", "description": "d"});
        let mut schemas = Schemas::new(&root);
        assert_eq!(schemas.read(&start), json!({"$ref": "#/$defs/Node"}));
        let expected = json!({"$ref": "#/$defs/Node", "description": "d"});
        assert_eq!(schemas.read(&described), expected);
        let definitions = schemas.definitions();
        assert_eq!(
            definitions["Node"],
            json!({"type": "object", "properties": {
                "next": {"description": "the next one"},
                "size": {"type": ["number", "null"], "exclusiveMinimum": 0},
            }, "required": ["next"]})
        );
    }

    #[test]
    fn the_values_of_a_discriminator_are_described() {
        let schema = |name: &str| format!("#/components/schemas/{name}");
        let root = json!({"components": {"schemas": {"Cat": {}, "Dog": {}, "Fox": {}}}});
        let one_of = json!({
            "oneOf": [{"$ref": schema("Cat")}, {"$ref": schema("Dog")}, {"$ref": schema("Fox")}],
            "discriminator": {"propertyName": "kind", "mapping": {
                "cat": schema("Cat"), "kitten": schema("Cat"), "hound": "Dog",
            }},
        });
        let read = Schemas::new(&root).read(&one_of);
        assert_eq!(
            read["properties"]["kind"],
            json!({"description": "`cat` selects `Cat`, `kitten` selects `Cat`, \
                `hound` selects `Dog`, `Fox` selects `Fox`"})
        );
        assert_eq!(read["anyOf"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn a_schema_that_hosts_refuse_or_that_fits_nothing_becomes_one_that_fits() {
        let root = json!({});
        let cut = json!({"$ref": "other.json"});
        let nothing = json!({"type": "null"});
        for (schema, expected) in [
            // If both alternatives are cut, each fits every value, so `oneOf` would accept no value.
            (json!({"oneOf": [cut, cut]}), json!({"anyOf": [{}, {}]})),
            (
                json!({"type": "object", "not": {"items": cut}, "if": cut}),
                json!({"type": "object"}),
            ),
            (json!({"not": {"oneOf": [{"minimum": 1}, {"maximum": 2}]}}), json!({})),
            (json!({"not": {"type": "file"}}), json!({})),
            (json!({"not": {"type": "string", "enum": ["a".repeat(MAX_MEMBER)]}}), json!({})),
            (json!({"not": {}}), json!({"not": {}})),
            (json!({"type": "array"}), json!({"type": "array", "items": {}})),
            (json!({"type": ["array", "null"]}), json!({"type": ["array", "null"], "items": {}})),
            (
                json!({"properties": {"id": {"readOnly": true}}, "required": ["id"]}),
                json!({"properties": {}}),
            ),
            (
                json!({"type": ["object", "object"], "enum": [1, 2, 1], "required": ["a", "a"]}),
                json!({"type": ["object"], "enum": [1, 2], "required": ["a"]}),
            ),
            (
                json!({"type": "file", "required": true, "minLength": "1", "enum": [], "optional": 1}),
                json!({}),
            ),
            (
                json!({"type": "object", "nullable": true, "allOf": [cut]}),
                json!({"anyOf": [{"type": "object", "allOf": [{}]}, nothing]}),
            ),
            (json!({"$ref": "other.json", "nullable": true}), json!({"anyOf": [{}, nothing]})),
        ] {
            assert_eq!(Schemas::new(&root).read(&schema), expected);
        }
    }

    #[test]
    fn long_chains_of_references_are_cut_whatever_the_order_of_their_names() {
        for order in [(10..70).collect::<Vec<_>>(), (10..70).rev().collect()] {
            let to = |at: usize| json!({"$ref": format!("#/components/schemas/S{at}")});
            let schemas: Map<String, Value> = order
                .windows(2)
                .map(|pair| (format!("S{}", pair[0]), json!({"items": to(pair[1])})))
                .collect();
            let root = json!({"components": {"schemas": schemas}});
            let start = to(order[0]);
            let mut schemas = Schemas::new(&root);
            schemas.read(&start);
            let definitions = schemas.definitions();
            let length = |name: &str| {
                let (mut schema, mut length) = (&definitions[name], 1);
                while let Some(to) = schema["items"]["$ref"].as_str() {
                    schema = &definitions[to.trim_start_matches("#/$defs/")];
                    length += 1;
                }
                length
            };
            assert_eq!(length(&format!("S{}", order[0])), MAX_CHAIN);
            assert_eq!(definitions.keys().map(|name| length(name)).max(), Some(MAX_CHAIN));
        }
    }

    #[test]
    fn a_large_or_deep_schema_permits_anything_beyond_the_bounds() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        let root = json!({});
        let read = Schemas::new(&root).read(&deep).to_string();
        assert!(read.len() < 4_000 && !read.contains("string"), "{read}");
        let wide: Map<String, Value> =
            (0..5_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        let wide = json!({ "properties": wide });
        assert_eq!(Schemas::new(&root).read(&wide), json!({}));
    }
}
