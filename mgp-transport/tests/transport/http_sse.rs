//! Tests of the order in which a client posts its messages over HTTP+SSE, and of the messages that it sent just before
//! it closed.

#![cfg(feature = "http")]

use std::sync::Arc;
use std::time::Duration;

use mgp_transport::DuplexEnd;
use mgp_transport::http::{Endpoint, HttpClientConfig, connect_http_sse};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};

/// The time for which the server handles a notification.
const DELAY: Duration = Duration::from_millis(200);
/// The interval of the messages that the server sends; several are sent while it handles a notification.
const INTERVAL: Duration = Duration::from_millis(10);

const FIRST: &str = r#"{"jsonrpc":"2.0","method":"first"}"#;
const SECOND: &str = r#"{"jsonrpc":"2.0","method":"second"}"#;
const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"third"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
/// A notification and a request that the server handles only after it has received an answer.
const ASKING: &str = r#"{"jsonrpc":"2.0","method":"asking"}"#;
const ASKING_REQUEST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"asking"}"#;

/// A server and its client's end of the connection. The server reports each message that it has handled. Requests that
/// do not wait for an answer are handled only in pairs.
struct Server {
    handled: mpsc::UnboundedReceiver<String>,
    end: DuplexEnd,
}

impl Server {
    /// Starts a server and connects a client with the default settings to it.
    async fn connected() -> Self {
        Self::connected_with(HttpClientConfig::default()).await
    }

    async fn connected_with(config: HttpClientConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let (report, handled) = mpsc::unbounded_channel();
        let state = Arc::new(State { report, pair: Barrier::new(2), answers: Semaphore::new(0) });
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&state)));
            }
        });
        let endpoint = Endpoint::parse(&url).unwrap();
        let end = connect_http_sse(endpoint, config).await.unwrap();
        Self { handled, end }
    }

    async fn send(&mut self, messages: &[&str]) {
        for message in messages {
            self.end.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }
    }
}

/// The state of a server that all requests of its client share.
struct State {
    report: mpsc::UnboundedSender<String>,
    pair: Barrier,
    /// A semaphore with one permit for each answer that was handled.
    answers: Semaphore,
}

impl State {
    /// Handles a message, and then reports it.
    async fn handle(&self, message: &str) {
        let is_answer = message.contains("\"result\"");
        if message.contains("asking") {
            drop(self.answers.acquire().await.unwrap());
        } else if message.contains("\"id\"") && !is_answer {
            self.pair.wait().await;
        } else {
            sleep(DELAY).await;
        }
        let _ = self.report.send(message.to_owned());
        if is_answer {
            self.answers.add_permits(1);
        }
    }
}

/// Serves one request of the client: its GET of the event stream, or a POST of a message.
async fn serve(socket: TcpStream, state: Arc<State>) {
    let mut socket = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if socket.read_line(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    if head.starts_with("GET") {
        let begin = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
                     event: endpoint\ndata: /messages\n\n";
        let mut sent = socket.write_all(begin.as_bytes()).await;
        while sent.is_ok() {
            sleep(INTERVAL).await;
            sent = socket.write_all(format!("data: {FIRST}\n\n").as_bytes()).await;
        }
        return;
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap()];
    socket.read_exact(&mut body).await.unwrap();
    state.handle(String::from_utf8(body).unwrap().trim()).await;
    let answer = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = socket.write_all(answer.as_bytes()).await;
}

/// Returns the next message that the server has handled. Fails if none comes before the client would give up a POST.
async fn next(handled: &mut mpsc::UnboundedReceiver<String>) -> String {
    timeout(Duration::from_secs(20), handled.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn no_request_overtakes_a_notification_and_requests_are_posted_at_once() {
    let mut server = Server::connected().await;
    server.send(&[FIRST, REQUEST, REQUEST]).await;
    let mut handled = Vec::new();
    for _ in 0..3 {
        handled.push(next(&mut server.handled).await);
    }
    assert_eq!(handled, [FIRST, REQUEST, REQUEST]);
}

/// The server ends the POST of the notification only after it has received the answer, so the answer must not wait for
/// that POST.
#[tokio::test]
async fn an_answer_does_not_wait_for_the_notification_before_it() {
    let mut server = Server::connected().await;
    server.send(&[ASKING, ANSWER, REQUEST, REQUEST]).await;
    let mut handled = Vec::new();
    for _ in 0..4 {
        handled.push(next(&mut server.handled).await);
    }
    assert_eq!(handled, [ANSWER, ASKING, REQUEST, REQUEST]);
}

#[tokio::test]
async fn an_answer_does_not_wait_for_requests_even_if_they_take_all_places() {
    let mut config = HttpClientConfig::default();
    config.requests = 1;
    let mut server = Server::connected_with(config).await;
    server.send(&[ASKING_REQUEST, ASKING_REQUEST, ANSWER]).await;
    let mut handled = Vec::new();
    for _ in 0..3 {
        handled.push(next(&mut server.handled).await);
    }
    assert_eq!(handled, [ANSWER, ASKING_REQUEST, ASKING_REQUEST]);
}

#[tokio::test]
async fn a_cancellation_does_not_overtake_its_request() {
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    let mut server = Server::connected().await;
    let begun = Instant::now();
    server.send(&[ASKING_REQUEST, cancel]).await;
    assert_eq!(next(&mut server.handled).await, cancel);
    // The request is posted, the client waits a quarter of a second before it posts the cancellation, and the server
    // then handles the cancellation for `DELAY`.
    assert!(begun.elapsed() >= DELAY + DELAY, "{:?}", begun.elapsed());
    server.send(&[ANSWER]).await;
    assert_eq!(next(&mut server.handled).await, ANSWER);
    assert_eq!(next(&mut server.handled).await, ASKING_REQUEST);
}

#[tokio::test]
async fn a_request_that_is_cancelled_before_it_was_posted_is_not_posted() {
    let mut config = HttpClientConfig::default();
    config.requests = 1;
    let mut server = Server::connected_with(config).await;
    let held = r#"{"jsonrpc":"2.0","id":3,"method":"asking"}"#;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#;
    server.send(&[ASKING_REQUEST, held, cancel, FIRST]).await;
    assert_eq!(next(&mut server.handled).await, FIRST);
    server.send(&[ANSWER]).await;
    assert_eq!(next(&mut server.handled).await, ANSWER);
    assert_eq!(next(&mut server.handled).await, ASKING_REQUEST);
}

#[tokio::test]
async fn an_answer_sent_before_closing_arrives() {
    let mut server = Server::connected().await;
    server.send(&[ANSWER]).await;
    let Server { mut handled, end } = server;
    drop(end);
    assert_eq!(next(&mut handled).await, ANSWER);
}

/// Meanwhile, the server sends messages that the client can no longer receive. The client's notifications must arrive
/// nevertheless.
#[tokio::test]
async fn notifications_sent_before_closing_arrive() {
    let mut server = Server::connected().await;
    server.send(&[FIRST, SECOND]).await;
    let Server { mut handled, end } = server;
    drop(end);
    assert_eq!([next(&mut handled).await, next(&mut handled).await], [FIRST, SECOND]);
}

#[tokio::test]
async fn the_error_of_a_url_without_get_names_the_other_transport() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut socket = BufReader::new(listener.accept().await.unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            socket.read_line(&mut head).await.unwrap();
        }
        let refusal = "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n";
        socket.write_all(refusal.as_bytes()).await.unwrap();
        // The connection stays open until the client has read the refusal.
        let _ = socket.read_to_end(&mut Vec::new()).await;
    });
    let endpoint = Endpoint::parse(&url).unwrap();
    let error = connect_http_sse(endpoint, HttpClientConfig::default()).await.err().unwrap();
    let shown = error.to_string();
    assert!(shown.contains("no GET") && shown.contains("streamable HTTP"), "{shown}");
}
