//! A JSON-RPC message, parsed in one pass without copying, and written without intermediate values (MGP §1.5).

use std::borrow::Cow;
use std::fmt;

use bytestring::ByteString;
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::hop::HopMembers;
use super::method::Method;
use super::params::{Params, Parts, PartsSeed, TargetKind};
use super::reply::Reply;
use super::write::{format_u64, write_text};
use crate::record::{Key, text_of};
use crate::wire::{Id, Payload, RpcError};

/// A received message.
#[derive(Debug)]
pub enum Message {
    /// A request; the answer must repeat its id.
    Request {
        /// The id.
        id: Id,
        /// The method.
        method: Method,
        /// The parameters.
        params: Params,
    },
    /// A notification, never answered.
    Notification {
        /// The method.
        method: Method,
        /// The parameters.
        params: Params,
    },
    /// A response to a request that this side sent.
    Response {
        /// The id of the answered request; `None` if the peer could not read that id.
        id: Option<Id>,
        /// The result or the error.
        outcome: Result<Payload, RpcError>,
    },
    /// The messages of a JSON array (2025-03-26 only), not parsed yet.
    Batch(Vec<ByteString>),
}

/// The maximum number of messages in one JSON array. A limit is needed because short messages can cause long answers.
const MAX_BATCH: usize = 128;

/// The error for text that is not a valid message, with the answer to send.
#[derive(Debug)]
pub struct InvalidMessage {
    /// The id that the error response must repeat, if it could be read.
    pub id: Option<Id>,
    /// The error to answer with, −32700 or −32600; `None` for an invalid response, which must not be answered.
    pub error: Option<RpcError>,
}

impl Message {
    /// Parses one line as a message. The payloads share the memory of `line` instead of being copied.
    ///
    /// # Errors
    /// Returns the error to answer with, if the text is not a valid message.
    pub fn parse(line: ByteString) -> Result<Self, InvalidMessage> {
        Self::parse_line(line).map_err(|(invalid, _)| invalid)
    }

    /// Parses one line as a message, as [`parse`](Self::parse) does, and returns the line if it is not a message.
    ///
    /// # Errors
    /// Returns the error to answer with, and the line, if the text is not a valid message.
    pub fn parse_line(line: ByteString) -> Result<Self, (InvalidMessage, ByteString)> {
        let mut envelope = Envelope::default();
        let mut reader = serde_json::Deserializer::from_str(&line);
        let read = EnvelopeSeed { out: &mut envelope, text: &line }
            .deserialize(&mut reader)
            .and_then(|()| reader.end());
        let parsed = match read {
            Ok(()) => envelope.interpret(&line),
            Err(why) => envelope.unreadable_response(&why).map_or_else(
                || Err(InvalidMessage::explain(&line, &envelope, &why)),
                |answer| Ok(Parsed::Message(answer)),
            ),
        };
        match parsed {
            Ok(Parsed::Message(message)) => Ok(message),
            // Moves `line` into the params, because sharing it would need an allocation.
            Ok(Parsed::Call { id, method, parts }) => {
                let params = Params::of_parts(line, parts);
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            Err(Unparsed::Bad(bad)) => Err((bad, line)),
            Err(Unparsed::Batch(items)) => Ok(Self::Batch(items)),
        }
    }

    /// Converts a response that is not valid UTF-8 into an error response, so that the call that waits for it ends.
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

/// A message that was too long to be stored; only its beginning and its end are known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutMessage {
    /// The message is a request with this id; this side can answer it with an error.
    Request(Id),
    /// The message is the response to a request of this side with this id; the call that waits for
    /// it can end with an error.
    Answer(Id),
}

impl CutMessage {
    /// Reads the id from the beginning or the end of a message; `None` if neither contains it.
    ///
    /// ```
    /// use mgp_types::service::CutMessage;
    ///
    /// let head = br#"{"jsonrpc":"2.0","id":1,"result":{"text":"aaa"#;
    /// assert_eq!(CutMessage::read(head, b""), Some(CutMessage::Answer(1.into())));
    /// let head = br#"{"result":{"text":"aaa"#;
    /// assert_eq!(CutMessage::read(head, b""), None);
    /// assert_eq!(CutMessage::read(head, br#"aaa"},"id":1}"#), Some(CutMessage::Answer(1.into())));
    /// ```
    #[must_use]
    pub fn read(head: &[u8], tail: &[u8]) -> Option<Self> {
        let head = ByteString::from(String::from_utf8_lossy(head).into_owned());
        let mut envelope = Envelope::default();
        // Parsing always fails, because the end of the message is missing. Afterwards `envelope` contains the members
        // that precede the missing part.
        let _ = EnvelopeSeed { out: &mut envelope, text: &head }
            .deserialize(&mut serde_json::Deserializer::from_str(&head));
        let id = envelope.id.and_then(|raw| read_id(raw.get())).or_else(|| id_at_end(tail))?;
        let is_answer = envelope.is_answer && !envelope.method_is_text;
        Some(if is_answer { Self::Answer(id) } else { Self::Request(id) })
    }
}

/// Finds the id of a cut message in `tail`, the end of the message; `None` if `tail` does not contain it.
fn id_at_end(tail: &[u8]) -> Option<Id> {
    let tail = String::from_utf8_lossy(tail);
    tail.match_indices("\"id\"").find_map(|(at, _)| {
        let mut envelope = Envelope::default();
        let end = ByteString::from(format!("{{{}", &tail[at..]));
        let mut reader = serde_json::Deserializer::from_str(&end);
        // If the `id` belongs to a nested object, parsing fails, because more than one closing brace follows.
        EnvelopeSeed { out: &mut envelope, text: &end }
            .deserialize(&mut reader)
            .and_then(|()| reader.end())
            .ok()?;
        read_id(envelope.id?.get())
    })
}

enum Parsed {
    Message(Message),
    /// A request or notification whose params are stored as ranges of the received line.
    Call {
        id: Option<Id>,
        method: Method,
        parts: Parts,
    },
}

enum Unparsed {
    Bad(InvalidMessage),
    Batch(Vec<ByteString>),
}

#[derive(Default)]
struct Envelope<'a> {
    version: Option<bool>,
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    method_is_text: bool,
    params: Option<ParamsSlot<'a>>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// `true` if there is a member `result` or `error`, even one that cannot be decoded.
    is_answer: bool,
    repeated: bool,
}

enum ParamsSlot<'a> {
    Read(Parts),
    /// Params that precede the method in the message: until the method is known, the member that names the target is
    /// not known either.
    Raw(&'a RawValue),
}

impl Envelope<'_> {
    fn interpret(self, line: &ByteString) -> Result<Parsed, Unparsed> {
        let raw_id = self.id.map(RawValue::get);
        let id = raw_id.and_then(read_id);
        let refuse = |why: &str| {
            Err(Unparsed::Bad(InvalidMessage {
                id: id.clone(),
                error: Some(RpcError::invalid_request(why)),
            }))
        };
        let is_response = self.method.is_none()
            && !self.method_is_text
            && (self.result.is_some() || self.error.is_some());
        if is_response {
            return self.response(line, id, raw_id).map(Parsed::Message);
        }
        if self.version != Some(true) {
            return refuse("`jsonrpc` must be \"2.0\"");
        }
        if self.repeated {
            return refuse("a member is repeated");
        }
        let Some(method) = &self.method else { return refuse("`method` must be a string") };
        if self.result.is_some() || self.error.is_some() {
            return refuse("a message is a request or a response, not both");
        }
        if raw_id.is_some() && id.is_none() {
            return refuse("`id` must be a string or an integer");
        }
        let method = Method::of(method);
        let params = match self.params {
            None => Params::none(),
            Some(ParamsSlot::Read(parts)) if parts.is_object() => {
                return Ok(Parsed::Call { id, method, parts });
            }
            Some(ParamsSlot::Read(_)) => return refuse("`params` must be an object"),
            Some(ParamsSlot::Raw(raw)) => Params::split(method.as_str(), line.slice_ref(raw.get()))
                .map_err(|error| {
                    Unparsed::Bad(InvalidMessage { id: id.clone(), error: Some(error) })
                })?,
        };
        if !params.is_object_or_none() {
            return refuse("`params` must be an object");
        }
        Ok(Parsed::Message(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        }))
    }

    /// Converts a response that cannot be parsed into an error response with its id, so that the
    /// call that waits for it ends.
    ///
    /// Such responses occur in practice: e.g. Python writes `NaN`, which is not valid JSON.
    fn unreadable_response(&self, why: &serde_json::Error) -> Option<Message> {
        if !self.is_answer || self.method_is_text {
            return None;
        }
        let id = Some(read_id(self.id?.get())?);
        let error = RpcError::internal(format!("the peer's answer cannot be read: {why}"));
        Some(Message::Response { id, outcome: Err(error) })
    }

    fn response(
        self,
        line: &ByteString,
        id: Option<Id>,
        raw_id: Option<&str>,
    ) -> Result<Message, Unparsed> {
        let silent = Err(Unparsed::Bad(InvalidMessage { id: None, error: None }));
        if id.is_none() && raw_id.is_some_and(|raw| raw != "null") {
            return silent;
        }
        let outcome = match (self.result, self.error) {
            (Some(result), None) => Ok(Payload::from_trusted(line.slice_ref(result.get()))),
            (None, Some(error)) => match serde_json::from_str::<RpcError>(error.get()) {
                Ok(error) => Err(error),
                // The call that waits for this response must end, so it gets a new error; the malformed one is dropped.
                Err(_) => Err(RpcError::internal("the peer answered with a malformed error")),
            },
            (Some(_), Some(_)) => {
                Err(RpcError::internal("the peer answered with a result and an error"))
            }
            (None, None) => return silent,
        };
        Ok(Message::Response { id, outcome })
    }
}

impl InvalidMessage {
    /// Finds the reason why a line is not a message, or splits the line if it is an array. This
    /// takes a second, slower pass.
    fn explain(line: &ByteString, envelope: &Envelope<'_>, why: &serde_json::Error) -> Unparsed {
        if let Err(error) = serde_json::from_str::<de::IgnoredAny>(line) {
            return Unparsed::Bad(Self { id: None, error: Some(RpcError::parse(error)) });
        }
        if line.trim_start().starts_with('{') {
            let id = envelope.id.and_then(|raw| serde_json::from_str(raw.get()).ok());
            return Unparsed::Bad(Self {
                id,
                error: Some(RpcError::invalid_request(why.to_string())),
            });
        }
        if line.trim_start().starts_with('[') {
            match serde_json::Deserializer::from_str(line).deserialize_seq(Items(line)) {
                Ok(items) if items.is_empty() => {}
                Ok(items) => return Unparsed::Batch(items),
                Err(_) => {
                    let why = format!("an array may hold at most {MAX_BATCH} messages");
                    return Unparsed::Bad(Self {
                        id: None,
                        error: Some(RpcError::invalid_request(why)),
                    });
                }
            }
        }
        Unparsed::Bad(Self {
            id: None,
            error: Some(RpcError::invalid_request(
                "a message is a JSON object with `jsonrpc` and `method`",
            )),
        })
    }
}

/// Reads an id. Short numbers, the most common ids, are read without the JSON parser.
fn read_id(raw: &str) -> Option<Id> {
    let is_short = matches!(raw.as_bytes(), [b'1'..=b'9', rest @ ..]
        if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit));
    if is_short {
        let value = raw.bytes().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        return Some(Id::Number(value));
    }
    serde_json::from_str(raw).ok()
}

struct Items<'a>(&'a ByteString);

impl<'de> de::Visitor<'de> for Items<'_> {
    type Value = Vec<ByteString>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(raw) = seq.next_element::<&RawValue>()? {
            if items.len() == MAX_BATCH {
                return Err(de::Error::custom("too many messages"));
            }
            items.push(self.0.slice_ref(raw.get()));
        }
        Ok(items)
    }
}

struct EnvelopeSeed<'e, 'de> {
    out: &'e mut Envelope<'de>,
    text: &'de ByteString,
}

impl<'de> DeserializeSeed<'de> for EnvelopeSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> de::Visitor<'de> for EnvelopeSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { out, text } = self;
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "jsonrpc" => {
                    out.repeated |= out.version.is_some();
                    let raw: &RawValue = map.next_value()?;
                    out.version = Some(raw.get() == "\"2.0\"");
                }
                "id" => {
                    out.repeated |= out.id.is_some();
                    out.id = Some(map.next_value()?);
                }
                "method" => {
                    out.repeated |= out.method_is_text || out.method.is_some();
                    let raw: &RawValue = map.next_value()?;
                    // The method is read as raw JSON, so that the id can be read even if the method is not a string.
                    out.method_is_text = true;
                    out.method = text_of(raw.get());
                }
                "params" => {
                    out.repeated |= out.params.is_some();
                    out.params = Some(match &out.method {
                        Some(method) => {
                            let target = TargetKind::of(method);
                            ParamsSlot::Read(map.next_value_seed(PartsSeed { text, target })?)
                        }
                        None => ParamsSlot::Raw(map.next_value()?),
                    });
                }
                "result" => {
                    out.is_answer = true;
                    out.result = Some(map.next_value()?);
                }
                "error" => {
                    out.is_answer = true;
                    out.error = Some(map.next_value()?);
                }
                _ => {
                    map.next_value::<de::IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

// === Writing ===

/// Writes a request or notification as one JSON object.
pub fn write_call(
    out: &mut Vec<u8>,
    id: Option<&Id>,
    method: &str,
    params: &Params,
    meta: &HopMembers,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        write_id(out, Some(id));
        out.push(b',');
    }
    out.extend_from_slice(br#""method":"#);
    write_text(out, method);
    if !params.is_empty_with(meta) {
        out.extend_from_slice(br#","params":"#);
        params.write(out, meta);
    }
    out.push(b'}');
}

/// Writes the response to a request; writes nothing for [`Reply::None`].
pub fn write_answer(out: &mut Vec<u8>, id: Option<&Id>, outcome: &Result<Reply, RpcError>) {
    let head = |out: &mut Vec<u8>| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        write_id(out, id);
    };
    match outcome {
        Ok(Reply::None) => {}
        Ok(reply) => {
            head(out);
            out.extend_from_slice(br#","result":"#);
            reply.write(out);
            out.push(b'}');
        }
        Err(error) => {
            head(out);
            out.extend_from_slice(br#","error":"#);
            let start = out.len();
            if serde_json::to_writer(&mut *out, error).is_err() {
                out.truncate(start);
                out.extend_from_slice(
                    br#"{"code":-32603,"message":"an error could not be written"}"#,
                );
            }
            out.push(b'}');
        }
    }
}

fn write_id(out: &mut Vec<u8>, id: Option<&Id>) {
    match id {
        Some(Id::String(text)) => write_text(out, text),
        Some(Id::Number(number)) => {
            if *number < 0 {
                out.push(b'-');
            }
            out.extend_from_slice(format_u64(number.unsigned_abs(), &mut [0; 20]));
        }
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests;
