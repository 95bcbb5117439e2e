//! The filter that removes from lists what the caller is not allowed to see (MGP §5). All other members, and their
//! order, stay as the server sent them.

use std::borrow::Cow;

use mgp_types::mcp::Era;
use mgp_types::service::{Body, Context, Reply};
use mgp_types::{Members, Payload, RpcError, differs_only_in_case};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decision::Sources;
use crate::definition::{ListExtent, watch};

/// Filters a list of tools by access and, if `page` is given, by the tools' definitions.
pub(super) async fn filter(
    sources: &Sources,
    cx: &Context,
    page: Option<ListExtent>,
    mut reply: Reply,
) -> Result<Reply, RpcError> {
    let server = sources.server_of(cx);
    if let (Some(page), Some(definitions), Some(server)) = (page, &sources.definitions, server) {
        reply = watch(definitions, server, cx, page, reply).await?;
    }
    let Some(access) = &sources.access else { return Ok(reply) };
    let reply = private(reply, cx);
    if access.lists_all(cx, server) {
        return Ok(reply);
    }
    without(reply, |tool| access.lists(cx, server, tool))
}

/// Removes the tools for which `keep` returns `false`. If no tool is removed, the reply stays unchanged.
///
/// A list that cannot be parsed is refused as a whole. A tool whose name cannot be read is removed.
fn without(reply: Reply, keep: impl Fn(&str) -> bool) -> Result<Reply, RpcError> {
    let Reply::Complete(body) = &reply else { return Ok(reply) };
    let text = body.to_json();
    let filtered = filter_text(&text, keep).map_err(|error| {
        RpcError::internal("the list of tools cannot be read, so nothing of it is shown")
            .because(error)
    })?;
    Ok(match filtered {
        Some(text) => Reply::Complete(Body::new(Payload::from_trusted(text))),
        None => reply,
    })
}

/// Marks a list as private to its caller, even if the server marked it as public, because other callers can see
/// different tools.
fn private(mut reply: Reply, cx: &Context) -> Reply {
    const PRIVATE: &str = r#""cacheScope":"private""#;
    if let Some(body) = reply.as_body_mut().filter(|_| cx.caller.era == Era::Modern) {
        let text = body.as_raw().as_str();
        // The server's `cacheScope` might be ambiguous or belong to a nested object, so write our own.
        if !text.contains(PRIVATE) || text.contains("public") || text.contains("\\u") {
            body.insert("cacheScope", Payload::from_trusted(r#""private""#));
        }
    }
    reply
}

/// Returns an empty list, for callers without access to the server.
pub(super) fn empty(member: &'static str, cx: &Context) -> Reply {
    let modern = match cx.caller.era {
        // Protocol version 2026-07-28 requires these members. The list must not be cached, because access can be
        // granted at any time.
        Era::Modern => r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#,
        Era::Legacy => "",
    };
    Reply::raw(Payload::from_trusted(format!(r#"{{"{member}":[]{modern}}}"#)))
}

/// Returns the text of a list without the tools for which `keep` returns `false`. Returns `None` if all tools are kept.
fn filter_text(
    text: &[u8],
    keep: impl Fn(&str) -> bool,
) -> Result<Option<String>, serde_json::Error> {
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
        // A host that ignores the case of names would read these tools, so leave this member out.
        if differs_only_in_case(name, "tools") {
            hidden = true;
            continue;
        }
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(&serde_json::to_string(name)?);
        out.push(':');
        // A duplicate `tools` member is filtered too, because parsers differ in which one they use.
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
    if out.is_empty() {
        out.push('{');
    }
    out.push('}');
    Ok(hidden.then_some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let kept = filter_text(text.as_bytes(), |name| name != "b").unwrap();
        assert_eq!(kept.as_deref(), expected, "{text}");
    }

    #[test]
    fn hidden_tools_are_left_out_and_the_rest_stays_as_it_was() {
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
        check(
            r#"{"tools":[{"name":"a"}],"Tools":[{"name":"b"}]}"#,
            Some(r#"{"tools":[{"name":"a"}]}"#),
        );
        check(r#"{"TOOLS":[{"name":"b"}]}"#, Some("{}"));
        for text in ["7", r#"{"tools":7}"#, r#"{"tools":[}"#] {
            assert!(filter_text(text.as_bytes(), |_| true).is_err(), "{text}");
        }
    }
}
