//! The params of a call, split once into three parts: target, body and hop-by-hop members.
//!
//! The target names the tool, resource or prompt. The body is forwarded unchanged, without being parsed. The hop-by-hop
//! members (`_meta`, `_mgp`, answers, request state, `trace_id`, and `stream` of a tool call) are valid only between
//! two neighbouring peers: each peer that forwards a call writes its own.

mod decode;
mod hop_meta;
mod read;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

use bytestring::ByteString;
use serde::de::{self, DeserializeOwned, DeserializeSeed};
use serde::{Deserialize, Serialize};

use self::hop_meta::HopMeta;
pub use self::hop_meta::MetaKey;
pub(super) use self::read::PartsSeed;
use super::hop::{HopMembers, merge_meta};
use super::write::write_text;
use crate::wire::{Id, Payload, RpcError};
use crate::{Sha256Hash, canonical_hash};

/// The tool, prompt or resource that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// The tool in the member `name` of `tools/call`.
    Tool(ByteString),
    /// The prompt in the member `name` of `prompts/get`.
    Prompt(ByteString),
    /// The resource in the member `uri` of `resources/*` and `skills/get`.
    Resource(ByteString),
}

impl Target {
    /// Returns the name or URI of the target.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tool(text) | Self::Prompt(text) | Self::Resource(text) => text,
        }
    }

    fn member(&self) -> &'static str {
        match self {
            Self::Tool(_) | Self::Prompt(_) => "name",
            Self::Resource(_) => "uri",
        }
    }
}

/// The kind of target that the params of a method have: a tool, a prompt, a resource, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetKind {
    None,
    Tool,
    Prompt,
    Resource,
}

impl TargetKind {
    pub(super) fn of(method: &str) -> Self {
        match method {
            "tools/call" => Self::Tool,
            "prompts/get" => Self::Prompt,
            "resources/read"
            | "resources/directory/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "skills/get" => Self::Resource,
            _ => Self::None,
        }
    }

    fn wrap(self, text: ByteString) -> Option<Target> {
        match self {
            Self::None => None,
            Self::Tool => Some(Target::Tool(text)),
            Self::Prompt => Some(Target::Prompt(text)),
            Self::Resource => Some(Target::Resource(text)),
        }
    }
}

/// The parameters of a call.
///
/// Params are stored as the received text and the byte ranges of their parts. Only the target of a long message, and
/// names and targets that are written with escapes, are copied.
#[derive(Clone, Default)]
pub struct Params {
    text: ByteString,
    parts: Parts,
}

#[derive(Clone, Default)]
pub(super) struct Parts {
    shape: Shape,
    target: Option<Target>,
    arguments: Option<Span>,
    body: Body,
    /// The byte ranges in `_meta`. They are in a box, so that params without `_meta` are cheap to move.
    meta: Option<Box<HopMeta>>,
    mgp: Option<Span>,
    trace_id: Option<Span>,
    input_responses: Option<Span>,
    request_state: Option<Span>,
    stream: Option<Span>,
}

impl Parts {
    pub(super) fn is_object(&self) -> bool {
        self.shape == Shape::Object
    }

    /// Returns whether the params are `null`, which counts as absent.
    pub(super) fn is_absent(&self) -> bool {
        self.shape == Shape::Absent
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Shape {
    #[default]
    Absent,
    Object,
    Other,
}

/// A range of bytes of the text. 32 bits are enough for a position, because a received line is always far shorter than
/// 4 GiB.
///
/// The end is never zero, so `Option<Span>` needs no extra space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u32,
    end: NonZeroU32,
}

impl Span {
    fn new(range: Range<usize>) -> Option<Self> {
        let end = NonZeroU32::new(u32::try_from(range.end).ok()?)?;
        Some(Self { start: u32::try_from(range.start).ok()?, end })
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end.get() as usize
    }
}

/// The maximum number of body members whose decoded names are stored, because their names contain escapes. It is
/// limited, because a peer could send millions of them, and each name is copied.
const MAX_ESCAPED: usize = 256;

/// The members that are forwarded unchanged, as runs: a run is a stretch of the received text that
/// contains only such members.
///
/// Usually there is only one run, because the hop-by-hop members come first or last; this run is stored inline.
#[derive(Clone, Default)]
struct Body {
    first: Option<Span>,
    rest: Option<Box<Rest>>,
}

/// The parts of a body that are rarely needed. They are in a box, so that bodies without them are cheap to move.
#[derive(Clone, Default)]
struct Rest {
    runs: Vec<Span>,
    /// Members that would begin a run, but whose names contain escapes. The position of such a name in the text is not
    /// known, so its decoded form is stored with the range of the value.
    escaped: Vec<(Box<str>, Span)>,
}

impl Body {
    fn push(&mut self, span: Span) {
        if self.first.is_none() {
            self.first = Some(span);
        } else {
            self.rest.get_or_insert_default().runs.push(span);
        }
    }

    fn push_escaped<E: de::Error>(&mut self, name: &str, span: Span) -> Result<(), E> {
        let escaped = &mut self.rest.get_or_insert_default().escaped;
        if escaped.len() == MAX_ESCAPED {
            return Err(E::custom("too many member names with escapes"));
        }
        escaped.push((name.into(), span));
        Ok(())
    }

    fn last_mut(&mut self) -> Option<&mut Span> {
        let rest = self.rest.as_mut().and_then(|rest| rest.runs.last_mut());
        rest.or(self.first.as_mut())
    }

    fn runs(&self) -> impl Iterator<Item = Span> {
        let rest = self.rest.iter().flat_map(|rest| rest.runs.iter().copied());
        self.first.into_iter().chain(rest)
    }

    fn escaped(&self) -> &[(Box<str>, Span)] {
        self.rest.as_ref().map_or(&[], |rest| &rest.escaped)
    }
}

impl Params {
    /// Returns params for a call that has no params.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Encodes a value as the params of a method; `null` becomes absent params.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the value cannot be written as JSON.
    pub fn of<T: Serialize + ?Sized>(method: &str, value: &T) -> Result<Self, RpcError> {
        let payload = Payload::of(value)?;
        if payload.is_null() {
            return Ok(Self::none());
        }
        Self::split(method, payload.as_shared().clone())
    }

    /// Creates the params of `tools/call`. Arguments that are not an object are accepted here, but refused by the
    /// receiver.
    #[must_use]
    pub fn tool(name: &str, arguments: &Payload) -> Self {
        let head = serde_json::to_string(name).unwrap_or_default();
        let text = format!(r#"{{"name":{head},"arguments":{}}}"#, arguments.as_str());
        Self::split("tools/call", text.into()).unwrap_or_default()
    }

    /// Creates params from the text that `write` appends: at least one JSON member, without braces around the members.
    /// Adds the member `trace_id` if there is a trace id.
    ///
    /// `write` must not write a member that becomes the [`Target`] (e.g. `name` of `tools/call`), nor a hop-by-hop
    /// member such as `_meta`.
    ///
    /// Unlike [`split`](Self::split), this does not parse the text. That saves time for stream notifications, which are
    /// sent in large numbers.
    #[must_use]
    pub fn from_members(write: impl FnOnce(&mut Vec<u8>), trace_id: Option<&str>) -> Self {
        let mut text = Vec::with_capacity(256);
        text.push(b'{');
        write(&mut text);
        let mut parts = Parts { shape: Shape::Object, ..Parts::default() };
        parts.body.first = Span::new(1..text.len());
        if let Some(trace) = trace_id {
            text.extend_from_slice(br#","trace_id":"#);
            let start = text.len();
            write_text(&mut text, trace);
            parts.trace_id = Span::new(start..text.len());
        }
        text.push(b'}');
        // Cannot fail: JSON is UTF-8.
        ByteString::try_from(text).map_or_else(|_| Self::default(), |text| Self { text, parts })
    }

    /// Reads the text of a params value, and splits it into its parts; `null` becomes absent params, and an empty list
    /// an empty object.
    ///
    /// # Errors
    /// Returns −32700 (parse error) if the text is not JSON, if too many member names contain escapes, if `arguments`
    /// of a tool call occurs twice or, in params that can name a target, if a member's name differs only in case from
    /// the name of a member that gates check.
    pub fn split(method: &str, text: ByteString) -> Result<Self, RpcError> {
        let mut reader = serde_json::Deserializer::from_str(&text);
        let parts = PartsSeed { text: &text, target: TargetKind::of(method) }
            .deserialize(&mut reader)
            .and_then(|parts| reader.end().map(|()| parts))
            .map_err(RpcError::parse)?;
        Ok(Self { text, parts })
    }

    /// Returns whether the call has no params.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.parts.shape == Shape::Absent
    }

    /// Returns whether the params are an object or absent, as MCP requires.
    #[must_use]
    pub fn is_object_or_none(&self) -> bool {
        self.parts.shape != Shape::Other
    }

    /// Returns the target of the call: the tool, prompt or resource that it names.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        self.parts.target.as_ref()
    }

    /// Changes the tool, prompt or resource that the params name; the body stays unchanged.
    pub fn set_target(&mut self, target: Target) {
        self.parts.target = Some(target);
    }

    /// Returns the arguments of a tool call as JSON text, if any.
    #[must_use]
    pub fn arguments(&self) -> Option<&str> {
        self.parts.arguments.map(|span| &self.text[span.range()])
    }

    /// Returns the arguments of a tool call without copying them, if any.
    #[must_use]
    pub fn arguments_payload(&self) -> Option<Payload> {
        self.slice(self.parts.arguments)
    }

    /// Decodes the params; absent params read as `{}`.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) with the reason and the path of the member if the params cannot be decoded, or
    /// are not an object.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        if !self.is_object_or_none() {
            return Err(RpcError::invalid_params("params must be an object"));
        }
        if self.is_body_alone() {
            return decode::decode(&self.text);
        }
        let mut text = Vec::with_capacity(self.text.len());
        self.write(&mut text, &HopMembers::default());
        // Cannot fail: JSON is UTF-8.
        decode::decode(&String::from_utf8(text).map_err(RpcError::invalid_params)?)
    }

    /// Returns whether the text consists of nothing but the body, so that it can be decoded as it is.
    fn is_body_alone(&self) -> bool {
        let Parts { shape, target, body, .. } = &self.parts;
        let whole = 1..self.text.len().saturating_sub(1);
        *shape == Shape::Object
            && target.is_none()
            && body.rest.is_none()
            && body.first.is_some_and(|first| first.range() == whole)
    }

    /// Returns the text of the members that are forwarded unchanged, without the braces around them; `None` if there
    /// are no such members, if they are not one piece of the received text, or if the params name a target.
    #[must_use]
    pub fn body(&self) -> Option<ByteString> {
        let Parts { target: None, body: Body { first: Some(first), rest: None }, .. } = &self.parts
        else {
            return None;
        };
        Some(self.text.slice_ref(&self.text[first.range()]))
    }

    /// Returns the `_meta` object that the peer sent, if any.
    #[must_use]
    pub fn meta(&self) -> Option<Payload> {
        self.slice(self.parts.meta.as_ref().map(|meta| meta.whole))
    }

    /// Returns the JSON text of `_meta`, if the peer sent it.
    #[must_use]
    pub fn meta_str(&self) -> Option<&str> {
        self.parts.meta.as_ref().map(|meta| &self.text[meta.whole.range()])
    }

    /// Returns the JSON text of a member of `_meta`. Nothing is parsed here, because the byte range of the member was
    /// found when the params were read.
    #[must_use]
    pub fn meta_member(&self, member: MetaKey) -> Option<&str> {
        let span = self.parts.meta.as_ref()?.get(member)?;
        Some(&self.text[span.range()])
    }

    /// Returns the `_mgp` object that the peer sent, if any.
    #[must_use]
    pub fn mgp(&self) -> Option<Payload> {
        self.slice(self.parts.mgp)
    }

    /// Returns the caller's answers (`inputResponses`) to the questions that this side asked in its previous result.
    #[must_use]
    pub fn input_responses(&self) -> Option<Payload> {
        self.slice(self.parts.input_responses)
    }

    /// Returns the sealed state that this side sent with its questions (`requestState`).
    #[must_use]
    pub fn request_state(&self) -> Option<String> {
        self.parts
            .request_state
            .and_then(|span| serde_json::from_str(&self.text[span.range()]).ok())
    }

    /// Returns the trace id that the peer sent: the first of `trace_id`, `_mgp.trace_id`, `_mgp.traceparent`,
    /// `_meta.trace_id` and `_meta.traceparent`. Only visible ASCII characters are kept, at most 128.
    #[must_use]
    pub fn trace_id(&self) -> Option<ByteString> {
        #[derive(Deserialize)]
        struct Inside<'a> {
            #[serde(borrow)]
            trace_id: Option<Cow<'a, str>>,
            #[serde(borrow)]
            traceparent: Option<Cow<'a, str>>,
        }
        let text =
            |json: &str| serde_json::from_str::<Cow<'_, str>>(json).ok().map(Cow::into_owned);
        let direct = || text(&self.text[self.parts.trace_id?.range()]);
        let in_mgp = || {
            let mgp = &self.text[self.parts.mgp?.range()];
            // Search the text before parsing it, because most `_mgp` objects contain no trace id.
            if !mgp.contains("\"trace") {
                return None;
            }
            let inside: Inside<'_> = serde_json::from_str(mgp).ok()?;
            let parent = inside.traceparent.as_deref().and_then(trace_of);
            inside.trace_id.map(Cow::into_owned).or(parent)
        };
        let in_meta = || {
            let own = self.meta_member(MetaKey::TraceId).and_then(text);
            let parent = || self.meta_member(MetaKey::Traceparent).and_then(text);
            own.or_else(|| parent().as_deref().and_then(trace_of))
        };
        let found = direct().or_else(in_mgp).or_else(in_meta)?;
        let clean: String = found.chars().filter(char::is_ascii_graphic).take(128).collect();
        (!clean.is_empty()).then(|| clean.into())
    }

    /// Returns whether the caller wants chunks: `_mgp.stream`, `stream` or `_meta.mgp.stream`.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        #[derive(Deserialize, Default)]
        struct Mgp {
            #[serde(default)]
            stream: bool,
        }
        let is_true = |span: Span| &self.text[span.range()] == "true";
        let read = |json: &str| serde_json::from_str::<Mgp>(json).unwrap_or_default().stream;
        self.parts.mgp.is_some_and(|span| read(&self.text[span.range()]))
            || self.parts.stream.is_some_and(is_true)
            || self.meta_member(MetaKey::Mgp).is_some_and(read)
    }

    /// Returns the progress token that the caller chose; it is valid only between the caller and this side.
    #[must_use]
    pub fn progress_token(&self) -> Option<Id> {
        serde_json::from_str(self.meta_member(MetaKey::ProgressToken)?).ok()
    }

    /// Returns whether the body might have a member with this name, which must be given with its quotes. If the result
    /// is `false`, the body certainly has no such member; `true` can be wrong.
    #[must_use]
    pub fn may_contain_member(&self, quoted: &str) -> bool {
        const ARGUMENTS: &str = "\"arguments\"";
        let body = &self.parts.body;
        // If the body consists of the arguments alone, their inner text is not searched, because it cannot contain a
        // member of the body.
        if let (Some(run), None, Some(arguments)) = (body.first, &body.rest, self.parts.arguments)
            && run.end == arguments.end
            && self.text[run.range()].starts_with(ARGUMENTS)
        {
            return quoted == ARGUMENTS;
        }
        // A name may also be written with escapes, e.g. `ta\u0073k`, so a text with escapes might contain it.
        let may_contain = |text: &str| text.contains(quoted) || text.contains("\\u");
        !body.escaped().is_empty() || body.runs().any(|run| may_contain(&self.text[run.range()]))
    }

    /// Returns the hash of the target and the body in canonical form, without the hop-by-hop members. So the order of
    /// members, white space and escapes do not change the hash.
    ///
    /// # Errors
    /// Returns the same errors as [`canonical`](crate::canonical).
    pub fn canonical_hash(&self) -> Result<Sha256Hash, RpcError> {
        let mut body_only = self.clone();
        body_only.remove_hop_members();
        let mut text = Vec::new();
        body_only.write(&mut text, &HopMembers::default());
        canonical_hash(&String::from_utf8_lossy(&text))
    }

    /// Removes the hop-by-hop members. This side writes its own members when it sends the params on.
    pub fn remove_hop_members(&mut self) {
        let parts = &mut self.parts;
        parts.meta = None;
        for span in [
            &mut parts.mgp,
            &mut parts.trace_id,
            &mut parts.input_responses,
            &mut parts.request_state,
            &mut parts.stream,
        ] {
            *span = None;
        }
    }

    /// Appends the params as a JSON object, with the members in `meta`; these replace received members of the same
    /// name.
    pub fn write(&self, out: &mut Vec<u8>, meta: &HopMembers) {
        out.push(b'{');
        let mut first = true;
        let mut comma = |out: &mut Vec<u8>| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
        };
        if let Some(target) = &self.parts.target {
            comma(out);
            write_name(out, target.member());
            write_text(out, target.as_str());
        }
        for run in self.parts.body.runs() {
            comma(out);
            out.extend_from_slice(self.text[run.range()].as_bytes());
        }
        for (key, span) in self.parts.body.escaped() {
            comma(out);
            write_text(out, key);
            out.push(b':');
            out.extend_from_slice(self.text[span.range()].as_bytes());
        }
        for (key, own, span) in [
            ("_mgp", &meta.mgp, self.parts.mgp),
            ("inputResponses", &meta.input_responses, self.parts.input_responses),
            ("requestState", &meta.request_state, self.parts.request_state),
            ("trace_id", &meta.trace_id, self.parts.trace_id),
        ] {
            let value = match (own, span) {
                (Some(own), _) => own.as_str(),
                (None, Some(span)) => &self.text[span.range()],
                (None, None) => continue,
            };
            comma(out);
            write_name(out, key);
            out.extend_from_slice(value.as_bytes());
        }
        let received = self.meta_str();
        if !meta.meta.is_empty() || received.is_some() {
            comma(out);
            write_name(out, "_meta");
            merge_meta(out, received, &meta.meta);
        }
        out.push(b'}');
    }

    /// Returns whether [`write`](Self::write) would write an empty object: there are neither params nor members in
    /// `meta`.
    #[must_use]
    pub fn is_empty_with(&self, meta: &HopMembers) -> bool {
        self.is_none() && meta.is_empty()
    }

    fn slice(&self, span: Option<Span>) -> Option<Payload> {
        span.map(|span| Payload::from_trusted(self.text.slice_ref(&self.text[span.range()])))
    }

    pub(super) fn of_parts(text: ByteString, parts: Parts) -> Self {
        Self { text, parts }
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text, &HopMembers::default());
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn trace_of(traceparent: &str) -> Option<String> {
    let trace = traceparent.split('-').nth(1)?;
    let is_trace = trace.len() == 32
        && trace.bytes().all(|byte| byte.is_ascii_hexdigit())
        && trace.bytes().any(|byte| byte != b'0');
    is_trace.then(|| trace.to_owned())
}
