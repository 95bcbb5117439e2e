//! Tests that connections end, and with them everything that belongs to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use mgp_testkit::{Alive, RawPeer};
use mgp_transport::{
    CloseHandle, CloseReason, Connection, ConnectionMonitor, DuplexEnd, Limits, duplex,
};
use mgp_types::ErrorCode;
use mgp_types::method::Ping;
use mgp_types::service::{Call, Context, Method, Params, Peer, Reply, Router, Stack};
use serde_json::json;
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

fn empty_stack() -> Stack {
    Stack::new(Router::new())
}

/// Fails a test that would otherwise wait forever; with a paused clock it fails immediately.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_mins(5), future).await.unwrap()
}

fn ping(cx: Context) -> Call {
    Call::ask::<Ping>(&mgp_types::mcp::EmptyParams::new(), cx).unwrap()
}

/// Creates a stack whose answer has `bytes` bytes and is ready at the second poll.
fn delayed_answer(bytes: usize) -> Stack {
    Stack::from_fn(move |_| async move {
        tokio::task::yield_now().await;
        Reply::of(&"x".repeat(bytes))
    })
}

/// Creates a stack that answers after a second.
fn late_answer() -> Stack {
    Stack::from_fn(|_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Reply::of(&"late")
    })
}

fn requests(count: usize) -> Vec<u8> {
    let lines =
        (1..=count).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"a\"}}\n"));
    lines.collect::<String>().into_bytes()
}

/// A server on a running connection, and the client's end of the connection.
struct Server {
    client: DuplexEnd,
    ending: CloseHandle,
    monitor: ConnectionMonitor,
    running: JoinHandle<CloseReason>,
}

impl Server {
    fn start(stack: Stack) -> Self {
        Self::start_with(stack, Limits::default())
    }

    fn start_with(stack: Stack, limits: Limits) -> Self {
        let (here, client) = duplex();
        let connection = Connection::new(here.reader, here.writer, stack).limits(limits);
        let (ending, monitor) = (connection.close_handle(), connection.monitor());
        Self { client, ending, monitor, running: tokio::spawn(connection.run()) }
    }
}

/// A client on a running connection, and the server's end of the connection.
struct Client {
    peer: Peer,
    cx: Context,
    driving: JoinHandle<CloseReason>,
    server: DuplexEnd,
}

impl Client {
    /// Connects a client that handles the calls of its server with `stack`.
    fn connect(stack: Stack) -> Self {
        let (here, server) = duplex();
        Self::run(Connection::new(here.reader, here.writer, stack), server)
    }

    /// Connects a client to a server that is a child process.
    fn of_child() -> Self {
        let (here, server) = duplex();
        let connection = Connection::new(here.reader, here.writer, empty_stack());
        Self::run(connection.for_child(|_| {}), server)
    }

    fn run(
        connection: Connection<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>,
        server: DuplexEnd,
    ) -> Self {
        let (peer, cx) = (connection.peer(), connection.context());
        Self { peer, cx, driving: tokio::spawn(connection.run()), server }
    }
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
    let Server { mut client, monitor, running, .. } = Server::start(stack);
    client.writer.write_all(&requests(500)).await.unwrap();
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
    running.abort();
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
    let stack = Stack::from_fn(|_| std::future::pending());
    let Server { mut client, monitor, running, .. } = Server::start(stack);
    let started = Instant::now();
    client.writer.write_all(&requests(1_100)).await.unwrap();
    let mut lines = BufReader::new(client.reader).lines();
    for id in 1_025..=1_100 {
        let line = lines.next_line().await.unwrap().unwrap();
        assert!(line.contains(&format!("\"id\":{id},")) && line.contains("3001"), "{line}");
    }
    assert_eq!((monitor.running(), monitor.shed()), (1_024, 76));
    assert!(started.elapsed() < Duration::from_millis(60), "{:?}", started.elapsed());
    running.abort();
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
    let Server { mut client, running, .. } = Server::start(delayed_answer(4 << 20));
    client.writer.write_all(&requests(1)).await.unwrap();
    let mut piece = vec![0; 64 << 10];
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        client.reader.read_exact(&mut piece).await.unwrap();
    }
    assert!(!running.is_finished());
    running.abort();
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
        let Server { mut client, running, .. } = Server::start(stack);
        client.writer.write_all(&requests(1)).await.unwrap();
        client.writer.shutdown().await.unwrap();
        let mut line = String::new();
        BufReader::new(client.reader).read_line(&mut line).await.unwrap();
        assert_eq!(!line.is_empty(), answered, "{line}");
        assert!(matches!(running.await.unwrap(), CloseReason::Eof));
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
    // The connection waits twice, each time no longer than the linger timeout: until the queued bytes are written, and
    // until the writer is shut down.
    assert!(started.elapsed() <= 2 * Limits::default().linger_timeout, "{:?}", started.elapsed());
}

// === Ending gracefully ===

#[tokio::test(start_paused = true)]
async fn running_calls_are_answered_before_this_side_closes() {
    let Server { mut client, ending, monitor, running } = Server::start(late_answer());
    client.writer.write_all(&requests(5)).await.unwrap();
    while monitor.running() < 5 {
        tokio::task::yield_now().await;
    }
    ending.drain();
    ending.drain();
    tokio::task::yield_now().await;
    // The connection no longer reads this request.
    client.writer.write_all(&requests(1)).await.unwrap();
    let mut received = String::new();
    soon(client.reader.read_to_string(&mut received)).await.unwrap();
    assert_eq!(received.lines().count(), 5, "{received}");
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
}

/// Regression test: requests that had been read ahead, during a pause at the limit of running calls, got no answer.
#[tokio::test(start_paused = true)]
async fn requests_that_wait_at_the_limit_of_calls_are_answered_before_this_side_closes() {
    let mut limits = Limits::default();
    limits.in_flight = 1;
    let Server { mut client, ending, monitor, running } = Server::start_with(late_answer(), limits);
    client.writer.write_all(&requests(3)).await.unwrap();
    while monitor.running() < 1 {
        tokio::task::yield_now().await;
    }
    ending.drain();
    let mut received = String::new();
    soon(client.reader.read_to_string(&mut received)).await.unwrap();
    let lines: Vec<_> = received.lines().collect();
    assert_eq!(lines.len(), 3, "{received}");
    for (line, id) in lines.iter().zip([2, 3]) {
        assert!(line.contains(&format!("\"id\":{id},")) && line.contains("3001"), "{line}");
    }
    assert!(lines[2].contains("late"), "{received}");
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
}

/// Regression test: requests that had been read, but waited because the peer did not read, got no answer.
#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_room_are_answered_before_this_side_closes() {
    let long_answer = Stack::from_fn(|_| async { Reply::of(&"x".repeat(40_000)) });
    let mut limits = Limits::default();
    limits.unread_bytes = 16 << 10;
    let Server { mut client, ending, monitor, running } = Server::start_with(long_answer, limits);
    client.writer.write_all(&requests(10)).await.unwrap();
    // The paused clock advances only when all tasks are idle, so the requests have been read then.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(monitor.running(), 0, "the later requests are not dispatched yet");
    ending.drain();
    let mut received = String::new();
    soon(client.reader.read_to_string(&mut received)).await.unwrap();
    let answered = received.lines().filter(|line| line.contains("\"result\"")).count();
    assert_eq!(answered, 10);
    assert!(matches!(running.await.unwrap(), CloseReason::Local));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_is_dropped() {
    let Server { mut client, ending, monitor, running } =
        Server::start(Stack::from_fn(|_| std::future::pending()));
    client.writer.write_all(&requests(1)).await.unwrap();
    while monitor.running() < 1 {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    ending.drain();
    assert!(matches!(soon(running).await.unwrap(), CloseReason::Local));
    assert_eq!(begun.elapsed(), Limits::default().linger_timeout);
}

/// Regression test: closing a connection that was being drained had no effect.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_drained_can_still_be_closed() {
    let (here, mut client) = duplex();
    let stack = Stack::from_fn(|_| std::future::pending());
    let connection = Connection::new(here.reader, here.writer, stack);
    let (peer, ending, begun) = (connection.peer(), connection.close_handle(), Instant::now());
    let running = tokio::spawn(connection.run());
    client.writer.write_all(&requests(1)).await.unwrap();
    tokio::task::yield_now().await;
    ending.drain();
    tokio::task::yield_now().await;
    peer.close("no time left");
    assert!(matches!(soon(running).await.unwrap(), CloseReason::Local));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_the_last_answers_whole() {
    for peer_closes in [false, true] {
        let Server { mut client, ending, monitor, running } =
            Server::start(delayed_answer(120_000));
        client.writer.write_all(&requests(8)).await.unwrap();
        while monitor.unread_bytes() < 800_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if peer_closes {
            client.writer.shutdown().await.unwrap();
        } else {
            ending.drain();
        }
        let (mut all, mut piece) = (0, vec![0; 64 * 1024]);
        loop {
            // The peer reads slowly, but always within the linger timeout.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            match soon(client.reader.read(&mut piece)).await.unwrap() {
                0 => break,
                count => all += count,
            }
        }
        assert!(all > 8 * 120_000, "{all}");
        assert_eq!(matches!(running.await.unwrap(), CloseReason::Eof), peer_closes);
    }
}

/// Regression test: with such limits, the connection panicked as soon as its peer did not read.
#[tokio::test(start_paused = true)]
async fn a_connection_without_time_limits_waits_for_its_peer_to_read() {
    let mut limits = Limits::default();
    (limits.stall_timeout, limits.linger_timeout) = (Duration::MAX, Duration::MAX);
    let Server { mut client, running, .. } = Server::start_with(delayed_answer(300_000), limits);
    client.writer.write_all(&requests(8)).await.unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(!running.is_finished());
    client.writer.shutdown().await.unwrap();
    let mut answers = Vec::new();
    soon(client.reader.read_to_end(&mut answers)).await.unwrap();
    assert_eq!(answers.split(|byte| *byte == b'\n').count(), 8 + 1);
    assert!(matches!(running.await.unwrap(), CloseReason::Eof));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_byte_by_byte_does_not_keep_this_side_from_closing() {
    let Server { mut client, ending, monitor, running } = Server::start(delayed_answer(300_000));
    client.writer.write_all(&requests(8)).await.unwrap();
    while monitor.unread_bytes() < 2_000_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begun = Instant::now();
    ending.drain();
    let mut drop = [0; 100];
    while !running.is_finished() && begun.elapsed() < Duration::from_mins(10) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _ = client.reader.read(&mut drop).await.unwrap();
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
    let Server { mut client, ending, monitor, running } = Server::start(delayed_answer(1_000_000));
    client.writer.write_all(&requests(20)).await.unwrap();
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
    let Client { peer, cx, driving, server } = Client::connect(empty_stack());
    let mut server = RawPeer::new(server.reader, server.writer);
    let answered = tokio::spawn(peer.send(ping(cx.clone())));
    let request = server.receive().await;
    // Without an `await` in between, the driver finds the second request, the answer and the closed peer in one turn.
    let mut unsent = peer.send(ping(cx));
    assert!((&mut unsent).now_or_never().is_none());
    server.answer(&request, json!({})).now_or_never().unwrap();
    drop(server);
    assert!(matches!(soon(driving).await.unwrap(), CloseReason::Io(_)));
    soon(answered).await.unwrap().unwrap();
    assert_eq!(soon(unsent).await.unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
}

/// Regression test: after a write failed, the calls that a closed peer had sent were started, and delayed the answer
/// that followed them.
#[tokio::test]
async fn after_a_failed_write_no_call_starts_and_an_answer_behind_many_requests_is_delivered() {
    let started = Arc::new(AtomicUsize::new(0));
    let stack = {
        let started = Arc::clone(&started);
        Stack::from_fn(move |_| {
            started.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        })
    };
    let Client { peer, cx, driving, mut server } = Client::connect(stack);
    let answered = tokio::spawn(peer.send(ping(cx.clone())));
    let mut lines = BufReader::new(server.reader).lines();
    let request: serde_json::Value =
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    // Without an `await` in between, the driver finds the second request, the answer and the closed peer in one turn.
    let mut unsent = peer.send(ping(cx));
    assert!((&mut unsent).now_or_never().is_none());
    let mut messages = requests(Limits::default().in_flight + 10);
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n", request["id"]);
    messages.extend_from_slice(answer.as_bytes());
    server.writer.write_all(&messages).now_or_never().unwrap().unwrap();
    drop((lines, server.writer));
    assert!(matches!(soon(driving).await.unwrap(), CloseReason::Io(_)));
    soon(answered).await.unwrap().unwrap();
    assert_eq!(started.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_answer_that_is_not_utf_8_ends_its_call() {
    let Client { peer, cx, driving, mut server } = Client::connect(empty_stack());
    let waiting = tokio::spawn(peer.send(ping(cx)));
    let mut lines = BufReader::new(server.reader).lines();
    let request: serde_json::Value =
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let id = &request["id"];
    let begin = br#"{"result":{"text":""#.to_vec();
    let end = format!("\"}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n").into_bytes();
    server.writer.write_all(&[begin, b"caf\xe9".to_vec(), end].concat()).await.unwrap();
    let error = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::INTERNAL_ERROR);
    assert!(error.message().contains("UTF-8"), "{error:?}");
    driving.abort();
}

#[tokio::test]
async fn an_answer_without_its_end_is_the_end_of_the_server() {
    let Client { peer, cx, driving, mut server } = Client::of_child();
    let waiting = tokio::spawn(peer.send(ping(cx)));
    let mut lines = BufReader::new(server.reader).lines();
    let request: serde_json::Value =
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let half = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"a\":\"b", request["id"]);
    server.writer.write_all(half.as_bytes()).await.unwrap();
    drop((lines, server.writer));
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY, "{error:?}");
    driving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_prints_what_it_reads_gets_no_answer_to_what_it_prints() {
    let Client { peer, cx, driving, mut server } = Client::of_child();
    let _waiting = tokio::spawn(peer.send(ping(cx)));
    let mut lines = BufReader::new(server.reader).lines();
    let mut received = 0;
    while let Ok(line) = tokio::time::timeout(Duration::from_secs(1), lines.next_line()).await {
        let line = line.unwrap().unwrap();
        received += 1;
        assert_eq!(received, 1, "an answer to a line that is not a message: {line}");
        let log = format!("got: {line}\n{{\"level\":\"info\",\"msg\":\"got a line\"}}\n[1]\n");
        server.writer.write_all(log.as_bytes()).await.unwrap();
        server.writer.write_all(b"{\"id\":7,\"msg\":\"got a line\"}\n").await.unwrap();
        server.writer.write_all(b"caf\xe9\n").await.unwrap();
    }
    assert_eq!(received, 1);
    driving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_child_behind_a_terminal_that_prints_its_requests_answers_them_itself() {
    let Client { peer, cx, driving, server } = Client::of_child();
    let mut server = RawPeer::new(server.reader, server.writer);
    let list = Method::from_static("tools/list");
    let listed = tokio::spawn(peer.send(Call::request(list, Params::none(), cx)));
    let request = server.receive().await;
    let echo = server.last_line().to_owned();
    server.line(&echo).await;
    let more = tokio::time::timeout(Duration::from_secs(1), server.read_line()).await;
    assert!(more.is_err(), "an answer to the own request: {more:?}");
    server.answer(&request, json!({ "tools": [] })).await;
    soon(listed).await.unwrap().unwrap();
    driving.abort();
}

/// A call that is longer than the buffers between the two sides.
fn long_call(cx: Context) -> Call {
    let long = format!(r#"{{"pad":"{}"}}"#, "x".repeat(2 << 20));
    let params = Params::split("long", long.into()).unwrap();
    Call::request(Method::from_static("long"), params, cx)
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_read_is_given_up_despite_an_open_subscription() {
    let Client { peer, cx, driving, server } = Client::of_child();
    let mut server = RawPeer::new(server.reader, server.writer);
    let listen = Method::from_static("subscriptions/listen");
    let _listening = tokio::spawn(peer.send(Call::request(listen, Params::none(), cx.clone())));
    assert_eq!(server.receive().await["method"], "subscriptions/listen");
    let call = tokio::spawn(peer.send(long_call(cx)));
    let closed = soon(driving).await.unwrap();
    assert!(matches!(closed, CloseReason::Stalled(_)), "{closed}");
    soon(call).await.unwrap().unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_busy_with_a_call_is_given_up_only_after_the_call() {
    let Client { peer, cx, driving, server } = Client::of_child();
    let mut server = RawPeer::new(server.reader, server.writer);
    let first = tokio::spawn(peer.send(ping(cx.clone())));
    let request = server.receive().await;
    let given_up = tokio::spawn(peer.send(ping(cx.clone())));
    tokio::task::yield_now().await;
    let second = tokio::spawn(peer.send(long_call(cx)));
    tokio::time::sleep(Duration::from_secs(20)).await;
    given_up.abort();
    tokio::time::sleep(Duration::from_secs(50)).await;
    server.answer(&request, json!({})).await;
    soon(first).await.unwrap().unwrap();
    let closed = soon(driving).await.unwrap();
    assert!(matches!(closed, CloseReason::Stalled(_)), "{closed}");
    soon(second).await.unwrap().unwrap_err();
}
