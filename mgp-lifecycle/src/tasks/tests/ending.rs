//! Tests of how tasks end: with an outcome, by cancellation, or by expiry.

use super::*;

#[tokio::test(start_paused = true)]
async fn tool_errors_complete_and_protocol_errors_fail() {
    let layer = layer(config());
    let mut client = modern(over(&layer, |call| async move {
        sleep(Duration::from_secs(1)).await;
        match call.tool().unwrap().name {
            "tool" => Reply::of(&serde_json::json!({ "content": [], "isError": true })),
            "refused" => Err(LifecycleError::Saturated.into()),
            "panics" => panic!("on purpose"),
            _ => Err(RpcError::internal("broken")),
        }
    }));
    let mut ended = Vec::new();
    for tool in ["tool", "refused", "protocol", "panics"] {
        let task = request(&mut client, "tools/call", &format!(r#"{{"name":"{tool}"}}"#)).await;
        sleep(Duration::from_secs(2)).await;
        let task = get(&mut client, &task).await;
        let is_error = task["result"]["isError"].as_bool();
        ended.push((
            task["status"].as_str().unwrap().to_owned(),
            is_error,
            task["error"]["code"].as_i64(),
        ));
    }
    let completed = || "completed".to_owned();
    let failed = || "failed".to_owned();
    assert_eq!(
        ended,
        [
            (completed(), Some(true), None),
            // A caller without MGP gets a refusal as a result, so its task is completed.
            (completed(), Some(true), None),
            (failed(), None, Some(-32603)),
            (failed(), None, Some(-32603)),
        ]
    );
    assert_eq!(layer.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelling_drops_the_handler() {
    let live = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&live);
    let layer = layer(config());
    let mut client = modern(over(&layer, move |_| {
        let live = LiveGuard::new(&count);
        async move {
            let _live = live;
            std::future::pending().await
        }
    }));
    let task = call(&mut client).await;
    assert_eq!(live.load(Ordering::SeqCst), 1);
    let ack = client.request("tasks/cancel", &named(&task)).await.unwrap();
    assert_eq!(ack.as_str(), r#"{"resultType":"complete"}"#);
    assert_eq!(get(&mut client, &task).await["status"], "cancelled");
    settle().await;
    assert_eq!((live.load(Ordering::SeqCst), layer.running()), (0, 0));
    // Cancelling again is not an error, because the caller cannot know that the task has ended.
    assert!(client.request("tasks/cancel", &named(&task)).await.is_ok());

    call(&mut client).await;
    drop((client, layer));
    settle().await;
    assert_eq!(live.load(Ordering::SeqCst), 0, "a server that is gone drops its tasks");
}

#[tokio::test(start_paused = true)]
async fn expiry_ends_running_tasks_and_removes_ended_ones() {
    let layer = layer(config());
    let mut client = modern(over(&layer, |call| async move {
        if call.tool().unwrap().name == "never" {
            std::future::pending().await
        } else {
            slow(call).await
        }
    }));
    let task = call(&mut client).await;
    let never = request(&mut client, "tools/call", r#"{"name":"never"}"#).await;
    sleep(Duration::from_secs(599)).await;
    assert_eq!(get(&mut client, &task).await["status"], "completed");
    assert_eq!(get(&mut client, &never).await["status"], "working");
    sleep(Duration::from_secs(2)).await;
    for task in [task, never] {
        assert_eq!(code(&mut client, "tasks/get", &named(&task)).await, -32602);
    }
    assert_eq!((layer.kept(), layer.running()), (0, 0));
}
