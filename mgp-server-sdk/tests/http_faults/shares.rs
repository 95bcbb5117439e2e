//! Tests that limits per caller and per address leave room for other callers.

use mgp_security::auth::{ApiKeys, AuthLayer};
use mgp_testkit::until_shown;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::caller::{Caller, result_text};
use crate::wire::Response;
use crate::world::{Hold, World, server};

#[tokio::test]
async fn a_flood_of_one_caller_leaves_room_for_others() {
    let (keys, hold) = (ApiKeys::new(), Hold::default());
    let http = server(&hold).http("127.0.0.1:0").auth(AuthLayer::new().keys(keys.clone()));
    let world = World::of(http.config(|config| config.in_flight = 18), keys).await;
    let ann = Caller::modern(&world, json!({}), Some(&world.key("acme", "ann").await));
    let bob = Caller::modern(&world, json!({}), Some(&world.key("acme", "bob").await));
    let mut flood = tokio::task::JoinSet::new();
    for id in 0..16 {
        let ann = ann.clone();
        flood.spawn(async move { ann.call(id, "hang", json!({})).await.status });
    }
    until_shown(|| (hold.alive() == 16, hold.alive())).await;
    for id in 16..20 {
        let refused = ann.call(id, "now", json!({})).await;
        assert_eq!(refused.status, 429);
        let messages = refused.message().await;
        assert_eq!(messages["error"]["code"], 3001);
        assert!(
            messages["error"]["message"]
                .as_str()
                .unwrap()
                .contains("you have too many running requests"),
            "{messages}"
        );
    }
    for id in 0..20 {
        assert_eq!(bob.call(id, "now", json!({})).await.status, 200);
    }
    flood.shutdown().await;
    until_shown(|| (world.service.running() == 0, world.service.running())).await;
    assert_eq!(ann.call(99, "now", json!({})).await.status, 200);
}

/// Starts a server that runs one request at a time, and a call that waits for the answer to its question. Also returns
/// the response to the call, and the id of the question.
async fn asking() -> (World, Caller, Response, Value) {
    let world = World::open(|server| server.config(|config| config.in_flight = 1)).await;
    let caller = Caller::legacy(&world, json!({ "elicitation": {} }), None).await;
    let mut call = caller.call(1, "ask", json!({})).await;
    let question = call.event().await.unwrap().data;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(caller.call(2, "now", json!({})).await.status, 503);
    (world, caller, call, question["id"].clone())
}

fn answer(id: &Value, name: &str) -> Value {
    let result = json!({ "action": "accept", "content": { "name": name } });
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

#[tokio::test]
async fn an_answer_is_accepted_beyond_the_limit_of_requests() {
    // Also test a long answer, because a form may be long.
    for name in ["Ann".to_owned(), "A".repeat(20_000)] {
        let (world, caller, mut call, question) = asking().await;
        assert_eq!(caller.post(&answer(&question, &name)).await.status, 202);
        let rest = call.rest().await;
        assert_eq!((rest.len(), result_text(&rest[0].data)), (1, &*name));
        world.quiet().await;
    }
}

#[tokio::test]
async fn a_cancellation_is_accepted_beyond_the_limit_of_requests() {
    let (world, caller, _call, _) = asking().await;
    let notification =
        |method: &str| json!({ "jsonrpc": "2.0", "method": method, "params": { "requestId": 1 } });
    assert_eq!(caller.post(&notification("notifications/other")).await.status, 503);
    assert_eq!(caller.post(&notification("notifications/cancelled")).await.status, 202);
    until_shown(|| (world.service.running() == 0, world.service.running())).await;
}

#[tokio::test]
async fn a_caller_that_fills_the_store_of_events_leaves_room_for_others() {
    let (keys, hold) = (ApiKeys::new(), Hold::default());
    let http = server(&hold).http("127.0.0.1:0").auth(AuthLayer::new().keys(keys.clone()));
    let world = World::of(http.config(|config| config.store_bytes = 100_000), keys).await;
    let ann = world.key("acme", "ann").await;
    // Each of these calls leaves a stored stream of a bit more than a kilobyte.
    for _ in 0..7 {
        let caller = Caller::legacy(&world, json!({}), Some(&ann)).await;
        for id in 1..=16 {
            let call = caller.follow(id, "flood", json!({ "n": 1, "bytes": 1_000 })).await;
            call.message().await;
        }
    }
    let stored = world.service.stored_bytes();
    assert!(stored > 80_000, "{stored} bytes");
    let bob = Caller::legacy(&world, json!({}), Some(&world.key("acme", "bob").await)).await;
    let mut cut = bob.follow(1, "flood", json!({ "n": 1, "bytes": 5_000 })).await;
    let first = cut.event().await.unwrap();
    drop(cut);
    until_shown(|| (world.service.running() == 0, world.service.running())).await;
    let mut back = bob.get(first.id.as_deref()).await;
    assert_eq!(back.status, 200, "the caller can resume its stream");
    assert_eq!(result_text(&back.rest().await[0].data), "flooded");
}

#[tokio::test]
async fn the_connections_of_an_address_are_limited() {
    let world = World::open(|server| server.connections(|limits| limits.per_loopback = 3)).await;
    let request = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 415");
        open.push(socket);
    }
    let mut turned_away = TcpStream::connect(world.address).await.unwrap();
    turned_away.write_all(request.as_bytes()).await.unwrap();
    turned_away.shutdown().await.unwrap();
    let mut answer = String::new();
    turned_away.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("too many connections from this address"), "{answer}");
    drop(open);
    let caller = Caller::modern(&world, json!({}), None);
    for _ in 0..2_000 {
        // The server counts a closed connection until it detects that it is closed, so try repeatedly.
        if caller.call(1, "now", json!({})).await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("no connection is served");
}
