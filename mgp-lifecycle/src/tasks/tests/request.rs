//! Tests of the decision whether a call stays a request or becomes a task.

use super::*;

#[tokio::test(start_paused = true)]
async fn refusals_and_instant_answers_do_not_become_tasks() {
    let layer = layer(config());
    let stack = over(&layer, |call| async move {
        match call.tool().unwrap().name {
            "refused" => Err(RpcError::invalid_params("no")),
            _ => text_result("now"),
        }
    });
    let mut client = modern(stack.clone());
    assert_eq!(call(&mut client).await["content"][0]["text"], "now");
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"refused"}"#).await, -32602);
    let mut client = legacy(stack);
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"refused","task":{}}"#).await, -32602);
    assert_eq!((layer.kept(), layer.running()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_completes_within_the_grace_is_not_a_task() {
    let layer = layer(TasksConfig::default());
    let spawned = |_| async {
        tokio::spawn(async { sleep(Duration::from_millis(5)).await }).await.unwrap();
        text_result("soon")
    };
    let mut client = modern(over(&layer, spawned));
    assert_eq!(call(&mut client).await["content"][0]["text"], "soon");
    assert_eq!(layer.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_continues_without_its_request() {
    let layer = layer(config());
    let mut client = modern(over(&layer, slow));
    let task = call(&mut client).await;
    assert_eq!(
        (task["resultType"].as_str(), task["status"].as_str()),
        (Some("task"), Some("working"))
    );
    assert_eq!(
        (task["ttlMs"].as_u64(), task["pollIntervalMs"].as_u64()),
        (Some(600_000), Some(1000))
    );
    assert!(
        task.get("ttl").is_none()
            && task["createdAt"].is_string()
            && task["lastUpdatedAt"].is_string()
    );
    assert_eq!(layer.running(), 1);
    assert!(get(&mut client, &task).await.get("result").is_none());

    sleep(Duration::from_secs(61)).await;
    let task = get(&mut client, &task).await;
    assert_eq!(
        (task["resultType"].as_str(), task["status"].as_str()),
        (Some("complete"), Some("completed"))
    );
    assert_eq!(task["result"]["content"][0]["text"], "done");
    assert_eq!((layer.running(), layer.kept()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_before_the_hand_over_drops_the_call() {
    let live = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&live);
    let layer = layer(TasksConfig::default());
    let mut client = modern(over(&layer, move |_| {
        let live = LiveGuard::new(&count);
        async move {
            let _live = live;
            std::future::pending().await
        }
    }));
    let running = client.call("tools/call", r#"{"name":"a"}"#);
    assert!(tokio::time::timeout(Duration::from_millis(10), running).await.is_err());
    assert_eq!((live.load(Ordering::SeqCst), layer.kept()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_negotiated_or_supported_tasks_stays_a_request() {
    let layer = layer(config());
    let stack = over(&layer, slow);
    let mut plain = mock::client(stack.clone());
    plain.cx.caller = Arc::new(PeerInfo::new(Revision::MODERN));
    assert_eq!(call(&mut plain).await["content"][0]["text"], "done");
    let error = plain.request("tools/call", r#"{"name":"must"}"#).await.unwrap_err();
    assert_eq!(error.code().0, -32021);
    let needed = r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
    assert_eq!(error.as_data().unwrap().as_str(), needed);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        assert_eq!(
            code(&mut plain, method, r#"{"taskId":"x","inputResponses":{}}"#).await,
            -32021,
            "{method}"
        );
    }

    let mut client = modern(stack.clone());
    let result = request(&mut client, "tools/call", r#"{"name":"plain","task":{}}"#).await;
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(
        request(&mut client, "tools/call", r#"{"name":"must"}"#).await["resultType"],
        "task"
    );
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(code(&mut client, method, r#"{"taskId":"x"}"#).await, -32601, "{method}");
    }

    let mut client = legacy(stack.clone());
    assert_eq!(call(&mut client).await["content"][0]["text"], "done");
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"must"}"#).await, -32601);
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"plain","task":{}}"#).await, -32601);
    assert_eq!(
        code(&mut client, "tasks/update", r#"{"taskId":"x","inputResponses":{}}"#).await,
        -32601
    );

    let mut old = mock::client(stack);
    old.cx.caller = Arc::new(PeerInfo::new(Revision::V2025_06_18));
    let result = request(&mut old, "tools/call", r#"{"name":"a","task":{}}"#).await;
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(code(&mut old, "tasks/get", r#"{"taskId":"x"}"#).await, -32601);
}

#[tokio::test(start_paused = true)]
async fn partial_results_of_a_task_are_dropped_and_never_block() {
    #[derive(Default)]
    struct Stuck(AtomicUsize);
    impl Sink for Stuck {
        fn send(&self, _: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        }
    }
    let stuck = Arc::new(Stuck::default());
    let layer = layer(config());
    let mut client = modern(over(&layer, |call| async move {
        for _ in 0..3 {
            call.cx().outlet.send(OutletItem::chunk(Payload::null())).await.unwrap();
        }
        text_result("sent")
    }));
    client.cx.outlet = Outlet::new(stuck.clone());
    let task = call(&mut client).await;
    settle().await;
    assert_eq!(get(&mut client, &task).await["status"], "completed");
    assert_eq!(stuck.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_limited_to_single_tools_uses_only_its_own_tasks() {
    let layer = layer(config());
    let stack = over(&layer, slow);
    let with_key = |words: &[&str]| {
        let mut client = legacy(stack.clone());
        client.cx.extensions.insert(CredentialGrant::new(words.iter().copied(), || true));
        client
    };
    let mut whole = with_key(&["admin.read"]);
    let mut limited = with_key(&["tools.call:a"]);
    let (of_whole, of_limited) = (call_as_task(&mut whole).await, call_as_task(&mut limited).await);
    let named = |id: &str| format!(r#"{{"taskId":"{id}"}}"#);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(code(&mut limited, method, &named(&of_whole)).await, -32602, "{method}");
    }
    let listed = request(&mut limited, "tasks/list", "{}").await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tasks"][0]["taskId"], of_limited.as_str());
    request(&mut limited, "tasks/get", &named(&of_limited)).await;
    for mut all in [whole, with_key(&["tools.call"]), legacy(stack.clone())] {
        let listed = request(&mut all, "tasks/list", "{}").await;
        assert_eq!(listed["tasks"].as_array().unwrap().len(), 2);
        request(&mut all, "tasks/get", &named(&of_limited)).await;
    }
}
