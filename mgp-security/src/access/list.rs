//! Lists without what their caller may not see (MGP §5): the members and their order stay as they came.
//!
//! Applies to: both.

use std::borrow::Cow;
use std::fmt;

use mgp_types::mcp::Era;
use mgp_types::service::{Body, Context, Reply};
use mgp_types::{Payload, RpcError};
use serde::de::{self, MapAccess};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Leaves tools out of a list of tools; where none is left out, the reply is the one that came.
///
/// A list that cannot be read shows nothing, and neither does a tool without a name that can be.
pub(super) fn without(reply: Reply, keep: impl Fn(&str) -> bool) -> Result<Reply, RpcError> {
    let Reply::Complete(body) = &reply else { return Ok(reply) };
    let text = body.to_json();
    let filtered = filter(&text, keep).map_err(|error| {
        RpcError::internal("the list of tools cannot be read, so nothing of it is shown")
            .because(error)
    })?;
    Ok(match filtered {
        Some(text) => Reply::Complete(Body::new(Payload::from_trusted(text))),
        None => reply,
    })
}

/// Says that a list is for its caller only, whatever its server says: others may see other tools.
pub(super) fn for_one(mut reply: Reply, cx: &Context) -> Reply {
    const SAID: &str = r#""cacheScope":"private""#;
    if let Some(body) = reply.as_body_mut().filter(|_| cx.caller.era == Era::Modern) {
        let text = body.as_raw().as_str();
        // Whether it is said once, and of the list itself, is seen where it is read.
        if !text.contains(SAID) || text.contains("public") || text.contains("\\u") {
            body.insert("cacheScope", Payload::from_trusted(r#""private""#));
        }
    }
    reply
}

/// An empty list, for those who may not see the server's.
pub(super) fn empty(member: &'static str, cx: &Context) -> Reply {
    let modern = match cx.caller.era {
        // What 2026-07-28 demands of every list; it is not kept, because access may come at any time.
        Era::Modern => r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#,
        Era::Legacy => "",
    };
    Reply::raw(Payload::from_trusted(format!(r#"{{"{member}":[]{modern}}}"#)))
}

/// The list without what is not kept; none where all of it is.
fn filter(text: &[u8], keep: impl Fn(&str) -> bool) -> Result<Option<String>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let is_kept =
        |tool: &RawValue| serde_json::from_str(tool.get()).is_ok_and(|Named { name }| keep(&name));
    let members: Members<'_> = serde_json::from_slice(text)?;
    let (mut out, mut hidden) = (String::with_capacity(text.len()), false);
    for (name, value) in &members.0 {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(&serde_json::to_string(name)?);
        out.push(':');
        // A member that stands twice is filtered twice: nobody knows which of them is read.
        if name != "tools" {
            out.push_str(value.get());
            continue;
        }
        let tools: Vec<&RawValue> = serde_json::from_str(value.get())?;
        out.push('[');
        let mut first = true;
        for tool in tools {
            if !is_kept(tool) {
                hidden = true;
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            out.push_str(tool.get());
        }
        out.push(']');
    }
    out.push('}');
    Ok(hidden.then_some(out))
}

/// The members of an object in their order, repeated ones too.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let kept = filter(text.as_bytes(), |name| name != "b").unwrap();
        assert_eq!(kept.as_deref(), expected, "{text}");
    }

    #[test]
    fn hidden_tools_go_and_everything_else_stays_as_it_came() {
        check(r#"{"tools":[{"name":"a"}],"nextCursor":"x"}"#, None);
        check(r#"{"tools":[]}"#, None);
        check(
            r#"{"later":{"z":1.50},"tools":[{"x":[ 1 ],"name":"a"}, {"name":"b"},{"name":"c"}],"nextCursor":"x"}"#,
            Some(
                r#"{"later":{"z":1.50},"tools":[{"x":[ 1 ],"name":"a"},{"name":"c"}],"nextCursor":"x"}"#,
            ),
        );
        check(r#"{"tools":[{"name":"b"}]}"#, Some(r#"{"tools":[]}"#));
        check(r#"{"tools":[{"name":"\u0062"}]}"#, Some(r#"{"tools":[]}"#));
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        check(r#"{"tools":[{"name":"a","name":"b"},{},7]}"#, Some(r#"{"tools":[]}"#));
        check(
            r#"{"tools":[{"name":"a"}],"tools":[{"name":"b"}]}"#,
            Some(r#"{"tools":[{"name":"a"}],"tools":[]}"#),
        );
        for text in ["7", r#"{"tools":7}"#, r#"{"tools":[}"#] {
            assert!(filter(text.as_bytes(), |_| true).is_err(), "{text}");
        }
    }
}
