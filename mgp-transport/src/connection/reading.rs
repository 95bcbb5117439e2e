//! The half of a connection that reads: bytes become lines, and lines become messages.

use std::io;
use std::pin::pin;
use std::task::{Context as Task, Poll, ready};

use bytes::Bytes;
use bytestring::ByteString;
use mgp_types::service::{CutMessage, Message};
use mgp_types::{ErrorCode, RpcError};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::line_joiner::{JoinedLine, LineJoiner, is_cut_json, without_escapes};
use super::read_pause::ReadPause;
use super::running::{Batch, CALL_COST};
use super::{Connection, PeerKind};
use crate::frame::{Line, LineBuffer};
use crate::too_long::answer_too_long;

/// The bytes and messages that were read and are not dispatched yet.
pub(super) struct Reading {
    lines: LineBuffer,
    /// The lines of a message that a child writes with line breaks.
    joiner: LineJoiner,
    /// The beginning of an overlong message, if it does not contain the id; stored until the message's end arrives.
    cut_head: Option<Bytes>,
    /// The pause, with the messages that were read ahead, which are dispatched before those in `lines`.
    pub(super) pause: ReadPause,
    /// `true` if the peer closed its side; messages that were read ahead might still wait to be dispatched.
    pub(super) is_eof: bool,
}

/// A message with its size, which includes [`CALL_COST`]; `None` if the line that was taken needs no dispatch now, e.g.
/// because its message was queued.
pub(super) type Parsed = Option<(Message, usize)>;

/// The reason why no line was taken.
pub(super) enum NoLine {
    /// No complete line is buffered.
    NoneLeft,
    /// The next line must wait until reading resumes, or until the peer reads.
    MustWait,
}

impl Reading {
    /// Creates the reading half of a connection; `line_bytes` is the maximum length of a line.
    pub(super) fn new(line_bytes: usize) -> Self {
        Self {
            lines: LineBuffer::new(line_bytes),
            joiner: LineJoiner::default(),
            cut_head: None,
            pause: ReadPause::default(),
            is_eof: false,
        }
    }

    /// Reads once, and notes the end of the stream. All complete lines must have been taken before.
    pub(super) fn poll<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
        task: &mut Task<'_>,
    ) -> Poll<io::Result<()>> {
        let reading = pin!(reader.read_buf(self.lines.reading()));
        self.is_eof = ready!(reading.poll(task))? == 0;
        Poll::Ready(Ok(()))
    }

    /// Takes the next message. While reading pauses because too many calls run, this method queues each message that is
    /// not a ping, and returns `Ok(None)`.
    pub(super) fn next<R, W>(
        &mut self,
        too_many_calls: bool,
        connection: &Connection<R, W>,
        task: &mut Task<'_>,
    ) -> Result<Parsed, NoLine> {
        let pauses = too_many_calls && self.pause.poll(task);
        if pauses && self.pause.is_full() {
            return Err(NoLine::MustWait);
        }
        if !pauses && let Some(message) = self.pause.pop() {
            return Ok(Some(message));
        }
        let line = self.lines.next_line().ok_or(NoLine::NoneLeft)?;
        if pauses {
            return Ok(self.parse(line, connection).and_then(|message| self.pause.push(message)));
        }
        Ok(self.parse(line, connection))
    }

    /// Takes the message after the last line end, at the end of the stream.
    pub(super) fn last<R, W>(&mut self, connection: &Connection<R, W>) -> Parsed {
        match self.lines.last_line()? {
            // A child that ended in the middle of an answer has not answered. Ignore the part, so that the call fails
            // like the other unanswered calls.
            Line::Text(text) if connection.is_child() && is_cut_json(&text) => {
                tracing::debug!(bytes = text.len(), "the child ended within a message");
                None
            }
            line => self.parse(line, connection),
        }
    }

    /// Parses a line into a message; answers a line that is not a message with an error.
    fn parse<R, W>(&mut self, line: Line, connection: &Connection<R, W>) -> Parsed {
        let error = match line {
            Line::Text(text) if connection.is_child() => {
                return self.parse_of_child(text, connection);
            }
            Line::Text(text) => return connection.parse_message(text, None),
            Line::NotText(bytes) => {
                if let Some(answer) = Message::response_from_invalid_utf8(&bytes) {
                    return Some((answer, CALL_COST));
                }
                connection.report_stray(&bytes);
                RpcError::new(ErrorCode::PARSE_ERROR, "parse error: the line is not UTF-8")
            }
            Line::TooLong(head) => return self.parse_cut(&head, None, connection),
            Line::LongTail(tail) => {
                let head = self.cut_head.take()?;
                return self.parse_cut(&head, Some(&tail), connection);
            }
        };
        connection.refuse(None, None, error);
        None
    }

    /// Parses a line of a child, which may have written a message with line breaks, or after escape sequences.
    fn parse_of_child<R, W>(&mut self, line: ByteString, connection: &Connection<R, W>) -> Parsed {
        let line = without_escapes(line);
        match self.joiner.add(line, connection.limits.line_bytes) {
            JoinedLine::Part => None,
            JoinedLine::Text(text) => connection.parse_message(text, None),
            JoinedLine::Interrupted { collected, line } => {
                connection.report_stray(collected.as_bytes());
                connection.parse_message(line, None)
            }
        }
    }

    /// Handles an overlong message, whose id is searched at its beginning and then at its end. An answer fails the call
    /// that waits for it. Any other message is answered with an error, which has no id if no id was found.
    fn parse_cut<R, W>(
        &mut self,
        head: &Bytes,
        tail: Option<&Bytes>,
        connection: &Connection<R, W>,
    ) -> Parsed {
        let bound = connection.limits.line_bytes;
        let id = match CutMessage::read(head, tail.map_or(&[], |tail| &tail[..])) {
            Some(CutMessage::Answer(id)) => {
                tracing::warn!(?id, bound, "dropped an answer that is too long");
                let outcome = Err(answer_too_long(bound));
                return Some((Message::Response { id: Some(id), outcome }, CALL_COST));
            }
            Some(CutMessage::Request(id)) => Some(id),
            None if tail.is_none() => {
                self.cut_head = Some(head.clone());
                return None;
            }
            _ => None,
        };
        let error = RpcError::invalid_request(format!("a message may have at most {bound} bytes"));
        connection.refuse(id.as_ref(), None, error);
        None
    }
}

impl<R, W> Connection<R, W> {
    /// Parses the text of a message; refuses a text that is not a message.
    pub(super) fn parse_message(&self, text: ByteString, batch: Option<&Batch>) -> Parsed {
        let size = text.len() + CALL_COST;
        let read = if self.is_child() {
            Message::parse_server_line(text)
        } else {
            Message::parse_line(text)
        };
        let (invalid, line) = match read {
            Ok(message) => return Some((message, size)),
            Err(invalid) => invalid,
        };
        self.report_stray(line.as_bytes());
        if let Some(error) = invalid.error {
            // The error names an id only if the line is a message. A log line of a child can have an `id` too, but it
            // has no `method`.
            let id = invalid.id.filter(|_| !self.is_child() || line.contains("\"method\""));
            self.refuse(id.as_ref(), batch, error);
        } else {
            tracing::debug!("ignored a malformed answer");
        }
        None
    }

    /// Reports a line that is not a message to the owner of the connection.
    fn report_stray(&self, line: &[u8]) {
        if let PeerKind::Child(stray) = &self.peer_kind {
            stray.report(line);
        }
    }
}
