//! Tests of a peer that writes requests and never reads the answers.

use std::fmt::Write;

use mgp_testkit::until_shown;
use mgp_transport::{CloseReason, Limits};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Builder;
use tokio::time::Instant;

use super::memory::grows_less_than;
use super::pair::{Alive, Pair, end, quiet, server};
use super::raw::Raw;

/// Returns requests with long answers, with endless streams and for lists, and lines that are answered with an error.
fn heavy_requests() -> String {
    let mut text = String::new();
    for id in 0..100 {
        let (tool, n, stream) = match id {
            0 | 1 => ("stream", 1_000_000_000, true),
            2 => ("block", 0, false),
            _ => ("task", 4_000, false),
        };
        writeln!(
            text,
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"{tool}","arguments":{{"n":{n}}},"_mgp":{{"stream":{stream}}}}}}}"#
        )
        .unwrap();
        text.push_str("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\nno message\n");
    }
    text
}

async fn a_peer_that_never_reads() {
    let alive = Alive::default();
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let served = zoo.into_stack().unwrap();
    let good = Pair::join(&served, Limits::default()).await;
    let Raw { reader: _reader, mut writer, monitor, run, scope } =
        Raw::join(&served, Limits::default()).await;

    let heavy_requests = heavy_requests();
    let writing = tokio::spawn(async move {
        let mut written = 0_u64;
        while writer.write_all(heavy_requests.as_bytes()).await.is_ok() {
            written += heavy_requests.len() as u64;
            assert!(written < 64 << 20, "it is still read from");
        }
        written
    });
    let started = Instant::now();
    until_shown(|| (monitor.unread_bytes() > 4 << 20, monitor.unread_bytes())).await;

    // The unread output delays no other peer's call: the paused clock would advance only if a call waited.
    let before = Instant::now();
    for _ in 0..200 {
        good.call("task", 100).await.unwrap();
        assert!(monitor.unread_bytes() < 10 << 20, "{} bytes are unread", monitor.unread_bytes());
        assert!(monitor.held_bytes() < 64 << 20, "{} bytes are held", monitor.held_bytes());
        assert!(monitor.running() <= 1024);
    }
    assert_eq!(before.elapsed().as_millis(), 0);

    let closed = end(run).await;
    assert!(
        matches!(closed, CloseReason::Stalled(after) if after == Limits::default().stall_timeout),
        "{closed}"
    );
    assert_eq!(started.elapsed().as_secs(), Limits::default().stall_timeout.as_secs());
    assert!(scope.is_ended());
    assert!(writing.await.unwrap() > 0);
    assert_eq!((monitor.unread_bytes(), monitor.running(), monitor.held_bytes()), (0, 0, 0));
    good.call("task", 100).await.unwrap();
    quiet(&[good], &calls, &alive).await;
}

#[test]
fn costs_little_memory_slows_no_other_and_is_disconnected() {
    grows_less_than(
        64 << 20,
        "slow_reader::costs_little_memory_slows_no_other_and_is_disconnected",
        || {
            let runtime =
                Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            runtime.block_on(a_peer_that_never_reads());
        },
    );
}
