//! The members of a JSON-RPC message, read in one pass without copying, and the message that they form.

use std::borrow::Cow;
use std::fmt;

use bytestring::ByteString;
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::{InvalidMessage, Message};
use crate::record::{Extras, Key, text_of};
use crate::service::method::Method;
use crate::service::params::{Params, Parts, PartsSeed, TargetKind};
use crate::wire::{Id, Payload, RpcError};

/// The maximum number of messages in one JSON array. A limit is needed because short messages can cause long answers.
const MAX_BATCH: usize = 128;

/// The result of interpreting the members of a JSON-RPC message.
pub(super) enum Parsed {
    /// A message that is complete as it is.
    Message(Message),
    /// A request or notification. Its params are stored as ranges of the received line.
    Call { id: Option<Id>, method: Method, parts: Parts },
}

/// The members of a JSON-RPC message that were read so far.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    /// `Some(true)` if `jsonrpc` is "2.0", and `None` if the message has no such member.
    is_version_2: Option<bool>,
    id: Option<&'a RawValue>,
    /// The method, if it is a string.
    method: Option<Cow<'a, str>>,
    /// `true` if there is a member `method` other than `null`, even one that is not a string.
    has_method: bool,
    params: Option<ParamsSlot<'a>>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// `true` if there is a member `result` or `error`, even one that cannot be decoded.
    has_outcome: bool,
    /// `true` if a member of a request, e.g. `id` or `params`, occurs twice.
    repeated: bool,
}

/// The params of a request or notification, as far as they can be read.
enum ParamsSlot<'a> {
    /// The params follow the method in the message. They are stored as ranges of the received line.
    Read(Parts),
    /// The params precede the method in the message, and are stored unparsed: only the method determines which member
    /// of the params names the target.
    Raw(&'a RawValue),
}

impl ParamsSlot<'_> {
    fn is_null(&self) -> bool {
        match self {
            Self::Read(parts) => parts.is_absent(),
            Self::Raw(raw) => raw.get() == "null",
        }
    }
}

/// The meaning of `null` as the params of a request. JSON-RPC permits only objects and arrays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NullParams {
    /// The request is refused.
    Refused,
    /// The request has no params.
    Absent,
}

impl<'a> Envelope<'a> {
    /// Reads the members of a message until its end or the first error. After an error, the members that were read
    /// before it are available.
    #[inline]
    pub(super) fn read(&mut self, text: &'a ByteString) -> Result<(), serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        EnvelopeSeed { out: self, text }.deserialize(&mut reader).and_then(|()| reader.end())
    }

    /// Returns the id, if the message has a valid one.
    pub(super) fn id(&self) -> Option<Id> {
        read_id(self.id?.get())
    }

    /// Returns whether the id contains U+FFFD, the replacement of a lone surrogate. Only meaningful for a line in which
    /// lone surrogates were replaced.
    pub(super) fn has_replaced_id(&self) -> bool {
        self.id.is_some_and(|id| id.get().contains(r"\ufffd"))
    }

    /// Returns the error for a message whose id is invalid. If the message is a response, the error contains no answer,
    /// because a response is never answered.
    pub(super) fn refused_id(&self) -> InvalidMessage {
        if self.is_response() {
            return InvalidMessage { id: None, error: None };
        }
        InvalidMessage::invalid_request(None, "`id` must be a string or an integer")
    }

    /// Returns whether the members that were read form a response. An empty method counts as absent, because some
    /// programs write all members in each message.
    pub(super) fn is_response(&self) -> bool {
        self.has_outcome && (!self.has_method || self.method.as_deref() == Some(""))
    }

    /// Returns whether the message has no known members except `jsonrpc` and an id. From a server, such a message is an
    /// answer without a result, because some programs leave out a result that is empty.
    fn is_empty(&self) -> bool {
        self.is_version_2 == Some(true)
            && !self.has_method
            && !self.has_outcome
            && self.params.is_none()
    }

    /// Converts the members into a message, after all of them were read. In a notification, `params` may be `null`; in
    /// a request, `null_params` decides whether that is allowed.
    pub(super) fn interpret(
        self,
        line: &ByteString,
        null_params: NullParams,
    ) -> Result<Parsed, InvalidMessage> {
        let raw_id = self.id.map(RawValue::get);
        let id = raw_id.and_then(read_id);
        if self.is_response() {
            return self.response(line, id, raw_id).map(Parsed::Message);
        }
        if null_params == NullParams::Absent && id.is_some() && self.is_empty() {
            let error = "the peer answered with neither a result nor an error";
            let outcome = Err(RpcError::internal(error));
            return Ok(Parsed::Message(Message::Response { id, outcome }));
        }
        let refuse = |why: &str| Err(InvalidMessage::invalid_request(id.clone(), why));
        if self.is_version_2 != Some(true) {
            return refuse("`jsonrpc` must be \"2.0\"");
        }
        if self.repeated {
            return refuse("a member is repeated");
        }
        let Some(method) = &self.method else { return refuse("`method` must be a string") };
        let is_present = |member: &&RawValue| member.get() != "null";
        if [self.result, self.error].iter().flatten().any(is_present) {
            return refuse("a message is a request or a response, not both");
        }
        if raw_id.is_some() && id.is_none() {
            return Err(self.refused_id());
        }
        let method = Method::of(method);
        let accepts_null = id.is_none() || null_params == NullParams::Absent;
        let params = match self.params {
            None => Params::none(),
            Some(slot) if accepts_null && slot.is_null() => Params::none(),
            Some(ParamsSlot::Read(parts)) if parts.is_object() => {
                return Ok(Parsed::Call { id, method, parts });
            }
            Some(ParamsSlot::Read(_)) => return refuse("`params` must be an object"),
            Some(ParamsSlot::Raw(raw)) if raw.get() == "null" => {
                return refuse("`params` must be an object");
            }
            Some(ParamsSlot::Raw(raw)) => Params::split(method.as_str(), line.slice_ref(raw.get()))
                .map_err(|error| InvalidMessage::invalid_request(id.clone(), error.message()))?,
        };
        if !params.is_object_or_none() {
            return refuse("`params` must be an object");
        }
        Ok(Parsed::Message(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        }))
    }

    /// Returns an error response with the id of a response that cannot be parsed, so that the waiting call ends.
    ///
    /// Such responses occur in practice: e.g. Python writes `NaN`, which is not valid JSON.
    pub(super) fn unreadable_response(&self, why: &serde_json::Error) -> Option<Message> {
        if !self.is_response() {
            return None;
        }
        let id = Some(self.id()?);
        let error = RpcError::internal(format!("the peer's answer cannot be read: {why}"));
        Some(Message::Response { id, outcome: Err(error) })
    }

    /// Converts the members of a response into a message.
    fn response(
        self,
        line: &ByteString,
        id: Option<Id>,
        raw_id: Option<&str>,
    ) -> Result<Message, InvalidMessage> {
        // A response is never answered, even if it is invalid, so the error for it contains no answer.
        let ignored = Err(InvalidMessage { id: None, error: None });
        if id.is_none() && raw_id.is_some_and(|raw| raw != "null") {
            return ignored;
        }
        // Many libraries write both `result` and `error`, with `null` for the member that does not apply, so that
        // member is ignored.
        let (result, error) = match (self.result, self.error) {
            (Some(result), Some(error)) if error.get() == "null" => (Some(result), None),
            (Some(result), Some(error)) if result.get() == "null" => (None, Some(error)),
            members => members,
        };
        let outcome = match (result, error) {
            (Some(result), None) => Ok(Payload::from_trusted(line.slice_ref(result.get()))),
            (None, Some(error)) => match serde_json::from_str::<RpcError>(error.get()) {
                Ok(error) => Err(error),
                // The call that waits for this response must end, so it receives a new error with the text of the
                // malformed error.
                Err(_) => Err(RpcError::internal(
                    text_of_error(error.get())
                        .unwrap_or_else(|| "the peer answered with a malformed error".to_owned()),
                )),
            },
            (Some(_), Some(_)) => {
                Err(RpcError::internal("the peer answered with a result and an error"))
            }
            (None, None) => return ignored,
        };
        Ok(Message::Response { id, outcome })
    }

    /// Splits a line into the messages of a batch if it is an array, or finds the reason why it is not a message. This
    /// takes a second, slower pass.
    pub(super) fn split_or_explain(
        &self,
        line: &ByteString,
        why: &serde_json::Error,
    ) -> Result<Message, InvalidMessage> {
        if let Err(error) = serde_json::from_str::<de::IgnoredAny>(line) {
            return Err(InvalidMessage { id: None, error: Some(RpcError::parse(error)) });
        }
        match line.trim_start().as_bytes().first() {
            Some(b'{') => {
                let id = self.id.and_then(|raw| serde_json::from_str(raw.get()).ok());
                return Err(InvalidMessage::invalid_request(id, why.to_string()));
            }
            Some(b'[') => {
                let mut reader = serde_json::Deserializer::from_str(line);
                match reader.deserialize_seq(BatchItems(line)) {
                    Ok(items) if items.is_empty() => {}
                    Ok(items) => return Ok(Message::Batch(items)),
                    Err(_) => {
                        let why = format!("an array may hold at most {MAX_BATCH} messages");
                        return Err(InvalidMessage::invalid_request(None, why));
                    }
                }
            }
            _ => {}
        }
        let why = "a message is a JSON object with `jsonrpc` and `method`";
        Err(InvalidMessage::invalid_request(None, why))
    }
}

/// Reads an id. Short numbers, the most common ids, are read without the JSON parser to save time.
fn read_id(raw: &str) -> Option<Id> {
    let is_short = matches!(raw.as_bytes(), [b'1'..=b'9', rest @ ..]
        if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit));
    if is_short {
        let value = raw.bytes().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        return Some(Id::Number(value));
    }
    serde_json::from_str(raw).ok()
}

/// The messages of a JSON array, as parts of the line that contains them.
struct BatchItems<'a>(&'a ByteString);

impl<'de> de::Visitor<'de> for BatchItems<'_> {
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

/// The reader of a message's members.
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
                    out.repeated |= out.is_version_2.is_some();
                    let raw: &RawValue = map.next_value()?;
                    out.is_version_2 = Some(raw.get() == "\"2.0\"");
                }
                "id" => {
                    out.repeated |= out.id.is_some();
                    out.id = Some(map.next_value()?);
                }
                "method" => {
                    out.repeated |= out.has_method;
                    let raw: &RawValue = map.next_value()?;
                    // The method is read as raw JSON, so that the id can be read even if the method is not a string.
                    // `null` counts as absent.
                    out.has_method |= raw.get() != "null";
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
                    out.has_outcome = true;
                    out.result = Some(map.next_value()?);
                }
                "error" => {
                    out.has_outcome = true;
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

/// Returns the message of an error that is not a valid JSON-RPC error: a bare text, or an object without a code.
fn text_of_error(error: &str) -> Option<String> {
    let message = || serde_json::from_str::<Extras>(error).ok()?.decode("message").ok()?;
    text_of(error).map(Cow::into_owned).or_else(message).filter(|text| !text.is_empty())
}
