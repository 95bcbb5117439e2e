//! Tests over a transport that splits, delays and cuts messages. After each cut, the reader must have received a prefix
//! of the stream, and no task or stream may be left.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice};
use mgp_server_sdk::EventHub;
use mgp_testkit::{Random, until};
use mgp_transport::duplex;
use mgp_types::mgp::Severity;
use serde_json::json;
use tokio::io::{AsyncRead, ReadBuf};

use crate::interleavings::play;
use crate::world::{Alive, Received, server, words};

/// A reader that returns a few bytes at a time, waits now and then, and ends after a number of bytes.
struct Faulty<R> {
    inner: R,
    dice: Random,
    left: u64,
    is_cut_by_error: bool,
}

impl<R> Faulty<R> {
    fn new(inner: R, mut dice: Random, left: u64) -> Self {
        let is_cut_by_error = dice.below(2) == 0;
        Self { inner, dice, left, is_cut_by_error }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Faulty<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        if this.left == 0 {
            let cut = std::io::ErrorKind::ConnectionReset;
            return Poll::Ready(if this.is_cut_by_error { Err(cut.into()) } else { Ok(()) });
        }
        if this.dice.below(8) == 0 {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        let most = (1 + this.dice.below(300)).min(this.left).min(out.remaining() as u64);
        let mut part = vec![0; usize::try_from(most).unwrap()];
        let mut read = ReadBuf::new(&mut part);
        ready!(Pin::new(&mut this.inner).poll_read(task, &mut read))?;
        this.left -= read.filled().len() as u64;
        if read.filled().is_empty() {
            this.left = 0;
        }
        out.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

/// Connects over a transport that is cut after a random number of bytes in one direction, or never. Returns `None` if
/// the connection fails.
async fn connect(dice: &mut Random, era: EraChoice, alive: &Alive) -> Option<(Client, EventHub)> {
    let server = server(alive).channel("a", "Numbers");
    let hub = server.events();
    let (here, there) = duplex();
    let cut = if dice.below(4) == 0 { u64::MAX } else { 1_000 + dice.below(30_000) };
    let (below, above) = if dice.below(3) == 0 { (cut, u64::MAX) } else { (u64::MAX, cut) };
    let far = Faulty::new(there.reader, Random(dice.below(u64::MAX)), below);
    let near = Faulty::new(here.reader, Random(dice.below(u64::MAX)), above);
    tokio::spawn(async move { server.serve(far, there.writer).await });
    let connecting = Client::builder("reader", "1").era(era).connect(near, here.writer);
    Some((connecting.await.ok()?, hub))
}

async fn one(mut dice: Random) {
    let alive = Alive::default();
    let era = if dice.below(2) == 0 { EraChoice::Legacy } else { EraChoice::Modern };
    let Some((client, hub)) = connect(&mut dice, era, &alive).await else { return };
    let monitor = client.monitor();
    let mut numbers = Vec::new();
    if let Ok(mut events) = client.events().subscribe(["a"]).await {
        let publishing = async {
            for number in 0..200_u64 {
                hub.emit("a", Severity::Info, &number).await.unwrap();
            }
        };
        let reading = async {
            while let Some(event) = events.next().await {
                numbers.push(event.data.get::<u64>().unwrap());
                if numbers.len() == 200 {
                    return;
                }
            }
        };
        tokio::join!(publishing, reading);
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    }
    let n = usize::try_from(dice.below(500)).unwrap();
    let received = Received::all(client.call("words").args(json!({ "n": n })).stream()).await;
    assert!(words(n).starts_with(&received.text()), "{}", received.text());
    if matches!(received.result, Some(Ok(_))) {
        assert_eq!(received.result_text(), words(n));
    }
    client.close().await;
    until("nothing is left", async || {
        alive.now() == 0 && monitor.pending() == 0 && hub.subscriptions() == 0
    })
    .await;
}

#[test]
fn a_cut_at_any_byte_leaves_a_prefix_and_nothing_else() {
    play(60, Duration::from_secs(30), one);
}
