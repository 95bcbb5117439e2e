//! Messages written as JSON, without intermediate values.

use crate::service::hop::HopMembers;
use crate::service::params::Params;
use crate::service::reply::Reply;
use crate::service::write::{format_u64, write_text};
use crate::wire::{Id, RpcError};

/// Writes a request or notification as one JSON object.
pub fn write_call(
    out: &mut Vec<u8>,
    id: Option<&Id>,
    method: &str,
    params: &Params,
    meta: &HopMembers,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        write_id(out, Some(id));
        out.push(b',');
    }
    out.extend_from_slice(br#""method":"#);
    write_text(out, method);
    if !params.is_empty_with(meta) {
        out.extend_from_slice(br#","params":"#);
        params.write(out, meta);
    }
    out.push(b'}');
}

/// Writes the response to a request; writes nothing for [`Reply::None`].
pub fn write_answer(out: &mut Vec<u8>, id: Option<&Id>, outcome: &Result<Reply, RpcError>) {
    let head = |out: &mut Vec<u8>| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        write_id(out, id);
    };
    match outcome {
        Ok(Reply::None) => {}
        Ok(reply) => {
            head(out);
            out.extend_from_slice(br#","result":"#);
            reply.write(out);
            out.push(b'}');
        }
        Err(error) => {
            head(out);
            out.extend_from_slice(br#","error":"#);
            let start = out.len();
            if serde_json::to_writer(&mut *out, error).is_err() {
                out.truncate(start);
                out.extend_from_slice(
                    br#"{"code":-32603,"message":"an error could not be written"}"#,
                );
            }
            out.push(b'}');
        }
    }
}

fn write_id(out: &mut Vec<u8>, id: Option<&Id>) {
    match id {
        Some(Id::String(text)) => write_text(out, text),
        Some(Id::Number(number)) => {
            if *number < 0 {
                out.push(b'-');
            }
            out.extend_from_slice(format_u64(number.unsigned_abs(), &mut [0; 20]));
        }
        None => out.extend_from_slice(b"null"),
    }
}
