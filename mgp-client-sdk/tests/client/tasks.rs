//! Tests of calls that become tasks: the client polls them, answers their questions, or gives them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_client_sdk::gateway::AwaitLegacyTask;
use mgp_client_sdk::{Client, EraChoice, Hop, TestClient, ToolResult};
use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::mcp::{CallToolParams, ElicitParams, TaskSupport};
use mgp_types::method::ToolsCall;
use mgp_types::service::{Call, CallerRequest, Reply};
use mgp_types::sync::Mutex;
use serde_json::{Value, json};

use crate::script::{Script, plain};

const CREATED: &str = "2026-07-28T10:00:00Z";

fn task(status: &str, more: &Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "t1", "status": status, "createdAt": CREATED,
        "lastUpdatedAt": CREATED, "ttlMs": 60000, "pollIntervalMs": 500,
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn created() -> Value {
    task("working", &json!({ "resultType": "task" }))
}

fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

fn offers_tasks(request: &Value) -> bool {
    let meta = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    meta["extensions"]["io.modelcontextprotocol/tasks"].is_object()
}

#[tokio::test(start_paused = true)]
async fn a_task_is_polled_at_its_interval_and_its_questions_are_answered_once() {
    let builder =
        plain().on_elicitation(|question: ElicitParams| async move { Ok(question.accept()) });
    let (client, mut script) = Script::modern(builder, json!({})).await;
    let server = tokio::spawn(async move {
        let call = script.serve("tools/call", created()).await;
        assert!(offers_tasks(&call), "{call}");
        let form = json!({ "type": "object", "properties": { "sure": { "type": "boolean", "default": true } } });
        let asked = json!({ "inputRequests": { "k": {
            "method": "elicitation/create", "params": { "message": "sure?", "requestedSchema": form },
        } } });
        let began = tokio::time::Instant::now();
        let get = script.serve("tasks/get", task("input_required", &asked)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(500));
        assert_eq!(get["params"]["taskId"], "t1");
        assert!(offers_tasks(&get), "{get}");
        let update = script.serve("tasks/update", json!({ "resultType": "complete" })).await;
        assert_eq!(update["params"]["inputResponses"]["k"]["content"], json!({ "sure": true }));
        // The server has not processed the answer yet. The client must not send the answer again.
        script.serve("tasks/get", task("input_required", &asked)).await;
        script.serve("tasks/get", task("completed", &json!({ "result": text("done") }))).await;
        // An ordinary request offers no tasks, since its caller may not support them.
        let list = script.serve("tools/list", json!({ "tools": [] })).await;
        assert!(!offers_tasks(&list), "{list}");
        script
    });
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    client.list_tools().await.unwrap();
    let mut script = server.await.unwrap();
    drop(client);
    assert!(script.read().await.is_none(), "a task that ended is not cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_is_an_error_and_an_abandoned_one_is_cancelled() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    for (end, code, says) in [
        (task("failed", &json!({ "error": { "code": 7, "message": "broken" } })), 7, "broken"),
        (
            task("failed", &json!({ "statusMessage": "no disk" })),
            -32603,
            "the task failed: no disk",
        ),
        (task("cancelled", &json!({})), -32603, "the task was cancelled by the server"),
    ] {
        let serve = async {
            script.serve("tools/call", created()).await;
            script.serve("tasks/get", end).await;
        };
        let (outcome, ()) = tokio::join!(client.call("t").send(), serve);
        let error = outcome.unwrap_err();
        assert_eq!((error.code().0, &*error.message()), (code, says));
    }

    let serve = async {
        script.serve("tools/call", created()).await;
        script.serve("tasks/get", task("working", &json!({}))).await;
        let cancel = script.serve("tasks/cancel", json!({ "resultType": "complete" })).await;
        assert_eq!(cancel["params"]["taskId"], "t1");
    };
    let bounded = client.call("t").max_timeout(Duration::from_millis(900)).send();
    let (outcome, ()) = tokio::join!(bounded, serve);
    assert_eq!(outcome.unwrap_err().code(), ErrorCode::TIMEOUT);

    let dropped = tokio::time::timeout(Duration::from_millis(900), client.call("t").send());
    let serve = async {
        script.serve("tools/call", created()).await;
        script.serve("tasks/get", task("working", &json!({}))).await;
        script.serve("tasks/cancel", json!({ "resultType": "complete" })).await;
    };
    let (outcome, ()) = tokio::join!(dropped, serve);
    outcome.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_its_server_no_longer_knows_is_a_fault_of_the_server() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    let serve = async {
        script.serve("tools/call", created()).await;
        let get = script.receive().await;
        assert_eq!(get["method"], "tasks/get", "{get}");
        script.refuse(&get, json!({ "code": -32602, "message": "unknown task" })).await;
    };
    let (outcome, ()) = tokio::join!(client.call("t").send(), serve);
    assert_eq!(outcome.unwrap_err().code(), ErrorCode::UPSTREAM_ERROR);
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_a_question_of_a_task_is_open_does_not_count() {
    let builder = plain().on_elicitation(|question: ElicitParams| async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(question.accept())
    });
    let (client, mut script) = Script::modern(builder, json!({})).await;
    let question = json!({ "method": "elicitation/create", "params": {
        "message": "sure?", "requestedSchema": { "type": "object", "properties": {} },
    } });
    let serve = async {
        script.serve("tools/call", created()).await;
        let asked = json!({ "inputRequests": { "k": question } });
        script.serve("tasks/get", task("input_required", &asked)).await;
        script.serve("tasks/update", json!({ "resultType": "complete" })).await;
        script.serve("tasks/get", task("completed", &json!({ "result": text("done") }))).await;
    };
    let bounded = client.call("t").max_timeout(Duration::from_secs(5)).send();
    let (result, ()) = tokio::join!(bounded, serve);
    assert_eq!(result.unwrap().to_text(), "done");
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_tasks_questions_is_reported_correctly() {
    let builder = plain()
        .config(|config| config.max_rounds = 1)
        .on_elicitation(|question: ElicitParams| async move { Ok(question.accept()) });
    let (client, mut script) = Script::modern(builder, json!({})).await;
    let form = json!({ "type": "object", "properties": {} });
    let question = json!({
        "method": "elicitation/create", "params": { "message": "sure?", "requestedSchema": form },
    });
    let asked: serde_json::Map<_, _> =
        (0..9).map(|number| (format!("k{number}"), question.clone())).collect();
    let serve = async {
        script.serve("tools/call", created()).await;
        script.serve("tasks/get", task("input_required", &json!({ "inputRequests": asked }))).await;
        script.serve("tasks/cancel", json!({ "resultType": "complete" })).await;
    };
    let (outcome, ()) = tokio::join!(client.call("t").send(), serve);
    let error = outcome.unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    assert!(error.message().contains("more than 8 questions"), "{error}");
}

/// Regression test: tools of 2026-07-28 do not declare that they require a task, so their calls failed with code −32021
/// (missing client capability).
#[tokio::test(start_paused = true)]
async fn a_call_is_repeated_as_a_task_only_if_its_server_requires_one() {
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let (client, mut script) = Script::modern(plain(), capabilities).await;
    let missing = |capabilities: Value| {
        let data = json!({ "requiredCapabilities": capabilities });
        json!({ "code": -32021, "message": "not declared", "data": data })
    };
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let observed = client.call("t").progress(move |step| {
        seen.lock().push((step.progress, step.message.clone().unwrap_or_default()));
    });
    let serve = async {
        let call = script.receive().await;
        assert!(!offers_tasks(&call), "{call}");
        let required = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        script.refuse(&call, missing(required)).await;
        let call = script.serve("tools/call", created()).await;
        assert!(offers_tasks(&call), "{call}");
        for message in ["copies", "copies", "checks"] {
            let state = task("working", &json!({ "statusMessage": message }));
            script.serve("tasks/get", state).await;
        }
        script.serve("tasks/get", task("completed", &json!({ "result": text("done") }))).await;
    };
    let (result, ()) = tokio::join!(observed.send(), serve);
    assert_eq!(result.unwrap().to_text(), "done");
    let expected = [(1.0, "copies".to_owned()), (2.0, "checks".to_owned())];
    assert_eq!(*steps.lock(), expected);

    let observed = client.call("t").progress(|_| {});
    let serve = async {
        let call = script.receive().await;
        script.refuse(&call, missing(json!({ "sampling": {} }))).await;
    };
    let (outcome, ()) = tokio::join!(observed.send(), serve);
    assert_eq!(outcome.unwrap_err().code(), ErrorCode::MISSING_CLIENT_CAPABILITY);
    drop(client);
    assert!(script.read().await.is_none(), "the call is not repeated");
}

fn legacy_task(status: &str) -> Value {
    json!({
        "taskId": "t1", "status": status, "createdAt": CREATED, "lastUpdatedAt": CREATED,
        "ttl": 60000, "pollInterval": 500,
    })
}

/// Regression test: `FastMCP` names the task of a call in `_meta`, and refuses requests for the result of a task that
/// runs, so the result of the call was empty or an error.
#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_refuses_early_requests_for_a_result_is_polled() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let named = json!({ "modelcontextprotocol.io/task": { "taskId": "t1", "status": "working" } });
    let early = json!({ "code": -32602, "message": "the task is not completed yet" });
    for created in
        [json!({ "content": [], "_meta": named }), json!({ "task": legacy_task("working") })]
    {
        let serve = async {
            let call = script.serve("tools/call", created).await;
            assert!(call["params"]["task"].is_object(), "{call}");
            let request = script.receive().await;
            assert_eq!(request["method"], "tasks/result", "{request}");
            script.refuse(&request, early.clone()).await;
            script.serve("tasks/get", legacy_task("working")).await;
            let began = tokio::time::Instant::now();
            script.serve("tasks/get", legacy_task("completed")).await;
            assert_eq!(began.elapsed(), Duration::from_millis(500));
            script.serve("tasks/result", text("done")).await;
        };
        let (result, ()) = tokio::join!(client.call("t").as_task().send(), serve);
        assert_eq!(result.unwrap().to_text(), "done");
    }

    // The error of a task that failed must be the outcome of its call.
    let serve = async {
        script.serve("tools/call", json!({ "task": legacy_task("working") })).await;
        let broken = json!({ "code": 7, "message": "broken" });
        let request = script.receive().await;
        script.refuse(&request, broken.clone()).await;
        script.serve("tasks/get", legacy_task("failed")).await;
        let request = script.receive().await;
        assert_eq!(request["method"], "tasks/result", "{request}");
        script.refuse(&request, broken).await;
    };
    let (outcome, ()) = tokio::join!(client.call("t").as_task().send(), serve);
    assert_eq!(outcome.unwrap_err().code().0, 7);
}

/// Regression test: the Python SDK 1 returns a result without content for a task that failed, which passed for an empty
/// result.
#[tokio::test(start_paused = true)]
async fn a_legacy_task_that_failed_without_a_result_is_an_error() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let mut failed = legacy_task("failed");
    failed["statusMessage"] = json!("broken");
    for (state, expected) in [(failed, Err("broken")), (legacy_task("completed"), Ok(""))] {
        let serve = async {
            script.serve("tools/call", json!({ "task": legacy_task("working") })).await;
            script.serve("tasks/result", json!({ "_meta": {} })).await;
            script.serve("tasks/get", state).await;
        };
        let (outcome, ()) = tokio::join!(client.call("t").as_task().send(), serve);
        match (outcome, expected) {
            (Ok(result), Ok(text)) => assert_eq!(result.to_text(), text),
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
            (outcome, _) => panic!("{expected:?}: {outcome:?}"),
        }
    }
}

/// Regression test: a server on the Python SDK 1 can miss the end of a task that ends while the request for its result
/// arrives, so the call hung until its time was over.
#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_missed_the_end_of_its_task_is_asked_for_the_result_again() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let serve = async {
        script.serve("tools/call", json!({ "task": legacy_task("working") })).await;
        let unanswered = script.receive().await;
        assert_eq!(unanswered["method"], "tasks/result", "{unanswered}");
        script.serve("tasks/get", legacy_task("completed")).await;
        let mut message = script.receive().await;
        if message["method"] == "notifications/cancelled" {
            message = script.receive().await;
        }
        assert_eq!(message["method"], "tasks/result", "{message}");
        // The client must wait for the answer to the second request, however long it takes.
        let next = tokio::time::timeout(Duration::from_secs(9), script.receive()).await;
        assert!(!next.is_ok_and(|next| next["method"] == "tasks/get"), "the client waits");
        script.answer(&message, text("done")).await;
    };
    let (result, ()) = tokio::join!(client.call("t").as_task().send(), serve);
    assert_eq!(result.unwrap().to_text(), "done");
}

/// Regression test: a gateway polled the task of a legacy server at the first interval, whatever the server recommended
/// later.
#[tokio::test(start_paused = true)]
async fn a_legacy_task_is_polled_on_at_the_interval_that_its_server_recommended_last() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let hop = Hop::new("below", client);
    let forward = move |mut cx: Context| {
        let hop = hop.clone();
        async move {
            cx.extensions.insert(AwaitLegacyTask);
            let call = Call::ask::<ToolsCall>(&CallToolParams::new("t"), cx)?;
            hop.send(call).await.map(|_| "forwarded")
        }
    };
    let tool = Tool::new("t", "Forwards its calls", forward).task(TaskSupport::Required);
    let host = Client::builder("c", "1").era(EraChoice::Legacy);
    let host = TestClient::with_builder(Server::new("gateway", "1").tool(tool), host).await;
    let serve = async {
        script.serve("tools/call", json!({ "task": legacy_task("working") })).await;
        let request = script.receive().await;
        assert_eq!(request["method"], "tasks/result", "{request}");
        let mut slower = legacy_task("working");
        slower["pollInterval"] = json!(5_000);
        script.serve("tasks/get", slower).await;
        // The client repeats a poll that failed for a temporary reason.
        let poll = script.receive().await;
        assert_eq!(poll["method"], "tasks/get", "{poll}");
        script.refuse(&poll, json!({ "code": 3000, "message": "too many requests" })).await;
        let began = tokio::time::Instant::now();
        script.serve("tasks/get", legacy_task("working")).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        script.answer(&request, text("done")).await;
    };
    let (result, ()) = tokio::join!(host.call("t").as_task().send(), serve);
    assert_eq!(result.unwrap().to_text(), "forwarded");
}

#[tokio::test]
async fn a_raw_reply_leaves_the_task_to_its_caller() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    let (reply, call) = tokio::join!(client.call("t").raw(), script.serve("tools/call", created()));
    assert!(matches!(reply.unwrap(), Reply::Task(_)) && offers_tasks(&call));
    // The progress of a task is not reported, so the client offers no task for a call with a progress hook unless the
    // caller wants one.
    let listening = client.call("t").progress(|_| {});
    let (_, call) = tokio::join!(listening.send(), script.serve("tools/call", text("a")));
    assert!(!offers_tasks(&call), "{call}");
    let wanted = client.call("t").progress(|_| {}).as_task();
    let (_, call) = tokio::join!(wanted.send(), script.serve("tools/call", text("a")));
    assert!(offers_tasks(&call), "{call}");
}

/// Returns a server whose tool takes a while, and asks a question while it runs.
fn slow(dropped: Arc<AtomicBool>) -> Server {
    struct Guard(Arc<AtomicBool>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let work = move |cx: Context| {
        let guard = Guard(Arc::clone(&dropped));
        async move {
            let _guard = guard;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let form = r#"{"message":"sure?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","default":3}}}}"#;
            let sure = cx
                .ask("sure", CallerRequest::new("elicitation/create", Payload::parse(form)?))
                .await?;
            Ok::<_, RpcError>(sure.as_str().to_owned())
        }
    };
    Server::new("slow", "1")
        .tool(Tool::new("slow", "Takes a while", work).task(TaskSupport::Required))
}

#[tokio::test(start_paused = true)]
async fn both_eras_end_with_the_same_result() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let builder = Client::builder("c", "1")
            .era(era)
            .on_elicitation(|question| async move { Ok(question.accept()) });
        let client = TestClient::with_builder(slow(Arc::default()), builder).await;
        let received = client.call("slow").as_task().await.unwrap().to_text();
        assert!(received.contains(r#""content":{"n":3}"#), "{era:?}: {received}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_stops_its_task_at_the_server() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let stopped = Arc::new(AtomicBool::new(false));
        let builder = Client::builder("c", "1").era(era);
        let client = TestClient::with_builder(slow(Arc::clone(&stopped)), builder).await;
        let call = client.call("slow").as_task().send();
        tokio::time::timeout(Duration::from_secs(3), call).await.unwrap_err();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(stopped.load(Ordering::Relaxed), "{era:?}");
    }
}
