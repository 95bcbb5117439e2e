//! Tests of the answers that a connection holds back while its peer does not read: they must be sent later.

use std::sync::Arc;
use std::time::Duration;

use mgp_transport::{Connection, Limits};
use mgp_types::service::{Call, Reply, Stack};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The number of bytes that the connection can write before its peer reads.
const BUFFER_BYTES: usize = 16 << 10;

/// Regression test: if one write was enough for all queued bytes, the connection did not poll the calls that had
/// completed while their answers were held back, and nothing woke it for them.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_held_back_is_sent_when_the_peer_has_read_the_answers_before_it() {
    let release = Arc::<Notify>::default();
    let signal = Arc::clone(&release);
    let stack = Stack::from_fn(move |call: Call| {
        let signal = Arc::clone(&signal);
        async move {
            if call.method().as_str() == "slow" {
                signal.notified().await;
                return Reply::of(&"late");
            }
            Reply::of(&"x".repeat(28_000))
        }
    });
    let mut limits = Limits::default();
    // Answers are held back when the queued bytes exceed eight times this limit, i.e. 8 KiB.
    limits.unread_bytes = 1 << 10;
    let (here, there) = tokio::io::duplex(BUFFER_BYTES);
    let (reader, writer) = tokio::io::split(here);
    let connection = Connection::new(reader, writer, stack).limits(limits);
    let monitor = connection.monitor();
    let running = tokio::spawn(connection.run());
    let (mut reader, mut writer) = tokio::io::split(there);
    for (id, method) in [(1, "slow"), (2, "long")] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"}}\n");
        writer.write_all(line.as_bytes()).await.unwrap();
    }
    while monitor.unread_bytes() < 8 << 10 {
        tokio::task::yield_now().await;
    }
    release.notify_one();
    // Frees the whole buffer, so that the connection can write the rest of the long answer in one step.
    let mut beginning = vec![0; BUFFER_BYTES];
    reader.read_exact(&mut beginning).await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    lines.next_line().await.unwrap();
    let late = timeout(Duration::from_mins(1), lines.next_line()).await.unwrap();
    assert!(late.unwrap().unwrap().contains("\"late\""));
    running.abort();
}
