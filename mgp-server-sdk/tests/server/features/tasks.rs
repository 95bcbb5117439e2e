//! Tests of tools that begin a task themselves, for callers with and without support for tasks.

use std::time::Duration;

use mgp_server_sdk::ContextExt;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::{Era, TaskSupport};
use serde_json::{Value, json};

use super::wire::Wire;

#[derive(Debug, Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

fn server(support: TaskSupport) -> Server {
    let delete = Tool::new("delete", "Asks, as a task where it can", |cx: Context| async move {
        cx.begin_task().await?;
        let sure = cx.elicit::<Sure>("Sure?").key("sure").await?.accepted();
        Ok::<_, RpcError>(if sure.is_some_and(|sure| sure.sure) { "deleted" } else { "kept" })
    });
    Server::new("s", "1").tool(delete.task(support))
}

fn knows_tasks() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "sure": true } })
}

/// Polls a task until it has ended.
async fn ended(wire: &mut Wire, id: &Value) -> Value {
    loop {
        let task = wire.ask("tasks/get", id.clone()).await.unwrap();
        if task["status"] != "working" {
            return task;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_task_asks_its_caller_at_the_next_poll() {
    let mut wire = Wire::offering(server(TaskSupport::Optional), Era::Modern, knows_tasks()).await;
    let task = wire.ask("tools/call", json!({ "name": "delete" })).await.unwrap();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    let id = json!({ "taskId": task["taskId"] });
    let asks = wire.ask("tasks/get", id.clone()).await.unwrap();
    assert_eq!(asks["status"], "input_required");
    assert_eq!(asks["inputRequests"]["sure"]["method"], "elicitation/create");
    let answers = json!({ "taskId": task["taskId"], "inputResponses": { "sure": yes() } });
    wire.ask("tasks/update", answers).await.unwrap();
    let done = ended(&mut wire, &id).await;
    assert_eq!(done["status"], "completed");
    assert_eq!(done["result"]["content"][0]["text"], "deleted");
}

#[tokio::test]
async fn a_call_without_task_support_is_asked_as_usual() {
    for (era, support, offered, rounds) in [
        (Era::Modern, TaskSupport::Optional, json!({ "elicitation": {} }), 2),
        (Era::Modern, TaskSupport::Forbidden, knows_tasks(), 2),
        (Era::Legacy, TaskSupport::Optional, json!({ "elicitation": {} }), 1),
    ] {
        let mut wire = Wire::offering(server(support), era, offered).await;
        wire.answers = [yes()].into();
        let answer = wire.ask("tools/call", json!({ "name": "delete" })).await.unwrap();
        assert_eq!(answer["content"][0]["text"], "deleted");
        assert_eq!(wire.rounds, rounds);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_tool_ends_its_tasks() {
    let hang = Tool::new("hang", "Hangs", std::future::pending::<String>);
    let hang = hang.timeout(Duration::from_secs(5)).task(TaskSupport::Optional);
    let server = || Server::new("s", "1").tool(hang.clone());
    let mut modern = Wire::offering(server(), Era::Modern, knows_tasks()).await;
    let task = modern.ask("tools/call", json!({ "name": "hang" })).await.unwrap();
    assert_eq!(task["status"], "working");
    let mut legacy = Wire::join(server(), Era::Legacy).await;
    let params = json!({ "name": "hang", "task": { "ttl": 86_400_000 } });
    let kept = legacy.ask("tools/call", params).await.unwrap()["task"]["taskId"].clone();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let ended = modern.ask("tasks/get", json!({ "taskId": task["taskId"] })).await.unwrap();
    assert!(ended.to_string().contains("no answer within 5 s"), "{ended}");
    let ended = legacy.ask("tasks/result", json!({ "taskId": kept })).await;
    assert!(format!("{ended:?}").contains("no answer within 5 s"), "{ended:?}");
}

type Numbers = Json<std::collections::BTreeMap<String, u32>>;

/// Returns a server with two tools that have an output schema and refuse each call: one immediately, the other after
/// the call has become a task if the caller supports tasks.
fn refusing() -> Server {
    let refused = || RpcError::new(ErrorCode::PERMISSION_DENIED, "not approved");
    let at_once = move || async move { Err::<Numbers, _>(refused()) };
    let later = move |cx: Context| async move {
        cx.begin_task().await?;
        // Wait a little, because a task that ends immediately is answered like a plain call.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Err::<Numbers, _>(refused())
    };
    let at_once = Tool::new("at_once", "Refuses", at_once).task(TaskSupport::Optional);
    let later = Tool::new("later", "Refuses", later).task(TaskSupport::Optional);
    Server::new("s", "1").tool(at_once).tool(later)
}

#[tokio::test]
async fn a_refused_task_has_no_content_that_violates_the_schema_of_its_tool() {
    let is_refusal = |result: &Value| {
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(result["isError"] == true && text.contains("not approved"), "{result}");
        assert_eq!(result.get("structuredContent"), None, "{result}");
    };
    for tool in ["at_once", "later"] {
        let mut legacy = Wire::join(refusing(), Era::Legacy).await;
        let params = json!({ "name": tool, "task": { "ttl": 60_000 } });
        let task = legacy.ask("tools/call", params).await.unwrap()["task"]["taskId"].clone();
        is_refusal(&legacy.ask("tasks/result", json!({ "taskId": task })).await.unwrap());
    }
    let mut modern = Wire::offering(refusing(), Era::Modern, knows_tasks()).await;
    let task = modern.ask("tools/call", json!({ "name": "later" })).await.unwrap();
    assert_eq!(task["resultType"], "task", "{task}");
    let id = json!({ "taskId": task["taskId"] });
    is_refusal(&ended(&mut modern, &id).await["result"]);
}
