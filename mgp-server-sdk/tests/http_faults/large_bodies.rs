//! Tests that the server refuses a body of a gibibyte: before it reads the body if the client announces the length, and
//! otherwise as soon as the limit is reached.

use mgp_testkit::until_shown;
use mgp_types::mcp::Era;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::caller::Caller;
use super::memory::grows_less_than;
use super::wire::send;
use super::world::World;

const GIB: usize = 1 << 30;
const HEAD: &str =
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";

/// Sends the head of a request, and then pieces while the server accepts them; returns the answer and the bytes sent.
async fn pour(world: &World, head: &str, piece: &[u8]) -> (String, usize) {
    let socket = TcpStream::connect(world.address).await.unwrap();
    let (mut reader, mut writer) = socket.into_split();
    writer.write_all(format!("{HEAD}{head}\r\n").as_bytes()).await.unwrap();
    let piece = piece.to_vec();
    let pouring = tokio::spawn(async move {
        let mut poured = 0;
        while poured < GIB && writer.write_all(&piece).await.is_ok() {
            poured += piece.len();
        }
        poured
    });
    let mut answer = vec![0; 4096];
    let read = reader.read(&mut answer).await.unwrap();
    answer.truncate(read);
    drop(reader);
    (String::from_utf8(answer).unwrap(), pouring.await.unwrap())
}

async fn gibibytes() {
    let world = World::open(|server| server.config(|config| config.body_bytes = 1 << 20)).await;
    let mut chunk = b"10000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x10000, b' ');
    chunk.extend_from_slice(b"\r\n");
    for (head, piece) in [
        (format!("Content-Length: {GIB}\r\n"), vec![b' '; 0x10000]),
        ("Transfer-Encoding: chunked\r\n".to_owned(), chunk),
    ] {
        let (answer, poured) = pour(&world, &head, &piece).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        assert!(answer.contains("the body is longer than 1048576 bytes; send less\""), "{answer}");
        assert!(poured < 64 << 20, "{poured} bytes were taken");
        world.quiet().await;
    }

    // A client that waits for `100 Continue` before it sends the body receives the refusal instead.
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let head = format!("{HEAD}Content-Length: {GIB}\r\nExpect: 100-continue\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let caller = Caller::modern(&world, json!({}), None);
    assert_eq!(caller.call(1, "now", json!({})).await.status, 200);
}

#[test]
fn gibibyte_is_refused() {
    grows_less_than(32 << 20, "large_bodies::gibibyte_is_refused", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(gibibytes());
    });
}

/// The limit for all bodies together applies to slow senders, and to the bodies of long calls.
#[tokio::test]
async fn bodies_are_bounded_together() {
    let world = World::open(|server| server.config(|config| config.held_bytes = 100_000)).await;
    let caller = Caller::modern(&world, json!({}), None);
    let arguments = json!({ "n": 1, "padding": "x".repeat(60_000) });
    let first = caller.spawn_call(1, "steps", arguments.clone());
    until_shown(|| (world.hold.alive() == 1, ())).await;
    assert!(world.service.held_bytes() > 60_000);
    assert_eq!(caller.call(2, "steps", arguments).await.status, 503);
    assert_eq!(caller.call(3, "now", json!({})).await.status, 200);
    world.hold.step(1);
    assert_eq!(first.await.unwrap().status, 200);
    world.quiet().await;
}

/// The answers of a batch are kept until all of them are complete. Until then, they count toward the same limit as
/// bodies.
#[tokio::test]
async fn answers_of_a_batch_are_bounded_together_with_bodies() {
    let world = World::open(|server| server.config(|config| config.held_bytes = 200_000)).await;
    let mut caller = Caller::new(&world, Era::Legacy, json!({}), None);
    caller.open_as("2025-03-26").await;
    let call = |id: u32, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let mut batch = vec![call(0, "steps", json!({ "n": 1 }))];
    batch.extend((1..=10).map(|id| call(id, "large", json!({ "bytes": 50_000 }))));
    let answering = tokio::spawn(async move { caller.post(&batch.into()).await.message().await });
    until_shown(|| {
        let (alive, held) = (world.hold.alive(), world.service.held_bytes());
        (alive == 1 && world.service.running() == 1 && held > 50_000, (alive, held))
    })
    .await;
    assert!(world.service.held_bytes() <= 200_000, "{}", world.service.held_bytes());
    world.hold.step(1);
    let answers = answering.await.unwrap();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 11);
    let refused = answers.iter().filter(|answer| answer["error"]["code"] == 5000).count();
    assert!((5..10).contains(&refused), "{refused} answers are left out");
    world.quiet().await;
}

#[tokio::test]
async fn a_client_that_accepts_only_event_streams_gets_the_answers_of_a_batch_as_an_event() {
    let world = World::open(|server| server).await;
    let mut caller = Caller::new(&world, Era::Legacy, json!({}), None);
    caller.open_as("2025-03-26").await;
    let session = caller.session.unwrap();
    let headers = [
        ("Accept", "text/event-stream"),
        ("Content-Type", "application/json"),
        ("Mcp-Session-Id", &*session),
    ];
    let ping = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let batch = json!([ping(1), ping(2)]);
    let response = send(world.address, "POST", &headers, &batch.to_string()).await;
    assert!(response.is_events());
    let answers = response.message().await;
    assert_eq!(answers.as_array().map(Vec::len), Some(2), "{answers}");
    world.quiet().await;
}
