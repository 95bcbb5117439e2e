//! Tests of the end of streams of changes after the peer has closed its side.

use std::time::Duration;

use mgp_transport::{CloseReason, Connection, duplex};
use mgp_types::mcp::EmptyParams;
use mgp_types::method::{Request as _, RootsListChanged, SubscriptionsListen};
use mgp_types::service::{Call, Stack};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

/// Opens a stream that sends `count` messages, each after a pause, and closes the side of the peer at once. Returns the
/// number of received messages, and the time until the connection has ended.
async fn stream(pause: Duration, count: usize) -> (usize, Duration) {
    let stack = Stack::from_fn(move |call: Call| async move {
        let cx = call.cx().clone();
        for _ in 0..count {
            sleep(pause).await;
            let out = cx.peer.context(&cx.scope);
            cx.peer.send(Call::tell::<RootsListChanged>(&EmptyParams::new(), out)?).await?;
        }
        std::future::pending().await
    });
    let (here, mut client) = duplex();
    let running = tokio::spawn(Connection::new(here.reader, here.writer, stack).run());
    let listen = SubscriptionsListen::METHOD;
    let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{listen}\"}}\n");
    client.writer.write_all(request.as_bytes()).await.unwrap();
    client.writer.shutdown().await.unwrap();
    let (begun, mut received) = (Instant::now(), String::new());
    client.reader.read_to_string(&mut received).await.unwrap();
    assert!(matches!(running.await.unwrap(), CloseReason::Eof));
    (received.lines().count(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_soon_after_the_peer_closed_its_side_unless_it_still_sends() {
    // The pause before each message in milliseconds, the number of messages, that of received messages, and the time
    // until the end.
    for (pause, count, expected, end) in [(300, 9, 0, 100), (70, 9, 9, 730), (70, 99, 28, 2000)] {
        let (received, ended) = stream(Duration::from_millis(pause), count).await;
        assert_eq!(received, expected, "{pause} ms, {count} messages");
        let end = Duration::from_millis(end);
        let range = end..end + Duration::from_millis(50);
        assert!(range.contains(&ended), "{pause} ms, {count} messages: {ended:?}");
    }
}
