//! Tests of drains that begin at random moments while calls are running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_server_sdk::Tool;
use mgp_testkit::Random;
use mgp_types::mcp::TaskSupport;
use mgp_types::mgp::ShutdownReason;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::drains;
use crate::world::{Began, Received, World, call, request, rest, server, write};

/// The maximum number of calls that a peer makes in a test.
const CALLS: u64 = 60;
/// The id of the request that asks the server to shut down.
const SHUTDOWN: u64 = 999_999;

/// The event that triggers a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// The test drains the server through its handle.
    Handle,
    /// The peer sends a request to shut down among its calls.
    Method,
    /// The test drains the server through its handle, with a time limit that is too short for some calls.
    Surprise,
}

/// Drains a server once while a peer sends calls. Returns the number of calls that began, and the number of calls that
/// came too late.
async fn one(by: Trigger, random: &mut Random) -> (usize, usize) {
    let began = Began::default();
    let World { mut to, mut from, serving, drain } = World::new(server(&began)).await;
    let reading = tokio::spawn(async move { rest(&mut from).await });
    let is_over = Arc::new(AtomicBool::new(false));
    let (pause, flag, handle) = (random.below(6_000), Arc::clone(&is_over), drain.clone());
    let beginning = tokio::spawn(async move {
        if by == Trigger::Method {
            return;
        }
        sleep(Duration::from_micros(pause)).await;
        let time = if by == Trigger::Surprise { 15 } else { 30_000 };
        handle.begin(ShutdownReason::OperatorRequest, Duration::from_millis(time));
        flag.store(true, Ordering::SeqCst);
    });
    let asked = random.below(CALLS);
    // `late` has the ids of the calls that the peer wrote after the drain had begun.
    let (mut sent, mut late) = (Vec::new(), Vec::new());
    for id in 0..CALLS {
        if by == Trigger::Method && id == asked {
            let params = json!({"reason": "idle_timeout", "timeout_ms": 30_000});
            write(&mut to, &request(SHUTDOWN, "mgp/lifecycle/shutdown", params)).await;
            is_over.store(true, Ordering::SeqCst);
        }
        let is_late = is_over.load(Ordering::SeqCst);
        let (tool, ms) = match random.below(4) {
            0 => ("inline", 0),
            1 => ("block", random.below(3)),
            _ if by == Trigger::Surprise && random.below(4) == 0 => ("sleep", 60_000),
            _ => ("sleep", random.below(12)),
        };
        if !write(&mut to, &call(id, tool, ms)).await {
            break;
        }
        sent.push(id);
        late.extend(is_late.then_some(id));
        match random.below(3) {
            0 => sleep(Duration::from_micros(random.below(300))).await,
            1 => tokio::task::yield_now().await,
            _ => {}
        }
    }
    beginning.await.unwrap();
    let received: Received = reading.await.unwrap();
    serving.await.unwrap().unwrap();
    let began = began.all();
    for id in late {
        assert!(!began.contains(&id), "call {id} was accepted after the end began");
    }
    if by == Trigger::Method {
        let answer = &received.answers[&SHUTDOWN]["result"];
        assert_eq!(answer["accepted"], true, "{answer}");
    }
    assert_eq!(received.states, ["draining", "disconnected"], "{by:?}");
    received.judge(sent.into_iter(), &began)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_accepted_call_is_lost_and_none_is_accepted_after_it_began() {
    let mut random = Random(7);
    let (mut done, mut late) = (0, 0);
    for number in 0..drains() {
        let by = [Trigger::Handle, Trigger::Method, Trigger::Surprise][number % 3];
        let (answered, refused) = one(by, &mut random).await;
        done += answered;
        late += refused;
    }
    say_figure(&format!("{} drains: {done} calls answered, {late} came too late", drains()));
    assert!(done > drains() && late > drains(), "both happen: {done}, {late}");
}

#[expect(clippy::print_stdout, reason = "the figure is what the test is run for")]
pub(crate) fn say_figure(figure: &str) {
    println!("{figure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outcome_of_a_task_reaches_the_caller_that_waits_for_it() {
    for number in 0..(drains() / 10).max(5) {
        let (gate, ms) = (Arc::new(Semaphore::new(0)), u64::try_from(number).unwrap() % 20);
        let held = Arc::clone(&gate);
        let held = Tool::new("held", "Waits until it may, then a little", move || {
            let held = Arc::clone(&held);
            async move {
                held.acquire().await.unwrap().forget();
                sleep(Duration::from_millis(ms)).await;
                "done"
            }
        });
        let tools = server(&Began::default()).tool(held.task(TaskSupport::Optional));
        let mut world = World::new(tools).await;
        for id in 0..4 {
            let mut task = call(id, "held", 0);
            task["params"]["task"] = json!({});
            world.write(&task).await;
        }
        let mut ids = Vec::new();
        while ids.len() < 4 {
            let created = world.receive().await.unwrap();
            ids.push(created["result"]["task"]["taskId"].clone());
        }
        for (number, id) in ids.into_iter().enumerate() {
            let id = json!({"taskId": id});
            world.write(&request(100 + u64::try_from(number).unwrap(), "tasks/result", id)).await;
        }
        // Send a call and wait for its answer: then the server has also read the request before it, which still waits
        // for a task.
        world.write(&call(200, "inline", 0)).await;
        assert_eq!(world.receive().await.unwrap()["id"], 200);
        let remaining = world.drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(30));
        assert_eq!(remaining.calls, 4);
        gate.add_permits(4);
        world.write(&call(300, "inline", 0)).await;
        let received = world.rest().await;
        for id in 100..104 {
            let text = received.answers[&id]["result"]["content"][0]["text"].as_str();
            assert_eq!(text, Some("done"), "{:?}", received.answers[&id]);
        }
        assert_eq!(received.code(300), Some(2001));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_asks_its_caller_gets_the_answer_while_the_server_drains() {
    use mgp_server_sdk::ContextExt;
    use mgp_server_sdk::prelude::*;

    #[derive(Deserialize, JsonSchema)]
    struct City {
        /// The name of the city.
        city: String,
    }
    let ask = Tool::new("ask", "Asks", |cx: Context| async move {
        let city = cx.elicit::<City>("Which city?").await?.accepted();
        Ok::<_, RpcError>(city.map_or_else(String::new, |city| city.city))
    });
    let mut world = World::without_handshake(Server::new("s", "1").tool(ask));
    let hello = mgp_testkit::hello("2025-11-25", &json!({"elicitation": {}}));
    world.write(&request(0, "initialize", hello)).await;
    world.receive().await.unwrap();
    world.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    world.write(&request(1, "tools/call", json!({"name": "ask", "arguments": {}}))).await;
    let question = world.receive().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");

    world.drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(30));
    world.write(&request(2, "ping", json!({}))).await;
    assert_eq!(world.receive().await.unwrap()["result"], json!({}));
    let answer = json!({"action": "accept", "content": {"city": "Oslo"}});
    let answer: Value = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
    world.write(&answer).await;
    let received = world.rest().await;
    assert_eq!(received.answers[&1]["result"]["content"][0]["text"], "Oslo");
    assert!(received.states.is_empty(), "a plain MCP peer receives no states");
}

#[tokio::test]
async fn a_plain_peer_is_refused_with_an_mcp_error() {
    let mut world = World::without_handshake(server(&Began::default()));
    let hello = mgp_testkit::hello("2025-11-25", &json!({}));
    world.write(&request(0, "initialize", hello)).await;
    world.receive().await.unwrap();
    let held = call(1, "sleep", 2_000);
    world.write(&held).await;
    world.write(&call(2, "inline", 0)).await;
    assert_eq!(world.receive().await.unwrap()["id"], 2);
    world.drain.begin(ShutdownReason::ConfigurationChange, Duration::from_secs(30));
    world.write(&call(3, "inline", 0)).await;
    let refused = world.receive().await.unwrap();
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(refused["result"]["structuredContent"]["code"], 2001);
    assert_eq!(refused["result"]["structuredContent"]["retryable"], true);
    assert!(world.rest().await.answers.contains_key(&1));
}
