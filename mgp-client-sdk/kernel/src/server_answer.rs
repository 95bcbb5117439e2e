//! Checks and repairs the answers of servers, so that a host receives only answers that it can read.

use mgp_types::mcp::ContentBlock;
use mgp_types::service::Reply;
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use serde::de::IgnoredAny;

/// The maximum depth of lists and objects in an answer. With it, the whole message has at most 127 levels: many JSON
/// parsers refuse more, and a host may then lose its connection.
const MAX_DEPTH: usize = 120;

/// Refuses a result that is nested too deeply. Removes the data of an error that is nested too deeply.
///
/// # Errors
/// Returns the server's error if the answer is one, and 5000 (upstream error) if the result is nested too deeply.
pub(crate) fn limit_depth(answer: Result<Reply, RpcError>) -> Result<Reply, RpcError> {
    match answer {
        Ok(reply) if reply.as_body().is_some_and(|body| is_too_deep(body.as_raw())) => {
            let message = format!("the server's result is nested deeper than {MAX_DEPTH} levels");
            Err(RpcError::new(ErrorCode::UPSTREAM_ERROR, message))
        }
        // Keep only the code and the message if the data, the recovery hints or an unknown member is nested too deeply.
        Err(error) if Payload::of(&error).is_ok_and(|json| is_too_deep(&json)) => {
            Err(RpcError::new(error.code(), error.message()))
        }
        answer => answer,
    }
}

/// Returns whether lists and objects are nested too deeply for hosts.
pub(crate) fn is_too_deep(json: &Payload) -> bool {
    json.is_deeper_than(MAX_DEPTH)
}

/// Refuses a result that is not an object with a list, although the method requires one. The names in `path` lead
/// through objects to the list. If the list is `null`, replaces it by an empty list, because servers written in Go
/// encode an empty list as `null`.
///
/// # Errors
/// Returns 5000 (upstream error) if the server did not answer with the result of the method.
pub(crate) fn expect_list(
    mut reply: Reply,
    method: &str,
    path: &[&str],
) -> Result<Reply, RpcError> {
    if !matches!(reply, Reply::Complete(_)) {
        return Ok(reply);
    }
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    let filled = fill_list(body.as_raw(), path);
    if let Some(filled) = filled.map_err(|error| unreadable_result(method, &error))? {
        body.replace_raw(filled);
    }
    Ok(reply)
}

/// Returns an object with its list repaired: `null` becomes an empty list, and a single resource or message becomes a
/// list of one. Returns `None` if the object already has a list.
fn fill_list(object: &Payload, path: &[&str]) -> Result<Option<Payload>, RpcError> {
    let mut members: Object = object.get()?;
    let Some((name, rest)) = path.split_first() else { return Ok(None) };
    let Some(value) = members.get(name) else {
        return Err(RpcError::internal(format!("`{name}` is missing")));
    };
    let filled = if !rest.is_empty() {
        fill_list(value, rest)?
    } else if value.is_null() {
        Some(Payload::from_trusted("[]"))
    } else if matches!(*name, "contents" | "messages") && value.as_str().starts_with('{') {
        Some(Payload::from_trusted(format!("[{}]", value.as_str())))
    } else {
        value.get::<Vec<IgnoredAny>>()?;
        None
    };
    let Some(filled) = filled else { return Ok(None) };
    members.insert(*name, filled);
    Payload::of(&members).map(Some)
}

/// Removes the members that are null from the contents of a resource, or from the content of a prompt's messages. A
/// message whose content is a bare text gets a text block.
///
/// # Errors
/// Returns −32603 (internal error) if the result cannot be written as JSON.
pub(crate) fn drop_nulls(reply: Reply, list: &str) -> Result<Reply, RpcError> {
    if list == "messages" {
        return change_list(reply, list, fit_message);
    }
    // Parse only the few results that contain the word.
    if reply.as_body().is_some_and(|body| body.as_raw().as_str().contains("null")) {
        return change_list(reply, list, without_nulls);
    }
    Ok(reply)
}

/// Replaces the elements of a list in a result for which `change` returns a new element. Returns the result unchanged
/// if its list cannot be read.
///
/// # Errors
/// Returns −32603 (internal error) if the result cannot be written as JSON.
pub(crate) fn change_list(
    mut reply: Reply,
    name: &str,
    change: impl Fn(&Payload) -> Option<Payload>,
) -> Result<Reply, RpcError> {
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    let Ok(mut members) = body.as_raw().get::<Object>() else { return Ok(reply) };
    let Ok(Some(mut elements)) = members.decode::<Vec<Payload>>(name) else { return Ok(reply) };
    let mut is_changed = false;
    for element in &mut elements {
        if let Some(changed) = change(element) {
            *element = changed;
            is_changed = true;
        }
    }
    if is_changed {
        members.encode(name, &elements)?;
        body.replace_raw(Payload::of(&members)?);
    }
    Ok(reply)
}

fn fit_message(message: &Payload) -> Option<Payload> {
    let mut members: Object = message.get().ok()?;
    let content = members.get("content")?;
    let fitted = match content.get::<String>() {
        Ok(text) => Payload::of(&ContentBlock::text(text)).ok()?,
        Err(_) => without_nulls(content)?,
    };
    members.insert("content", fitted);
    Payload::of(&members).ok()
}

/// Returns a content block without the members that hosts refuse: those that [`is_value`] treats as absent, e.g. null.
/// Also removes such members from the block's resource. Returns `None` if there are no such members.
pub(crate) fn without_nulls(block: &Payload) -> Option<Payload> {
    let mut members: Object = block.get().ok()?;
    let mut is_changed = retain_members(&mut members, is_value);
    if let Ok(Some(mut resource)) = members.decode::<Object>("resource")
        && retain_members(&mut resource, is_value)
    {
        members.encode("resource", &resource).ok()?;
        is_changed = true;
    }
    if is_changed { Payload::of(&members).ok() } else { None }
}

/// Returns whether a member has a value: one that is neither null nor an empty list in place of an object. Servers in
/// PHP write an empty object as an empty list.
pub(crate) fn is_value(name: &str, value: &Payload) -> bool {
    let is_object = matches!(name, "_meta" | "annotations");
    !(value.is_null() || is_object && value.as_str() == "[]")
}

/// Keeps only the members for which `keep` returns `true`; returns whether any were removed. Needs only linear time, so
/// that a server cannot block the kernel with a million members.
pub(crate) fn retain_members(object: &mut Object, keep: impl Fn(&str, &Payload) -> bool) -> bool {
    if object.iter().all(|(name, value)| keep(name, value)) {
        return false;
    }
    let kept = object.iter().filter(|(name, value)| keep(name, value));
    *object = kept.map(|(name, value)| (name, value.clone())).collect();
    true
}

pub(crate) fn unreadable_result(method: &str, error: &RpcError) -> RpcError {
    let message = format!("the server's answer is not a result of `{method}`");
    RpcError::new(ErrorCode::UPSTREAM_ERROR, message).because(error.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: impl Into<String>) -> Reply {
        Reply::raw(Payload::from_trusted(text.into()))
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn a_result_that_is_nested_too_deeply_for_hosts_is_refused() {
        let result = |inner: &str| reply(format!(r#"{{"content":[],"a":{inner}}}"#));
        assert!(limit_depth(Ok(result(&nested(MAX_DEPTH - 1)))).is_ok());
        for levels in [MAX_DEPTH, 100_000] {
            let refused = limit_depth(Ok(result(&nested(levels)))).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::UPSTREAM_ERROR, "{levels}");
        }
    }

    #[test]
    fn an_error_that_is_nested_too_deeply_for_hosts_keeps_its_code_and_message() {
        let error = |levels| {
            RpcError::new(ErrorCode(-32000), "gone").data(Payload::from_trusted(nested(levels)))
        };
        let deep = limit_depth(Err(error(3_000))).unwrap_err();
        assert_eq!((deep.code(), deep.message()), (ErrorCode(-32000), "gone"));
        assert!(deep.as_data().is_none());
        assert_eq!(limit_depth(Err(error(3))).unwrap_err(), error(3));
    }

    #[test]
    fn a_result_without_the_list_of_its_method_is_an_error_of_the_server() {
        let prompt = |text: &str| expect_list(reply(text), "prompts/get", &["messages"]);
        let completed =
            |text: &str| expect_list(reply(text), "completion/complete", &["completion", "values"]);
        for text in ["null", "5", "[]", "[[]]", "{}", r#"{"messages":5}"#] {
            assert_eq!(prompt(text).unwrap_err().code(), ErrorCode::UPSTREAM_ERROR, "{text}");
        }
        assert!(prompt(r#"{"messages":[],"a":1}"#).is_ok());
        for text in ["null", "{}", r#"{"completion":[]}"#, r#"{"completion":{"values":7}}"#] {
            assert_eq!(completed(text).unwrap_err().code(), ErrorCode::UPSTREAM_ERROR, "{text}");
        }
        assert!(completed(r#"{"completion":{"values":["a"]}}"#).is_ok());
    }

    #[test]
    fn a_list_that_is_null_becomes_an_empty_list() {
        for (path, result, expected) in [
            (
                &["messages"][..],
                r#"{"description":"a","messages": null}"#,
                r#"{"description":"a","messages":[]}"#,
            ),
            (
                &["completion", "values"][..],
                r#"{"completion":{"values":null,"total":0}}"#,
                r#"{"completion":{"values":[],"total":0}}"#,
            ),
            (&["messages"][..], r#"{"messages" : [ ]}"#, r#"{"messages" : [ ]}"#),
            (
                &["contents"][..],
                r#"{"contents":{"uri":"a:b","text":"x"}}"#,
                r#"{"contents":[{"uri":"a:b","text":"x"}]}"#,
            ),
        ] {
            let filled = expect_list(reply(result), "any", path).unwrap();
            assert_eq!(filled.as_body().unwrap().as_raw().as_str(), expected);
        }
    }

    #[test]
    fn members_that_are_null_are_left_out_of_contents_and_messages() {
        for (list, result, expected) in [
            (
                "contents",
                r#"{"contents":[{"uri":"a:b","mimeType":null,"text":"null"}]}"#,
                r#"{"contents":[{"uri":"a:b","text":"null"}]}"#,
            ),
            (
                "messages",
                r#"{"messages":[{"role":"user","content":{"type":"text","text":"a","_meta":null}}]}"#,
                r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}"#,
            ),
            ("contents", r#"{"contents" : ["null"]}"#, r#"{"contents" : ["null"]}"#),
            (
                "messages",
                r#"{"messages":[{"role":"user","content":"a\nb"}]}"#,
                r#"{"messages":[{"role":"user","content":{"type":"text","text":"a\nb"}}]}"#,
            ),
            (
                "messages",
                r#"{"messages" : [{"role":"user"}]}"#,
                r#"{"messages" : [{"role":"user"}]}"#,
            ),
        ] {
            let fitted = drop_nulls(reply(result), list).unwrap();
            assert_eq!(fitted.as_body().unwrap().as_raw().as_str(), expected);
        }
    }

    #[test]
    fn a_hundred_thousand_members_that_are_null_do_not_stop_the_kernel() {
        let nulls: Vec<_> = (0..100_000).map(|number| format!(r#""a{number}":null"#)).collect();
        let block = format!(r#"{{{},"type":"text","text":"a"}}"#, nulls.join(","));
        let begun = tokio::time::Instant::now();
        let fitted = without_nulls(&Payload::from_trusted(block)).unwrap();
        assert_eq!(fitted.as_str(), r#"{"type":"text","text":"a"}"#);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }
}
