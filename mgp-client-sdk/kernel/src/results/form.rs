//! The form of a tool's result: an object with a list of content blocks.

use mgp_types::mcp::{CallToolResult, ContentBlock};
use mgp_types::service::Reply;
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The member of a result with its content blocks.
const CONTENT: &str = "content";

/// Returns a server's result of a call in the form that hosts expect. If it has no content, an empty list is added.
///
/// # Errors
/// Returns error 5000 if the server did not answer with the result of a tool.
pub(crate) fn well_formed(mut reply: Reply) -> Result<Reply, RpcError> {
    #[derive(Deserialize)]
    struct Outline {
        #[serde(default)]
        content: Option<Vec<IgnoredAny>>,
    }
    if !matches!(reply, Reply::Complete(_)) {
        return Ok(reply);
    }
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    if has_content(body.as_raw().as_str()) {
        return Ok(reply);
    }
    let outline: Outline = body.as_raw().get().map_err(|error| malformed(&error))?;
    // Check for an object, because serde would also decode an array as the struct `Outline`.
    if outline.content.is_none() || !is_object(body.as_raw().as_str()) {
        let mut members: Object = body.as_raw().get().map_err(|error| malformed(&error))?;
        members.insert(CONTENT, Payload::from_trusted("[]"));
        body.replace_raw(Payload::of(&members)?);
    }
    Ok(reply)
}

/// Removes the structured content of a result, for callers that do not accept it. If the result has no other content,
/// the JSON becomes its text.
///
/// # Errors
/// Returns error 5000 if the server did not answer with the result of a tool.
pub(crate) fn structured_as_text(mut reply: Reply) -> Result<Reply, RpcError> {
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    let mut members: Object = body.as_raw().get().map_err(|error| malformed(&error))?;
    let Some(structured) = members.remove("structuredContent") else { return Ok(reply) };
    let blocks: Vec<IgnoredAny> =
        members.decode(CONTENT).map_err(|error| malformed(&error))?.unwrap_or_default();
    if blocks.is_empty() {
        members.encode(CONTENT, &[ContentBlock::text(structured.as_str())])?;
    }
    body.replace_raw(Payload::of(&members)?);
    Ok(reply)
}

/// Decodes a result. An invalid block becomes a text block with its JSON, because hosts receive such a block unchanged
/// while the result is short.
///
/// # Errors
/// Returns error 5000 if the server did not answer with the result of a tool.
pub(super) fn decode(reply: &Reply) -> Result<CallToolResult, RpcError> {
    let error: RpcError = match reply.get() {
        Ok(result) => return Ok(result),
        Err(error) => error,
    };
    let body = reply.as_body().ok_or_else(|| malformed(&error))?.as_raw();
    let mut members: Object = body.get().map_err(|error| malformed(&error))?;
    let blocks: Vec<Payload> =
        members.decode(CONTENT).map_err(|_| malformed(&error))?.unwrap_or_default();
    let valid = blocks.iter().map(|block| {
        let valid = block.get::<ContentBlock>();
        valid.unwrap_or_else(|_| ContentBlock::text(block.as_str()))
    });
    members.insert(CONTENT, Payload::of(&valid.collect::<Vec<_>>())?);
    Payload::of(&members)?.get().map_err(|error| malformed(&error))
}

/// Returns the error for an answer of a server that is not the result of a tool.
pub(crate) fn malformed(error: &RpcError) -> RpcError {
    let message = "the server did not answer the call with the result of a tool";
    RpcError::new(ErrorCode::UPSTREAM_ERROR, message).because(error.clone())
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Returns whether a list follows the first `"content":` in an object's text, and no other object or list precedes it.
/// Most well-formed results are recognized by this, without parsing.
fn has_content(text: &str) -> bool {
    const NAME: &str = "\"content\"";
    let Some(members) = text.trim_start().strip_prefix('{') else { return false };
    // Most results begin like this, and a search costs more.
    if members.starts_with(r#""content":["#) {
        return true;
    }
    let Some((before, behind)) = members.split_once(NAME) else { return false };
    let value = behind.trim_start().strip_prefix(':');
    // After the beginning of another object or list, the name could be a member of that one.
    !before.contains(['{', '[']) && value.is_some_and(|value| value.trim_start().starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formed(text: &str) -> Result<String, i32> {
        let reply = Reply::raw(Payload::from_trusted(text.to_owned()));
        let formed = well_formed(reply).map_err(|error| error.code().0)?;
        Ok(formed.as_body().unwrap().as_raw().as_str().to_owned())
    }

    #[test]
    fn an_answer_that_is_not_the_result_of_a_tool_is_refused() {
        for text in ["null", "5", "\"x\"", "[]", "[[]]", r#"["content"]"#, r#"{"content":"x"}"#] {
            assert_eq!(formed(text), Err(5000), "{text}");
        }
    }

    #[test]
    fn absent_content_becomes_an_empty_list() {
        assert_eq!(formed("{}").unwrap(), r#"{"content":[]}"#);
        let structured = r#"{"structuredContent":{"content":"x"}"#;
        let filled = format!(r#"{structured},"content":[]}}"#);
        assert_eq!(formed(&format!("{structured}}}")).unwrap(), filled);
        let behind = r#"{"isError":false,"_meta":{"a":[1]},"content":[]}"#;
        for same in [r#" { "content" : [{"type":"text","text":"a"}]}"#, &filled, behind] {
            assert_eq!(formed(same).unwrap(), same);
        }
    }

    #[test]
    fn structured_content_becomes_text_if_there_is_no_other_content() {
        let reply = |text: &str| Reply::raw(Payload::from_trusted(text.to_owned()));
        for (result, expected) in [
            (
                r#"{"structuredContent":["a"],"content":[],"isError":false}"#,
                r#"{"content":[{"type":"text","text":"[\"a\"]"}],"isError":false}"#,
            ),
            (
                r#"{"content":[{"type":"text","text":"b"}],"structuredContent":null}"#,
                r#"{"content":[{"type":"text","text":"b"}]}"#,
            ),
            (r#"{"content":[]}"#, r#"{"content":[]}"#),
        ] {
            let fitted = structured_as_text(reply(result)).unwrap();
            assert_eq!(fitted.as_body().unwrap().as_raw().as_str(), expected);
        }
    }

    #[test]
    fn a_list_with_the_name_of_the_content_within_another_member_is_no_content() {
        for other in [
            r#"{"structuredContent":{"content":["x"]}"#,
            r#"{"structuredContent":{"a":1,"content":[]}"#,
            r#"{"_meta":{"page":{"content":[{"type":"text","text":"a"}]}}"#,
        ] {
            let filled = format!(r#"{other},"content":[]}}"#);
            assert_eq!(formed(&format!("{other}}}")).unwrap(), filled, "{other}");
        }
    }
}
