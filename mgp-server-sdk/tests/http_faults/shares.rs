//! Tests that limits per caller and per address leave room for other callers.

use mgp_security::auth::{ApiKeys, AuthLayer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::caller::Caller;
use crate::world::{Hold, World, server, until};

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
    until(|| (hold.alive() == 16, hold.alive())).await;
    for id in 16..20 {
        let refused = ann.call(id, "now", json!({})).await;
        assert_eq!(refused.status, 429);
        let messages = refused.message().await;
        assert_eq!(messages["error"]["code"], 3001);
        assert!(messages["error"]["message"].as_str().unwrap().contains("are yours"), "{messages}");
    }
    for id in 0..20 {
        assert_eq!(bob.call(id, "now", json!({})).await.status, 200);
    }
    flood.shutdown().await;
    until(|| (world.service.running() == 0, world.service.running())).await;
    assert_eq!(ann.call(99, "now", json!({})).await.status, 200);
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
        // The server counts the closed connections until it detects that they are closed, so try repeatedly.
        if caller.call(1, "now", json!({})).await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("no connection is served");
}
