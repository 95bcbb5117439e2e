//! Tests of questions that are asked before and after a call becomes a task.

use super::*;

async fn ask_two(cx: &Context) -> Result<Reply, RpcError> {
    let (a, b) = tokio::join!(cx.ask("a", elicit()), cx.ask("b", elicit()));
    text_result(&format!("{} {}", a?.as_str(), b?.as_str()))
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_answers_and_takes_them_one_by_one() {
    let layer = layer(config());
    let mut client = modern(over(&layer, |call| async move {
        tokio::task::yield_now().await;
        ask_two(call.cx()).await
    }));
    client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::default()));
    let task = call(&mut client).await;
    settle().await;
    let seen = get(&mut client, &task).await;
    assert_eq!(seen["status"], "input_required");
    assert_eq!(seen["inputRequests"]["b"]["method"], "elicitation/create");
    assert_eq!(seen["inputRequests"]["a"]["params"]["message"], "sure?");
    assert!(seen.get("requestState").is_none());

    let update = |key: &str| {
        format!(r#"{{"taskId":{},"inputResponses":{{"{key}":1,"x":2}}}}"#, task["taskId"])
    };
    let ack = client.request("tasks/update", &update("a")).await.unwrap();
    assert_eq!(ack.as_str(), r#"{"resultType":"complete"}"#);
    settle().await;
    let seen = get(&mut client, &task).await;
    assert_eq!(seen["status"], "input_required");
    assert_eq!(seen["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);

    client.request("tasks/update", &update("b")).await.unwrap();
    settle().await;
    let seen = get(&mut client, &task).await;
    assert_eq!(
        (seen["status"].as_str(), seen["result"]["content"][0]["text"].as_str()),
        (Some("completed"), Some("1 1"))
    );
    assert!(seen.get("inputRequests").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_question_in_the_request_is_a_round_and_the_next_round_a_task() {
    let layer = layer(TasksConfig::default());
    let stack = over(&layer, |call| async move {
        let cx = call.cx().clone();
        // As in the SDK, the tool runs on its own tokio task, and the round is run there too.
        let asking = cx.caller_access.clone();
        let tool = async move {
            let name = cx.ask("name", elicit()).await?;
            TaskTicket::of(&cx).unwrap().begin().await?;
            let sure = cx.ask("sure", elicit()).await?;
            let again = cx.ask("name", elicit()).await?;
            text_result(&format!("{} {} {}", name.as_str(), sure.as_str(), again.as_str()))
        };
        tokio::spawn(async move { asking.run_round(tool).await }).await.unwrap()
    });
    let mut client = modern(stack);
    client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::default()));
    let Ok(Reply::InputRequired(needed)) = client.call("tools/call", r#"{"name":"a"}"#).await
    else {
        panic!("the question must be a round")
    };
    assert_eq!((needed.asks.len(), layer.kept()), (1, 0));

    let mut state = RoundState::default();
    state.answers.insert("name".to_owned(), Payload::of("Ada").unwrap());
    client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::new(state)));
    let before = tokio::time::Instant::now();
    let task = call(&mut client).await;
    assert_eq!(
        (task["resultType"].as_str(), before.elapsed().is_zero()),
        (Some("task"), true),
        "the tool itself became a task"
    );
    settle().await;
    let seen = get(&mut client, &task).await;
    assert_eq!(seen["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["sure"]);
    let update = format!(r#"{{"taskId":{},"inputResponses":{{"sure":true}}}}"#, task["taskId"]);
    client.request("tasks/update", &update).await.unwrap();
    settle().await;
    assert_eq!(
        get(&mut client, &task).await["result"]["content"][0]["text"],
        r#""Ada" true "Ada""#
    );
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_asks_in_its_first_poll_is_a_round() {
    let layer = layer(config());
    let mut client = modern(over(&layer, |call| async move { ask_two(call.cx()).await }));
    client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::default()));
    let Ok(Reply::InputRequired(needed)) = client.call("tools/call", r#"{"name":"a"}"#).await
    else {
        panic!("the questions must be a round")
    };
    assert_eq!((needed.asks.len(), layer.kept()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn the_questions_of_a_request_end_it_and_those_of_a_task_do_not() {
    for (is_task, ends) in [(false, true), (true, false)] {
        let layer = layer(config());
        let access = Arc::new(mgp_types::sync::Mutex::new(CallerAccess::Unavailable));
        let seen = Arc::clone(&access);
        let mut client = modern(over(&layer, move |call| {
            *seen.lock() = call.cx().caller_access.clone();
            async move {
                if is_task {
                    tokio::task::yield_now().await;
                }
                ask_two(call.cx()).await
            }
        }));
        client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::default()));
        client.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
        settle().await;
        let CallerAccess::Channel(channel) = access.lock().clone() else {
            panic!("the call must have a channel")
        };
        assert_eq!((layer.kept(), channel.has_suspended()), (usize::from(is_task), ends));
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_withdrawn_when_its_asker_stops_waiting() {
    let layer = layer(config());
    let mut client = modern(over(&layer, |call| async move {
        tokio::task::yield_now().await;
        let asked =
            tokio::time::timeout(Duration::from_secs(5), call.cx().ask("a", elicit())).await;
        assert!(asked.is_err());
        std::future::pending().await
    }));
    let task = call(&mut client).await;
    settle().await;
    assert_eq!(get(&mut client, &task).await["status"], "input_required");
    sleep(Duration::from_secs(6)).await;
    assert_eq!(get(&mut client, &task).await["status"], "working");
}

#[tokio::test]
async fn the_asker_of_a_call_delegates_stored_values_and_rounds() {
    let layer = layer(config());
    let rounds = Rounds::default();
    rounds.keep("seed", &Payload::of(&7).unwrap());
    let mut client = modern(over(&layer, |call| async move {
        let seed: u32 = call.cx().once("seed", || async { Ok(1) }).await?;
        text_result(&seed.to_string())
    }));
    client.cx.caller_access = CallerAccess::Channel(Arc::new(rounds));
    assert_eq!(call(&mut client).await["content"][0]["text"], "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_races_with_the_hand_over_is_never_lost() {
    // This test runs on real threads and in real time; the time limit only ends the test if it hangs.
    let all = async {
        let layer = layer(TasksConfig { max_tasks: 1000, max_per_principal: 1000, ..config() });
        let stack = over(&layer, |call| async move {
            let cx = call.cx().clone();
            let asking = cx.caller_access.clone();
            let tool = async move { ask_two(&cx).await };
            tokio::spawn(async move { asking.run_round(tool).await }).await.unwrap()
        });
        let mut client = modern(stack);
        for _ in 0..500 {
            client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::default()));
            let reply = client.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
            if let Reply::InputRequired(needed) = &reply {
                assert!(!needed.asks.is_empty());
                continue;
            }
            let task: Value = reply.get().unwrap();
            let update = r#""inputResponses":{"a":1,"b":2}}"#;
            let update = format!(r#"{{"taskId":{},{update}"#, task["taskId"]);
            while get(&mut client, &task).await["status"] != "completed" {
                client.request("tasks/update", &update).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
        layer.running()
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(30), all).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_recommends_the_interval_of_the_task_for_which_it_waits() {
    for (interval, expected) in [(7_000, 7_000), (0, 100), (u64::MAX, 60_000)] {
        let layer = layer(config());
        let stack = over(&layer, move |call| async move {
            let ticket = TaskTicket::of(call.cx()).unwrap().clone();
            ticket.begin().await?;
            ticket.recommend_interval(Duration::from_millis(interval));
            slow(call).await
        });
        let mut client = modern(stack);
        let task = call(&mut client).await;
        assert_eq!(get(&mut client, &task).await["pollIntervalMs"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_task_has_the_status_message_that_its_handler_sets() {
    let layer = layer(config());
    let stack = over(&layer, |call| async move {
        let ticket = TaskTicket::of(call.cx()).unwrap().clone();
        ticket.set_status_message("before it is a task");
        ticket.begin().await?;
        sleep(Duration::from_secs(1)).await;
        ticket.set_status_message(&format!("half\u{202e}{}", "x".repeat(2_000)));
        slow(call).await
    });
    let mut client = modern(stack);
    let task = call(&mut client).await;
    assert_eq!(get(&mut client, &task).await["statusMessage"], "the tool is running");
    sleep(Duration::from_secs(2)).await;
    let shown = get(&mut client, &task).await["statusMessage"].as_str().unwrap().to_owned();
    assert!(shown.starts_with("half") && !shown.contains('\u{202e}'), "{shown}");
    assert!(shown.len() < 1_200, "{shown}");
    sleep(Duration::from_mins(2)).await;
    assert_eq!(get(&mut client, &task).await["statusMessage"], "the tool has answered");
}
