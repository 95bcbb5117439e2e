//! HTTP at the level of bytes, without a client library.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The maximum time of each wait in a test.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A response whose body is read piece by piece; dropping it closes the connection.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    body: Body,
    /// The text of an event that has not been received completely.
    text: String,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    /// The message of the event, or null.
    pub(crate) data: Value,
}

struct Body {
    socket: BufReader<TcpStream>,
    /// The number of bytes that remain; `None` for a chunked body.
    left: Option<usize>,
    ended: bool,
}

/// Sends a request and reads the head of its response.
pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Response {
    let body = body.as_ref();
    let socket = TcpStream::connect(to).await.unwrap();
    let mut text = format!("{method} /mcp HTTP/1.1\r\nHost: {to}\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    if method == "POST" {
        write!(text, "Content-Length: {}\r\n", body.len()).unwrap();
    }
    text += "\r\n";
    let mut socket = BufReader::new(socket);
    socket.write_all(&[text.as_bytes(), body].concat()).await.unwrap();
    response(socket).await
}

pub(crate) async fn response(mut socket: BufReader<TcpStream>) -> Response {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = timeout(TIMEOUT, socket.read_line(&mut head)).await.unwrap().unwrap();
        assert!(read > 0, "no response: {head}");
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut response = Response {
        status,
        head,
        body: Body { socket, left: Some(0), ended: false },
        text: String::new(),
    };
    response.body.left = match response.header("transfer-encoding") {
        Some(_) => None,
        None => Some(response.header("content-length").map_or(0, |length| length.parse().unwrap())),
    };
    response
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn is_events(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    pub(crate) async fn text(mut self) -> String {
        while let Some(piece) = self.body.piece().await {
            self.text += std::str::from_utf8(&piece).unwrap();
        }
        self.text
    }

    /// Reads the body, and returns the message in its JSON or in its last event.
    pub(crate) async fn message(mut self) -> Value {
        if !self.is_events() {
            let text = self.text().await;
            return serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
        }
        self.rest().await.pop().unwrap().data
    }

    /// Returns the next event, or `None` at the end of the stream; skips comments.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let found = read_event(event);
                self.text = String::from(rest);
                match found {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let piece = self.body.piece().await?;
            self.text += std::str::from_utf8(&piece).unwrap();
        }
    }

    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }

    /// Returns the next bytes of the body, unparsed.
    pub(crate) async fn bytes(&mut self) -> Option<Vec<u8>> {
        self.body.piece().await
    }
}

impl Body {
    async fn piece(&mut self) -> Option<Vec<u8>> {
        timeout(TIMEOUT, self.read()).await.expect("the server sent nothing")
    }

    /// Reads the next bytes of the body; returns `None` if the body has ended or the connection breaks.
    async fn read(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let length = if let Some(left) = self.left {
            left
        } else {
            let mut line = String::new();
            self.socket.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
            usize::from_str_radix(line.trim(), 16).unwrap()
        };
        self.ended = length == 0 || self.left.is_some();
        let mut piece = vec![0; length];
        self.socket.read_exact(&mut piece).await.ok()?;
        if self.left.is_none() {
            self.socket.read_exact(&mut [0; 2]).await.ok()?;
        }
        (length > 0).then_some(piece)
    }
}

fn read_event(text: &str) -> Option<Event> {
    let field = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.map(|value| value.trim().to_owned())
    };
    let data = field("data:")?;
    let data = if data.is_empty() { Value::Null } else { serde_json::from_str(&data).unwrap() };
    Some(Event { id: field("id:"), data })
}
