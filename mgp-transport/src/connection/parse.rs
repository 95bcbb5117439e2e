//! Parsing of the lines of a connection into messages.

use bytes::Bytes;
use bytestring::ByteString;
use mgp_types::service::{CutMessage, Message};
use mgp_types::{ErrorCode, RpcError};
use tokio::io::{AsyncRead, AsyncWrite};

use super::driver::Driver;
use super::line_joiner::{JoinedLine, without_escapes};
use super::running::{Batch, CALL_COST};
use crate::frame::Line;
use crate::too_long::answer_too_long;

impl<R, W> Driver<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Parses a line into a message and its size; answers a line that is not a message with an error.
    pub(super) fn parse_line(&mut self, line: Line) -> Option<(Message, usize)> {
        let error = match line {
            Line::Text(text) if self.is_child() => return self.parse_of_child(text),
            Line::Text(text) => return self.parse_message(text, None),
            Line::NotText(bytes) => {
                if let Some(answer) = Message::response_from_invalid_utf8(&bytes) {
                    return Some((answer, CALL_COST));
                }
                self.report_stray(&bytes);
                RpcError::new(ErrorCode::PARSE_ERROR, "parse error: the line is not UTF-8")
            }
            Line::TooLong(head) => return self.parse_cut(&head, None),
            Line::LongTail(tail) => {
                let head = self.cut_head.take()?;
                return self.parse_cut(&head, Some(&tail));
            }
        };
        self.refuse(None, None, error);
        None
    }

    /// Parses a line of a child, which may have written a message with line breaks, or after escape sequences.
    fn parse_of_child(&mut self, line: ByteString) -> Option<(Message, usize)> {
        let line = without_escapes(line);
        match self.joiner.add(line, self.connection.limits.line_bytes) {
            JoinedLine::Part => None,
            JoinedLine::Text(text) => self.parse_message(text, None),
            JoinedLine::Interrupted { collected, line } => {
                self.report_stray(collected.as_bytes());
                self.parse_message(line, None)
            }
        }
    }

    /// Handles an overlong message. The id is at the beginning or at the end of the message. Once the id is known, an
    /// overlong request is answered with an error, and an overlong answer fails the call that waits for it.
    fn parse_cut(&mut self, head: &Bytes, tail: Option<&Bytes>) -> Option<(Message, usize)> {
        let bound = self.connection.limits.line_bytes;
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
        self.refuse(id.as_ref(), None, error);
        None
    }

    /// Parses the text of a message, and returns it with its size, which includes [`CALL_COST`]; refuses a text
    /// that is not a message.
    pub(super) fn parse_message(
        &self,
        text: ByteString,
        batch: Option<&Batch>,
    ) -> Option<(Message, usize)> {
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
        if let Some(stray) = &self.connection.stray_lines {
            stray.report(line);
        }
    }
}
