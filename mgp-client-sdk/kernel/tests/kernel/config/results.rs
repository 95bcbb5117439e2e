//! Tests of results and errors that servers return in a wrong form, or that are too long in unusual places.

use mgp_client_sdk::ToolResult as _;
use mgp_types::RpcError;
use serde_json::{Value, json};

use super::world::World;
use crate::script::{self, Received, Response};

/// Starts a server whose tool returns the value that its argument `q` names. If the value has a member `error`, the
/// server answers with this error instead.
async fn serve(values: Value) -> script::Server {
    let answer = move |seen: &Received| -> Option<Response> {
        match seen.method() {
            "tools/list" => Some(script::json_of(&seen.result(&json!({
                "tools": [{ "name": "say", "inputSchema": { "type": "object" } }],
            })))),
            "tools/call" => {
                let value = &values[seen.body["params"]["arguments"]["q"].as_str().unwrap()];
                let mut body = seen.result(value);
                if let Some(error) = value.get("error") {
                    body = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": error });
                }
                Some(script::json_of(&body))
            }
            _ => None,
        }
    };
    script::Server::legacy(answer).await
}

async fn world(server: &script::Server) -> World {
    world_with(server, "").await
}

/// Starts a kernel with this server. `keys` are further keys of the kernel's configuration.
async fn world_with(server: &script::Server, keys: &str) -> World {
    let url = &server.url;
    let world = World::new(&format!(
        "[[servers]]\nid = 'far'\nurl = '{url}'\nera = 'legacy'\n{keys}\
         [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ say = 'safe' }}\n"
    ))
    .await;
    world.knows("far").await;
    world
}

#[tokio::test]
async fn an_answer_that_is_not_the_result_of_a_tool_does_not_reach_a_host() {
    let server = serve(json!({
        "null": null, "text": "x", "number": 5, "list": ["x"], "no list": { "content": 5 },
        "meta": { "content": [], "_meta": 5 }, "empty": {},
        "structured": { "structuredContent": { "a": 1 } }, "no type": { "content": [{ "text": "a" }] },
        "bare": { "content": "x" },
    }))
    .await;
    let world = world(&server).await;
    let ann = world.agent("ann").await;
    for q in ["null", "text", "number", "list", "no list", "meta"] {
        assert_eq!(ann.call("say").arg("q", q).await.unwrap_err().code().0, 5000, "{q}");
    }
    for q in ["empty", "structured"] {
        let result = ann.call("say").arg("q", q).await.unwrap();
        assert_eq!((result.content.len(), result.structured_content.is_some()), (0, q != "empty"));
    }
    for (q, text) in [("no type", r#"{"text":"a"}"#), ("bare", "x")] {
        let result = ann.call("say").arg("q", q).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(text));
    }
    world.end().await;
}

/// Starts a server whose tool has an output schema and returns the JSON text in its argument `q`.
async fn serve_texts() -> script::Server {
    let answer = |seen: &Received| -> Option<Response> {
        let result = match seen.method() {
            "tools/list" => {
                r#"{"tools":[{"name":"say","inputSchema":{"type":"object"},"outputSchema":{
                    "type":"object","properties":{"a":{"type":"integer"}}}}]}"#
            }
            "tools/call" => seen.body["params"]["arguments"]["q"].as_str().unwrap(),
            _ => return None,
        };
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.body["id"]);
        Some(Response::Whole(200, Vec::new(), "application/json", body))
    };
    script::Server::legacy(answer).await
}

#[tokio::test]
async fn structured_content_that_does_not_fit_or_cannot_be_read_does_not_reach_a_host() {
    let server = serve_texts().await;
    let world = world(&server).await;
    let ann = world.agent("ann").await;
    for members in [
        r#""structuredContent":{"a":1}"#,
        r#""structuredContent":{"a":1},"isError":null"#,
        r#""structuredContent":{"a":"x"},"isError":true"#,
        r#""isError":false"#,
    ] {
        let q = format!(r#"{{"content":[],{members}}}"#);
        ann.call("say").arg("q", &q).await.unwrap();
    }
    for members in [
        r#""structuredContent":{"a":"x"}"#,
        r#""structuredContent":["x"]"#,
        r#""structuredContent":{"a":1},"structuredContent":{"a":"x"}"#,
        r#""structuredContent":{"a":"x"},"isError":true,"isError":false"#,
        r#""structuredContent":{"a":"x"},"isError":"no""#,
    ] {
        let q = format!(r#"{{"content":[],{members}}}"#);
        assert_eq!(ann.call("say").arg("q", &q).await.unwrap_err().code().0, 5000, "{q}");
    }
    let q = r#"{"content":[{"type":"text","text":"two rows"}],"structuredContent":{"a":"x"}}"#;
    let error = ann.call("say").arg("q", q).await.unwrap_err().to_string();
    for part in ["two rows", "check_arguments = false"] {
        assert!(error.contains(part), "{error}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_server_without_checks_is_responsible_for_its_structured_content_too() {
    let server = serve_texts().await;
    let world = world_with(&server, "check_arguments = false\n").await;
    let ann = world.agent("ann").await;
    for members in [
        r#""structuredContent":{"a":"x"}"#,
        r#""structuredContent":{"a":1},"structuredContent":{"a":"x"}"#,
        r#""structuredContent":{"a":"x"},"isError":true,"isError":false"#,
    ] {
        let q = format!(r#"{{"content":[],{members}}}"#);
        let result = ann.call("say").arg("q", &q).await.unwrap();
        assert_eq!(result.structured_content.unwrap().as_str(), r#"{"a":"x"}"#, "{q}");
    }
    world.end().await;
}

#[tokio::test]
async fn no_part_of_an_answer_is_longer_than_the_limits() {
    let long = "x".repeat(3_000_000);
    let block =
        |member: &str| json!({ "content": [{ "type": "text", "text": "a", member: long }] });
    let short = json!([{ "type": "text", "text": "a" }]);
    let answers = json!({
        "no list": { "content": long },
        "blocks": { "content": vec![short[0].clone(); 30_000] },
        "meta of a block": { "content": [{ "type": "text", "text": "a", "_meta": { "z": long } }] },
        "member of a block": block("unknown"),
        "media type": { "content": [{ "type": "image", "data": "AAAA", "mimeType": long }] },
        "kind": { "content": [{ "type": "unknown", "blob": long }] },
        "no media type": { "content": [{ "type": "image", "data": long }] },
        "meta": { "content": short, "_meta": { "z": long } },
        "member": { "content": short, "unknown": long },
        "message": { "error": { "code": -32000, "message": long } },
        "data": { "error": { "code": -32000, "message": "x", "data": { "y": long } } },
        "hints": { "error": { "code": -32000, "message": "x", "data": { "_mgp": { "y": long } } } },
        "member of an error": { "error": { "code": -32000, "message": "x", "unknown": long } },
    });
    let server = serve(answers.clone()).await;
    let world = world(&server).await;
    let ann = world.agent("ann").await;
    for q in answers.as_object().unwrap().keys() {
        let received = match ann.call("say").arg("q", q).await {
            Ok(result) => serde_json::to_string(&result).unwrap(),
            Err(error) => {
                assert_ne!(q, "no media type", "{error}");
                serde_json::to_string(&RpcError::from(error)).unwrap()
            }
        };
        assert!(received.len() < 400_000, "{q}: {}", received.len());
    }
    world.end().await;
}

#[tokio::test]
async fn a_result_whose_text_has_all_of_its_cut_structured_content_leaves_nothing_to_read() {
    let structured = json!({ "rows": vec![json!({ "a": 1 }); 1_000] });
    let content = json!([{ "type": "text", "text": structured.to_string() }]);
    let answer = json!({ "long": { "content": content, "structuredContent": structured } });
    let server = serve(answer).await;
    let world = world_with(&server, "[servers.results]\nmax_structured = 1000\n").await;
    let ann = world.agent("ann").await;
    let result = ann.call("say").arg("q", "long").await.unwrap();
    assert!(result.structured_content.unwrap().as_str().len() < 1_100);
    let note = result.content[0].as_text().unwrap();
    assert_eq!(result.content[1].as_text(), Some(structured.to_string().as_str()));
    assert!(note.contains("is cut") && !note.contains("handle"), "{note}");
    let tools = ann.tools().await.unwrap();
    assert!(!tools.iter().any(|tool| tool.name.contains("read_more")), "{tools:?}");
    world.end().await;
}

/// Regression test: the note was at the end of a result, so hosts that show a model only the beginning hid the note.
#[tokio::test]
async fn the_note_comes_before_each_part_of_a_long_result() {
    let structured = json!({ "rows": vec![json!({ "a": 1 }); 1_000] });
    let image = json!({ "type": "image", "data": "A".repeat(800), "mimeType": "image/png" });
    let answers = json!({
        "plain": { "content": [{ "type": "text", "text": "line\n".repeat(50) }] },
        "structured": { "content": [], "structuredContent": structured },
        "images": { "content": [image, image] },
    });
    let server = serve(answers).await;
    let limits = "[kernel.results]\nmax_text = 100\nmax_structured = 1000\nmax_data = 1000\n";
    let world = world_with(&server, limits).await;
    let ann = world.agent("ann").await;
    let mut part = ann.call("say").arg("q", "plain").await.unwrap();
    for sizes in ["first 100 of 250", "next 100 of 150"] {
        let note = part.content[0].as_text().unwrap();
        let begin = format!("[mgp: the result is longer: its {sizes} bytes of text follow. ");
        let rest = note.strip_prefix(&begin).unwrap_or_else(|| panic!("{note}"));
        let (_, rest) = rest.split_once(r#"Read on: mgp_read_more {"handle":""#).unwrap();
        assert!(rest.ends_with("]\n"), "some hosts join blocks without a line break: {rest}");
        assert_eq!(part.content[1].as_text(), Some(&*"line\n".repeat(20)));
        let handle = rest.split('"').next().unwrap();
        part = ann.call("mgp_read_more").arg("handle", handle).await.unwrap();
    }
    assert_eq!((part.content.len(), part.to_text()), (1, "line\n".repeat(10)));

    let cut = ann.call("say").arg("q", "structured").await.unwrap();
    assert!(cut.structured_content.unwrap().as_str().len() < 1_100);
    let length = structured.to_string().len();
    let sizes =
        format!("its first 0 of {length} bytes of text follow; its structured content is cut. ");
    assert!(cut.content[0].as_text().unwrap().contains(&sizes), "{:?}", cut.content);

    let images = ann.call("say").arg("q", "images").await.unwrap();
    let note = images.content[0].as_text().unwrap();
    let begin = "[mgp: the result is longer: its first ";
    let sizes = note.strip_prefix(begin).unwrap_or_else(|| panic!("{note}"));
    assert!(!sizes.contains("bytes of text"), "a result without text names no text: {note}");
    assert!(sizes.contains(" bytes of images or other data follow. Read on: "), "{note}");
    world.end().await;
}

/// Starts a server whose tool has this output schema, or none, and returns a thousand rows as structured content.
async fn serve_rows(schema: Option<Value>) -> script::Server {
    let rows = json!({ "rows": vec![json!({ "a": 1 }); 1_000] });
    let answer = move |seen: &Received| -> Option<Response> {
        let result = match seen.method() {
            "tools/list" => {
                let mut tool = json!({ "name": "say", "inputSchema": { "type": "object" } });
                if let Some(schema) = &schema {
                    tool["outputSchema"] = schema.clone();
                }
                json!({ "tools": [tool] })
            }
            "tools/call" => json!({ "content": [], "structuredContent": rows }),
            _ => return None,
        };
        Some(script::json_of(&seen.result(&result)))
    };
    script::Server::legacy(answer).await
}

/// Regression test: Pydantic AI, Mastra and other hosts show a model only the structured content. So the model took the
/// first rows for all rows.
#[tokio::test]
async fn structured_content_that_is_cut_names_the_call_that_reads_on_if_its_schema_permits_it() {
    let open = json!({ "type": "object", "properties": { "rows": { "type": "array" } } });
    let mut closed = open.clone();
    closed["additionalProperties"] = json!(false);
    for (schema, is_noted) in [(None, true), (Some(open), true), (Some(closed), false)] {
        let server = serve_rows(schema).await;
        let world = world_with(&server, "[servers.results]\nmax_structured = 1000\n").await;
        let ann = world.agent("ann").await;
        let cut = ann.call("say").await.unwrap().structured_content.unwrap();
        assert!(cut.as_str().len() < 1_100, "{cut:?}");
        let cut: Value = cut.get().unwrap();
        assert!(cut["rows"].as_array().unwrap().len() > 50, "{cut}");
        assert_eq!(cut.get("mgp_note").is_some(), is_noted, "{cut}");
        if let Some(note) = cut.get("mgp_note") {
            let (_, handle) = note.as_str().unwrap().split_once(r#"{"handle":""#).unwrap();
            let handle = handle.split('"').next().unwrap();
            let rest = ann.call("mgp_read_more").arg("handle", handle).await.unwrap().to_text();
            assert_eq!(rest.matches("{\"a\":1}").count(), 1_000, "{rest}");
        }
        world.end().await;
    }
}

/// Regression test: a host that shows a model only structured content, e.g. Claude Code, got up to 256 KiB of text, and
/// no handle if the schema of the tool permits no further members.
#[tokio::test]
async fn structured_content_that_wraps_a_long_text_has_the_note_in_the_text() {
    let text = "line\n".repeat(1_000);
    let of = |structured: Value| json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structured });
    let more = json!({ "result": text, "lines": 1_000 });
    let server = serve(json!({ "wrapped": of(json!({ "result": text })), "more": of(more) })).await;
    for max_structured in [1_000, 100_000] {
        let limits =
            format!("[kernel.results]\nmax_text = 500\nmax_structured = {max_structured}\n");
        let world = world_with(&server, &limits).await;
        let ann = world.agent("ann").await;
        let result = ann.call("say").arg("q", "wrapped").await.unwrap();
        let wrapped: Value = result.structured_content.as_ref().unwrap().get().unwrap();
        let shown: String = result.content.iter().filter_map(|block| block.as_text()).collect();
        assert_eq!(wrapped, json!({ "result": shown }));
        let (_, handle) = shown.split_once(r#"{"handle":""#).unwrap();
        let handle = handle.split('"').next().unwrap();
        let next = ann.call("mgp_read_more").arg("handle", handle).await.unwrap();
        assert!(next.to_text().ends_with(&"line\n".repeat(100)), "{next:?}");
        let result = ann.call("say").arg("q", "more").await.unwrap();
        let other: Value = result.structured_content.as_ref().unwrap().get().unwrap();
        assert_eq!(other["lines"], 1_000, "{other}");
        world.end().await;
    }
}

/// Regression test: the note offered the rest of the result, although the model had already seen it as an image. So the
/// model read the data of the image as text. The filesystem server of MCP repeats its blocks in structured content in
/// this way.
#[tokio::test]
async fn structured_content_that_repeats_an_image_leaves_nothing_to_read() {
    let image = json!({ "type": "image", "data": "A".repeat(8_000), "mimeType": "image/png" });
    let answer = json!({ "content": [image], "structuredContent": { "content": [image] } });
    let server = serve(json!({ "image": answer })).await;
    let world = world_with(&server, "[servers.results]\nmax_structured = 1000\n").await;
    let ann = world.agent("ann").await;
    let result = ann.call("say").arg("q", "image").await.unwrap();
    assert!(result.structured_content.unwrap().as_str().len() < 1_100);
    let note = result.content[0].as_text().unwrap();
    assert!(note.contains("is cut") && !note.contains("mgp_read_more"), "{note}");
    assert_eq!(serde_json::to_value(&result.content[1]).unwrap(), image);
    let tools = ann.tools().await.unwrap();
    assert!(!tools.iter().any(|tool| tool.name.contains("read_more")), "{tools:?}");
    world.end().await;
}
