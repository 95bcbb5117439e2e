//! Tests of tasks of servers at a URL, which outlive the connections of their requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Error, ToolResult as _};
use mgp_types::ErrorCode;
use mgp_types::service::HttpFailure;
use serde_json::{Value, json};

use crate::script::{Received, Response, Server, client, json_of, status};

fn task(status: &str) -> Value {
    const TIME: &str = "2026-07-28T10:00:00Z";
    json!({
        "taskId": "t1", "status": status, "createdAt": TIME, "lastUpdatedAt": TIME,
        "ttl": 60_000, "ttlMs": 60_000, "pollInterval": 20, "pollIntervalMs": 20,
    })
}

fn with(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Starts a modern server whose tool calls become tasks; `asked` answers each `tasks/get`, by its number from 0.
async fn modern(asked: impl Fn(usize, &Received) -> Response + Send + Sync + 'static) -> Server {
    let number = AtomicUsize::new(0);
    Server::modern(move |seen| match seen.method() {
        "tools/call" => {
            let created = with(task("working"), &json!({ "resultType": "task" }));
            Some(json_of(&seen.result(&created)))
        }
        "tasks/get" => Some(asked(number.fetch_add(1, Ordering::SeqCst), seen)),
        "tasks/cancel" => Some(json_of(&seen.result(&json!({ "resultType": "complete" })))),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn one_failed_poll_does_not_cancel_a_task() {
    let server = modern(|number, seen| match number {
        0 => status(502),
        // If a connection closes without an answer to `tasks/get`, the transport repeats the request immediately.
        1 | 2 => Response::Nothing,
        3 => status(429),
        _ => {
            let content = json!([{ "type": "text", "text": "done" }]);
            let result = json!({ "resultType": "complete", "content": content });
            let done = json!({ "resultType": "complete", "result": result });
            json_of(&seen.result(&with(task("completed"), &done)))
        }
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    assert_eq!(server.count("tasks/get"), 5);
    client.close().await;
    assert_eq!(server.count("tasks/cancel"), 0);
}

#[tokio::test]
async fn a_task_that_cannot_be_polled_is_given_up_but_not_cancelled() {
    let server = modern(|_, _| status(502)).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("t").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR);
    assert_eq!(server.count("tasks/get"), 8);
    // Polling must end immediately after an error of the MCP server itself, but not after an error of a proxy.
    let server = modern(|_, seen| crate::script::refused(400, seen, -32602)).await;
    let client = crate::script::client().connect_url(&server.url).await.unwrap();
    let Err(Error::Call(error)) = client.call("t").await else { panic!("the call has no result") };
    assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR);
    assert_eq!(HttpFailure::from_error(&error), Some(HttpFailure::StatusWithError(400)));
    assert_eq!(server.count("tasks/get"), 1);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.count("tasks/cancel"), 0);
}

#[tokio::test]
async fn the_result_of_a_legacy_task_survives_a_lost_connection() {
    let number = AtomicUsize::new(0);
    let server = Server::legacy(move |seen| match seen.method() {
        "tools/call" => Some(json_of(&seen.result(&json!({ "task": task("working") })))),
        "tasks/result" => Some(match number.fetch_add(1, Ordering::SeqCst) {
            0 => Response::Nothing,
            1 => status(502),
            _ => json_of(&seen.text("late")),
        }),
        _ => None,
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert_eq!(client.call("t").as_task().await.unwrap().to_text(), "late");
    assert_eq!((server.count("tasks/result"), server.count("tasks/cancel")), (3, 0));
}
