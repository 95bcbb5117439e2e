//! The members of params that are valid only between two neighbouring peers (hop-by-hop members), e.g. `_meta`. A peer
//! that forwards a call removes the members that it received, and writes its own.

use std::borrow::Cow;

use super::write::write_text;
use crate::mcp::key;
use crate::record::Members;
use crate::wire::Payload;

const SENDER_MEMBERS: [&str; 3] =
    [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::CLIENT_INFO];

/// The hop-by-hop members that a peer adds to the params of a call when it sends the call.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HopMembers {
    /// The members to add to `_meta`.
    pub meta: Vec<(Cow<'static, str>, Payload)>,
    /// The value of the member `_mgp`.
    pub mgp: Option<Payload>,
    /// The value of the member `trace_id`.
    pub trace_id: Option<Payload>,
    /// The value of the member `inputResponses`, with the answers of this side to the callee's questions.
    pub input_responses: Option<Payload>,
    /// The value of the member `requestState`, as a JSON string.
    pub request_state: Option<Payload>,
}

impl HopMembers {
    /// Creates a value that adds no members to a call.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            meta: Vec::new(),
            mgp: None,
            trace_id: None,
            input_responses: None,
            request_state: None,
        }
    }

    /// Returns a copy with only the members that identify the sender, for further requests of the same sender.
    #[must_use]
    pub fn sender_members(&self) -> Self {
        let members = self.meta.iter().filter(|(name, _)| SENDER_MEMBERS.contains(&&**name));
        Self { meta: members.cloned().collect(), ..Self::new() }
    }

    /// Returns whether there are no members to add.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.meta.is_empty()
            && self.mgp.is_none()
            && self.trace_id.is_none()
            && self.input_responses.is_none()
            && self.request_state.is_none()
    }
}

/// Appends a JSON object with the members of `original` and of `more`; a member of `more` replaces a member of the same
/// name.
pub(super) fn merge_meta(
    out: &mut Vec<u8>,
    original: Option<&str>,
    more: &[(Cow<'static, str>, Payload)],
) {
    let members = original
        .and_then(|text| serde_json::from_str::<Members<'_>>(text).ok())
        .map_or(Vec::new(), |members| members.0);
    let kept = members.iter().filter(|(key, _)| !more.iter().any(|(own, _)| own == key));
    let all = kept
        .map(|(key, value)| (&**key, value.get()))
        .chain(more.iter().map(|(key, value)| (&**key, value.as_str())));
    let room: usize = more.iter().map(|(key, value)| key.len() + value.as_str().len() + 4).sum();
    out.reserve(room + original.map_or(0, str::len) + 2);
    let mut before = b'{';
    for (key, value) in all {
        out.push(std::mem::replace(&mut before, b','));
        write_text(out, key);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    if before == b'{' {
        out.push(before);
    }
    out.push(b'}');
}
