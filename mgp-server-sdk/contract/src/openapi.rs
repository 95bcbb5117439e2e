//! Writes OpenAPI 3.1 documents about tools, with one path per tool.

use std::collections::HashSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::contract::Contract;
use crate::example::examples;

/// The characters that are escaped in a segment of a path (RFC 3986 §2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

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
    fn add(&mut self, wanted: &str, schema: &Value) -> String {
        let key = self.insert(wanted, Value::Null);
        let mut schema = schema.clone();
        let mut moved = Vec::new();
        if let Some(members) = schema.as_object_mut() {
            members.remove("$schema");
            members.remove("$id");
            for list in ["$defs", "definitions"] {
                let Some(Value::Object(definitions)) = members.remove(list) else { continue };
                for (name, definition) in definitions {
                    let component =
                        self.insert(&format!("{key}.{}", key_of(&name, '.')), definition);
                    let name = name.replace('~', "~0").replace('/', "~1");
                    moved.push((format!("#/{list}/{name}"), component));
                }
            }
        }
        redirect(&mut schema, &key, &moved);
        for (_, component) in &moved {
            if let Some(definition) = self.0.get_mut(component) {
                redirect(definition, &key, &moved);
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

/// Rewrites the references within a schema. They then point to the component with the key `key`, or to the components
/// to which the definitions of the schema were `moved`.
fn redirect(part: &mut Value, key: &str, moved: &[(String, String)]) {
    match part {
        Value::Array(parts) => parts.iter_mut().for_each(|part| redirect(part, key, moved)),
        Value::Object(members) => {
            for (name, part) in members {
                match part {
                    Value::String(to) if name == "$ref" && to.starts_with('#') => {
                        *to = moved_reference(to, key, moved);
                    }
                    part => redirect(part, key, moved),
                }
            }
        }
        _ => {}
    }
}

fn moved_reference(to: &str, key: &str, moved: &[(String, String)]) -> String {
    let found = moved.iter().find_map(|(from, component)| {
        let rest = to.strip_prefix(from.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| reference(component) + rest)
    });
    found.unwrap_or_else(|| reference(key) + &to[1..])
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
}
