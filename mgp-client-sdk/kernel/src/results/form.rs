//! Checks and repairs the form of a tool's result: an object with a list of content blocks.

use memchr::memmem::find;
use mgp_types::mcp::{CallToolResult, ContentBlock};
use mgp_types::service::Reply;
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::de::IgnoredAny;

use super::json_scanner::JsonScanner;
use crate::server_answer::{is_value, without_nulls};

/// The name of the member of a result that contains its content blocks.
const CONTENT: &str = "content";

/// The name of the member of a result that contains its metadata.
const META: &str = "_meta";

/// The name of the member of a result that marks a failed call.
const IS_ERROR: &str = "isError";

/// Returns the result of a call in the form that hosts expect. Adds an empty list if the result has no content. A bare
/// text becomes a text block; any other invalid block becomes a text block with its JSON.
///
/// # Errors
/// Returns error 5000 (upstream error) if the server's answer is not the result of a tool.
pub(crate) fn well_formed(mut reply: Reply) -> Result<Reply, RpcError> {
    if !matches!(reply, Reply::Complete(_)) {
        return Ok(reply);
    }
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    let text = body.as_raw().as_str();
    if !is_usual(text) && !is_readable(text) {
        let mended = mend(body.as_raw())?;
        body.replace_raw(mended);
    }
    Ok(reply)
}

/// Recognizes the results that most servers return: text blocks, and no metadata after them. This costs less than
/// [`is_readable`].
fn is_usual(text: &str) -> bool {
    let Some(rest) = behind_texts(text) else { return false };
    let unmarked = rest
        .strip_suffix(br#","isError":false}"#)
        .or_else(|| rest.strip_suffix(br#","isError":true}"#))
        .unwrap_or(rest);
    [r#""_meta""#, r#""isError""#].iter().all(|name| find(unmarked, name.as_bytes()).is_none())
}

/// If a result begins with a list of plain text blocks, returns the text after this list.
fn behind_texts(text: &str) -> Option<&[u8]> {
    let mut result = JsonScanner::new(text);
    result.literal("{")?;
    let _ = result.literal(r#""resultType":"complete","#);
    result.literal(r#""content":["#)?;
    loop {
        result.literal(r#"{"type":"text","text":"#)?;
        result.string()?;
        result.literal("}")?;
        if result.literal(",").is_none() {
            break;
        }
    }
    result.literal("]")?;
    Some(result.rest())
}

/// Returns whether a result certainly has a form that hosts can read.
fn is_readable(text: &str) -> bool {
    let mut has_content = false;
    let scanned = JsonScanner::new(text).object(|name, value| match name {
        b"content" => {
            has_content = true;
            value.list(scan_block)
        }
        b"_meta" => (value.value()? == b'{').then_some(()),
        b"isError" => matches!(value.value()?, b't' | b'f').then_some(()),
        _ => value.value().map(drop),
    });
    scanned.is_some() && has_content
}

/// Skips a content block. Returns `None` if hosts may be unable to read it.
fn scan_block(block: &mut JsonScanner<'_>) -> Option<()> {
    const TEXT: u8 = 1;
    const DATA: u8 = 2;
    const MEDIA_TYPE: u8 = 4;
    const URI: u8 = 8;
    const NAME: u8 = 16;
    const RESOURCE: u8 = 32;
    let (mut kind, mut found) = (None, 0);
    block.object(|name, value| {
        let string = match name {
            b"text" => TEXT,
            b"data" => DATA,
            b"mimeType" => MEDIA_TYPE,
            b"uri" => URI,
            b"name" => NAME,
            b"type" => {
                kind = Some(value.string()?);
                return Some(());
            }
            b"resource" => {
                found |= RESOURCE;
                return scan_resource(value);
            }
            b"annotations" | b"_meta" => return (value.value()? == b'{').then_some(()),
            _ => return (value.value()? != b'n').then_some(()),
        };
        found |= string;
        value.string().map(drop)
    })?;
    let required = match kind? {
        b"text" => TEXT,
        b"image" | b"audio" => DATA | MEDIA_TYPE,
        b"resource_link" => URI | NAME,
        b"resource" => RESOURCE,
        _ => 0,
    };
    (found & required == required).then_some(())
}

/// Skips the contents of a resource. Returns `None` if hosts may be unable to read them.
fn scan_resource(resource: &mut JsonScanner<'_>) -> Option<()> {
    let mut has_uri = false;
    resource.object(|name, value| match name {
        b"uri" => {
            has_uri = true;
            value.string().map(drop)
        }
        b"text" | b"blob" | b"mimeType" => value.string().map(drop),
        _ => (value.value()? != b'n').then_some(()),
    })?;
    has_uri.then_some(())
}

/// Returns a result that hosts can read, with the same content.
fn mend(result: &Payload) -> Result<Payload, RpcError> {
    let mut members: Object = result.get().map_err(|error| malformed(&error))?;
    for name in [META, IS_ERROR] {
        if members.get(name).is_some_and(|value| !is_value(name, value)) {
            members.remove(name);
        }
    }
    if let Some(flag) = members.get(IS_ERROR).and_then(flag_of) {
        members.insert(IS_ERROR, flag);
    }
    let decoded = members.decode::<Object>(META).and_then(|_| members.decode::<bool>(IS_ERROR));
    decoded.map_err(|error| malformed(&error))?;
    replace_invalid_blocks(&mut members)?;
    Payload::of(&members)
}

/// Returns the flag that a number or a text means. Some servers write e.g. `0` in place of `false`.
fn flag_of(value: &Payload) -> Option<Payload> {
    match value.as_str() {
        "0" | "\"false\"" => Some(Payload::from_trusted("false")),
        "1" | "\"true\"" => Some(Payload::from_trusted("true")),
        _ => None,
    }
}

/// Repairs the content blocks of a result: removes members that are null, replaces each invalid block by a text block,
/// and adds an empty list if there are no blocks.
fn replace_invalid_blocks(result: &mut Object) -> Result<(), RpcError> {
    let mut blocks = content_blocks(result).map_err(|error| malformed(&error))?;
    for block in &mut blocks {
        if let Some(fitted) = without_nulls(block) {
            *block = fitted;
        }
        if block.get::<ContentBlock>().is_err() {
            *block = Payload::of(&ContentBlock::text(text_of_invalid(block)))?;
        }
    }
    result.encode(CONTENT, &blocks)
}

/// Returns the text that replaces an invalid block: a bare text itself; for a text block with a number or flag instead
/// of a text, this value; for any other block, its JSON.
fn text_of_invalid(block: &Payload) -> String {
    if let Ok(text) = block.get::<String>() {
        return text;
    }
    let members: Object = block.get().unwrap_or_default();
    let kind = members.decode::<String>("type").ok().flatten();
    let is_text_alone = kind.as_deref() == Some("text") && members.len() == 2;
    let text = members.get("text").filter(|_| is_text_alone).map(Payload::as_str);
    let is_value = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | 't' | 'f'))
    };
    text.filter(is_value).unwrap_or_else(|| block.as_str()).to_owned()
}

/// Returns the content blocks of a result, even if the server wrote a text or a single block instead of a list.
fn content_blocks(result: &Object) -> Result<Vec<Payload>, RpcError> {
    match result.get(CONTENT) {
        Some(content) if content.as_str().trim_start().starts_with(['"', '{']) => {
            Ok(vec![content.clone()])
        }
        _ => Ok(result.decode(CONTENT)?.unwrap_or_default()),
    }
}

/// Removes the structured content of a result for a caller that does not accept it. If the result has no other content,
/// a text block with the JSON replaces it.
///
/// # Errors
/// Returns error 5000 (upstream error) if the server's answer is not the result of a tool.
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

/// Replaces the structured content of a result.
///
/// # Errors
/// Returns error 5000 (upstream error) if the server's answer is not the result of a tool.
pub(crate) fn replace_structured(mut reply: Reply, content: Payload) -> Result<Reply, RpcError> {
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    let mut members: Object = body.as_raw().get().map_err(|error| malformed(&error))?;
    members.insert("structuredContent", content);
    body.replace_raw(Payload::of(&members)?);
    Ok(reply)
}

/// Decodes a result. Replaces a block that cannot be decoded by a text block.
///
/// # Errors
/// Returns error 5000 (upstream error) if the server's answer is not the result of a tool.
pub(super) fn decode(reply: &Reply) -> Result<CallToolResult, RpcError> {
    let error: RpcError = match reply.get() {
        Ok(result) => return Ok(result),
        Err(error) => error,
    };
    let body = reply.as_body().ok_or_else(|| malformed(&error))?.as_raw();
    let mut members: Object = body.get().map_err(|error| malformed(&error))?;
    replace_invalid_blocks(&mut members)?;
    Payload::of(&members)?.get().map_err(|error| malformed(&error))
}

/// Returns the error for an answer of a server that is not the result of a tool.
pub(crate) fn malformed(error: &RpcError) -> RpcError {
    let message = "the server did not answer the call with the result of a tool";
    RpcError::new(ErrorCode::UPSTREAM_ERROR, message).because(error.clone())
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
        for text in ["null", "5", "\"x\"", "[]", "[[]]", r#"["content"]"#, r#"{"content":5}"#] {
            assert_eq!(formed(text), Err(5000), "{text}");
        }
    }

    #[test]
    fn a_text_or_one_block_in_place_of_the_list_becomes_a_list() {
        let texts = r#"{"content":[{"type":"text","text":"a\nb"}],"isError":true}"#;
        for content in [
            r#""a\nb""#,
            r#"{"type":"text","text":"a\nb"}"#,
            r#" {"type":"text","text":"a\nb","annotations":null}"#,
            r#"["a\nb"]"#,
        ] {
            let result = format!(r#"{{"content":{content},"isError":true}}"#);
            assert_eq!(formed(&result).unwrap(), texts, "{content}");
        }
        let other = formed(r#"{"content":{"a":1}}"#).unwrap();
        assert_eq!(other, r#"{"content":[{"type":"text","text":"{\"a\":1}"}]}"#);
    }

    #[test]
    fn metadata_that_is_not_an_object_is_refused() {
        for member in [
            r#""_meta":5"#,
            r#""_meta":[1],"isError":false"#,
            r#""isError":"no""#,
            r#""structuredContent":{},"_meta":"x""#,
        ] {
            let text = r#"[{"type":"text","text":"a"}]"#;
            let behind = format!(r#"{{"content":{text},{member}}}"#);
            let before = format!(r#"{{{member}, "content": {text}}}"#);
            for result in [behind, before] {
                assert_eq!(formed(&result), Err(5000), "{result}");
            }
        }
        let null = r#"{"content":[{"type":"text","text":"a"}],"_meta":null,"isError":null}"#;
        assert_eq!(formed(null).unwrap(), r#"{"content":[{"type":"text","text":"a"}]}"#);
    }

    #[test]
    fn an_invalid_block_becomes_the_text_of_its_json() {
        let valid = r#"{"type":"text","text":"\"a\\"}"#;
        for block in [
            r#"{"text":"a"}"#,
            r#"{"type":"text"}"#,
            r#"{"type":"text","text":[5]}"#,
            r#"{"type":"text","text":5,"_meta":5}"#,
            r#"{"type":5,"text":"a"}"#,
            r#"{"type":"text","text":"a","_meta":5}"#,
            r#"{"type":"image","data":"AAAA"}"#,
            r#"{"type":"resource_link","name":"a"}"#,
            r#"{"type":"resource","resource":{"text":"a"}}"#,
            r#"{"type":"resource","resource":{"uri":"a:b","text":5}}"#,
            "5",
        ] {
            let text = Payload::of(&ContentBlock::text(block)).unwrap();
            let result = |block: &str| format!(r#"{{"content":[{valid},{block}],"isError":true}}"#);
            assert_eq!(formed(&result(block)).unwrap(), result(text.as_str()), "{block}");
        }
    }

    #[test]
    fn a_number_or_flag_in_place_of_a_text_becomes_the_text() {
        for value in ["3.50", "-1", "true", "false"] {
            let result = format!(r#"{{"content":[{{"type":"text","text":{value}}}]}}"#);
            let expected = format!(r#"{{"content":[{{"type":"text","text":"{value}"}}]}}"#);
            assert_eq!(formed(&result).unwrap(), expected);
        }
    }

    #[test]
    fn members_of_a_block_that_are_null_are_left_out() {
        for (block, expected) in [
            (
                r#"{"type":"text","text":"a","annotations":null,"_meta":null}"#,
                r#"{"type":"text","text":"a"}"#,
            ),
            (
                r#"{"type":"resource_link","uri":"a:b","name":"b","title":null}"#,
                r#"{"type":"resource_link","uri":"a:b","name":"b"}"#,
            ),
            (
                r#"{"type":"resource","resource":{"uri":"a:b","text":"x","blob":null}}"#,
                r#"{"type":"resource","resource":{"uri":"a:b","text":"x"}}"#,
            ),
        ] {
            let result = |block: &str| format!(r#"{{"content":[{block}],"isError":false}}"#);
            assert_eq!(formed(&result(block)).unwrap(), result(expected));
        }
    }

    #[test]
    fn empty_lists_and_numbers_in_place_of_objects_and_flags_are_read() {
        let block = r#"{"type":"text","text":"a"}"#;
        let php = r#"{"type":"text","text":"a","annotations":[],"_meta":[]}"#;
        for (flag, expected) in
            [("0", false), ("1", true), ("\"true\"", true), ("\"false\"", false)]
        {
            let result = format!(r#"{{"content":[{php}],"isError":{flag},"_meta":[]}}"#);
            let expected = format!(r#"{{"content":[{block}],"isError":{expected}}}"#);
            assert_eq!(formed(&result).unwrap(), expected);
        }
    }

    #[test]
    fn a_readable_result_is_not_changed() {
        for block in [
            r#"{"type":"text","text":""}"#,
            r#"{"text":"\"}],","type":"text","annotations":{"priority":1},"_meta":{"a":[]}}"#,
            r#"{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"a"}"#,
            r#"{"type":"audio","mimeType":"audio/wav","data":"AAAA"}"#,
            r#"{"type":"resource_link","uri":"a:b","name":"b","size":5}"#,
            r#"{ "type" : "resource" , "resource" : { "uri" : "a:b", "blob" : "AAAA" } }"#,
            r#"{"type":"later","text":5}"#,
        ] {
            for rest in ["", r#","isError":true"#, r#","structuredContent":{"_meta":5}"#] {
                for first in ["", r#""resultType":"complete","#, r#""_meta":{"a":"}"},"#] {
                    let text = format!(r#"{{{first}"content":[{block}]{rest}}}"#);
                    assert_eq!(formed(&text).unwrap(), text);
                }
            }
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
