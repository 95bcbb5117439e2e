//! Tests of tasks in the form of MCP 2025-11-25.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_legacy_caller_waits_for_the_result() {
    let layer = layer(config());
    let mut client = legacy(over(&layer, slow));
    let created = request(&mut client, "tools/call", r#"{"name":"a","task":{"ttl":90000}}"#).await;
    let task = &created["task"];
    assert_eq!((task["status"].as_str(), task["ttl"].as_u64()), (Some("working"), Some(90_000)));
    assert!(
        task["pollInterval"].is_u64()
            && task.get("ttlMs").is_none()
            && task.get("resultType").is_none()
    );
    let result = request(&mut client, "tasks/result", &named(task)).await;
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task["taskId"]);
    let seen = get(&mut client, task).await;
    assert_eq!(seen["status"], "completed");
    assert!(seen.get("result").is_none());
    assert_eq!(code(&mut client, "tasks/cancel", &named(task)).await, -32602);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_caller_lists_and_cancels() {
    let layer = layer(config());
    let stack = over(&layer, slow);
    let mut client = legacy(stack.clone());
    let (first, second) = (call_as_task(&mut client).await, call_as_task(&mut client).await);
    let mut other = legacy(stack);
    other.cx.principal = Principal::new("t", "s");
    call_as_task(&mut other).await;
    let listed = request(&mut client, "tasks/list", "{}").await;
    let ids: Vec<_> = listed["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["taskId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [&first, &second]);
    assert_eq!(code(&mut client, "tasks/list", r#"{"cursor":"x"}"#).await, -32602);

    let params = format!(r#"{{"taskId":"{first}"}}"#);
    let waiting = client.call("tasks/result", &params);
    let cancelled = request(&mut client, "tasks/cancel", &params).await;
    assert_eq!(
        (cancelled["status"].as_str(), cancelled["createdAt"].is_string()),
        (Some("cancelled"), true)
    );
    assert_eq!(waiting.await.unwrap_err().to_string(), "the task was cancelled (-32600)");
}

#[tokio::test(start_paused = true)]
async fn a_task_has_the_form_of_the_era_in_which_it_is_read() {
    let layer = layer(config());
    let stack = over(&layer, slow);
    let (mut new, mut old) = (modern(stack.clone()), legacy(stack));
    let task = call(&mut new).await;
    let listed = request(&mut old, "tasks/list", "{}").await["tasks"][0].clone();
    for seen in [listed, get(&mut old, &task).await] {
        assert_eq!(
            (seen["ttl"].as_u64(), seen["pollInterval"].as_u64()),
            (Some(600_000), Some(1000))
        );
        assert!(seen.get("ttlMs").is_none() && seen.get("resultType").is_none(), "{seen}");
    }
    let id = call_as_task(&mut old).await;
    let seen = get(&mut new, &serde_json::json!({ "taskId": id })).await;
    assert_eq!(
        (seen["ttlMs"].as_u64(), seen["resultType"].as_str()),
        (Some(60_000), Some("complete"))
    );
    assert!(seen.get("ttl").is_none() && seen.get("pollInterval").is_none(), "{seen}");
    sleep(Duration::from_secs(61)).await;
    let ended = get(&mut old, &task).await;
    assert_eq!((ended["status"].as_str(), ended.get("result")), (Some("completed"), None));
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_tool_failed_has_failed_for_legacy_readers_only() {
    let layer = layer(config());
    let stack = over(&layer, |_| async {
        sleep(Duration::from_secs(1)).await;
        Reply::of(&serde_json::json!({ "content": [], "isError": true }))
    });
    let (mut new, mut old) = (modern(stack.clone()), legacy(stack));
    let of_old = serde_json::json!({ "taskId": call_as_task(&mut old).await });
    let tasks = [call(&mut new).await, of_old];
    sleep(Duration::from_secs(2)).await;
    for task in &tasks {
        assert_eq!(get(&mut old, task).await["status"], "failed");
        assert_eq!(get(&mut new, task).await["status"], "completed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_reader_does_not_get_the_questions_of_a_legacy_task() {
    let layer = layer(config());
    let stack = over(&layer, |call| async move {
        tokio::task::yield_now().await;
        let answer = call.cx().ask("a", elicit()).await?;
        text_result(answer.as_str())
    });
    let silent = mock::peer(Stack::from_fn(|_| std::future::pending()));
    let (mut new, mut old) = (modern(stack.clone()), legacy(stack));
    let mut facts = PeerInfo::new(Revision::V2025_11_25);
    facts.accepts.elicitation = true;
    old.cx.caller = Arc::new(facts);
    old.cx.peer = silent.peer();
    old.cx.caller_access = CallerAccess::Peer(silent.peer());
    let task = serde_json::json!({ "taskId": call_as_task(&mut old).await });
    settle().await;
    assert_eq!(get(&mut old, &task).await["status"], "input_required");
    // A modern reader could not answer them with `tasks/update`.
    let seen = get(&mut new, &task).await;
    assert_eq!((&seen["status"], seen.get("inputRequests")), (&Value::from("working"), None));
}

#[tokio::test(start_paused = true)]
async fn a_legacy_caller_that_requests_a_task_gets_one_even_for_an_immediate_result() {
    let layer = layer(config());
    let mut client = legacy(over(&layer, |call| async move {
        match call.tool().unwrap().name {
            "refused" => Err(LifecycleError::Saturated.into()),
            _ => text_result("now"),
        }
    }));
    for (tool, text) in [
        ("a", "now"),
        ("refused", "too many tool calls are running and waiting; try again in a moment (3001)"),
    ] {
        let params = format!(r#"{{"name":"{tool}","task":{{}}}}"#);
        let created = request(&mut client, "tools/call", &params).await;
        assert_eq!(created["task"]["status"], "working");
        let result = request(&mut client, "tasks/result", &named(&created["task"])).await;
        assert_eq!(result["content"][0]["text"], text);
    }
    settle().await;
    assert_eq!((layer.running(), layer.kept()), (0, 2));
    sleep(Duration::from_secs(601)).await;
    assert_eq!(layer.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_task_whose_tool_failed_has_failed_and_keeps_its_result() {
    let layer = layer(config());
    let mut client = legacy(over(&layer, |_| async {
        Reply::of(&serde_json::json!({ "content": [], "isError": true }))
    }));
    let created = request(&mut client, "tools/call", r#"{"name":"a","task":{}}"#).await;
    let task = &created["task"];
    let result = request(&mut client, "tasks/result", &named(task)).await;
    assert_eq!(result["isError"], true);
    let seen = get(&mut client, task).await;
    assert_eq!(seen["status"], "failed");
    assert_eq!(seen["statusMessage"], "the tool reported an error");
    let listed = request(&mut client, "tasks/list", "{}").await;
    assert_eq!(listed["tasks"][0]["status"], "failed");
    let refused = client.request("tasks/cancel", &named(task)).await.unwrap_err();
    assert!(refused.message().contains("failed"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_task_asks_its_legacy_caller_on_a_connection_that_waits() {
    let layer = layer(config());
    let asker = || mock::peer(Stack::from_fn(|_| async { Reply::of(&"yes") }));
    let (first, second) = (asker(), asker());
    let mut client = legacy(over(&layer, |call| async move {
        tokio::task::yield_now().await;
        let early = call.cx().ask("a", elicit()).await?;
        sleep(Duration::from_secs(5)).await;
        let late = call.cx().ask("b", elicit()).await?;
        text_result(&format!("{} {}", early.as_str(), late.as_str()))
    }));
    let mut facts = PeerInfo::new(Revision::V2025_11_25);
    facts.accepts = AcceptedRequests::default();
    facts.accepts.elicitation = true;
    client.cx.caller = Arc::new(facts);
    client.cx.peer = first.peer();
    client.cx.caller_access = CallerAccess::Peer(first.peer());
    let id = call_as_task(&mut client).await;
    settle().await;
    assert_eq!(first.received().len(), 1);
    let meta: Value = first.received()[0].hop().meta[0].1.get().unwrap();
    assert_eq!(meta["taskId"], id.as_str());

    client.cx.peer = second.peer();
    let result = request(&mut client, "tasks/result", &format!(r#"{{"taskId":"{id}"}}"#)).await;
    assert_eq!(result["content"][0]["text"], r#""yes" "yes""#);
    assert_eq!((first.received().len(), second.received().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_become_a_task_outlives_the_time_out() {
    let layer = layer(config());
    let bounded = crate::TimeoutLayer::new(Duration::from_secs(30)).layer(Stack::from_fn(slow));
    let mut client = modern(Stack::new(layer.layer(bounded)));
    let task = call(&mut client).await;
    sleep(Duration::from_secs(61)).await;
    assert_eq!(get(&mut client, &task).await["status"], TaskStatus::Completed.as_str());
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"plain"}"#).await, 3003);
}
