//! A JSON-RPC message, parsed in one pass without copying, and written without intermediate values (MGP §1.5).

mod cut;
mod envelope;
mod surrogate;
mod write;

use bytestring::ByteString;

use self::envelope::{Envelope, NullParams, Parsed};
use self::surrogate::replace_lone_surrogates;
use super::method::Method;
use super::params::Params;
use crate::wire::{Id, Payload, RpcError};

pub use self::cut::CutMessage;
pub use self::write::{write_answer, write_call};

/// A JSON-RPC message that was received.
#[derive(Debug)]
pub enum Message {
    /// A request; the answer must repeat its id.
    Request {
        /// The id of the request.
        id: Id,
        /// The method of the request.
        method: Method,
        /// The parameters of the request.
        params: Params,
    },
    /// A notification, never answered.
    Notification {
        /// The method of the notification.
        method: Method,
        /// The parameters of the notification.
        params: Params,
    },
    /// A response to a request that this side sent.
    Response {
        /// The id of the answered request; `None` if the peer could not read that id.
        id: Option<Id>,
        /// The result of the request, or its error.
        outcome: Result<Payload, RpcError>,
    },
    /// The messages of a JSON array (MCP 2025-03-26 only), not parsed yet.
    Batch(Vec<ByteString>),
}

/// The error for a text that is not a valid message. It contains the answer, if the text must be answered.
#[derive(Debug)]
pub struct InvalidMessage {
    /// The id that the error response must repeat, if it could be read.
    pub id: Option<Id>,
    /// The error with which to answer: −32700 (parse error) or −32600 (invalid request). `None` for an invalid
    /// response, which must not be answered.
    pub error: Option<RpcError>,
}

impl InvalidMessage {
    /// Creates the error for text that is JSON, but not a valid message.
    fn invalid_request(id: Option<Id>, why: impl Into<String>) -> Self {
        Self { id, error: Some(RpcError::invalid_request(why)) }
    }
}

impl Message {
    /// Parses one line as a message. The payloads share the memory of `line` instead of being copied. Surrogates that
    /// are not part of a pair are replaced with U+FFFD, but an id that contains such a surrogate is refused.
    ///
    /// # Errors
    /// Returns the error to answer with, if the text is not a valid message.
    pub fn parse(line: ByteString) -> Result<Self, InvalidMessage> {
        Self::parse_line(line).map_err(|(invalid, _)| invalid)
    }

    /// Parses one line as a message, as [`parse`](Self::parse) does. If the line is not a valid message, also returns
    /// the line.
    ///
    /// # Errors
    /// Returns the error to answer with, and the line, if the text is not a valid message.
    pub fn parse_line(line: ByteString) -> Result<Self, (InvalidMessage, ByteString)> {
        Self::parse_with(line, NullParams::Refused)
    }

    /// Parses one line that a server sent, as [`parse_line`](Self::parse_line) does, but also accepts a request whose
    /// params are `null`, as some servers write it. Such a request has no params.
    ///
    /// # Errors
    /// Returns the error to answer with, and the line, if the text is not a valid message.
    pub fn parse_server_line(line: ByteString) -> Result<Self, (InvalidMessage, ByteString)> {
        Self::parse_with(line, NullParams::Absent)
    }

    fn parse_with(
        line: ByteString,
        null_params: NullParams,
    ) -> Result<Self, (InvalidMessage, ByteString)> {
        let start = line.as_ptr();
        let line = replace_lone_surrogates(line);
        let is_replaced = line.as_ptr() != start;
        let mut envelope = Envelope::default();
        let parsed = match envelope.read(&line) {
            // The id contained a lone surrogate, which was replaced. An answer with the changed id would not be
            // recognized by the sender, so refuse the message.
            Ok(()) if is_replaced && envelope.has_replaced_id() => Err(envelope.refused_id()),
            Ok(()) => envelope.interpret(&line, null_params),
            Err(why) => match envelope.unreadable_response(&why) {
                Some(response) => Ok(Parsed::Message(response)),
                None => envelope.split_or_explain(&line, &why).map(Parsed::Message),
            },
        };
        match parsed {
            Ok(Parsed::Message(message)) => Ok(message),
            // Move `line` into the params: sharing it would need an allocation.
            Ok(Parsed::Call { id, method, parts }) => {
                let params = Params::of_parts(line, parts);
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            Err(invalid) => Err((invalid, line)),
        }
    }

    /// Converts a response that is not valid UTF-8 into an error response, so that the call that waits for it ends;
    /// returns `None` for any other line, or if the id cannot be read.
    ///
    /// ```
    /// use mgp_types::service::Message;
    ///
    /// let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"caf\xe9\"}}";
    /// assert!(matches!(Message::response_from_invalid_utf8(line), Some(Message::Response { outcome: Err(_), .. })));
    /// ```
    #[must_use]
    pub fn response_from_invalid_utf8(line: &[u8]) -> Option<Self> {
        let read = Self::parse(String::from_utf8_lossy(line).into_owned().into());
        let Ok(Self::Response { id: id @ Some(_), outcome }) = read else { return None };
        let error = RpcError::internal("the peer's answer is not UTF-8 text");
        Some(Self::Response { id, outcome: outcome.and(Err(error)) })
    }
}

#[cfg(test)]
mod tests;
