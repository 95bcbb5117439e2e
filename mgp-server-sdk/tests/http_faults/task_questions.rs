//! Tests of questions of tasks, for callers that read the stream of their session, and for callers that open none.

use mgp_security::auth::ApiKeys;
use mgp_server_sdk::prelude::*;
use mgp_testkit::until_shown;
use mgp_types::mcp::TaskSupport;
use serde_json::{Value, json};

use super::caller::{Caller, result_text};
use super::world::{World, ask};

async fn world() -> (World, Caller) {
    let server = Server::new("tasks", "1").tool(ask("ask").task(TaskSupport::Optional));
    let world = World::of(server.http("127.0.0.1:0").no_auth(), ApiKeys::new()).await;
    let caller = Caller::legacy(&world, json!({ "elicitation": {} }), None).await;
    (world, caller)
}

/// Calls the tool as a task, and returns the params with which the result of the task is requested.
async fn begin(caller: &Caller) -> Value {
    let call = json!({ "name": "ask", "arguments": {}, "task": {} });
    let created = caller.request(1, "tools/call", call).await.message().await;
    json!({ "taskId": created["result"]["task"]["taskId"] })
}

async fn accept(caller: &Caller, question: &Value) {
    assert_eq!(question["method"], "elicitation/create");
    let yes = json!({ "action": "accept", "content": { "name": "Ann" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes });
    assert_eq!(caller.post(&answer).await.status, 202);
}

/// Regression test: the question stayed in the stream of the session, and the caller waited for the result in vain.
#[tokio::test]
async fn a_caller_without_a_stream_gets_the_question_of_its_task_with_the_request_for_the_result() {
    let (world, caller) = world().await;
    let before = world.service.stored_bytes();
    let task = begin(&caller).await;
    until_shown(|| {
        let stored = world.service.stored_bytes();
        (stored > before, stored)
    })
    .await;
    let mut result = caller.request(2, "tasks/result", task).await;
    accept(&caller, &result.event().await.unwrap().data).await;
    assert_eq!(result_text(&result.rest().await.pop().unwrap().data), "Ann");
}

#[tokio::test]
async fn a_caller_that_reads_its_stream_is_asked_once() {
    let (world, caller) = world().await;
    let mut stream = caller.get(None).await;
    let task = begin(&caller).await;
    let question = stream.event().await.unwrap().data;
    let before = world.service.running();
    let answered = async {
        until_shown(|| {
            let running = world.service.running();
            (running > before, running)
        })
        .await;
        accept(&caller, &question).await;
    };
    let (result, ()) = tokio::join!(caller.request(2, "tasks/result", task), answered);
    let text = result.text().await;
    assert!(text.contains("Ann") && !text.contains("elicitation/create"), "{text}");
}
