//! HTTP over plain sockets, for checks that send invalid HTTP, which a library would refuse. A thread writes while the
//! replies are read, and every wait has a time limit.

use crate::run::now;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// The maximum time to wait for a reply on an open event stream.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which an event stream is still read after the reply has arrived on it.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum size of a reply, in bytes.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// Some bytes to send, and the pause after them.
pub(crate) type Piece = (Vec<u8>, Duration);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// The server sent a reply with this status.
    Of(u16),
    /// The server closed the connection without a reply.
    Closed,
    /// No reply of the server arrived in time.
    Silent,
}

impl Status {
    /// Returns the status in the form in which the labels of the corpus write it.
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Of(status) => status.into(),
            Self::Closed => "closed".into(),
            Self::Silent => "silent".into(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn none(status: Status) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Returns the value of a header, given its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the JSON-RPC message in the body: the body itself if it is JSON, else the last reply in its event
    /// stream.
    pub(crate) fn message(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok().or_else(|| last_reply(&self.body))
    }

    /// Returns the JSON-RPC error code, if the reply is an error.
    pub(crate) fn code(&self) -> Option<i64> {
        self.message()?["error"]["code"].as_i64()
    }
}

pub(crate) fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends the pieces on a new connection, and reads `count` replies within the time limit.
pub(crate) fn exchange(
    port: u16,
    pieces: impl Iterator<Item = Piece> + Send,
    method: &str,
    count: usize,
    limit: Duration,
) -> Vec<Answer> {
    let Ok(stream) = connect(port) else { return vec![Answer::none(Status::Closed)] };
    let mut answers = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| send(&stream, pieces));
        let mut reader = Reader::new(&stream, now() + limit);
        for _ in 0..count {
            let answer = reader.answer(method);
            let end = !matches!(answer.status, Status::Of(_));
            answers.push(answer);
            if end {
                break;
            }
        }
        // Closes the connection, which stops the writing thread.
        let _ = stream.shutdown(Shutdown::Both);
    });
    answers
}

/// Returns a request with POST; `more` are further header lines with their ends.
fn posted(port: u16, message: &Value, more: &str) -> Vec<u8> {
    let body = message.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    );
    request.into_bytes()
}

/// Sends a request with POST on a new connection, and returns the reply.
fn once(port: u16, request: Vec<u8>, limit: Duration) -> Answer {
    let pieces = std::iter::once((request, Duration::ZERO));
    let answer = exchange(port, pieces, "POST", 1, limit).pop();
    answer.unwrap_or_else(|| Answer::none(Status::Closed))
}

/// Sends a message with POST on a new connection, and returns the reply; `more` are further header lines with their
/// ends.
pub(crate) fn post(port: u16, message: &Value, more: &str, limit: Duration) -> Answer {
    once(port, posted(port, message, more), limit)
}

/// Returns a request with the id 1 in the protocol revision 2026-07-28, from a client with these capabilities.
pub(crate) fn request(port: u16, capabilities: &Value, method: &str, mut params: Value) -> Vec<u8> {
    let revision = "2026-07-28";
    let target = params["uri"].as_str().or(params["name"].as_str());
    let name = target.map(|target| format!("Mcp-Name: {target}\r\n")).unwrap_or_default();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    posted(
        port,
        &message,
        &format!("MCP-Protocol-Version: {revision}\r\nMcp-Method: {method}\r\n{name}"),
    )
}

/// Sends a [`request`], and returns the reply.
pub(crate) fn ask(
    port: u16,
    capabilities: &Value,
    method: &str,
    params: Value,
    limit: Duration,
) -> Answer {
    once(port, request(port, capabilities, method, params), limit)
}

/// Writes the pieces with their pauses, until all are written or the connection is closed.
fn send(mut stream: &TcpStream, pieces: impl Iterator<Item = Piece>) {
    for (bytes, pause) in pieces {
        if stream.write_all(&bytes).is_err() {
            return;
        }
        thread::sleep(pause);
    }
}

/// A reader of HTTP replies on one connection.
pub(crate) struct Reader<'a> {
    stream: &'a TcpStream,
    end: Instant,
    held: Vec<u8>,
    /// The reason why reading ended; `None` while the stream is open.
    over: Option<Status>,
}

impl<'a> Reader<'a> {
    /// Creates a reader that stops at the time `end`.
    pub(crate) fn new(stream: &'a TcpStream, end: Instant) -> Self {
        Self { stream, end, held: Vec::new(), over: None }
    }

    /// Reads more bytes; returns `false` at the end of the stream, after the time limit, or if the reply is too long.
    fn more(&mut self) -> bool {
        if self.over.is_some() || self.held.len() > MAX_REPLY_BYTES {
            return false;
        }
        let left = self.end.saturating_duration_since(now());
        if left.is_zero() {
            self.over = Some(Status::Silent);
            return false;
        }
        let mut buffer = [0; 1 << 14];
        let read =
            self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut buffer));
        match read {
            Ok(0) => self.over = Some(Status::Closed),
            Ok(count) => {
                self.held.extend_from_slice(&buffer[..count]);
                return true;
            }
            Err(error) => {
                use std::io::ErrorKind::{TimedOut, WouldBlock};
                let late = matches!(error.kind(), TimedOut | WouldBlock);
                self.over = Some(if late { Status::Silent } else { Status::Closed });
            }
        }
        false
    }

    /// Reads the next reply to a request with this method; skips interim replies (1xx).
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        loop {
            let Some(length) = self.head() else {
                return Answer::none(self.over.unwrap_or(Status::Closed));
            };
            let head = String::from_utf8_lossy(&self.held[..length]).into_owned();
            self.held.drain(..length);
            let Some(mut answer) = read_head(&head) else { return Answer::none(Status::Closed) };
            if matches!(answer.status, Status::Of(100..=199)) {
                continue;
            }
            answer.body = self.body(&answer, method);
            return answer;
        }
    }

    /// Reads until the end of the head, and returns the head's length.
    fn head(&mut self) -> Option<usize> {
        loop {
            if let Some(place) = find(&self.held, b"\r\n\r\n") {
                return Some(place + 4);
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn body(&mut self, answer: &Answer, method: &str) -> Vec<u8> {
        let events =
            answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let none = matches!(answer.status, Status::Of(204 | 304));
        if none || method == "HEAD" || (events && method == "GET") {
            return Vec::new();
        }
        let chunked =
            answer.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        let end = self.end;
        if events {
            self.end = end.min(now() + EVENT_TIMEOUT);
        }
        let mut answered = false;
        loop {
            let (body, whole) = match length {
                _ if chunked => unchunked(&self.held),
                Some(length) if self.held.len() >= length => {
                    (self.held[..length].to_vec(), Some(length))
                }
                _ => (self.held.clone(), None),
            };
            if let Some(whole) = whole {
                self.held.drain(..whole);
                self.end = end;
                return body;
            }
            if events && !answered && last_reply(&body).is_some() {
                // The reply has arrived, so read an open stream only a little longer.
                answered = true;
                self.end = self.end.min(now() + LINGER_TIMEOUT);
            }
            if !self.more() {
                return body;
            }
        }
    }
}

/// Parses the status line and the headers.
fn read_head(head: &str) -> Option<Answer> {
    let mut lines = head.lines();
    let first = lines.next()?.strip_prefix("HTTP/1.")?;
    let status = first.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    Some(Answer { status: Status::Of(status), headers: headers.collect(), body: Vec::new() })
}

/// Returns the content of a chunked body as far as it was read. Also returns the length of the encoded body, if all of
/// it was read.
fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
    let (mut body, all) = (Vec::new(), bytes.len());
    while let Some(line) = find(bytes, b"\r\n") {
        let size = std::str::from_utf8(&bytes[..line]).ok();
        let size = size.and_then(|text| text.split(';').next());
        let Some(size) = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok()) else {
            break;
        };
        let rest = &bytes[line + 2..];
        if size == 0 {
            let end = find(rest, b"\r\n").map(|place| all - rest.len() + place + 2);
            return (body, end);
        }
        if rest.len() < size + 2 {
            break;
        }
        body.extend_from_slice(&rest[..size]);
        bytes = &rest[size + 2..];
    }
    (body, None)
}

/// Returns the last JSON-RPC reply in an event stream.
fn last_reply(body: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(body);
    let data = text.lines().rev().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok())
        .find(|value| value.get("result").is_some() || value.get("error").is_some())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answers(text: &'static str, count: usize) -> Vec<Answer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut first = [0; 1];
            stream.read_exact(&mut first).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
        });
        let pieces = std::iter::once((b"x".to_vec(), Duration::ZERO));
        let answers = exchange(port, pieces, "POST", count, Duration::from_secs(10));
        server.join().unwrap();
        answers
    }

    #[test]
    fn a_closed_connection_is_not_a_reply() {
        assert_eq!(answers("", 1)[0].status, Status::Closed);
        assert_eq!(answers("noise\r\n\r\n", 1)[0].status, Status::Closed);
    }
}
