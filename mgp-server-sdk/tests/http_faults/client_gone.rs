//! Tests of a client that disconnects during a call: a legacy call continues and its answer is kept, and a modern call
//! ends immediately.

use mgp_testkit::until_shown;
use serde_json::{Value, json};

use super::caller::{Caller, result_text};
use super::world::World;

fn progress(event: &Value) -> String {
    assert_eq!(event["method"], "notifications/progress", "{event}");
    event["params"]["progress"].as_f64().unwrap().to_string()
}

/// The server keeps the messages that no client reads, and sends none of them twice.
#[tokio::test]
async fn legacy_goes_on_and_is_resumed() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({}), None).await;
    world.hold.step(2);
    let mut cut = caller.follow(1, "steps", json!({ "n": 6 })).await;
    assert!(cut.is_events());
    let mut last = String::new();
    for step in 1..=2 {
        let event = cut.event().await.unwrap();
        assert_eq!(progress(&event.data), step.to_string());
        last = event.id.unwrap();
    }
    drop(cut);
    // Although no client reads, the call continues for two steps.
    world.hold.step(2);
    let mut back = caller.get(Some(&last)).await;
    assert_eq!(back.status, 200);
    for step in 3..=4 {
        let event = back.event().await.unwrap();
        assert_eq!(progress(&event.data), step.to_string());
        last = event.id.unwrap();
    }
    drop(back);
    world.hold.step(2);
    world.quiet().await;
    let rest = caller.get(Some(&last)).await.rest().await;
    assert_eq!(rest.len(), 3, "{rest:?}");
    assert_eq!([progress(&rest[0].data), progress(&rest[1].data)], ["5", "6"]);
    assert_eq!((&rest[2].data["id"], result_text(&rest[2].data)), (&json!(1), "took 6"));
    let again = caller.get(Some(rest[1].id.as_deref().unwrap())).await.rest().await;
    assert_eq!(again, rest[2..], "what was read can be had again, and no more");
    assert_eq!(caller.get(Some(rest[2].id.as_deref().unwrap())).await.rest().await, []);
}

/// A response that the server writes as one piece can be interrupted, too. The client must be able to resume it.
#[tokio::test]
async fn legacy_whole_stream_that_was_cut_is_resumed() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({}), None).await;
    world.hold.step(3);
    let mut cut = caller.follow(1, "steps", json!({ "n": 3 })).await;
    world.quiet().await;
    let first = cut.event().await.unwrap();
    drop(cut);
    let rest = caller.get(first.id.as_deref()).await.rest().await;
    assert_eq!(
        rest.iter().map(|event| &event.data["id"]).collect::<Vec<_>>(),
        [&Value::Null, &Value::Null, &json!(1)]
    );
}

#[tokio::test]
async fn modern_ends_with_its_stream() {
    let world = World::open(|server| server).await;
    let caller = Caller::modern(&world, json!({}), None);
    world.hold.step(1);
    let mut response = caller.follow(1, "steps", json!({ "n": 2 })).await;
    let event = response.event().await.unwrap();
    assert_eq!((progress(&event.data).as_str(), event.id), ("1", None));
    assert_eq!((world.hold.alive(), world.monitor.running(), world.service.running()), (1, 1, 1));
    drop(response);
    world.quiet().await;
}

/// Tests a client that disconnects before the server has sent anything, when the response could still become plain
/// JSON.
#[tokio::test]
async fn before_the_first_event() {
    let world = World::open(|server| server).await;
    let modern = Caller::modern(&world, json!({}), None);
    let legacy = Caller::legacy(&world, json!({}), None).await;
    let asked = modern.spawn_call(1, "steps", json!({ "n": 1 }));
    until_shown(|| (world.hold.alive() == 1, world.hold.alive())).await;
    asked.abort();
    world.quiet().await;

    let asked = legacy.spawn_call(1, "steps", json!({ "n": 1 }));
    until_shown(|| (world.hold.alive() == 1, world.hold.alive())).await;
    asked.abort();
    assert!(asked.await.is_err_and(|error| error.is_cancelled()));
    // The server sees only that the client closed its sending side, which must not end a legacy call.
    assert_eq!(legacy.call(2, "now", json!({})).await.status, 200);
    assert_eq!((world.hold.alive(), world.monitor.running()), (1, 1));
    world.hold.step(1);
    world.quiet().await;
}

/// The calls of a batch belong to the session, and count in the limits even after their client has disconnected.
#[tokio::test]
async fn batch_without_its_client_still_counts() {
    let world = World::open(|server| server).await;
    let mut caller = Caller::new(&world, mgp_types::mcp::Era::Legacy, json!({}), None);
    caller.open_as("2025-03-26").await;
    let call = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "steps", "arguments": { "n": 1 } } });
    let batch = json!([call(1), call(2)]);
    let asked = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.post(&batch).await.status })
    };
    until_shown(|| (world.hold.alive() == 2, world.hold.alive())).await;
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    assert_eq!(caller.call(3, "now", json!({})).await.status, 200);
    assert_eq!((world.hold.alive(), world.service.running()), (2, 2), "each call counts");
    world.hold.step(2);
    world.quiet().await;
}

/// The status must not be 202, which would mean success, and not 404, after which a client would repeat the call.
#[tokio::test]
async fn call_whose_session_ends_is_answered_with_an_error() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({}), None).await;
    let asked = caller.spawn_call(7, "hang", json!({}));
    until_shown(|| (world.hold.alive() == 1, world.hold.alive())).await;
    assert_eq!(caller.delete().await.status, 204);
    let answer = asked.await.unwrap();
    assert_eq!(answer.status, 200);
    let answer = answer.message().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(2000)));
    world.quiet().await;
    assert_eq!(world.service.sessions(), 0);
}

/// A modern client cancels a call by closing its stream. A notification cancels nothing, because several callers may
/// use the same request id.
#[tokio::test]
async fn modern_call_is_not_cancelled_by_a_notification() {
    let world = World::open(|server| server).await;
    let caller = Caller::modern(&world, json!({}), None);
    let asked = caller.spawn_call(7, "steps", json!({ "n": 1 }));
    until_shown(|| (world.hold.alive() == 1, ())).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(caller.post(&cancel).await.status, 202);
    world.hold.step(1);
    assert_eq!(asked.await.unwrap().status, 200);
    world.quiet().await;
}

/// Regression test: the server still found a session that a handler had closed, and its stream was an empty response.
#[tokio::test]
async fn session_that_its_server_closed_is_unknown() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({}), None).await;
    let answer = caller.call(1, "close", json!({})).await.message().await;
    assert_eq!(answer["error"]["code"], 2000, "{answer}");
    assert_eq!(caller.call(2, "now", json!({})).await.status, 404);
    assert_eq!(caller.get(None).await.status, 404);
    assert_eq!(caller.delete().await.status, 404);
    world.quiet().await;
    assert_eq!((world.service.sessions(), world.service.stored_bytes()), (0, 0));
}

/// A client whose stream was cut after a question can still answer it, and then read the result with the event id of
/// the question.
#[tokio::test]
async fn question_is_answered_over_a_stream_that_was_cut() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({ "elicitation": {} }), None).await;
    let mut cut = caller.call(1, "ask", json!({})).await;
    let question = cut.event().await.unwrap();
    drop(cut);
    let stream = question.id.as_deref().unwrap().split_once('-').unwrap().0;
    // A client that has lost even the question cannot request the stream from its beginning, because that position has
    // no event id.
    assert_eq!(caller.get(Some(&format!("{stream}-"))).await.status, 400);
    let result = json!({ "action": "accept", "content": { "name": "Ann" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question.data["id"], "result": result });
    assert_eq!(caller.post(&answer).await.status, 202);
    world.quiet().await;
    let rest = caller.get(question.id.as_deref()).await.rest().await;
    assert_eq!((rest.len(), result_text(&rest[0].data)), (1, "Ann"));
}

/// The calls of a session belong to no connection; they end when the server is dropped.
#[tokio::test]
async fn server_that_is_dropped_ends_the_calls_of_its_sessions() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({}), None).await;
    let asked = caller.spawn_call(1, "hang", json!({}));
    until_shown(|| (world.hold.alive() == 1, world.hold.alive())).await;
    asked.abort();
    let (hold, monitor) = (world.hold.clone(), world.monitor.clone());
    drop(world);
    until_shown(|| {
        let left = (hold.alive(), monitor.running());
        (left == (0, 0), left)
    })
    .await;
}

/// `Duration::MAX` is often used to mean "never", and must not cause a panic.
#[tokio::test]
async fn times_may_be_endless() {
    let never = std::time::Duration::MAX;
    let world = World::open(|server| {
        server
            .config(|config| {
                (config.stream_delay, config.keep_alive_interval, config.stall_timeout) =
                    (never, never, never);
                (config.body_timeout, config.session_ttl, config.retry_delay) =
                    (never, never, never);
            })
            .connections(|limits| {
                (limits.head_timeout, limits.stall_timeout, limits.drain_timeout) =
                    (never, never, never);
            })
    })
    .await;
    for caller in
        [Caller::legacy(&world, json!({}), None).await, Caller::modern(&world, json!({}), None)]
    {
        world.hold.step(1);
        let mut response = caller.follow(1, "steps", json!({ "n": 2 })).await;
        assert_eq!(progress(&response.event().await.unwrap().data), "1");
        world.hold.step(1);
        assert_eq!(response.rest().await.len(), 2);
    }
}
