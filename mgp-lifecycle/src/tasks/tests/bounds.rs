//! Tests of the visibility of tasks, and of their limits.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_task_is_unknown_to_another_principal() {
    let layer = layer(config());
    let stack = over(&layer, slow);
    let mut owner = modern(stack.clone());
    let task = call(&mut owner).await;
    assert_eq!(task["taskId"].as_str().unwrap().len(), 32);
    for principal in [
        Principal::new("local", "other"),
        Principal::new("other", "local"),
        Principal::local().agent("bot"),
    ] {
        let mut other = modern(stack.clone());
        other.cx.principal = principal;
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = format!(r#"{{"taskId":{},"inputResponses":{{}}}}"#, task["taskId"]);
            let seen = other.request(method, &params).await.unwrap_err();
            let unknown =
                other.request(method, r#"{"taskId":"x","inputResponses":{}}"#).await.unwrap_err();
            assert_eq!((seen.code().0, seen == unknown), (-32602, true), "{method}");
        }
    }
    // The task is also visible on another connection of the same principal.
    let mut again = modern(stack);
    again.cx.principal = Principal::local().operator();
    assert_eq!(get(&mut again, &task).await["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn a_full_table_refuses_new_tasks_and_evicts_delivered_ones() {
    let layer = layer(TasksConfig { max_tasks: 3, max_per_principal: 2, ..config() });
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let stack = over(&layer, move |call| {
        count.fetch_add(1, Ordering::SeqCst);
        slow(call)
    });
    let mut client = modern(stack.clone());
    let first = call(&mut client).await;
    call(&mut client).await;
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"a"}"#).await, 3001);
    assert_eq!(layer.running(), 2);
    let before = begun.load(Ordering::SeqCst);
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"must"}"#).await, 3001);
    assert_eq!(begun.load(Ordering::SeqCst), before, "what must be a task does not even begin");

    let mut other = modern(stack.clone());
    other.cx.principal = Principal::new("t", "s");
    call(&mut other).await;
    assert_eq!(code(&mut other, "tools/call", r#"{"name":"a"}"#).await, 3001);

    sleep(Duration::from_secs(61)).await;
    assert_eq!(
        code(&mut client, "tools/call", r#"{"name":"a"}"#).await,
        3001,
        "no outcome was delivered yet"
    );
    get(&mut client, &first).await;
    call(&mut client).await;
    assert_eq!(code(&mut client, "tasks/get", &named(&first)).await, -32602);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_tasks_leave_nothing_behind() {
    let live = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&live);
    let layer = layer(TasksConfig { max_tasks: 1000, max_per_principal: 1000, ..config() });
    let mut client = modern(over(&layer, move |call| {
        let live = LiveGuard::new(&count);
        async move {
            let _live = live;
            slow(call).await
        }
    }));
    for round in 0..1000 {
        let task = call(&mut client).await;
        if round % 3 == 0 {
            client.request("tasks/cancel", &named(&task)).await.unwrap();
        }
    }
    assert_eq!(layer.kept(), 1000);
    sleep(Duration::from_secs(61)).await;
    assert_eq!((layer.running(), live.load(Ordering::SeqCst)), (0, 0));
    sleep(Duration::from_mins(10)).await;
    settle().await;
    assert_eq!(layer.kept(), 0);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}
