//! Tests of `tools/validate`, of argument checks before a tool runs, and of tool versions, over real connections.

#![cfg(feature = "schemas")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mgp_server_sdk::Deprecation;
use mgp_server_sdk::prelude::*;
use mgp_types::dialect::GgenErrorsLayer;
use mgp_types::mcp::ToolIdempotency;
use mgp_types::method::{Initialize, Request, ToolsCall, ToolsList, ToolsValidate};
use mgp_types::service::mock;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Order {
    #[schemars(length(min = 2, max = 5), regex(pattern = "^[A-Z]+$"))]
    symbol: String,
    #[schemars(range(min = 1, max = 365))]
    days: u32,
    #[serde(default)]
    kind: Kind,
    #[schemars(length(min = 1))]
    tags: Option<Vec<String>>,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Technical,
    Sentiment,
}

struct World {
    client: mock::Client,
    calls: Arc<AtomicU32>,
}

impl World {
    fn new(change: impl FnOnce(Server) -> Server) -> Self {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let tool = Tool::new("order", "Orders", move |Args(_): Args<Order>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { "ordered" }
        });
        let tool = tool
            .version("1.4.0")
            .idempotency(&ToolIdempotency::Partial)
            .deprecated(&Deprecation::since("1.4.0").remove_in("2.0.0").replacement("buy"));
        let server = change(Server::new("orders", "1.0").tool(tool));
        Self { client: mock::client(server.into_stack().unwrap()), calls }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let params = params.to_string();
        self.client.request(method, &params).await?.get()
    }

    async fn hello(&mut self) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        self.ask(Initialize::METHOD, params).await.unwrap();
    }
}

#[tokio::test]
async fn all_violations_are_reported_and_the_tool_never_runs() {
    let mut world = World::new(|server| server);
    world.hello().await;
    let params = json!({ "name": "order", "arguments": { "symbol": "toolong", "kind": "none", "tags": [] } });
    let result = world.ask(ToolsValidate::METHOD, params).await.unwrap();
    assert_eq!(result["valid"], false);
    let errors = result["errors"].as_array().unwrap();
    let mut found: Vec<_> = errors
        .iter()
        .map(|one| {
            format!("{} {}", one["field"].as_str().unwrap(), one["error_type"].as_str().unwrap())
        })
        .collect();
    found.sort();
    assert!(errors.iter().all(|one| !one["message"].as_str().unwrap().is_empty()));
    for expected in ["days required", "symbol maxLength", "symbol pattern", "tags minItems"] {
        assert!(found.iter().any(|one| one == expected), "{expected} in {found:?}");
    }
    assert!(found.iter().any(|one| one.starts_with("kind ")), "{found:?}");

    let params = json!({ "name": "order", "arguments": { "symbol": "ABC", "days": 3 } });
    let result = world.ask(ToolsValidate::METHOD, params).await.unwrap();
    assert_eq!((&result["valid"], &result["errors"]), (&true.into(), &json!([])));
    let unknown = world.ask(ToolsValidate::METHOD, json!({ "name": "other" })).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::TOOL_NOT_FOUND);
    assert_eq!(world.calls.load(Ordering::Relaxed), 0);
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Forecast {
    /// Stock ticker symbol.
    #[schemars(length(min = 1, max = 5), regex(pattern = "^[A-Z]{1,5}$"))]
    ticker_symbol: String,
    /// Historical analysis period in days.
    #[schemars(range(min = 1, max = 365))]
    period_days: u32,
    /// Type of analysis.
    #[serde(default)]
    analysis_type: Kind,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct EachType {
    text: String,
    byte: i8,
    size: usize,
    ratio: f32,
    flag: bool,
    table: Vec<Vec<String>>,
    counts: Option<Vec<i32>>,
    nested: Forecast,
}

/// Returns the input schema of a tool with these arguments, without the `format` of numbers.
fn schema_of<T: for<'de> Deserialize<'de> + JsonSchema + Send + 'static>() -> Value {
    fn plain(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("format");
                members.values_mut().for_each(plain);
            }
            Value::Array(items) => items.iter_mut().for_each(plain),
            _ => {}
        }
    }
    let tool = Tool::new("t", "T", |Args(_): Args<T>| async { "" });
    let mut schema = tool.definition().input_schema.get::<Value>().unwrap();
    plain(&mut schema);
    schema
}

#[test]
fn types_and_constraints_become_the_schema_that_a_person_would_write() {
    let analysis = json!({
        "type": "object",
        "properties": {
            "ticker_symbol": {
                "type": "string", "description": "Stock ticker symbol.",
                "pattern": "^[A-Z]{1,5}$", "minLength": 1, "maxLength": 5,
            },
            "period_days": {
                "type": "integer", "description": "Historical analysis period in days.",
                "minimum": 1, "maximum": 365,
            },
            "analysis_type": {
                "type": "string", "description": "Type of analysis.",
                "enum": ["technical", "sentiment"], "default": "technical",
            },
        },
        "required": ["ticker_symbol", "period_days"],
    });
    assert_eq!(schema_of::<Forecast>(), analysis);
    let schema = schema_of::<EachType>();
    let members = &schema["properties"];
    for (member, expected) in [
        ("text", json!({ "type": "string" })),
        ("byte", json!({ "type": "integer", "minimum": -128, "maximum": 127 })),
        ("size", json!({ "type": "integer", "minimum": 0 })),
        ("ratio", json!({ "type": "number" })),
        ("flag", json!({ "type": "boolean" })),
        (
            "table",
            json!({ "type": "array", "items": { "type": "array", "items": { "type": "string" } } }),
        ),
        ("counts", json!({ "type": ["array", "null"], "items": { "type": "integer" } })),
    ] {
        assert_eq!(members[member], expected, "{member}");
    }
    assert_eq!(members["nested"]["properties"], analysis["properties"]);
    let required = ["text", "byte", "size", "ratio", "flag", "table", "nested"];
    assert_eq!(schema["required"], json!(required));
}

#[tokio::test]
async fn each_constraint_is_in_the_schema_and_enforced() {
    let mut world = World::new(Server::check_arguments);
    world.hello().await;
    let list = world.ask(ToolsList::METHOD, json!({})).await.unwrap();
    let properties = &list["tools"][0]["inputSchema"]["properties"];
    assert_eq!(properties["symbol"]["maxLength"], 5);
    assert_eq!(properties["symbol"]["pattern"], "^[A-Z]+$");
    assert_eq!(
        (&properties["days"]["minimum"], &properties["days"]["maximum"]),
        (&1.into(), &365.into())
    );
    assert_eq!(properties["tags"]["minItems"], 1);
    for arguments in [
        json!({ "symbol": "A", "days": 1 }),
        json!({ "symbol": "ABCDEF", "days": 1 }),
        json!({ "symbol": "abc", "days": 1 }),
        json!({ "symbol": "ABC", "days": 0 }),
        json!({ "symbol": "ABC", "days": 366 }),
        json!({ "symbol": "ABC", "days": 1, "kind": "other" }),
        json!({ "symbol": "ABC", "days": 1, "tags": [] }),
        json!({ "symbol": "ABC" }),
    ] {
        let call = json!({ "name": "order", "arguments": arguments });
        let result = world.ask(ToolsCall::METHOD, call).await;
        // A caller without MGP receives the refusal as a failed result instead of an error.
        let text = match result {
            Ok(result) if result["isError"] == true => result.to_string(),
            Ok(result) => panic!("{arguments}: {result}"),
            Err(error) => error.message().to_owned(),
        };
        assert!(text.contains("do not fit the input schema of `order`: `/"), "{text}");
    }
    assert_eq!(world.calls.load(Ordering::Relaxed), 0);
    let call = json!({ "name": "order", "arguments": { "symbol": "ABC", "days": 1 } });
    world.ask(ToolsCall::METHOD, call).await.unwrap();
    assert_eq!(world.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_version_and_its_end_are_listed_and_a_pin_is_enforced() {
    let mut world = World::new(|server| server);
    world.hello().await;
    let list = world.ask(ToolsList::METHOD, json!({})).await.unwrap();
    let meta = &list["tools"][0]["_meta"];
    assert_eq!((&meta["version"], &meta["idempotency"]), (&"1.4.0".into(), &"partial".into()));
    assert_eq!(list["tools"][0]["annotations"]["idempotentHint"], false);
    assert_eq!(
        meta["deprecated"],
        json!({ "in": "1.4.0", "remove_in": "2.0.0", "replacement": "buy" })
    );
    for (pin, is_accepted) in [("^1.2", true), ("^2", false)] {
        let arguments = json!({ "symbol": "ABC", "days": 1 });
        let call =
            json!({ "name": "order", "arguments": arguments, "_meta": { "tool_version": pin } });
        let result = world.ask(ToolsCall::METHOD, call).await;
        let text =
            result.map_or_else(|error| error.message().to_owned(), |result| result.to_string());
        assert_eq!(text.contains("ordered"), is_accepted, "{text}");
        assert!(is_accepted || text.contains("has version 1.4.0"), "{text}");
    }
}

#[tokio::test]
async fn errors_follow_the_dialect_of_a_server() {
    let mut world = World::new(|server| server.layer(GgenErrorsLayer));
    world.hello().await;
    let params = json!({ "name": "other", "_meta": { "trace_id": "req-1" } });
    let error = world.ask(ToolsValidate::METHOD, params).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode(-32002));
    let data: Value = error.as_data().unwrap().get().unwrap();
    assert_eq!(data["error_type"], "ToolNotFound");
    assert_eq!(data["trace_id"], "req-1", "{data}");
}

#[tokio::test(start_paused = true)]
async fn a_time_out_in_the_dialect_names_the_tool_and_its_limit() {
    let hang = Tool::new("hang", "Never ends", std::future::pending::<String>);
    let limit = std::time::Duration::from_millis(1500);
    let mut world = World::new(|server| server.tool(hang).timeout(limit).layer(GgenErrorsLayer));
    world.hello().await;
    let error = world.ask(ToolsCall::METHOD, json!({ "name": "hang" })).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode(-32003));
    let data: Value = error.as_data().unwrap().get().unwrap();
    assert_eq!(data["error_type"], "ToolTimeout", "{data}");
    assert_eq!((&data["tool_name"], &data["timeout_ms"]), (&json!("hang"), &json!(1500)));
}
