//! Tests of the pool with in-memory connections: which connection a request gets, and when connections are closed.

use std::task::{Context as Task, Poll};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};
use http::HeaderValue;
use http::header::HOST;
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};

use super::*;

const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BEGUN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no";
const IDLE: Duration = Duration::from_secs(55);

/// A connector that sends the other end of each connection to the test over a channel.
#[derive(Clone)]
struct Dial(mpsc::UnboundedSender<DuplexStream>);

impl Service<Uri> for Dial {
    type Response = TokioIo<DuplexStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (near, far) = duplex(4096);
        let sent = self.0.send(far).map_err(|_| "there is no listener".into());
        async move { sent.map(|()| TokioIo::new(near)) }.boxed()
    }
}

/// A connector that never completes.
#[derive(Clone)]
struct Silent;

impl Service<Uri> for Silent {
    type Response = TokioIo<DuplexStream>;
    type Error = BoxError;
    type Future = std::future::Pending<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::pending()
    }
}

/// Creates a pool, and a receiver for the other ends of its connections.
fn pair(
    idle_connections: usize,
    idle_timeout: Duration,
) -> (Pool<Dial>, mpsc::UnboundedReceiver<DuplexStream>) {
    let (dial, far) = mpsc::unbounded_channel();
    let config = HttpClientConfig { idle_connections, idle_timeout, ..Default::default() };
    (Pool::new(Dial(dial), Uri::from_static("http://h/"), &config), far)
}

fn message() -> Message {
    let mut message = Request::new(Full::default());
    *message.uri_mut() = Uri::from_static("/mcp");
    message.headers_mut().insert(HOST, HeaderValue::from_static("h"));
    message
}

/// Reads a request and answers it; returns `false` if the connection ended before a request arrived.
async fn answer(far: &mut DuplexStream, with: &str) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match far.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    assert!(head.starts_with(b"GET /mcp HTTP/1.1\r\n"), "{:?}", String::from_utf8_lossy(&head));
    far.write_all(with.as_bytes()).await.is_ok()
}

async fn is_closed(far: &mut DuplexStream) -> bool {
    far.read_u8().await.is_err()
}

/// Lets the tasks of the connections run.
async fn run_tasks() {
    for _ in 0..8 {
        yield_now().await;
    }
}

/// Sends one request, which makes the pool open a connection, and answers it `with` this text. Returns the response and
/// the other end of the connection.
async fn opened(
    pool: &Pool<Dial>,
    far: &mut mpsc::UnboundedReceiver<DuplexStream>,
    with: &str,
) -> (Response<Incoming>, DuplexStream) {
    let answering = async {
        let mut far = far.recv().await.unwrap();
        assert!(answer(&mut far, with).await);
        far
    };
    let (response, far) = tokio::join!(pool.send(message()), answering);
    (response.unwrap(), far)
}

/// Sends one request, which makes the pool open a connection, and reads the whole answer. Returns the other end of the
/// connection.
async fn served(
    pool: &Pool<Dial>,
    far: &mut mpsc::UnboundedReceiver<DuplexStream>,
) -> DuplexStream {
    let (response, far) = opened(pool, far, WHOLE).await;
    whole(response).await;
    far
}

/// Sends one request, and checks that the pool uses the connection with this other end.
async fn repeated(pool: &Pool<Dial>, far: &mut DuplexStream) {
    let (response, answered) = tokio::join!(pool.send(message()), answer(far, WHOLE));
    assert!(answered, "it went elsewhere");
    whole(response.unwrap()).await;
}

async fn whole(response: Response<Incoming>) {
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_connection_serves_one_request_after_another() {
    let (pool, mut dialled) = pair(8, IDLE);
    let mut far = served(&pool, &mut dialled).await;
    for _ in 0..3 {
        repeated(&pool, &mut far).await;
    }
    assert!(dialled.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_closed_connection_is_not_used() {
    let (pool, mut dialled) = pair(8, IDLE);
    let far = served(&pool, &mut dialled).await;
    drop(far);
    run_tasks().await;
    let _far = served(&pool, &mut dialled).await;
    assert_eq!(pool.idle.state.lock().connections.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unwritten_request_is_sent_on_another_connection() {
    let (pool, mut dialled) = pair(8, IDLE);
    let (response, mut first) = opened(&pool, &mut dialled, BEGUN).await;
    let (other, mut second) = opened(&pool, &mut dialled, WHOLE).await;
    whole(other).await;
    first.write_all(b"k").await.unwrap();
    whole(response).await;
    run_tasks().await;
    // The pool passes the next request to this connection before the connection's task has noticed the close.
    drop(first);
    // The pool tries the last connection of the list first: make this the closed connection, before the open one.
    {
        let mut state = pool.idle.state.lock();
        state.connections.reverse();
        assert!(
            state.connections.iter().all(|idle| idle.sender.is_ready() && !idle.sender.is_closed())
        );
    }
    repeated(&pool, &mut second).await;
    // Without another connection, the request is sent on a new one.
    drop(second);
    assert!(pool.idle.state.lock().connections.iter().all(|idle| idle.sender.is_ready()));
    let _far = served(&pool, &mut dialled).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_the_server_may_have_read_is_not_sent_again() {
    let (pool, mut dialled) = pair(8, IDLE);
    let mut far = served(&pool, &mut dialled).await;
    let hanging_up = async {
        assert!(answer(&mut far, "").await);
        drop(far);
    };
    let (response, ()) = tokio::join!(pool.send(message()), hanging_up);
    let error = response.unwrap_err();
    assert!(matches!(error, PoolError::Broken(_)), "{error:?}");
    assert!(dialled.try_recv().is_err(), "it was sent again");
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_is_not_handed_out() {
    let (pool, mut dialled) = pair(8, IDLE);
    let (streaming, mut first) = opened(&pool, &mut dialled, BEGUN).await;
    // The connection is in the pool already, but must not be used yet: its response has not been read.
    assert_eq!(pool.idle.state.lock().connections.len(), 1);
    let mut second = served(&pool, &mut dialled).await;
    repeated(&pool, &mut second).await;
    drop(second);
    run_tasks().await;
    first.write_all(b"k").await.unwrap();
    whole(streaming).await;
    repeated(&pool, &mut first).await;
    assert!(dialled.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn the_oldest_idle_connection_is_dropped_at_the_limit() {
    let (pool, mut dialled) = pair(2, IDLE);
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(opened(&pool, &mut dialled, BEGUN).await);
    }
    assert_eq!(pool.idle.state.lock().connections.len(), 2);
    let mut far = Vec::new();
    for (response, mut end) in all {
        // The dropped connection is not closed in the middle of its response.
        end.write_all(b"k").await.unwrap();
        whole(response).await;
        far.push(end);
    }
    run_tasks().await;
    assert!(is_closed(&mut far[0]).await);
    assert!(is_closed(&mut far[1]).now_or_never().is_none());
    assert!(is_closed(&mut far[2]).now_or_never().is_none());

    let (pool, mut dialled) = pair(0, IDLE);
    let mut far = served(&pool, &mut dialled).await;
    assert!(is_closed(&mut far).await);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_in_time_without_calls() {
    let (pool, mut dialled) = pair(8, IDLE);
    // The second round checks that a new closing task starts after the first closing task has ended.
    for _ in 0..2 {
        let (response, mut first) = opened(&pool, &mut dialled, BEGUN).await;
        first.write_all(b"k").await.unwrap();
        let (other, mut second) = opened(&pool, &mut dialled, WHOLE).await;
        whole(response).await;
        whole(other).await;
        advance(IDLE / 2).await;
        repeated(&pool, &mut second).await;
        let begun = Instant::now();
        assert!(is_closed(&mut first).await);
        assert!(begun.elapsed() <= IDLE / 2 + Duration::from_millis(2), "{:?}", begun.elapsed());
        assert!(is_closed(&mut second).now_or_never().is_none());
        assert!(is_closed(&mut second).await);
        assert!(begun.elapsed() <= IDLE + Duration::from_millis(2), "{:?}", begun.elapsed());
        run_tasks().await;
        assert!(pool.idle.state.lock().reaper.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_connection_is_not_used_even_if_it_is_open() {
    let (pool, mut dialled) = pair(8, IDLE);
    let _first = served(&pool, &mut dialled).await;
    run_tasks().await;
    pool.idle.state.lock().reaper.take().unwrap().abort();
    advance(IDLE).await;
    let _second = served(&pool, &mut dialled).await;
}

/// Returns a response whose server names in `Keep-Alive` how long it keeps the connection.
fn kept(parameters: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nKeep-Alive: {parameters}\r\nContent-Length: 2\r\n\r\n{body}")
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_its_server_is_about_to_close_is_not_used() {
    let (pool, mut dialled) = pair(8, IDLE);
    let first = kept("timeout=5, max=100", "ok");
    let (response, mut far) = opened(&pool, &mut dialled, &first).await;
    whole(response).await;
    advance(Duration::from_secs(3)).await;
    let again = kept("max=99,Timeout=5", "ok");
    let (response, answered) = tokio::join!(pool.send(message()), answer(&mut far, &again));
    assert!(answered, "it went elsewhere");
    whole(response.unwrap()).await;
    run_tasks().await;
    pool.idle.state.lock().reaper.take().unwrap().abort();
    advance(Duration::from_secs(4)).await;
    // The client's own limit applies if the server's limit is longer.
    let (response, _far) = opened(&pool, &mut dialled, &kept("timeout=900", "ok")).await;
    whole(response).await;
    assert!(is_closed(&mut far).await);
    assert_eq!(pool.idle.state.lock().connections[0].timeout, IDLE);

    // A connection that its server keeps for no longer than a second is not used again.
    let (pool, mut dialled) = pair(8, IDLE);
    let (response, mut far) = opened(&pool, &mut dialled, &kept("timeout=1", "ok")).await;
    whole(response).await;
    assert!(is_closed(&mut far).await);
    assert!(pool.idle.state.lock().connections.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_used_when_it_is_as_old_as_one_that_the_server_closed() {
    let (pool, mut dialled) = pair(8, IDLE);
    let first = served(&pool, &mut dialled).await;
    advance(Duration::from_secs(5)).await;
    drop(first);
    run_tasks().await;
    let mut second = served(&pool, &mut dialled).await;
    advance(Duration::from_secs(3)).await;
    repeated(&pool, &mut second).await;
    // The server would close the connection within half a second, so the pool opens another connection.
    advance(Duration::from_millis(4500)).await;
    let _third = served(&pool, &mut dialled).await;
    assert!(is_closed(&mut second).await);
    // The close may have had another cause, so the pool uses the observed idle time for a limited period only.
    advance(LEARNED_TTL).await;
    let _fourth = served(&pool, &mut dialled).await;
    assert_eq!(pool.idle.state.lock().connections[0].timeout, IDLE);

    // A close after a shorter time, e.g. at the restart of a server, sets no limit.
    let (pool, mut dialled) = pair(8, IDLE);
    let first = served(&pool, &mut dialled).await;
    advance(Duration::from_secs(1)).await;
    drop(first);
    run_tasks().await;
    let _second = served(&pool, &mut dialled).await;
    assert_eq!(pool.idle.state.lock().connections[0].timeout, IDLE);
}

#[tokio::test(start_paused = true)]
async fn the_connection_that_expires_first_is_closed_first() {
    let (pool, mut dialled) = pair(8, IDLE);
    let mut all = Vec::new();
    for timeout in ["timeout=3", "timeout=900", "timeout=11"] {
        all.push(opened(&pool, &mut dialled, &kept(timeout, "o")).await);
    }
    let mut far = Vec::new();
    for (response, mut end) in all {
        end.write_all(b"k").await.unwrap();
        whole(response).await;
        far.push(end);
    }
    let begun = Instant::now();
    assert!(is_closed(&mut far[2]).await);
    assert!(begun.elapsed() <= Duration::from_millis(10_002), "{:?}", begun.elapsed());
    assert!(is_closed(&mut far[1]).now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_dropped_closes_its_connections_at_once() {
    let (pool, mut dialled) = pair(8, IDLE);
    let mut far = served(&pool, &mut dialled).await;
    let watch = Arc::downgrade(&pool.idle);
    let begun = Instant::now();
    drop(pool);
    assert!(is_closed(&mut far).await);
    assert_eq!((begun.elapsed(), watch.strong_count()), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_closes_its_connection() {
    let (pool, mut dialled) = pair(8, IDLE);
    let mut sending = Box::pin(pool.send(message()));
    let mut far = tokio::select! {
        _ = &mut sending => panic!("there was no answer"),
        far = async {
            let mut far = dialled.recv().await.unwrap();
            assert!(answer(&mut far, "").await);
            far
        } => far,
    };
    drop(sending);
    assert!(is_closed(&mut far).await);
    assert!(pool.idle.state.lock().connections.is_empty());
    // Dropping a call also closes a connection that was used before.
    let mut far = served(&pool, &mut dialled).await;
    let mut sending = Box::pin(pool.send(message()));
    tokio::select! {
        _ = &mut sending => panic!("there was no answer"),
        asked = answer(&mut far, "") => assert!(asked),
    }
    drop(sending);
    assert!(is_closed(&mut far).await);
    assert!(pool.idle.state.lock().connections.is_empty());
    // Dropping a response before its body was read closes the connection, too.
    let (response, mut far) = opened(&pool, &mut dialled, BEGUN).await;
    drop(response);
    assert!(is_closed(&mut far).await);
    let _far = served(&pool, &mut dialled).await;
}

#[tokio::test(start_paused = true)]
async fn errors_show_whether_there_was_a_connection() {
    let (pool, dialled) = pair(8, IDLE);
    drop(dialled);
    let error = pool.send(message()).await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");

    let config = HttpClientConfig::default();
    let pool = Pool::new(Silent, Uri::from_static("http://h/"), &config);
    let error = pool.send(message()).await.unwrap_err();
    assert!(error.is_connect() && format!("{error:?}").contains("within 10 s"), "{error:?}");

    let (pool, mut dialled) = pair(8, IDLE);
    let hanging_up = async { drop(dialled.recv().await) };
    let (response, ()) = tokio::join!(pool.send(message()), hanging_up);
    let error = response.unwrap_err();
    assert!(!error.is_connect(), "{error:?}");
}

/// Calls, the limit and the closing task run at the same time: no call fails, and no connection stays open.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_returned_while_others_are_closed_is_closed_too() {
    let (pool, mut dialled) = pair(4, Duration::from_millis(1));
    let (over, mut is_over) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let mut ends = JoinSet::new();
        loop {
            tokio::select! {
                Some(mut far) = dialled.recv() => {
                    ends.spawn(async move { while answer(&mut far, WHOLE).await {} });
                }
                _ = &mut is_over => return ends,
            }
        }
    });
    let callers = (0..16).map(|_| async {
        for _ in 0..100 {
            whole(pool.send(message()).await.unwrap()).await;
        }
    });
    join_all(callers).await;
    over.send(()).unwrap();
    // The pool still exists here, so each connection ends only because it expires.
    serving.await.unwrap().join_all().await;
    drop(pool);
}
