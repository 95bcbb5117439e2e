//! The members of `_meta` that layers look at, found in one pass.
//!
//! Applies to: inbound.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Span;
use super::read::span_of;
use crate::mcp::key;
use crate::record::Key;

/// A member of `_meta` of which layers want to know whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetaKey {
    /// The revision a modern request is made in.
    Revision,
    /// Who makes a modern request.
    ClientInfo,
    /// What whoever makes it can do.
    ClientCapabilities,
    /// From which level on log messages are wanted.
    LogLevel,
    /// The name under which progress is wanted.
    ProgressToken,
    /// The trace a call belongs to, in MGP's words.
    TraceId,
    /// The same in the words of OpenTelemetry.
    Traceparent,
    /// `mgp`, by which some ask for chunks.
    Mgp,
}

impl MetaKey {
    const COUNT: usize = 8;

    fn of(name: &str) -> Option<Self> {
        Some(match name {
            key::PROTOCOL_VERSION => Self::Revision,
            key::CLIENT_INFO => Self::ClientInfo,
            key::CLIENT_CAPABILITIES => Self::ClientCapabilities,
            key::LOG_LEVEL => Self::LogLevel,
            key::PROGRESS_TOKEN => Self::ProgressToken,
            "trace_id" => Self::TraceId,
            key::TRACEPARENT => Self::Traceparent,
            key::MGP_SHORT => Self::Mgp,
            _ => return None,
        })
    }
}

/// Where `_meta` is, and where its members are.
#[derive(Clone)]
pub(super) struct HopMeta {
    pub(super) whole: Span,
    members: [Option<Span>; MetaKey::COUNT],
}

impl HopMeta {
    /// Looks through the text of `_meta`; what is no object has no members.
    pub(super) fn read(text: &str, base: usize) -> Self {
        let mut found = Self { whole: span_of(text, base), members: [None; MetaKey::COUNT] };
        let mut reader = serde_json::Deserializer::from_str(text);
        // The message was read before this, so only the shape can be wrong.
        let _ = reader.deserialize_map(Members { found: &mut found, base });
        found
    }

    pub(super) fn get(&self, member: MetaKey) -> Option<Span> {
        self.members[member as usize]
    }
}

struct Members<'a> {
    found: &'a mut HopMeta,
    base: usize,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            if let Some(member) = MetaKey::of(&name) {
                self.found.members[member as usize] = Some(span_of(value.get(), self.base));
            }
        }
        Ok(())
    }
}
