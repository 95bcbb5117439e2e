//! Tests that cancellations and disconnects of a caller reach the called tool over a connection.

use mgp_testkit::until_shown;
use mgp_transport::{CloseReason, Limits};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::pair::{Alive, Pair, end, quiet, server};
use super::raw::Raw;

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_ends_the_handler() {
    let alive = Alive::default();
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let pair = Pair::join(&zoo.into_stack().unwrap(), Limits::default()).await;
    let waiting: Vec<_> = (0..50).map(|_| tokio::spawn(pair.call("hang", 0))).collect();
    until_shown(|| (alive.now() == 50, alive.now())).await;
    assert_eq!((pair.client.pending(), pair.server.running(), calls.running()), (50, 50, 50));
    for call in &waiting {
        call.abort();
    }
    quiet(&[pair], &calls, &alive).await;
    assert_eq!(alive.ever(), 50);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_input_lets_calls_finish_and_drops_the_rest() {
    let alive = Alive::default();
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let mut raw = Raw::join(&zoo.into_stack().unwrap(), Limits::default()).await;
    let call = |id: u32, tool: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\
             \"params\":{{\"name\":\"{tool}\",\"arguments\":{{\"n\":1000}}}}}}\n"
        )
    };
    raw.write(&[call(1, "hang"), call(2, "sleep"), call(3, "task")].concat()).await;
    raw.writer.shutdown().await.unwrap();
    let started = Instant::now();
    assert!(raw.line().await.contains(r#""id":3,"result""#));
    assert!(raw.line().await.contains(r#""id":2,"result""#));
    assert_eq!(raw.line().await, "", "the one that hangs is not answered");
    assert!(matches!(end(raw.run).await, CloseReason::Eof));
    assert_eq!(started.elapsed().as_secs(), Limits::default().linger_timeout.as_secs());
    quiet(&[], &calls, &alive).await;
    assert!(raw.scope.is_ended());
}

#[tokio::test(start_paused = true)]
async fn a_connection_dropped_midway_fails_every_call_at_once() {
    let alive = Alive::default();
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let served = zoo.into_stack().unwrap();
    for dropped_here in [true, false] {
        let pair = Pair::join(&served, Limits::default()).await;
        let waiting: Vec<_> = (0..100).map(|_| tokio::spawn(pair.call("hang", 0))).collect();
        until_shown(|| (alive.now() == 100, alive.now())).await;
        let started = Instant::now();
        if dropped_here {
            pair.client_run.abort();
        } else {
            pair.server_run.abort();
        }
        for call in waiting {
            assert_eq!(call.await.unwrap().unwrap_err().code().0, 2000);
        }
        assert_eq!(pair.call("task", 1).await.unwrap_err().code().0, 2000);
        assert_eq!(started.elapsed().as_millis(), 0);
        quiet(&[pair], &calls, &alive).await;
    }
}
