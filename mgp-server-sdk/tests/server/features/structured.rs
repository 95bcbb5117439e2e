//! Tests that structured content may be any JSON value, and that the schemas of tools are listed unchanged.

use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::proposal::StructuredError;
use mgp_types::{Payload, RawObject};
use serde_json::{Value, json};

use super::wire::{ERAS, Wire};

fn server() -> Server {
    let list = Tool::new("list", "A list", || async { Json(vec![1, 2]) });
    let number = Tool::new("number", "A number", || async { Ok::<_, ToolError>(Json(7)) });
    let failed = Tool::new("failed", "None", || async {
        Err::<Json<u8>, _>(ToolError("no number today".to_owned()))
    });
    let object = Tool::new("object", "An object", || async {
        Ok::<_, RpcError>(Json(std::collections::BTreeMap::from([("a", 1)])))
    });
    let ids = Tool::new("ids", "A list, or a structured error", || async {
        Ok::<_, StructuredError>(Json(vec![3]))
    });
    [list, number, failed, object, ids].into_iter().fold(Server::new("s", "1"), Server::tool)
}

async fn call(wire: &mut Wire, tool: &str) -> Value {
    wire.ask("tools/call", json!({ "name": tool })).await.unwrap()
}

#[tokio::test]
async fn a_modern_caller_receives_any_kind_of_value_and_its_schema() {
    for era in ERAS {
        let is_modern = era == Era::Modern;
        let mut wire = Wire::join(server(), era).await;
        for (tool, text, value) in [
            ("list", "[1,2]", json!([1, 2])),
            ("number", "7", json!(7)),
            ("object", r#"{"a":1}"#, json!({"a": 1})),
            ("ids", "[3]", json!([3])),
        ] {
            let result = call(&mut wire, tool).await;
            assert_eq!(result["content"][0]["text"], text);
            let is_told = is_modern || value.is_object();
            assert_eq!(
                result.get("structuredContent"),
                is_told.then_some(&value),
                "{tool} {era:?}"
            );
        }
        let failed = call(&mut wire, "failed").await;
        assert_eq!((&failed["isError"], failed.get("structuredContent")), (&json!(true), None));

        let listed = wire.ask("tools/list", json!({})).await.unwrap();
        let schemas: Vec<_> =
            (0..4).map(|place| listed["tools"][place]["outputSchema"]["type"].clone()).collect();
        let plain = |kind: &str| if is_modern { json!(kind) } else { Value::Null };
        assert_eq!(
            schemas,
            [plain("array"), plain("integer"), plain("integer"), json!("object")],
            "{era:?}"
        );
    }
}

#[tokio::test]
async fn a_legacy_caller_receives_the_schema_of_a_type_that_contains_itself() {
    let node = json!({
        "type": "object", "required": ["kids"],
        "properties": { "kids": { "type": "array", "items": { "$ref": "#/$defs/Node" } } },
    });
    let schema = json!({ "$defs": { "Node": node }, "$ref": "#/$defs/Node" });
    for era in ERAS {
        let tool = Tool::new("tree", "A tree", || async { Json(json!({ "kids": [] })) });
        let tool = tool.output_schema(RawObject::of(&schema).unwrap());
        let mut wire = Wire::join(Server::new("s", "1").tool(tool), era).await;
        let listed = wire.ask("tools/list", json!({})).await.unwrap();
        let shown = &listed["tools"][0]["outputSchema"];
        if era == Era::Modern {
            assert_eq!(*shown, schema);
        } else {
            for member in ["type", "required", "properties"] {
                assert_eq!(shown[member], node[member], "{member}");
            }
            assert_eq!(shown["$defs"], schema["$defs"], "references within the schema still hold");
        }
        let result = call(&mut wire, "tree").await;
        assert_eq!(result["structuredContent"], json!({ "kids": [] }), "{era:?}");
    }
}

/// A result with two special members: the first is left out if it is empty, and the second has another name in the
/// result.
#[derive(JsonSchema, Serialize)]
struct Report {
    lines: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(rename(serialize = "endsAt"))]
    ends_at: Option<u32>,
}

#[tokio::test]
async fn a_result_has_the_members_that_its_schema_requires() {
    for warnings in [Vec::new(), vec!["long".to_owned()]] {
        let returned = warnings.clone();
        let tool = Tool::new("report", "A report", move || {
            let warnings = returned.clone();
            async move { Json(Report { lines: 3, warnings, ends_at: None }) }
        });
        let mut wire = Wire::join(Server::new("s", "1").tool(tool), Era::Modern).await;
        let listed = wire.ask("tools/list", json!({})).await.unwrap();
        let schema = &listed["tools"][0]["outputSchema"];
        assert_eq!(schema["required"], json!(["lines", "endsAt"]));
        let result = call(&mut wire, "report").await;
        let content = result["structuredContent"].as_object().unwrap();
        assert_eq!(content.contains_key("warnings"), !warnings.is_empty());
        for member in schema["required"].as_array().unwrap() {
            assert!(content.contains_key(member.as_str().unwrap()), "{member} {result}");
        }
        for member in content.keys() {
            assert!(schema["properties"][member].is_object(), "{member} {schema}");
        }
    }
}

#[tokio::test]
async fn schemas_are_listed_unchanged() {
    // The server removes only the line breaks between tokens, because a message is one line on the wire.
    let schema = r#"{"type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",  "z": 1.0, "a": 1e2,
        "$defs": {"n": {"$anchor": "n", "type": "number"}},
        "allOf": [{"anyOf": [{"required": ["x"]}, {"required": ["y"]}]}],
        "if": {"properties": {"x": {"const": "\u00e9\n"}}}, "then": {}, "else": false,
        "additionalProperties": false}"#;
    let raw = || -> RawObject { Payload::parse(schema).unwrap().try_into().unwrap() };
    for era in ERAS {
        let tool = Tool::new("raw", "", || async { CallToolResult::text("") });
        let tool = tool.input_schema(raw()).output_schema(raw());
        let mut wire = Wire::join(Server::new("s", "1").tool(tool), era).await;
        let listed = wire.ask("tools/list", json!({})).await.unwrap();
        let expected: Value = serde_json::from_str(schema).unwrap();
        for member in ["inputSchema", "outputSchema"] {
            assert_eq!(listed["tools"][0][member], expected, "{era:?}");
        }
        let line = wire.raw.last_line();
        assert!(line.contains(&schema.replace('\n', " ")), "{line}");
    }
}
