//! Tests of content that some revisions of MCP lack: structured content that is not an object (only in the modern era),
//! links to resources, and audio. Also tests of the structured content of refusals.

use mgp_client_sdk::ToolResult as _;
use mgp_discovery::GovernanceConfig;
use mgp_server_sdk::Prompt;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::{Era, PromptMessage, Role};
use mgp_types::method::ToolsList;
use mgp_types::service::{Call, Reply, Stack, around};
use mgp_types::{Payload, RawObject};
use serde_json::{Value, json};

use super::world::{
    PAIRS, answering, host, host_of, kernel_with, limit_era, open, raw_peer, until, wait_for_tools,
};

/// Returns a server with three tools. The result of `names` is also a text; the results of `bare` and `free` are only
/// structured content. `free` declares no output schema.
fn lists() -> Server {
    async fn numbers() -> CallToolResult {
        let mut result = CallToolResult::new(Vec::new());
        result.structured_content = Some(Payload::from_trusted("[1,2]"));
        result
    }
    let names = Tool::new("names", "Lists names", || async { Json(vec!["Ann", "Bob"]) });
    let bare = Tool::new("bare", "Lists numbers", numbers);
    let schema = RawObject::of(&json!({ "type": "array" })).unwrap();
    let server = Server::new("a", "1").tool(names).tool(bare.output_schema(schema));
    server.tool(Tool::new("free", "Lists numbers too", numbers))
}

#[tokio::test]
async fn structured_content_that_is_no_object_is_text_for_legacy_hosts_and_kept_for_modern_ones() {
    for (above, below) in PAIRS {
        let create = move || limit_era(lists(), below);
        let kernel = kernel_with("a", open(&["names", "bare", "free"]), 3, create).await;
        let host = host(&kernel, "ann", host_of(above).without_mgp()).await;
        let is_kept = (above, below) == (Era::Modern, Era::Modern);
        let lists_all = async || host.tools().await.unwrap().iter().any(|tool| tool.name == "free");
        until("the tools are listed", lists_all).await;
        let tools = host.tools().await.unwrap();
        for name in ["names", "bare"] {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            assert_eq!(tool.output_schema.is_some(), is_kept, "{above:?} {below:?} {name}");
        }
        let names = host.call("names").await.unwrap();
        assert_eq!(names.to_text(), r#"["Ann","Bob"]"#, "{above:?} {below:?}");
        assert_eq!(names.structured_content.is_some(), is_kept, "{above:?} {below:?}");
        // Check these tools only with a modern server, because a legacy server lists them without their output schemas.
        if below == Era::Modern {
            for name in ["bare", "free"] {
                let numbers = host.call(name).await.unwrap();
                let text = if is_kept { "" } else { "[1,2]" };
                assert_eq!(numbers.to_text(), text, "{above:?} {name}");
                assert_eq!(numbers.structured_content.is_some(), is_kept, "{above:?} {name}");
            }
        }
    }
}

#[tokio::test]
async fn the_refusal_of_a_tool_with_an_output_schema_has_no_other_content_for_plain_hosts() {
    for era in [Era::Legacy, Era::Modern] {
        let create = || limit_era(lists(), Era::Modern);
        let kernel = kernel_with("a", GovernanceConfig::default(), 3, create).await;
        let host = host(&kernel, "ann", host_of(era).without_mgp()).await;
        // A refusal has structured content only for a tool without an output schema: some clients also compare the
        // content of a failed result with the schema.
        for (tool, has_content) in [("names", false), ("a.bare", false), ("free", true)] {
            let refused = host.call(tool).await.unwrap();
            assert_eq!(refused.is_error, Some(true), "{era:?} {tool}");
            assert!(refused.to_text().contains("has no access"), "{era:?} {tool}: {refused:?}");
            assert_eq!(refused.structured_content.is_some(), has_content, "{era:?} {tool}");
        }
    }
}

/// Returns a server whose tool `tree` has an output schema with a reference at its root. Like servers with the SDK for
/// TypeScript, it wraps the content and its schema for legacy peers, as the member `result` of an object. The server
/// asks questions of legacy peers only. A call of `adds` adds a tool.
fn tree() -> Server {
    async fn leaf() -> CallToolResult {
        let mut result = CallToolResult::new(Vec::new());
        result.structured_content = Some(Payload::from_trusted(r#"{"kids":[]}"#));
        result
    }
    let schema = |root: &str| {
        let at = format!("{root}/$defs/tree");
        let kids = json!({ "type": "array", "items": { "$ref": at } });
        let tree =
            json!({ "type": "object", "required": ["kids"], "properties": { "kids": kids } });
        json!({ "$ref": at, "$defs": { "tree": tree } })
    };
    let wrapped = json!({
        "type": "object", "properties": { "result": schema("#/properties/result") },
        "required": ["result"],
    });
    let wraps = around(move |call: Call, inner: Stack| {
        let wrapped = wrapped.clone();
        async move {
            let is_legacy = call.cx().caller.era == Era::Legacy;
            let is_list = is_legacy && call.is::<ToolsList>();
            let is_tree = is_legacy && call.tool().is_some_and(|tool| tool.name == "tree");
            let reply = inner.send(call).await?;
            if !is_list && !is_tree {
                return Ok(reply);
            }
            let mut result: Value = reply.get()?;
            if is_tree {
                result["structuredContent"] = json!({ "result": { "kids": [] } });
            }
            let tools = result.get_mut("tools").and_then(Value::as_array_mut);
            for tool in tools.into_iter().flatten().filter(|tool| tool["name"] == "tree") {
                tool["outputSchema"] = wrapped.clone();
            }
            Reply::of(&result)
        }
    });
    let server = Server::new("a", "1").offer(|offer| {
        if let Some(mgp) = &mut offer.mgp {
            mgp.asks_in_rounds = false;
        }
    });
    let tools = server.tools();
    let adds = Tool::new("adds", "Adds a tool", move || {
        tools.add(Tool::new("late", "Nothing", || async { "done" }));
        async { "done" }
    });
    let tree = Tool::new("tree", "Reads a tree", leaf);
    let tree = tree.output_schema(RawObject::of(&schema("#")).unwrap());
    server.tool(tree).tool(adds).layer(wraps)
}

#[tokio::test]
async fn a_reference_at_the_root_of_an_output_schema_is_listed_for_legacy_hosts() {
    let kernel = kernel_with("a", open(&["tree", "adds"]), 2, tree).await;
    // For a host that answers questions, the kernel uses the legacy session with the server; for any other host, the
    // modern one. In the last round, the kernel has read the definition in the legacy session.
    let builders = [host_of(Era::Legacy), answering(Era::Legacy), answering(Era::Legacy)];
    for (round, builder) in builders.into_iter().enumerate() {
        let host = host(&kernel, "ann", builder.without_mgp()).await;
        if round == 2 {
            host.call("adds").await.unwrap();
            wait_for_tools(&kernel, "a", 3).await;
        }
        let tools = host.tools().await.unwrap();
        let tool = tools.iter().find(|tool| tool.name == "tree").unwrap();
        let schema: Value = tool.output_schema.as_ref().unwrap().get().unwrap();
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["kids"])));
        assert!(schema["$defs"]["tree"].is_object() && schema.get("$ref").is_none(), "{schema}");
        let content = host.call("tree").await.unwrap().structured_content.unwrap();
        assert_eq!(content.get::<Value>().unwrap(), json!({ "kids": [] }), "{round}");
    }
    assert_eq!(kernel.servers()[0].era.as_deref(), Some("modern+legacy"));
}

/// Regression test: hosts whose revisions have no links to resources, or no audio, received such blocks and refused the
/// whole result.
#[tokio::test]
async fn links_and_audio_are_texts_for_hosts_of_revisions_without_them() {
    fn blocks() -> Vec<ContentBlock> {
        let text = r#"[
            {"type":"resource_link","uri":"file:///a","name":"a","mimeType":"text/plain","description":"The log"},
            {"type":"audio","data":"AAAA","mimeType":"audio/wav"}
        ]"#;
        serde_json::from_str(text).unwrap()
    }
    fn server() -> Server {
        let cite = Prompt::new("cite", "Cites", || async {
            let messages = blocks().into_iter().map(|block| PromptMessage::new(Role::User, block));
            messages.collect::<Vec<_>>()
        });
        let shows = || async { CallToolResult::new(blocks()) };
        Server::new("a", "1").tool(Tool::new("show", "Shows", shows)).prompt(cite)
    }
    let kernel = kernel_with("a", open(&["show"]), 1, server).await;
    for (revision, kinds) in [
        ("2024-11-05", ["text", "text"]),
        ("2025-03-26", ["text", "audio"]),
        ("2025-06-18", ["resource_link", "audio"]),
    ] {
        let mut host = raw_peer(&kernel, "ann");
        host.ask("initialize", mgp_testkit::hello(revision, &json!({}))).await;
        host.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let called = host.ask("tools/call", json!({ "name": "show", "arguments": {} })).await;
        let cited = host.ask("prompts/get", json!({ "name": "cite" })).await;
        let messages = &cited["result"]["messages"];
        for (at, kind) in kinds.iter().enumerate() {
            let block = &called["result"]["content"][at];
            assert_eq!(block["type"], *kind, "{revision}: {called}");
            assert_eq!(messages[at]["content"], *block, "{revision}: {cited}");
            if at == 0 && *kind == "text" {
                let text = "Link to the resource `a` (text/plain): file:///a\nThe log";
                assert_eq!(block["text"], text, "{revision}: {called}");
            }
        }
    }
    kernel.stop().await;
}
