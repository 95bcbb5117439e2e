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
async fn a_later_tenant_does_not_get_the_tasks_of_a_removed_one() {
    let tables = TaskTables::default();
    let layer = layer(config()).tables(&tables);
    let stack = over(&layer, slow);
    let mut local = modern(stack.clone());
    let mut of_acme = modern(stack);
    of_acme.cx.principal = Principal::new("acme", "ann");
    let (kept, removed) = (call(&mut local).await, call(&mut of_acme).await);
    tables.remove_tenant(&"acme".into());
    settle().await;
    assert_eq!((layer.running(), layer.kept()), (1, 1));
    assert_eq!(code(&mut of_acme, "tasks/get", &named(&removed)).await, -32602);
    assert_eq!(get(&mut local, &kept).await["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_to_live_does_not_overflow() {
    let layer = layer(TasksConfig { ttl: Duration::MAX, max_ttl: Duration::MAX, ..config() });
    let task = call(&mut modern(over(&layer, slow))).await;
    assert_eq!(task["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn a_full_table_takes_no_new_tasks_and_evicts_delivered_ones() {
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
    // The caller has no room for another task, so a call that may, but need not, become a task runs as an ordinary
    // call.
    let ordinary = tokio::spawn(client.call("tools/call", r#"{"name":"a"}"#));
    settle().await;
    assert_eq!((layer.running(), ordinary.is_finished()), (2, false));
    let before = begun.load(Ordering::SeqCst);
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"must"}"#).await, 3001);
    assert_eq!(begun.load(Ordering::SeqCst), before, "what must be a task does not even begin");

    let mut other = modern(stack.clone());
    other.cx.principal = Principal::new("t", "s");
    call(&mut other).await;
    assert_eq!(code(&mut other, "tools/call", r#"{"name":"must"}"#).await, 3001);

    sleep(Duration::from_secs(61)).await;
    assert!(matches!(ordinary.await.unwrap(), Ok(Reply::Complete(_))));
    assert_eq!(
        code(&mut client, "tools/call", r#"{"name":"must"}"#).await,
        3001,
        "no outcome was delivered yet"
    );
    get(&mut client, &first).await;
    call(&mut client).await;
    assert_eq!(code(&mut client, "tasks/get", &named(&first)).await, -32602);
}

/// Regression test: two callers could take all places for a day.
#[tokio::test(start_paused = true)]
async fn callers_that_take_all_tasks_they_can_leave_some_for_others() {
    let layer = layer(config());
    let stack = over(&layer, |_| std::future::pending());
    let mut taken = Vec::new();
    for agent in 'a'..='h' {
        // Several connections of a caller have one share together.
        let mut clients = [modern(stack.clone()), modern(stack.clone())];
        for client in &mut clients {
            client.cx.principal = Principal::local().agent(agent.to_string());
        }
        let mut count = 0;
        let refused = loop {
            let called = clients[count % 2].request("tools/call", r#"{"name":"must"}"#).await;
            match called {
                Ok(_) => count += 1,
                Err(refused) => break refused,
            }
        };
        let expected = format!("you may keep at most {count} tasks now; cancel some");
        assert!(refused.message().starts_with(&expected), "{refused}");
        assert_eq!(refused.code().0, 3001);
        taken.push(count);
    }
    assert_eq!(taken, [64, 13, 10, 8, 6, 5, 4, 3]);
}

#[test]
fn a_lone_caller_may_have_as_many_tasks_as_its_limit_permits() {
    for (max_tasks, max_per_principal) in
        [(128, 64), (10, 8), (8, 8), (8, 64), (2, 1), (usize::MAX, usize::MAX - 1)]
    {
        let config = TasksConfig { max_tasks, max_per_principal, ..config() };
        assert_eq!(config.share(0), max_per_principal.min(max_tasks), "{max_tasks}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_outcome_was_delivered_takes_no_place_from_its_caller() {
    let layer = layer(TasksConfig { max_tasks: 8, max_per_principal: 4, ..config() });
    let stack = over(&layer, slow);
    let mut other = modern(stack.clone());
    other.cx.principal = Principal::new("t", "s");
    let mut client = modern(stack);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(call(&mut other).await);
    }
    for _ in 0..2 {
        tasks.push(call(&mut client).await);
    }
    assert_eq!(code(&mut client, "tools/call", r#"{"name":"must"}"#).await, 3001);
    sleep(Duration::from_secs(61)).await;
    for task in &tasks[..4] {
        get(&mut other, task).await;
    }
    // The places of the other caller count as free again.
    for _ in 0..2 {
        assert!(call(&mut client).await["taskId"].is_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_the_table_full_after_its_start_may_have_run() {
    let grace = Duration::from_secs(1);
    let layer = layer(TasksConfig { max_tasks: 1, grace, ..config() });
    let mut client = modern(over(&layer, slow));
    let call = r#"{"name":"must"}"#;
    // When each call starts, there is room for its task. When the grace time is over, there is room for only one task.
    let (one, other) = (client.call("tools/call", call), client.call("tools/call", call));
    let (one, other) = tokio::join!(one, other);
    let mut refused = [one, other].into_iter().filter_map(Result::err);
    let error = refused.next().unwrap();
    let hints = error.as_recovery().unwrap();
    assert_eq!((error.code().0, hints.is_retryable()), (3001, false));
    let details = hints.details.as_ref().unwrap();
    assert_eq!(details.decode::<bool>("started").unwrap(), Some(true));
    assert!(refused.next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_need_not_become_a_task_outlives_its_place_in_the_table() {
    let grace = Duration::from_secs(1);
    let layer = layer(TasksConfig { max_tasks: 1, grace, ..config() });
    let mut client = modern(over(&layer, slow));
    let call = r#"{"name":"a"}"#;
    let (one, other) = (client.call("tools/call", call), client.call("tools/call", call));
    let (one, other) = tokio::join!(one, other);
    let replies = [one.unwrap(), other.unwrap()];
    let tasks = replies.iter().filter(|reply| matches!(reply, Reply::Task(_))).count();
    let results = replies.iter().filter(|reply| matches!(reply, Reply::Complete(_))).count();
    assert_eq!((tasks, results), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_place_in_the_table_ends_after_its_time_to_live() {
    let grace = Duration::from_secs(1);
    let layer = layer(TasksConfig { max_tasks: 1, grace, ..config() });
    let stack = over(&layer, |_| std::future::pending());
    let (mut waiting, mut holder) = (modern(stack.clone()), legacy(stack));
    // Within the grace time, `holder` becomes a task, takes the only place in the task table, and keeps it for its TTL
    // of a day.
    let waiting = waiting.call("tools/call", r#"{"name":"a"}"#);
    let holder = holder.call("tools/call", r#"{"name":"a","task":{"ttl":86400000}}"#);
    let (error, held) = tokio::join!(waiting, holder);
    held.unwrap();
    assert_eq!(error.unwrap_err().code().0, 3003);
    assert_eq!(layer.kept(), 1);
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
