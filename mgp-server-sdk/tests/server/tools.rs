//! Tests of tools as their callers see them: results and failures.

use mgp_server_sdk::ResultStream;
use mgp_server_sdk::prelude::*;
use mgp_transport::{Connection, duplex};
use mgp_types::service::{Stack, mock};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::raw::connect_mock;

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// One number.
    a: i64,
    /// Another.
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn server() -> Server {
    let add =
        Tool::new(
            "add",
            "Adds",
            |Args(add): Args<Add>| async move { Json(Sum { sum: add.a + add.b }) },
        );
    Server::new("tools", "1")
        .tool(add)
        .tool(Tool::new("boom", "Panics", || async { panic!("inside") as &str }))
        .tool(Tool::new("soon", "Panics at once", || async { panic!("inside") as &str }).inline())
        .tool(Tool::blocking("sleep", "Blocks its thread", |Add { a, b }| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            (a * b).to_string()
        }))
        .tool(Tool::new("fail", "Fails", || async {
            Err::<&str, _>(ToolError::new("no such city"))
        }))
        .tool(Tool::new("text", "Fails", || async { Err::<&str, _>("no such city".to_owned()) }))
        .tool(Tool::new("boxed", "Fails", || async {
            Err::<&str, Box<dyn std::error::Error + Send + Sync>>("no such city".into())
        }))
}

async fn connect(capabilities: &str) -> mock::Client {
    connect_mock(server(), capabilities).await.0
}

const MGP: &str = r#"{"mgp":{"version":"0.3.0","extensions":["streaming","security"]}}"#;

#[tokio::test]
async fn results_are_text_and_data() {
    let mut client = connect("{}").await;
    let result =
        client.request("tools/call", r#"{"name":"add","arguments":{"a":2,"b":3}}"#).await.unwrap();
    let result: CallToolResult = result.get().unwrap();
    assert_eq!(result.structured_content.unwrap().as_str(), r#"{"sum":5}"#);
    let result = client
        .request("tools/call", r#"{"name":"sleep","arguments":{"a":2,"b":3}}"#)
        .await
        .unwrap();
    assert!(result.as_str().contains("\"6\""));
}

#[tokio::test]
async fn failures_are_well_formed_and_the_server_survives() {
    let mut client = connect(MGP).await;
    for tool in ["boom", "soon"] {
        let error =
            client.request("tools/call", &format!(r#"{{"name":"{tool}"}}"#)).await.unwrap_err();
        assert_eq!(error.to_string(), "the handler panicked; see the log of the server (-32603)");
    }
    for tool in ["fail", "text", "boxed"] {
        let failed =
            client.request("tools/call", &format!(r#"{{"name":"{tool}"}}"#)).await.unwrap();
        let failed: CallToolResult = failed.get().unwrap();
        assert_eq!(failed.is_error, Some(true));
        assert_eq!(failed.content[0].as_text(), Some("no such city"));
    }
}

#[derive(Debug, thiserror::Error)]
#[error("read the config")]
struct ReadConfig(#[source] OpenFile);

#[derive(Debug, thiserror::Error)]
#[error("open /x: {0}")]
struct OpenFile(#[source] std::io::Error);

fn read_config() -> Result<&'static str, ReadConfig> {
    Err(ReadConfig(OpenFile(std::io::Error::other("permission denied"))))
}

fn ask_caller() -> Result<&'static str, RpcError> {
    Err(RpcError::internal("not asked").because(std::io::Error::other("rule 7 denies it")))
}

/// Regression test: a tool could show the causes of an error only if it wrote them into the text itself.
#[tokio::test]
async fn the_causes_of_a_failure_are_shown_if_the_tool_adds_them() {
    let server = Server::new("causes", "1")
        .tool(Tool::new("all", "Fails", || async { read_config().map_err(ToolError::with_causes) }))
        .tool(Tool::new("first", "Fails", || async { Ok::<_, ToolError>(read_config()?) }))
        .tool(Tool::new("private", "Fails", || async {
            ask_caller().map_err(ToolError::with_causes)
        }))
        .tool(Tool::new("asked", "Fails", || async { Ok::<_, ToolError>(ask_caller()?) }));
    let (mut client, _) = connect_mock(server, "{}").await;
    for (tool, expected) in [
        ("all", "read the config: open /x: permission denied"),
        ("first", "read the config"),
        // The source of an `RpcError` is for logs only.
        ("private", "not asked (-32603)"),
        ("asked", "not asked (-32603)"),
    ] {
        let params = format!(r#"{{"name":"{tool}"}}"#);
        let failed = client.request("tools/call", &params).await.unwrap();
        let failed: CallToolResult = failed.get().unwrap();
        assert_eq!(failed.content[0].as_text(), Some(expected), "{tool}");
    }
}

#[tokio::test]
async fn a_streamed_result_that_is_too_long_for_its_caller_is_not_retried() {
    let story = Tool::new("story", "Tells a story", |stream: ResultStream| async move {
        stream.send_text("Once upon a time").await?;
        Ok::<_, RpcError>(())
    });
    let server = Server::new("stories", "1").tool(story.max_stream_bytes(8));
    let (mut client, _) = connect_mock(server, MGP).await;
    let error = client.request("tools/call", r#"{"name":"story"}"#).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    let hints = error.as_recovery().unwrap();
    assert!(!hints.is_retryable());
    let details = serde_json::to_string(&hints.details).unwrap();
    assert_eq!(details, r#"{"limit":8,"of":"partial results","started":true}"#);
}

#[tokio::test]
async fn a_batch_is_answered_in_one_array_in_the_one_revision_that_has_them() {
    for (revision, takes) in [("2025-03-26", true), ("2025-06-18", false)] {
        let (here, there) = duplex();
        let stack: Stack = server().into_stack().unwrap();
        tokio::spawn(Connection::new(there.reader, there.writer, stack).run());
        let (mut writer, mut lines) = (here.writer, BufReader::new(here.reader).lines());
        let hello = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
        );
        writer.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        lines.next_line().await.unwrap().unwrap();
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sleep","arguments":{"a":1,"b":1}}},{"id":3}]"#;
        writer.write_all(format!("{batch}\n").as_bytes()).await.unwrap();
        let answer: serde_json::Value =
            serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        if takes {
            let mut ids: Vec<_> =
                answer.as_array().unwrap().iter().map(|one| one["id"].as_i64()).collect();
            ids.sort_unstable();
            assert_eq!(ids, [Some(1), Some(2), Some(3)]);
        } else {
            assert_eq!(answer["error"]["code"], -32600);
        }
    }
}
