//! OpenAPI 3.1 documents of tools: one path per tool.

use serde_json::{Map, Value, json};

use crate::contract::Contract;
use crate::example::examples;

/// Returns an OpenAPI 3.1 document in which each tool is a `POST` to `/tools/NAME`.
#[must_use]
pub fn openapi(title: &str, version: &str, tools: &[Contract]) -> Value {
    let mut schemas = Map::new();
    schemas.insert("Error".to_owned(), error_schema());
    let mut paths = Map::new();
    for (at, tool) in tools.iter().enumerate() {
        // `component_key` replaces characters that a key must not contain, so two names may get the same key. The
        // position of the tool makes each key unique.
        let key = format!("{}.{at}", component_key(&tool.name));
        let input = format!("{key}.input");
        let mut operation = operation(tool, &input);
        schemas.insert(input.clone(), component(&tool.input, &input));
        if let Some(output) = &tool.output {
            let name = format!("{key}.output");
            operation["responses"]["200"]["content"]["application/json"]["schema"] =
                json!({ "$ref": reference(&name) });
            schemas.insert(name.clone(), component(output, &name));
        }
        operation["operationId"] = format!("tool_{}_{at}", key_of(&tool.name, '_')).into();
        let path = format!("/tools/{}", path_segment(&tool.name));
        paths.insert(path, json!({ "post": operation }));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": title, "version": version },
        "paths": paths,
        "components": {
            "schemas": schemas,
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

/// The responses other than 200: status, name and description.
const FAILURES: &[(&str, &str, &str)] = &[
    ("400", "ValidationError", "The arguments do not fit the schema."),
    ("401", "Unauthorized", "The key is missing or unknown."),
    ("403", "Forbidden", "The caller may not use the tool."),
    ("404", "NotFound", "There is no such tool."),
    ("409", "Conflict", "The tool is disabled, or several tools have its name."),
    ("422", "ToolError", "The tool ran and failed."),
    ("429", "TooManyRequests", "A limit is reached; retry later."),
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

/// Returns a schema as a component of the document: a reference within the schema, such as `#/$defs/a`, becomes a path
/// from the root of the document.
fn component(schema: &Value, name: &str) -> Value {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.remove("$schema");
        members.remove("$id");
    }
    redirect(&mut schema, &reference(name));
    schema
}

fn redirect(part: &mut Value, root: &str) {
    match part {
        Value::Array(parts) => parts.iter_mut().for_each(|part| redirect(part, root)),
        Value::Object(members) => {
            for (name, part) in members {
                match part {
                    Value::String(to) if name == "$ref" && to.starts_with('#') => {
                        *to = format!("{root}{}", &to[1..]);
                    }
                    part => redirect(part, root),
                }
            }
        }
        _ => {}
    }
}

fn component_key(name: &str) -> String {
    key_of(name, '.')
}

/// Replaces each character that a key must not contain by `_`; `separator` may occur.
fn key_of(name: &str, separator: char) -> String {
    let permits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == separator || c == '-';
    name.chars().map(|c| if permits(c) { c } else { '_' }).collect()
}

/// Encodes a name as a segment of a path.
fn path_segment(name: &str) -> String {
    let mut segment = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push('%');
            segment.push_str(&mgp_types::to_hex(&[byte]).to_ascii_uppercase());
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_a_path_whose_references_stay_within_its_schema() {
        let tool = |name: &str| {
            Contract::from_definition(json!({
                "name": name, "description": "Finds. Quickly.",
                "inputSchema": { "$schema": "x", "type": "object", "properties": { "q": { "$ref": "#/$defs/q" } }, "$defs": { "q": { "type": "string" } } },
                "outputSchema": { "type": "object", "properties": { "next": { "$ref": "#" } } },
            }))
            .unwrap()
        };
        let document = openapi("Tools", "1.0.0", &[tool("a.find"), tool("b/find")]);
        let operation = &document["paths"]["/tools/a.find"]["post"];
        assert_eq!(operation["summary"], "Finds");
        assert_eq!(operation["responses"].as_object().map(Map::len), Some(9));
        let schemas = &document["components"]["schemas"];
        let input = &schemas["a.find.0.input"];
        assert_eq!(input["properties"]["q"]["$ref"], "#/components/schemas/a.find.0.input/$defs/q");
        assert!(input.get("$schema").is_none());
        assert!(document["paths"]["/tools/b%2Ffind"]["post"]["operationId"] == "tool_b_find_1");
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
