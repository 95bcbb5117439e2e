//! Tests of lists: pages, the end of the pages, and caching.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::ServerChange;
use serde_json::{Value, json};

use crate::script::{Script, plain};

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

#[tokio::test]
async fn all_pages_are_one_list() {
    let (client, mut script) = Script::legacy(plain(), json!({ "tools": {} })).await;
    let server = tokio::spawn(async move {
        let first =
            script.serve("tools/list", json!({ "tools": [tool("a")], "nextCursor": "2" })).await;
        assert!(first["params"]["cursor"].is_null());
        let second = script.serve("tools/list", json!({ "tools": [tool("b")] })).await;
        assert_eq!(second["params"]["cursor"], "2");
        script.serve("prompts/list", json!({ "prompts": [], "nextCursor": "x" })).await;
        script.serve("resources/list", json!({ "resources": [] })).await;
        script.serve("resources/templates/list", json!({ "resourceTemplates": [] })).await;
    });
    let names: Vec<_> =
        client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a", "b"]);
    let page = client.list_prompts_page(None).await.unwrap();
    assert_eq!(page.next_cursor.as_deref(), Some("x"));
    assert!(client.list_resources().await.unwrap().is_empty());
    assert!(client.list_resource_templates().await.unwrap().is_empty());
    server.await.unwrap();
}

#[tokio::test]
async fn an_empty_cursor_is_the_end_of_a_legacy_list_and_a_page_of_a_modern_one() {
    let last = json!({ "resultType": "complete", "tools": [tool("b")] });
    for modern in [false, true] {
        let (client, mut script) = if modern {
            Script::modern(plain(), json!({})).await
        } else {
            Script::legacy(plain(), json!({})).await
        };
        let last = last.clone();
        let server = tokio::spawn(async move {
            let first = json!({ "resultType": "complete", "tools": [tool("a")], "nextCursor": "" });
            script.serve("tools/list", first).await;
            if modern {
                let second = script.serve("tools/list", last).await;
                assert_eq!(second["params"]["cursor"], "");
            }
            script
        });
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.len(), if modern { 2 } else { 1 });
        server.await.unwrap();
    }
}

/// Servers written in Go encode an empty list as null.
#[tokio::test]
async fn a_list_of_null_is_empty() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let server = tokio::spawn(async move {
        script.serve("tools/list", json!({ "tools": null })).await;
        script.serve("resources/list", json!({ "resources": null })).await;
        script.serve("resources/templates/list", json!({ "resourceTemplates": null })).await;
        script.serve("prompts/list", json!({ "prompts": null })).await;
        script.serve("tools/list", json!({})).await;
    });
    assert!(client.list_tools().await.unwrap().is_empty());
    assert!(client.list_resources().await.unwrap().is_empty());
    assert!(client.list_resource_templates().await.unwrap().is_empty());
    assert!(client.list_prompts().await.unwrap().is_empty());
    assert!(client.list_tools().await.is_err(), "an absent list is an error");
    server.await.unwrap();
}

#[tokio::test]
async fn a_list_without_end_is_an_error() {
    for (bound, filler, says) in [
        (1000, 0, "the cursor `c1` was repeated"),
        (2, 0, "more than 2 pages"),
        (100, 15 << 20, "more than 64 MiB"),
    ] {
        let builder = plain().config(|config| config.max_pages = bound);
        let (client, mut script) = Script::legacy(builder, json!({})).await;
        let server = tokio::spawn(async move {
            let mut number = 0;
            while let Some(request) = script.read().await {
                number += 1;
                let next = format!("c{}", if bound == 1000 { number % 3 } else { number });
                let page = json!({ "tools": [], "nextCursor": next, "x": "x".repeat(filler) });
                script.answer(&request, page).await;
            }
        });
        let error = client.list_tools().await.unwrap_err();
        assert!(error.message().contains(says), "{error}");
        drop(client);
        server.await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_whose_pages_repeat_is_an_error() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    let server = tokio::spawn(async move {
        let page = json!({ "resultType": "complete", "resources": [], "nextCursor": "2" });
        while let Some(request) = script.read().await {
            script.answer(&request, page.clone()).await;
        }
    });
    let error = client.read_directory("skill://a").await.unwrap_err();
    assert!(error.message().contains("the cursor `2` was repeated"), "{error}");
    drop(client);
    server.await.unwrap();
}

#[tokio::test]
async fn a_list_is_cached_until_the_server_reports_a_change() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&heard);
    let builder = plain().on_change(move |what| hook.lock().unwrap().push(what.clone()));
    let capabilities = json!({ "tools": { "listChanged": true }, "prompts": {} });
    let (client, mut script) = Script::legacy(builder, capabilities).await;
    let server = tokio::spawn(async move {
        script.serve("tools/list", json!({ "tools": [tool("a")] })).await;
        script.serve("ping", json!({})).await;
        script.notify("notifications/tools/list_changed", json!({})).await;
        script.notify("notifications/resources/updated", json!({ "uri": "file:///a" })).await;
        script.serve("ping", json!({})).await;
        script.serve("tools/list", json!({ "tools": [tool("a"), tool("b")] })).await;
        // This server does not announce that it reports changed prompts, so the client requests the list each time.
        script.serve("prompts/list", json!({ "prompts": [] })).await;
        script.serve("prompts/list", json!({ "prompts": [] })).await;
    });
    assert_eq!(client.tools().await.unwrap().len(), 1);
    assert_eq!(client.tools().await.unwrap().len(), 1);
    client.ping().await.unwrap();
    client.ping().await.unwrap();
    assert_eq!(client.tools().await.unwrap().len(), 2);
    assert_eq!(client.tools().await.unwrap().len(), 2);
    client.prompts().await.unwrap();
    client.prompts().await.unwrap();
    server.await.unwrap();
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard, [ServerChange::Tools, ServerChange::Resource("file:///a".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_modern_list_is_cached_for_its_time() {
    let (client, mut script) = Script::modern(plain(), json!({ "tools": {} })).await;
    let server = tokio::spawn(async move {
        for page in [
            json!({ "resultType": "complete", "tools": [tool("a")], "nextCursor": "2", "ttlMs": 9000 }),
            json!({ "resultType": "complete", "tools": [tool("b")], "ttlMs": 5000 }),
            json!({ "resultType": "complete", "tools": [] }),
            json!({ "resultType": "complete", "tools": [] }),
        ] {
            script.serve("tools/list", page).await;
        }
        script
    });
    assert_eq!(client.tools().await.unwrap().len(), 2);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(client.tools().await.unwrap().len(), 2);
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The list has expired. The new answers have no lifetime, so the client requests the list each time.
    assert!(client.tools().await.unwrap().is_empty());
    assert!(client.tools().await.unwrap().is_empty());
    server.await.unwrap();
}
