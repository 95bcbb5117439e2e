//! The invariants of the message parser, which the test checks for every line.

use bytes::Bytes;
use bytestring::ByteString;
use mgp_types::service::{
    HopMembers, InvalidMessage, Message, Method, Params, Reply, write_answer, write_call,
};
use mgp_types::{Id, RpcError};
use serde::de::IgnoredAny;

/// Parses one line and checks the result.
pub(crate) fn check(line: &[u8]) -> Result<(), String> {
    // The framing rejects a line that is not valid UTF-8, so the parser never receives it.
    let Ok(text) = ByteString::try_from(Bytes::copy_from_slice(line)) else { return Ok(()) };
    check_text(text, Depth::Line)
}

#[derive(Clone, Copy, PartialEq)]
enum Depth {
    Line,
    Item,
}

fn check_text(text: ByteString, depth: Depth) -> Result<(), String> {
    match Message::parse(text) {
        Ok(Message::Request { id, method, params }) => written_as_read(Some(&id), &method, &params),
        Ok(Message::Notification { method, params }) => written_as_read(None, &method, &params),
        Ok(Message::Response { id, outcome }) => answered(id.as_ref(), &outcome.map(Reply::raw)),
        Ok(Message::Batch(items)) if depth == Depth::Line => {
            items.into_iter().try_for_each(|item| check_text(item, Depth::Item))
        }
        Err(InvalidMessage { id, error: Some(error) }) => {
            let code = error.code().0;
            if ![-32700, -32600].contains(&code) {
                return Err(format!("refused with {code}"));
            }
            answered(id.as_ref(), &Err(error))
        }
        Ok(Message::Batch(_)) | Err(InvalidMessage { error: None, .. }) => Ok(()),
    }
}

/// Checks that a parsed message is written as one valid line, and that parsing this line returns the same message.
fn written_as_read(id: Option<&Id>, method: &Method, params: &Params) -> Result<(), String> {
    // Calls every accessor, because each parses untrusted bytes and must not panic.
    let _ =
        (params.trace_id(), params.wants_stream(), params.progress_token(), params.request_state());
    let line = write(id, method, params)?;
    let again = match Message::parse(line.clone().into()) {
        Ok(Message::Request { id: read, method, params }) if Some(&read) == id => {
            write(id, &method, &params)?
        }
        Ok(Message::Notification { method, params }) if id.is_none() => {
            write(id, &method, &params)?
        }
        other => return Err(format!("written as {line:?} and read as {other:?}")),
    };
    // Compares the sorted bytes too: members whose names have escapes are written last, so the order can change.
    let sorted = |line: &str| {
        let mut bytes = line.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    if line == again || sorted(&line) == sorted(&again) {
        return Ok(());
    }
    Err(format!("written as {line:?} and then as {again:?}"))
}

fn write(id: Option<&Id>, method: &Method, params: &Params) -> Result<String, String> {
    let mut out = Vec::with_capacity(256);
    write_call(&mut out, id, method.as_str(), params, &HopMembers::default());
    let line = String::from_utf8(out).map_err(|error| error.to_string())?;
    valid(line.as_bytes())?;
    Ok(line)
}

fn answered(id: Option<&Id>, outcome: &Result<Reply, RpcError>) -> Result<(), String> {
    let mut out = Vec::with_capacity(256);
    write_answer(&mut out, id, outcome);
    valid(&out)
}

fn valid(line: &[u8]) -> Result<(), String> {
    if line.contains(&b'\n') {
        return Err("a newline was written".to_owned());
    }
    serde_json::from_slice::<IgnoredAny>(line)
        .map(drop)
        .map_err(|error| format!("{error} in what was written: {}", line.escape_ascii()))
}
