//! Tests of tools that begin a task themselves, for callers with and without support for tasks.

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
    let mut done = wire.ask("tasks/get", id.clone()).await.unwrap();
    while done["status"] == "working" {
        tokio::task::yield_now().await;
        done = wire.ask("tasks/get", id.clone()).await.unwrap();
    }
    assert_eq!(done["status"], "completed");
    assert_eq!(done["result"]["content"][0]["text"], "deleted");
}

#[tokio::test]
async fn a_call_without_task_support_is_asked_as_usual() {
    for (support, offered) in [
        (TaskSupport::Optional, json!({ "elicitation": {} })),
        (TaskSupport::Forbidden, knows_tasks()),
    ] {
        let mut wire = Wire::offering(server(support), Era::Modern, offered).await;
        wire.answers = [yes()].into();
        let answer = wire.ask("tools/call", json!({ "name": "delete" })).await.unwrap();
        assert_eq!(answer["content"][0]["text"], "deleted");
        assert_eq!(wire.rounds, 2);
    }
    let offered = json!({ "elicitation": {} });
    let mut wire = Wire::offering(server(TaskSupport::Optional), Era::Legacy, offered).await;
    wire.answers = [yes()].into();
    let answer = wire.ask("tools/call", json!({ "name": "delete" })).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "deleted");
}
