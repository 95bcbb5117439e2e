//! Finds the byte ranges of the `_meta` members that layers read, in one pass.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Span;
use super::read::span_of;
use crate::mcp::key;
use crate::record::Key;

/// A member of `_meta` whose byte range in the received line is remembered, because a layer reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetaKey {
    /// The revision of a modern request.
    Revision,
    /// The name and version of the client, in a modern request.
    ClientInfo,
    /// The capabilities of the client, in a modern request.
    ClientCapabilities,
    /// The lowest level of the log messages that the caller wants.
    LogLevel,
    /// The token that the caller chose for progress notifications.
    ProgressToken,
    /// The MGP trace id (`trace_id`).
    TraceId,
    /// The trace context of OpenTelemetry.
    Traceparent,
    /// The member `mgp`, in which some clients write that they want chunks.
    Mgp,
    /// The handle that distinguishes the clients of one principal.
    Handle,
    /// The versions of the called tool that the caller accepts, as a range.
    ToolVersion,
    /// The number of kernels that the call has passed.
    Hops,
    /// Further trace state of OpenTelemetry.
    Tracestate,
    /// The values that are passed on with a trace of OpenTelemetry.
    Baggage,
}

impl MetaKey {
    const COUNT: usize = 13;

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
            key::MGP_HANDLE => Self::Handle,
            "tool_version" => Self::ToolVersion,
            "dev.cloto/hops" => Self::Hops,
            key::TRACESTATE => Self::Tracestate,
            key::BAGGAGE => Self::Baggage,
            _ => return None,
        })
    }
}

#[derive(Clone)]
pub(super) struct HopMeta {
    pub(super) whole: Span,
    members: [Option<Span>; MetaKey::COUNT],
}

impl HopMeta {
    /// Reads the text of a `_meta` value. If the value is not an object, no members are found in it.
    pub(super) fn read(meta: &str, base: usize) -> Self {
        let mut found = Self { whole: span_of(meta, base), members: [None; MetaKey::COUNT] };
        let mut reader = serde_json::Deserializer::from_str(meta);
        // The text is known to be JSON, so decoding fails only if the value is not an object.
        let _ = reader.deserialize_map(Members { found: &mut found, base });
        found
    }

    /// Reads `_meta` as the next value of the params, so that its text is scanned only once.
    ///
    /// `behind` is the text that follows the name `_meta`; `base` is the address at which the params begin.
    pub(super) fn next<'de, A: MapAccess<'de>>(
        map: &mut A,
        behind: &str,
        base: usize,
    ) -> Result<Self, A::Error> {
        let value = behind.trim_start_matches(|other: char| other != ':');
        let value = value[1.min(value.len())..].trim_start();
        if !value.starts_with('{') {
            let raw: &RawValue = map.next_value()?;
            return Ok(Self::read(raw.get(), base));
        }
        let mut found = Self { whole: span_of(&value[..1], base), members: [None; MetaKey::COUNT] };
        let end = map.next_value_seed(Members { found: &mut found, base })?;
        // Only white space separates the closing brace from the last member or, if there are no members, from the
        // opening brace. So the next closing brace ends the object.
        let start = value.as_ptr() as usize - base;
        let inner = end.map_or(1, |end| end - start);
        let closing = value[inner..].find('}').map_or(value.len(), |at| inner + at + 1);
        found.whole = span_of(&value[..closing], base);
        Ok(found)
    }

    pub(super) fn get(&self, member: MetaKey) -> Option<Span> {
        self.members[member as usize]
    }
}

struct Members<'a> {
    found: &'a mut HopMeta,
    base: usize,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    /// The position after the last member; `None` if there are no members.
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut end = None;
        while let Some(Key(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            let span = span_of(value.get(), self.base);
            end = Some(span.range().end);
            if let Some(member) = MetaKey::of(&name) {
                self.found.members[member as usize] = Some(span);
            }
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use crate::service::{MetaKey, Params};

    #[track_caller]
    fn check(meta: &str, revision: Option<&str>, token: Option<&str>) {
        for (before, after) in [("", ""), ("\"a\":{},", ",\"b\":\"}\""), ("\n", " ")] {
            for name in ["\"_meta\"", "\"_met\\u0061\"", "\"_meta\" \n"] {
                let text = format!("{{{before}{name}: {meta}{after}}}");
                let params = Params::split("tools/list", text.clone().into()).unwrap();
                assert_eq!(params.meta_str(), Some(meta.trim()), "{text}");
                assert_eq!(params.meta_member(MetaKey::Revision), revision, "{text}");
                assert_eq!(params.meta_member(MetaKey::ProgressToken), token, "{text}");
            }
        }
    }

    #[test]
    fn meta_and_its_members_are_found_where_they_stand() {
        check("{}", None, None);
        check("{ \n }", None, None);
        check(r#"{"x":{"y":"}"}}"#, None, None);
        check(
            r#"{"io.modelcontextprotocol/protocolVersion" : "2026-07-28" }"#,
            Some("\"2026-07-28\""),
            None,
        );
        check(r#"{ "progressToken":7 , "x":[{}] }"#, None, Some("7"));
        check(r#"{"progressToken":1,"progressToken":"}"}"#, None, Some("\"}\""));
        for other in ["null", "5", "[{}]", "\"{}\""] {
            check(other, None, None);
        }
    }
}
