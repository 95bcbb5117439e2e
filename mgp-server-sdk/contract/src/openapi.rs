//! Writes OpenAPI 3.1 documents about tools, with one path per tool.

use std::collections::HashSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::contract::Contract;
use crate::example::examples;

/// The characters that are escaped in a segment of a path (RFC 3986 §2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that are escaped in the fragment of a reference.
const ESCAPED_IN_REFERENCE: &AsciiSet = &ESCAPED.remove(b'/').remove(b'$');

/// Returns an OpenAPI 3.1 document in which each tool is a `POST` to `/tools/NAME`.
#[must_use]
pub fn openapi(title: &str, version: &str, tools: &[Contract]) -> Value {
    let mut schemas = Schemas::default();
    schemas.0.insert("Error".to_owned(), error_schema());
    let (mut paths, mut ids) = (Map::new(), HashSet::new());
    for tool in tools {
        let input = schemas.add(&format!("{}.input", key_of(&tool.name, '.')), &tool.input);
        let mut operation = operation(tool, &input);
        if let Some(output) = &tool.output {
            let key = schemas.add(&format!("{}.output", key_of(&tool.name, '.')), output);
            operation["responses"]["200"]["content"]["application/json"]["schema"] =
                json!({ "$ref": reference(&key) });
        }
        let id = free_key(&format!("tool_{}", key_of(&tool.name, '_')), |id| ids.contains(id));
        operation["operationId"] = id.as_str().into();
        ids.insert(id);
        let path = format!("/tools/{}", utf8_percent_encode(&tool.name, ESCAPED));
        paths.insert(path, json!({ "post": operation }));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": title, "version": version },
        "paths": paths,
        "components": {
            "schemas": schemas.0,
            "responses": responses(),
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "bearer": [] }, {}],
    })
}

fn operation(tool: &Contract, input: &str) -> Value {
    let first = tool.description().split(['\n', '.']).next().unwrap_or_default();
    let summary = if tool.text("title").is_empty() { first } else { tool.text("title") };
    let mut responses = Map::new();
    responses.insert(
        "200".to_owned(),
        json!({ "description": "The structured content of the result, or its blocks as `content`.", "content": { "application/json": { "schema": {} } } }),
    );
    for (status, name, _) in FAILURES {
        let response = json!({ "$ref": format!("#/components/responses/{name}") });
        responses.insert((*status).to_owned(), response);
    }
    let mut body = json!({ "schema": { "$ref": reference(input) } });
    if let Some(example) = examples(&tool.input).ok().and_then(|all| all.into_iter().next()) {
        body["example"] = example;
    }
    let mut operation = json!({
        "summary": summary,
        "description": tool.description(),
        "requestBody": { "required": true, "content": { "application/json": body } },
        "responses": responses,
    });
    if tool.is_deprecated() {
        operation["deprecated"] = true.into();
    }
    operation
}

/// The responses other than 200, each with its status, name and description.
const FAILURES: &[(&str, &str, &str)] = &[
    ("400", "ValidationError", "The arguments do not fit the schema."),
    ("401", "Unauthorized", "The key is missing or unknown."),
    (
        "403",
        "Forbidden",
        "The caller may not use the tool, a person must decide, or a check rejected the arguments.",
    ),
    ("404", "NotFound", "There is no such tool."),
    (
        "409",
        "Conflict",
        "The tool is disabled, several tools have its name, or it asks its caller for input.",
    ),
    ("422", "ToolError", "The tool ran and failed."),
    (
        "429",
        "TooManyRequests",
        "A limit is reached; `Retry-After`, if present, has the seconds to wait.",
    ),
    ("default", "Failure", "The tool was not reached, or did not answer in time."),
];

fn responses() -> Value {
    let content = json!({ "application/json": { "schema": { "$ref": reference("Error") } } });
    let entry = |(_, name, description): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({ "description": description, "content": content }))
    };
    Value::Object(FAILURES.iter().map(entry).collect())
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "error": {
            "type": "object",
            "properties": {
                "code": { "type": "integer", "description": "The code of the error." },
                "message": { "type": "string", "description": "The reason." },
                "data": { "description": "Details of the error." },
            },
            "required": ["code", "message"],
        } },
        "required": ["error"],
    })
}

fn reference(component: &str) -> String {
    format!("#/components/schemas/{component}")
}

/// The schemas in the components of a document.
#[derive(Debug, Default)]
struct Schemas(Map<String, Value>);

impl Schemas {
    /// Adds a schema and returns its key. Its definitions become components too, because most generators of clients
    /// follow references to components only.
    fn add(&mut self, wanted: &str, whole: &Value) -> String {
        let key = self.insert(wanted, Value::Null);
        let mut schema = whole.clone();
        let (mut moved, mut components) = (Vec::new(), Vec::new());
        if let Some(members) = schema.as_object_mut() {
            members.remove("$schema");
            members.remove("$id");
            for list in ["$defs", "definitions"] {
                let Some(Value::Object(definitions)) = members.remove(list) else { continue };
                for (name, definition) in definitions {
                    let anchor = definition["$anchor"].as_str().map(str::to_owned);
                    let component =
                        self.insert(&format!("{key}.{}", key_of(&name, '.')), definition);
                    let name = name.replace('~', "~0").replace('/', "~1");
                    moved.extend(anchor.map(|anchor| (anchor, component.clone())));
                    moved.push((format!("/{list}/{name}"), component.clone()));
                    components.push(component);
                }
            }
        }
        let references = References { whole, key: &key, moved: &moved };
        references.redirect(&mut schema);
        for component in &components {
            if let Some(definition) = self.0.get_mut(component) {
                references.redirect(definition);
            }
        }
        self.0.insert(key.clone(), schema);
        key
    }

    /// Inserts a component under a free key, and returns the key.
    fn insert(&mut self, wanted: &str, schema: Value) -> String {
        let key = free_key(wanted, |key| self.0.contains_key(key));
        self.0.insert(key.clone(), schema);
        key
    }
}

/// Returns a key for a component that is not taken yet, with a number at its end if necessary. Two names can become
/// equal when characters that a key must not contain are replaced.
fn free_key(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut key = wanted.to_owned();
    let mut number = 2;
    while is_taken(&key) {
        key = format!("{wanted}_{number}");
        number += 1;
    }
    key
}

/// The references within one schema, whose parts become components.
struct References<'a> {
    /// The schema as the tool lists it.
    whole: &'a Value,
    /// The key of its component.
    key: &'a str,
    /// The paths and the anchors of its definitions, each with the key of the component of the definition.
    moved: &'a [(String, String)],
}

impl References<'_> {
    /// Rewrites the references in a part of the schema so that they point to components, and writes lists of `items` in
    /// the form of JSON Schema 2020-12. A reference without a target is removed, because generators of clients refuse
    /// the whole document otherwise.
    fn redirect(&self, part: &mut Value) {
        match part {
            Value::Array(parts) => parts.iter_mut().for_each(|part| self.redirect(part)),
            Value::Object(members) => {
                if let Some(Value::String(to)) = members.get("$ref")
                    && let Some(fragment) = to.strip_prefix('#')
                {
                    match self.target(fragment) {
                        Some(target) => members.insert("$ref".to_owned(), target.into()),
                        None => members.remove("$ref"),
                    };
                }
                in_newer_form(members);
                for (name, part) in members {
                    match (name.as_str(), part) {
                        // These are values and names, not schemas.
                        (
                            "const" | "default" | "dependentRequired" | "enum" | "example"
                            | "examples",
                            _,
                        ) => {}
                        ("discriminator", part) => self.redirect_mapping(part),
                        // The members are names that the tool chose, e.g. an argument `default`.
                        (
                            "properties" | "patternProperties" | "dependencies"
                            | "dependentSchemas" | "$defs" | "definitions",
                            Value::Object(schemas),
                        ) => schemas.values_mut().for_each(|schema| self.redirect(schema)),
                        (_, part) => self.redirect(part),
                    }
                }
            }
            _ => {}
        }
    }

    /// Rewrites the references of a `discriminator`, which are not in `$ref`.
    fn redirect_mapping(&self, discriminator: &mut Value) {
        let mapping = discriminator.get_mut("mapping").and_then(Value::as_object_mut);
        for to in mapping.into_iter().flat_map(Map::values_mut) {
            let target = to.as_str().and_then(|to| self.target(to.strip_prefix('#')?));
            if let Some(target) = target {
                *to = target.into();
            }
        }
    }

    /// Returns the reference to the component for a reference within the schema, without its `#`. Returns `None` if
    /// the schema does not have its target.
    fn target(&self, fragment: &str) -> Option<String> {
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        let is_path = fragment.is_empty() || fragment.starts_with('/');
        let fragment = if is_path { self.newer_path(&fragment)? } else { fragment.into_owned() };
        let moved = self.moved.iter().find_map(|(from, component)| {
            let rest = fragment.strip_prefix(from.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then_some((component.as_str(), rest))
        });
        let (component, rest) =
            moved.or_else(|| is_path.then_some((self.key, fragment.as_str())))?;
        Some(reference(component) + &utf8_percent_encode(rest, ESCAPED_IN_REFERENCE).to_string())
    }

    /// Returns a path within the schema as it is after [`in_newer_form`]. Returns `None` if the schema does not have
    /// it.
    fn newer_path(&self, path: &str) -> Option<String> {
        let (mut part, mut newer) = (self.whole, String::new());
        for name in path.split('/').skip(1) {
            let has_list = part.get("items").is_some_and(Value::is_array);
            newer.push('/');
            newer += match name {
                "items" if has_list => "prefixItems",
                "additionalItems" if has_list => "items",
                name => name,
            };
            part = part.pointer(&format!("/{name}"))?;
        }
        Some(newer)
    }
}

/// Writes a list of `items`, one schema for each item, as `prefixItems`. JSON Schema had such lists before 2020-12, and
/// a document with one is not valid.
fn in_newer_form(members: &mut Map<String, Value>) {
    let Some(Value::Array(items)) = members.get_mut("items") else { return };
    let items = std::mem::take(items);
    match members.remove("additionalItems") {
        Some(rest) => members.insert("items".to_owned(), rest),
        None => members.remove("items"),
    };
    if !items.is_empty() {
        members.insert("prefixItems".to_owned(), items.into());
    }
}

/// Replaces each character that a key must not contain by `_`, and keeps `separator`.
fn key_of(name: &str, separator: char) -> String {
    let permits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == separator || c == '-';
    name.chars().map(|c| if permits(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_a_path_whose_references_stay_within_its_schema() {
        let tool = |name: &str| {
            Contract::from_definition(json!({
                "name": name, "description": "Finds. Quickly.",
                "inputSchema": { "$schema": "x", "type": "object", "properties": { "q": { "$ref": "#/$defs/q~1x" } }, "$defs": { "q/x": { "type": "string" } } },
                "outputSchema": { "type": "object", "properties": { "next": { "$ref": "#" } } },
            }))
            .unwrap()
        };
        let document = openapi("Tools", "1.0.0", &[tool("a.find"), tool("b/find"), tool("b_find")]);
        let operation = &document["paths"]["/tools/a.find"]["post"];
        assert_eq!(
            (&operation["summary"], &operation["operationId"]),
            (&json!("Finds"), &json!("tool_a_find"))
        );
        assert_eq!(operation["responses"].as_object().map(Map::len), Some(9));
        let schemas = &document["components"]["schemas"];
        let input = &schemas["a.find.input"];
        assert_eq!(input["properties"]["q"]["$ref"], "#/components/schemas/a.find.input.q_x");
        assert_eq!(schemas["a.find.input.q_x"], json!({ "type": "string" }));
        assert!(input.get("$schema").is_none() && input.get("$defs").is_none());
        // Two tools whose names become equal get separate operations and schemas too.
        let other = &document["paths"]["/tools/b_find"]["post"];
        assert_eq!(other["operationId"], "tool_b_find_2");
        let body = &other["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(body, "#/components/schemas/b_find.input_2");
        assert!(document["paths"]["/tools/b%2Ffind"]["post"]["operationId"] == "tool_b_find");
        let mut open = vec![&document];
        while let Some(part) = open.pop() {
            if let Some(to) = part.get("$ref").and_then(Value::as_str) {
                assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to}");
            }
            let members = part.as_object().into_iter().flat_map(Map::values);
            open.extend(members.chain(part.as_array().into_iter().flatten()));
        }
    }

    #[test]
    fn a_schema_with_older_or_broken_parts_becomes_a_valid_component() {
        let tool = Contract::from_definition(json!({
            "name": "t",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "pair": { "items": [{ "type": "number" }, {}], "additionalItems": false },
                    "anchored": { "$ref": "#part" },
                    "spaced": { "$ref": "#/properties/a%20b" },
                    "gone": { "$ref": "#/$defs/gone" },
                    "unknown": { "$ref": "#unknown", "type": "string" },
                    "default": { "$ref": "#/$defs/part" },
                    "value": {
                        "default": { "$ref": "#/x", "items": [1] }, "example": { "items": [1] },
                    },
                    "second": { "$ref": "#/properties/pair/items/1" },
                    "union": { "discriminator": { "mapping": { "p": "#/$defs/part" } } },
                    "a b": {},
                },
                "dependentRequired": { "items": ["pair"] },
                "$defs": { "part": { "$anchor": "part", "type": "string" } },
            },
        }))
        .unwrap();
        let document = openapi("Tools", "1.0.0", &[tool]);
        let input = &document["components"]["schemas"]["t.input"];
        assert_eq!(input["dependentRequired"], json!({ "items": ["pair"] }));
        let properties = &input["properties"];
        let component = json!({ "$ref": "#/components/schemas/t.input.part" });
        assert_eq!(
            properties["pair"],
            json!({ "prefixItems": [{ "type": "number" }, {}], "items": false })
        );
        assert_eq!((&properties["anchored"], &properties["default"]), (&component, &component));
        assert_eq!(properties["spaced"]["$ref"], "#/components/schemas/t.input/properties/a%20b");
        assert_eq!(properties["gone"], json!({}));
        assert_eq!(properties["unknown"], json!({ "type": "string" }));
        let own =
            json!({ "default": { "$ref": "#/x", "items": [1] }, "example": { "items": [1] } });
        assert_eq!(properties["value"], own);
        let second = "#/components/schemas/t.input/properties/pair/prefixItems/1";
        assert_eq!(properties["second"]["$ref"], second);
        assert_eq!(properties["union"]["discriminator"]["mapping"]["p"], component["$ref"]);
    }
}
