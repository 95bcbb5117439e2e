//! The end of connections, and of everything that belongs to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use mgp_testkit::Alive;
use mgp_transport::{CloseReason, Connection, Limits, duplex};
use mgp_types::ErrorCode;
use mgp_types::method::Ping;
use mgp_types::service::{Call, Method, Params, Reply, Router, Stack};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::Instant;

fn empty_stack() -> Stack {
    Stack::new(Router::new())
}

/// Fails a test that would otherwise wait for ever; with a paused clock it fails immediately.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_mins(5), future).await.unwrap()
}

fn ping(cx: mgp_types::service::Context) -> Call {
    Call::ask::<Ping>(&mgp_types::mcp::EmptyParams::new(), cx).unwrap()
}

/// Creates a stack whose answer has `bytes` bytes and is ready at the second poll.
fn delayed_answer(bytes: usize) -> Stack {
    Stack::from_fn(move |_| async move {
        tokio::task::yield_now().await;
        Reply::of(&"x".repeat(bytes))
    })
}

fn requests(count: usize) -> Vec<u8> {
    let lines =
        (1..=count).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"a\"}}\n"));
    lines.collect::<String>().into_bytes()
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_connection_that_was_never_driven_fail() {
    let (here, _there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack());
    let (peer, cx, scope) = (connection.peer(), connection.context(), connection.scope().clone());
    let waiting = tokio::spawn(peer.send(ping(cx.clone())));
    tokio::task::yield_now().await;
    drop(connection.run());
    assert_eq!(soon(waiting).await.unwrap().unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
    assert!(scope.is_ended());
    assert_eq!(peer.send(ping(cx)).await.unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
}

#[tokio::test(start_paused = true)]
async fn a_peer_taken_before_the_limits_were_set_works() {
    let (here, there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack());
    let (peer, cx) = (connection.peer(), connection.context());
    tokio::spawn(connection.limits(Limits::default()).run());
    let router =
        Router::new().on::<Ping, _, _>(|_, _| async { Ok(mgp_types::mcp::EmptyResult::default()) });
    tokio::spawn(Connection::new(there.reader, there.writer, Stack::new(router)).run());
    assert!(soon(peer.send(ping(cx))).await.is_ok());
}

/// Regression test: above 1 MiB of unread bytes, finished calls kept their answers, and therefore also their permits.
#[tokio::test]
async fn calls_end_even_if_their_caller_does_not_read() {
    let (here, there) = duplex();
    let calls = Alive::default();
    let stack = {
        let calls = calls.clone();
        Stack::from_fn(move |_| {
            let guard = calls.begin();
            async move {
                tokio::task::yield_now().await;
                let _guard = guard;
                Reply::of(&"x".repeat(10_000))
            }
        })
    };
    let connection = Connection::new(here.reader, here.writer, stack);
    let monitor = connection.monitor();
    let driving = tokio::spawn(connection.run());
    let (_reader, mut writer) = (there.reader, there.writer);
    writer.write_all(&requests(500)).await.unwrap();
    let all = async {
        while calls.ended() < 500 {
            tokio::task::yield_now().await;
        }
    };
    soon(all).await;
    assert_eq!((monitor.running(), monitor.held_bytes(), monitor.shed()), (0, 0, 0));
    assert!(
        monitor.unread_bytes() > 4 << 20 && monitor.unread_bytes() < 6 << 20,
        "{}",
        monitor.unread_bytes()
    );
    driving.abort();
}

/// Regression test: on a single thread, the driver continued reading before spawned calls ran, and refused nine of ten.
#[tokio::test]
async fn short_calls_written_at_once_are_all_answered() {
    let (here, there) = tokio::io::duplex(8 << 20);
    let task =
        Stack::from_fn(|_| async { tokio::spawn(async { Ok(Reply::empty()) }).await.unwrap() });
    let (reader, writer) = tokio::io::split(here);
    let connection = Connection::new(reader, writer, task);
    let monitor = connection.monitor();
    let (mut reader, mut writer) = tokio::io::split(there);
    writer.write_all(&requests(50_000)).await.unwrap();
    writer.shutdown().await.unwrap();
    assert!(matches!(connection.run().await, CloseReason::Eof));
    assert_eq!(monitor.shed(), 0);
    let mut answers = String::new();
    reader.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.lines().filter(|line| line.contains("\"result\"")).count(), 50_000);
}

#[tokio::test(start_paused = true)]
async fn hanging_calls_pause_reading_once_and_then_further_ones_are_refused() {
    let (here, there) = duplex();
    let stack = Stack::from_fn(|_| std::future::pending());
    let connection = Connection::new(here.reader, here.writer, stack);
    let monitor = connection.monitor();
    let driving = tokio::spawn(connection.run());
    let (reader, mut writer) = (there.reader, there.writer);
    let started = Instant::now();
    writer.write_all(&requests(1_100)).await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    for id in 1_025..=1_100 {
        let line = lines.next_line().await.unwrap().unwrap();
        assert!(line.contains(&format!("\"id\":{id},")) && line.contains("3001"), "{line}");
    }
    assert_eq!((monitor.running(), monitor.shed()), (1_024, 76));
    assert!(started.elapsed() < Duration::from_millis(60), "{:?}", started.elapsed());
    driving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_is_given_up_even_if_it_sends_nothing_more() {
    let (here, there) = duplex();
    let connection = Connection::new(here.reader, here.writer, delayed_answer(1 << 20));
    let (peer, monitor, started) = (connection.peer(), connection.monitor(), Instant::now());
    let driving = tokio::spawn(connection.run());
    let (_reader, mut writer) = (there.reader, there.writer);
    writer.write_all(&requests(2)).await.unwrap();
    let closed = soon(driving).await.unwrap();
    assert!(matches!(closed, CloseReason::Stalled(_)), "{closed}");
    assert_eq!(started.elapsed().as_secs(), Limits::default().stall_timeout.as_secs());
    assert!(peer.is_closed());
    assert_eq!((monitor.running(), monitor.unread_bytes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_slowly_is_not_given_up() {
    let (here, there) = duplex();
    let driving =
        tokio::spawn(Connection::new(here.reader, here.writer, delayed_answer(4 << 20)).run());
    let (mut reader, mut writer) = (there.reader, there.writer);
    writer.write_all(&requests(1)).await.unwrap();
    let mut piece = vec![0; 64 << 10];
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        reader.read_exact(&mut piece).await.unwrap();
    }
    assert!(!driving.is_finished());
    driving.abort();
}

#[tokio::test(start_paused = true)]
async fn running_calls_may_finish_after_the_end_of_the_input_and_no_longer() {
    for (takes, answered) in
        [(Duration::from_millis(1_900), true), (Duration::from_millis(2_100), false)]
    {
        let calls = Alive::default();
        let begun = calls.clone();
        let stack = Stack::from_fn(move |_| {
            let guard = begun.begin();
            async move {
                let _guard = guard;
                tokio::time::sleep(takes).await;
                Ok(Reply::empty())
            }
        });
        let (here, there) = duplex();
        let driving = tokio::spawn(Connection::new(here.reader, here.writer, stack).run());
        let (reader, mut writer) = (there.reader, there.writer);
        writer.write_all(&requests(1)).await.unwrap();
        writer.shutdown().await.unwrap();
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).await.unwrap();
        assert_eq!(!line.is_empty(), answered, "{line}");
        assert!(matches!(driving.await.unwrap(), CloseReason::Eof));
        assert_eq!(calls.ended(), 1);
    }
}

/// Regression test: closing on this side waited up to the stall timeout although it should wait for
/// the linger timeout only.
#[tokio::test(start_paused = true)]
async fn closing_on_this_side_waits_for_the_linger_time_only() {
    let (here, there) = duplex();
    let connection = Connection::new(here.reader, here.writer, delayed_answer(2 << 20));
    let peer = connection.peer();
    let driving = tokio::spawn(connection.run());
    let (_reader, mut writer) = (there.reader, there.writer);
    writer.write_all(&requests(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let started = Instant::now();
    peer.close("enough");
    assert!(matches!(soon(driving).await.unwrap(), CloseReason::Local));
    // The connection waits once until the queued bytes are written, and once for the shutdown of the writer.
    assert!(started.elapsed() <= 2 * Limits::default().linger_timeout, "{:?}", started.elapsed());
}

// === Ending gracefully ===

#[tokio::test(start_paused = true)]
async fn running_calls_are_answered_before_this_side_closes() {
    let (mut here, there) = duplex();
    let slow = Stack::from_fn(|_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Reply::of(&"late")
    });
    let connection = Connection::new(there.reader, there.writer, slow);
    let (ending, monitor) = (connection.close_handle(), connection.monitor());
    let running = tokio::spawn(connection.run());
    here.writer.write_all(&requests(5)).await.unwrap();
    while monitor.running() < 5 {
        tokio::task::yield_now().await;
    }
    ending.drain();
    ending.drain();
    tokio::task::yield_now().await;
    // The connection no longer reads this request.
    here.writer.write_all(&requests(1)).await.unwrap();
    let mut received = String::new();
    soon(here.reader.read_to_string(&mut received)).await.unwrap();
    assert_eq!(received.lines().count(), 5, "{received}");
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
}

/// Regression test: requests that were read while reading paused at the limit of running calls got no answer.
#[tokio::test(start_paused = true)]
async fn requests_that_wait_at_the_limit_of_calls_are_answered_before_this_side_closes() {
    let (mut here, there) = duplex();
    let slow = Stack::from_fn(|_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Reply::of(&"late")
    });
    let mut limits = Limits::default();
    limits.in_flight = 1;
    let connection = Connection::new(there.reader, there.writer, slow).limits(limits);
    let (ending, monitor) = (connection.close_handle(), connection.monitor());
    let running = tokio::spawn(connection.run());
    here.writer.write_all(&requests(3)).await.unwrap();
    while monitor.running() < 1 {
        tokio::task::yield_now().await;
    }
    ending.drain();
    let mut received = String::new();
    soon(here.reader.read_to_string(&mut received)).await.unwrap();
    let lines: Vec<_> = received.lines().collect();
    assert_eq!(lines.len(), 3, "{received}");
    for (line, id) in lines.iter().zip([2, 3]) {
        assert!(line.contains(&format!("\"id\":{id},")) && line.contains("3001"), "{line}");
    }
    assert!(lines[2].contains("late"), "{received}");
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
}

/// Regression test: requests that were read while too many bytes waited for the peer got no answer.
#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_room_are_answered_before_this_side_closes() {
    let (mut here, there) = duplex();
    let long_answer = Stack::from_fn(|_| async { Reply::of(&"x".repeat(40_000)) });
    let mut limits = Limits::default();
    limits.unread_bytes = 16 << 10;
    let connection = Connection::new(there.reader, there.writer, long_answer).limits(limits);
    let (ending, monitor) = (connection.close_handle(), connection.monitor());
    let running = tokio::spawn(connection.run());
    here.writer.write_all(&requests(10)).await.unwrap();
    // All tasks are idle when the clock advances.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(monitor.running(), 0, "the later requests are not dispatched yet");
    ending.drain();
    let mut received = String::new();
    soon(here.reader.read_to_string(&mut received)).await.unwrap();
    let answered = received.lines().filter(|line| line.contains("\"result\"")).count();
    assert_eq!(answered, 10);
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_is_dropped() {
    let (mut here, there) = duplex();
    let connection =
        Connection::new(there.reader, there.writer, Stack::from_fn(|_| std::future::pending()));
    let (ending, monitor) = (connection.close_handle(), connection.monitor());
    let running = tokio::spawn(connection.run());
    here.writer.write_all(&requests(1)).await.unwrap();
    while monitor.running() < 1 {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    ending.drain();
    assert!(matches!(soon(running).await.unwrap(), CloseReason::Local));
    assert_eq!(begun.elapsed(), Limits::default().linger_timeout);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_the_last_answers_whole() {
    let (mut here, there) = duplex();
    let connection = Connection::new(there.reader, there.writer, delayed_answer(120_000));
    let (ending, monitor) = (connection.close_handle(), connection.monitor());
    let running = tokio::spawn(connection.run());
    here.writer.write_all(&requests(8)).await.unwrap();
    while monitor.unread_bytes() < 800_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ending.drain();
    let (mut all, mut piece) = (0, vec![0; 64 * 1024]);
    loop {
        // The peer reads slowly, but always within the linger timeout.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        match soon(here.reader.read(&mut piece)).await.unwrap() {
            0 => break,
            count => all += count,
        }
    }
    assert!(all > 8 * 120_000, "{all}");
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_byte_by_byte_does_not_keep_this_side_from_closing() {
    let (mut here, there) = duplex();
    let connection = Connection::new(there.reader, there.writer, delayed_answer(300_000));
    let (ending, monitor) = (connection.close_handle(), connection.monitor());
    let running = tokio::spawn(connection.run());
    here.writer.write_all(&requests(8)).await.unwrap();
    while monitor.unread_bytes() < 2_000_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begun = Instant::now();
    ending.drain();
    let mut drop = [0; 100];
    while !running.is_finished() && begun.elapsed() < Duration::from_mins(10) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _ = here.reader.read(&mut drop).await.unwrap();
    }
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
    let limits = Limits::default();
    assert!(
        begun.elapsed() <= limits.stall_timeout + 2 * limits.linger_timeout,
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn after_the_announcement_calls_return_their_answers_even_without_a_reader() {
    let (mut here, there) = duplex();
    let connection = Connection::new(there.reader, there.writer, delayed_answer(1_000_000));
    let (ending, monitor) = (connection.close_handle(), connection.monitor());
    let running = tokio::spawn(connection.run());
    here.writer.write_all(&requests(20)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(monitor.running() > 5, "{}", monitor.running());
    ending.announce();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(monitor.running(), 0);
    let begun = Instant::now();
    ending.drain();
    assert!(matches!(soon(running).await.unwrap(), CloseReason::Local));
    assert_eq!(begun.elapsed(), Limits::default().linger_timeout);
}

/// Regression test: a write that failed discarded the answers that had already arrived.
#[tokio::test]
async fn an_answer_that_arrived_before_a_write_failed_is_delivered() {
    let (here, mut there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack());
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let answered = tokio::spawn(peer.send(ping(cx.clone())));
    let mut lines = BufReader::new(there.reader).lines();
    let request: serde_json::Value =
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    // Without an `await` in between, the driver finds the second request, the answer and the closed peer in one turn.
    let mut unsent = peer.send(ping(cx));
    assert!((&mut unsent).now_or_never().is_none());
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n", request["id"]);
    there.writer.write_all(answer.as_bytes()).now_or_never().unwrap().unwrap();
    drop((lines, there.writer));
    assert!(matches!(soon(driving).await.unwrap(), CloseReason::Io(_)));
    soon(answered).await.unwrap().unwrap();
    assert_eq!(soon(unsent).await.unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
}

/// Regression test: after a write failed, the calls of a closed peer started, and delayed an answer behind them.
#[tokio::test]
async fn after_a_failed_write_no_call_starts_and_an_answer_behind_many_requests_is_delivered() {
    let (here, mut there) = duplex();
    let started = Arc::new(AtomicUsize::new(0));
    let stack = {
        let started = Arc::clone(&started);
        Stack::from_fn(move |_| {
            started.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        })
    };
    let connection = Connection::new(here.reader, here.writer, stack);
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let answered = tokio::spawn(peer.send(ping(cx.clone())));
    let mut lines = BufReader::new(there.reader).lines();
    let request: serde_json::Value =
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    // Without an `await` in between, the driver finds the second request, the answer and the closed peer in one turn.
    let mut unsent = peer.send(ping(cx));
    assert!((&mut unsent).now_or_never().is_none());
    let mut messages = requests(Limits::default().in_flight + 10);
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n", request["id"]);
    messages.extend_from_slice(answer.as_bytes());
    there.writer.write_all(&messages).now_or_never().unwrap().unwrap();
    drop((lines, there.writer));
    assert!(matches!(soon(driving).await.unwrap(), CloseReason::Io(_)));
    soon(answered).await.unwrap().unwrap();
    assert_eq!(started.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_answer_that_is_not_utf_8_ends_its_call() {
    let (here, mut there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack());
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let waiting = tokio::spawn(peer.send(ping(cx)));
    let mut lines = BufReader::new(there.reader).lines();
    let request: serde_json::Value =
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let id = &request["id"];
    let begin = br#"{"result":{"text":""#.to_vec();
    let end = format!("\"}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n").into_bytes();
    there.writer.write_all(&[begin, b"caf\xe9".to_vec(), end].concat()).await.unwrap();
    let error = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::INTERNAL_ERROR);
    assert!(error.message().contains("UTF-8"), "{error:?}");
    driving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_prints_what_it_reads_gets_no_answer_to_what_it_prints() {
    let (here, mut there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack()).on_stray_line(|_| {});
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let _waiting = tokio::spawn(peer.send(ping(cx)));
    let mut lines = BufReader::new(there.reader).lines();
    let mut received = 0;
    while let Ok(line) = tokio::time::timeout(Duration::from_secs(1), lines.next_line()).await {
        let line = line.unwrap().unwrap();
        received += 1;
        assert_eq!(received, 1, "an answer to a line that is not a message: {line}");
        let log = format!("got: {line}\n{{\"level\":\"info\",\"msg\":\"got a line\"}}\n[1]\n");
        there.writer.write_all(log.as_bytes()).await.unwrap();
        there.writer.write_all(b"{\"id\":7,\"msg\":\"got a line\"}\n").await.unwrap();
        there.writer.write_all(b"caf\xe9\n").await.unwrap();
    }
    assert_eq!(received, 1);
    driving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_child_behind_a_terminal_that_prints_its_requests_answers_them_itself() {
    let (here, mut there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack()).on_stray_line(|_| {});
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let list = Method::from_static("tools/list");
    let listed = tokio::spawn(peer.send(Call::request(list, Params::none(), cx)));
    let mut lines = BufReader::new(there.reader).lines();
    let request = lines.next_line().await.unwrap().unwrap();
    there.writer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    let more = tokio::time::timeout(Duration::from_secs(1), lines.next_line()).await;
    assert!(more.is_err(), "an answer to the own request: {more:?}");
    let id = &serde_json::from_str::<serde_json::Value>(&request).unwrap()["id"];
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[]}}}}\n");
    there.writer.write_all(answer.as_bytes()).await.unwrap();
    soon(listed).await.unwrap().unwrap();
    driving.abort();
}

/// A call that is longer than the buffers between the two sides.
fn long_call(cx: mgp_types::service::Context) -> Call {
    let long = format!(r#"{{"pad":"{}"}}"#, "x".repeat(2 << 20));
    let params = Params::split("long", long.into()).unwrap();
    Call::request(Method::from_static("long"), params, cx)
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_read_is_given_up_despite_an_open_subscription() {
    let (here, there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack()).on_stray_line(|_| {});
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let listen = Method::from_static("subscriptions/listen");
    let _listening = tokio::spawn(peer.send(Call::request(listen, Params::none(), cx.clone())));
    let mut lines = BufReader::new(there.reader).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("subscriptions/listen"));
    let call = tokio::spawn(peer.send(long_call(cx)));
    let closed = soon(driving).await.unwrap();
    assert!(matches!(closed, CloseReason::Stalled(_)), "{closed}");
    soon(call).await.unwrap().unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_busy_with_a_call_is_given_up_only_after_the_call() {
    let (here, mut there) = duplex();
    let connection = Connection::new(here.reader, here.writer, empty_stack()).on_stray_line(|_| {});
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let first = tokio::spawn(peer.send(ping(cx.clone())));
    let mut lines = BufReader::new(there.reader).lines();
    let request: serde_json::Value =
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let second = tokio::spawn(peer.send(long_call(cx.clone())));
    tokio::task::yield_now().await;
    let given_up = tokio::spawn(peer.send(ping(cx)));
    tokio::time::sleep(Duration::from_secs(20)).await;
    given_up.abort();
    tokio::time::sleep(Duration::from_secs(50)).await;
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n", request["id"]);
    there.writer.write_all(answer.as_bytes()).await.unwrap();
    soon(first).await.unwrap().unwrap();
    let closed = soon(driving).await.unwrap();
    assert!(matches!(closed, CloseReason::Stalled(_)), "{closed}");
    soon(second).await.unwrap().unwrap_err();
}
