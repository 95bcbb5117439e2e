//! Tests that clients that send or read one byte at a time are disconnected after some time, while others are served.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use hyper::Request;
use hyper::body::Body as _;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mgp_testkit::until_shown;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::caller::Caller;
use super::memory::grows_less_than;
use super::wire::response;
use super::world::World;

const SHORT: Duration = Duration::from_secs(2);
/// An interval that is shorter than every time-out of the server.
const DRIP: Duration = Duration::from_millis(20);
/// The time limit of each test.
const BOUND: Duration = Duration::from_secs(30);

async fn impatient() -> World {
    World::open(|server| {
        server
            .config(|config| {
                config.body_timeout = SHORT;
                config.stall_timeout = SHORT;
            })
            .connections(|limits| {
                limits.head_timeout = SHORT;
                limits.stall_timeout = SHORT;
            })
    })
    .await
}

/// Sends the beginning of a request and then one byte at a time, until the server closes the connection.
async fn drip(world: &World, beginning: &str) -> String {
    let socket = TcpStream::connect(world.address).await.unwrap();
    let (mut reader, mut writer) = socket.into_split();
    writer.write_all(beginning.as_bytes()).await.unwrap();
    let dripping = tokio::spawn(async move {
        while writer.write_all(b"x").await.is_ok() {
            sleep(DRIP).await;
        }
    });
    let mut answer = Vec::new();
    // The read may end with a reset; only the bytes received before it matter.
    let _ = timeout(BOUND, reader.read_to_end(&mut answer)).await.expect("it is never ended");
    dripping.abort();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn dripping_head_and_body_are_ended() {
    let world = impatient().await;
    let caller = Caller::modern(&world, json!({}), None);
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";
    let body = format!("{head}Content-Length: 100000\r\n\r\n");
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\nffff\r\n");
    let header = format!("{head}X-Slow: ");
    let served = async {
        for _ in 0..20 {
            let start = Instant::now();
            assert_eq!(caller.call(1, "now", json!({})).await.status, 200);
            assert!(start.elapsed() < SHORT, "others wait");
            sleep(DRIP).await;
        }
    };
    let silent = async {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        let mut output = Vec::new();
        let _ = timeout(BOUND, socket.read_to_end(&mut output)).await.expect("it never ends");
        output
    };
    let (head, body, chunked, silent, ()) = tokio::join!(
        drip(&world, &header),
        drip(&world, &body),
        drip(&world, &chunked),
        silent,
        served
    );
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    assert!(silent.is_empty() || silent.starts_with(b"HTTP/1.1 408"));
    for answer in [body, chunked] {
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("too slowly"), "{answer}");
    }
    world.quiet().await;
}

/// Requests a gigabyte, but reads only the head of the response.
async fn read_nothing(world: &World, caller: &Caller, flood: serde_json::Value) {
    let response = caller.follow(1, "flood", flood).await;
    assert!(response.is_events());
    let start = Instant::now();
    world.quiet().await;
    assert!(start.elapsed() < BOUND);
    drop(response);
}

#[test]
fn client_that_reads_nothing_is_cut() {
    // The allowed growth covers the socket buffer, the unread bytes of a stream, and the allocator's overhead.
    grows_less_than(64 << 20, "slow_clients::client_that_reads_nothing_is_cut", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = impatient().await;
            let modern = Caller::modern(&world, json!({}), None);
            let gigabyte = json!({ "n": 16_384, "bytes": 65_536 });
            read_nothing(&world, &modern, gigabyte).await;
            // A legacy call runs to its end although its client does not read. Its last messages are kept, but not all
            // of them.
            let legacy = Caller::legacy(&world, json!({}), None).await;
            read_nothing(&world, &legacy, json!({ "n": 512, "bytes": 65_536 })).await;
            assert_eq!(legacy.call(2, "now", json!({})).await.status, 200);
        });
    });
}

/// Opens a connection over HTTP/2 whose client accepts no data of any answer.
async fn connect_unreading(world: &World) -> SendRequest<String> {
    let socket = TcpStream::connect(world.address).await.unwrap();
    let mut settings = http2::Builder::new(TokioExecutor::new());
    settings.initial_stream_window_size(0_u32);
    let (sender, connection) = settings.handshake(TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Returns a modern call that asks for progress.
fn modern_call(world: &World, tool: &str, arguments: &Value) -> Request<String> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "p",
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    Request::post(format!("http://{}/mcp", world.address))
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "application/json")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool)
        .body(call.to_string())
        .unwrap()
}

/// Over HTTP/2, if a client does not read an answer, the server ends the answer and its call; the other requests of the
/// connection continue.
#[tokio::test]
async fn http2_answer_that_is_not_read_is_cut() {
    let world = impatient().await;
    let mut sender = connect_unreading(&world).await;
    let other = sender.send_request(modern_call(&world, "hang", &json!({})));
    until_shown(|| (world.hold.alive() == 1, world.hold.alive())).await;
    let flood = json!({ "n": 16_384, "bytes": 65_536 });
    for (tool, arguments) in [("flood", flood), ("large", json!({ "bytes": 1 << 20 }))] {
        let call = modern_call(&world, tool, &arguments);
        let answer = sender.send_request(call).await.unwrap();
        assert_eq!(answer.status(), 200, "{tool}");
        let mut body = answer.into_body();
        let reading = poll_fn(|task| Pin::new(&mut body).poll_frame(task));
        let read = timeout(BOUND, reading).await.expect("it is never ended");
        assert!(!matches!(read, Some(Ok(_))), "{tool}: {read:?}");
        until_shown(|| {
            let left = (world.hold.alive(), world.service.running());
            (left == (1, 1), left)
        })
        .await;
    }
    drop((other, sender));
    world.quiet().await;
}

/// The server detects that a client has disconnected, even if the client had sent a second request on the same
/// connection.
#[tokio::test]
async fn pipelined_requests_are_answered_in_turn() {
    let world = impatient().await;
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let one = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(one.repeat(3).as_bytes()).await.unwrap();
    let first = response(BufReader::new(socket)).await;
    assert_eq!(first.status, 400);
    world.quiet().await;
}
