//! The parser of params. It finds the byte range of each part of the params in one pass.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use bytestring::ByteString;
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess};
use serde_json::value::RawValue;

use super::hop_meta::HopMeta;
use super::{Body, Parts, Shape, Span, TargetKind};
use crate::differs_only_in_case;
use crate::record::{Key, is_empty_list, text_of};

#[expect(clippy::cast_possible_truncation, reason = "lines are bounded far below 4 GiB")]
pub(super) fn span_of(text: &str, base: usize) -> Span {
    let start = (text.as_ptr() as usize - base) as u32;
    Span { start, end: NonZeroU32::new(start + text.len() as u32).unwrap_or(NonZeroU32::MIN) }
}

pub(in crate::service) struct PartsSeed<'t> {
    pub(in crate::service) text: &'t ByteString,
    pub(in crate::service) target: TargetKind,
}

impl<'de> DeserializeSeed<'de> for PartsSeed<'_> {
    type Value = Parts;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parts, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl PartsSeed<'_> {
    fn other() -> Parts {
        Parts { shape: Shape::Other, ..Parts::default() }
    }
}

/// The members that each peer on the way checks or replaces, in calls with a target (a tool, prompt or resource).
const CHECKED_MEMBERS: [&str; 6] =
    ["_meta", "_mgp", "arguments", "inputResponses", "requestState", "task"];

/// Returns the checked member whose name differs from this name only in the case of letters.
///
/// A member with such a name is refused. A server that ignores case, as many servers in Go and C# do, would use its
/// value, although the gates of this process have checked the value of the member with the usual name.
fn known_in_other_case(name: &str, target: TargetKind) -> Option<&'static str> {
    let of_target = match target {
        TargetKind::None => return None,
        TargetKind::Tool | TargetKind::Prompt => "name",
        TargetKind::Resource => "uri",
    };
    let is_other = |known: &&str| differs_only_in_case(name, known);
    CHECKED_MEMBERS.into_iter().chain([of_target]).find(is_other)
}

/// Adds a member to a body. A member that directly follows a run of body members extends that run.
fn push_member<E: de::Error>(
    body: &mut Body,
    key: Cow<'_, str>,
    span: Span,
    base: usize,
    run_open: &mut bool,
) -> Result<(), E> {
    match (body.last_mut(), key) {
        (Some(run), _) if *run_open => run.end = span.end,
        (_, Cow::Borrowed(name)) => {
            let start = span_of(name, base).start - 1;
            body.push(Span { start, end: span.end });
            *run_open = true;
        }
        // The position of a name with escapes is not known, so the name is copied. A line has room for millions of such
        // names, so their number is limited.
        (_, Cow::Owned(name)) => body.push_escaped(&name, span)?,
    }
    Ok(())
}

impl Parts {
    /// Refuses a second member `arguments`, and a member whose name differs from a checked member's name only in case.
    /// Otherwise a layer of this process might check one of the two members, and the tool might use the other.
    #[inline]
    fn check_member<E: de::Error>(
        &mut self,
        name: &str,
        target: TargetKind,
        span: Span,
    ) -> Result<(), E> {
        let is_arguments = name == "arguments" && target == TargetKind::Tool;
        if is_arguments && self.arguments.replace(span).is_some() {
            return Err(de::Error::custom("`arguments` is repeated"));
        }
        match known_in_other_case(name, target) {
            None => Ok(()),
            Some(known) => {
                Err(de::Error::custom(format!("a member differs from `{known}` only in case")))
            }
        }
    }
}

impl<'de> de::Visitor<'de> for PartsSeed<'_> {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("params")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
        let Self { text, target } = self;
        let base = text.as_ptr() as usize;
        let mut parts = Parts { shape: Shape::Object, ..Parts::default() };
        // `true` if the member before the current one belongs to a run, so that a further body member extends the run.
        let mut run_open = false;
        while let Some(Key(key)) = map.next_key()? {
            if let Cow::Borrowed(name @ "_meta") = key {
                let behind = span_of(name, base).range().end;
                parts.meta = Some(Box::new(HopMeta::next(&mut map, &text[behind..], base)?));
                run_open = false;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            let span = span_of(value.get(), base);
            let place = match (&*key, target) {
                ("name", TargetKind::Tool | TargetKind::Prompt) | ("uri", TargetKind::Resource) => {
                    parts.target =
                        read_target(text, value.get()).and_then(|text| target.wrap(text));
                    run_open = false;
                    continue;
                }
                ("_meta", _) => {
                    parts.meta = Some(Box::new(HopMeta::read(value.get(), base)));
                    run_open = false;
                    continue;
                }
                ("_mgp", _) => &mut parts.mgp,
                ("trace_id", _) => &mut parts.trace_id,
                ("inputResponses", _) => &mut parts.input_responses,
                ("requestState", _) => &mut parts.request_state,
                ("stream", TargetKind::Tool) => &mut parts.stream,
                // Some clients write absent arguments as `null`, or as `[]`, which is an empty object in PHP. Many
                // servers refuse both, so the member is left out.
                ("arguments", TargetKind::Tool | TargetKind::Prompt)
                    if value.get() == "null" || is_empty_list(value.get()) =>
                {
                    run_open = false;
                    continue;
                }
                (name, _) => {
                    parts.check_member(name, target, span)?;
                    push_member(&mut parts.body, key, span, base, &mut run_open)?;
                    continue;
                }
            };
            *place = Some(span);
            run_open = false;
        }
        Ok(parts)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Parts, A::Error> {
        // JSON-RPC permits a list as params, but MCP does not. Only a list without elements is accepted, because PHP
        // writes an empty object in this way.
        if seq.next_element::<de::IgnoredAny>()?.is_none() {
            return Ok(Parts { shape: Shape::Object, ..Parts::default() });
        }
        while seq.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(Self::other())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Parts, E> {
        Ok(Parts::default())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Parts, E> {
        Ok(Self::other())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Parts, E> {
        Ok(Self::other())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Parts, E> {
        Ok(Self::other())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Parts, E> {
        Ok(Self::other())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Parts, E> {
        Ok(Self::other())
    }
}

/// The maximum length of a message, in bytes, whose target shares the memory of the message. The target of a longer
/// message is copied, so that storing a target never keeps a long message in memory.
const MAX_SHARED: usize = 1_024;

fn read_target(message: &ByteString, json: &str) -> Option<ByteString> {
    text_of(json).map(|text| match text {
        Cow::Borrowed(text) if message.len() <= MAX_SHARED => message.slice_ref(text),
        text => text.into_owned().into(),
    })
}
