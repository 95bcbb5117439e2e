//! Sends lines through a real connection, and checks that each line is answered, refused or ignored as the protocol
//! requires, in order.

use bytes::Bytes;
use bytestring::ByteString;
use mgp_transport::{Connection, ConnectionMonitor, Limits, duplex};
use mgp_types::method::Ping;
use mgp_types::service::{Call, CutMessage, InvalidMessage, Kind, Message, Reply, Router, Stack};
use mgp_types::{Id, RpcError};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The number of lines in a block; a ping ends each block.
const LINES_PER_BLOCK: usize = 1_000;
/// The maximum length of a line that the connection accepts.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The id of the ping that ends a block.
const PING_ID: &str = "the ping of the fuzz";

/// A connection under test, and the current block of lines with the answers they must get.
#[derive(Debug)]
pub(crate) struct TestConnection {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    monitor: ConnectionMonitor,
    driving: JoinHandle<mgp_transport::CloseReason>,
    block: Vec<u8>,
    expected: Vec<ExpectedAnswer>,
    lines: usize,
    through: u64,
    answers: u64,
}

/// An answer that the connection must send: the id of the request, or `None` for an error about an unreadable line.
#[derive(Debug, PartialEq)]
struct ExpectedAnswer(Option<Id>);

#[derive(Deserialize)]
struct Answer {
    jsonrpc: String,
    id: Option<Id>,
    result: Option<serde::de::IgnoredAny>,
    error: Option<RpcError>,
}

impl TestConnection {
    pub(crate) fn open() -> Self {
        let (here, there) = duplex();
        let echo = Stack::from_fn(|call: Call| async move {
            match call.kind() {
                // Wraps the arguments in an array, because they may be `null`, and `null` is not a valid result.
                Kind::Request => Reply::of(&[call.tool_arguments()]),
                Kind::Notification => Ok(Reply::None),
            }
        });
        let router = Router::new()
            .on::<Ping, _, _>(|_, _| async { Ok(mgp_types::mcp::EmptyResult::default()) })
            .route("tools/call", echo);
        let mut limits = Limits::default();
        limits.line_bytes = MAX_LINE_BYTES;
        let connection =
            Connection::new(there.reader, there.writer, Stack::new(router)).limits(limits);
        Self {
            reader: BufReader::new(here.reader),
            writer: here.writer,
            monitor: connection.monitor(),
            driving: tokio::spawn(connection.run()),
            block: Vec::new(),
            expected: Vec::new(),
            lines: 0,
            through: 0,
            answers: 0,
        }
    }

    /// Adds a line to the current block, and sends the block if it is full.
    pub(crate) async fn take(&mut self, line: &[u8]) -> Result<(), String> {
        self.block.extend_from_slice(line);
        self.block.push(b'\n');
        self.expected.extend(answer_to(line));
        self.lines += 1;
        if self.lines == LINES_PER_BLOCK { self.send().await } else { Ok(()) }
    }

    /// Sends the last block and closes the connection; returns how many lines were sent and how many answers were
    /// received.
    pub(crate) async fn close(mut self) -> Result<(u64, u64), String> {
        self.send().await?;
        self.writer.shutdown().await.map_err(|error| error.to_string())?;
        let closed = self.driving.await.map_err(|error| error.to_string())?;
        match closed {
            mgp_transport::CloseReason::Eof => Ok((self.through, self.answers)),
            closed => Err(closed.to_string()),
        }
    }

    async fn send(&mut self) -> Result<(), String> {
        let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{PING_ID}\",\"method\":\"ping\"}}\n");
        self.block.extend_from_slice(ping.as_bytes());
        let Self { reader, writer, block, expected, .. } = self;
        let writing = async { writer.write_all(block).await.map_err(|error| error.to_string()) };
        let reading = read_answers(reader, expected);
        // If the connection panics, its ends close, so the writer and the reader fail instead of waiting forever.
        tokio::try_join!(writing, reading)?;
        self.through += self.lines as u64;
        self.answers += self.expected.len() as u64;
        let left = (
            self.monitor.running(),
            self.monitor.held_bytes(),
            self.monitor.dropped(),
            self.monitor.shed(),
        );
        if left != (0, 0, 0, 0) {
            return Err(format!("running, held, dropped, shed: {left:?}"));
        }
        self.block.clear();
        self.expected.clear();
        self.lines = 0;
        Ok(())
    }
}

/// Reads answers until the answer to the ping; all expected answers must arrive before it, in order.
async fn read_answers(
    reader: &mut BufReader<ReadHalf<DuplexStream>>,
    expected: &[ExpectedAnswer],
) -> Result<(), String> {
    let mut line = Vec::new();
    let mut expected = expected.iter();
    loop {
        line.clear();
        let count = reader.read_until(b'\n', &mut line).await.map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("the connection ended".to_owned());
        }
        let answer: Answer = serde_json::from_slice(&line)
            .map_err(|error| format!("{error} in the answer {}", line.escape_ascii()))?;
        let is_one = answer.result.is_some() != answer.error.is_some();
        if answer.jsonrpc != "2.0" || !is_one {
            return Err(format!("a malformed answer: {}", line.escape_ascii()));
        }
        if answer.id == Some(Id::from(PING_ID)) {
            return match expected.next() {
                None => Ok(()),
                Some(due) => Err(format!("no answer: {due:?}")),
            };
        }
        match expected.next() {
            Some(ExpectedAnswer(id)) if *id == answer.id => {}
            other => return Err(format!("an answer to {:?} where {other:?} was due", answer.id)),
        }
    }
}

/// Returns the answer that the connection must send to a line, if any.
fn answer_to(line: &[u8]) -> Option<ExpectedAnswer> {
    // The framing trims white space at both ends. Of a line that is too long, only the beginning and the end are read.
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    let trimmed = &line[start..end];
    if line.len() > MAX_LINE_BYTES {
        let (head, tail) =
            (&line[..MAX_LINE_BYTES.min(1024)], &line[line.len().saturating_sub(1024)..]);
        return match CutMessage::read(head, tail) {
            Some(CutMessage::Answer(_)) => None,
            Some(CutMessage::Request(id)) => Some(ExpectedAnswer(Some(id))),
            _ => Some(ExpectedAnswer(None)),
        };
    }
    if trimmed.is_empty() {
        return None;
    }
    let Ok(text) = ByteString::try_from(Bytes::copy_from_slice(trimmed)) else {
        // A line that is not valid UTF-8 gets an error, unless it is a response: responses are never answered.
        return Message::response_from_invalid_utf8(trimmed)
            .is_none()
            .then_some(ExpectedAnswer(None));
    };
    match Message::parse(text) {
        Ok(Message::Request { id, .. }) => Some(ExpectedAnswer(Some(id))),
        // Batches exist in one protocol revision only, which this connection did not negotiate, so they get an error.
        Ok(Message::Batch(_)) => Some(ExpectedAnswer(None)),
        Ok(Message::Notification { .. } | Message::Response { .. })
        | Err(InvalidMessage { error: None, .. }) => None,
        Err(InvalidMessage { id, error: Some(_) }) => Some(ExpectedAnswer(id)),
    }
}
