//! The rules about chunks and cancellation (MGP §12).

use serde_json::{Value, json};

use crate::json::{boolean, member, number, object, shown, text};
use crate::rule::{Check, callable_tool, ensure, server_rules, skip};
use crate::session::{Answer, Session};

server_rules! { Tier3;
    "mgp.stream.unwanted", "MGP §12.3", Must, LegacyMgp ["streaming"],
        "no chunks are sent for a call that asks for none" => unwanted;
    "mgp.stream.chunks", "MGP §12.4", Must, LegacyMgp ["streaming"],
        "chunks are numbered from 0 without a gap, belong to the call, and come before its result" => chunks;
    "mgp.stream.whole", "MGP §12.5", Must, LegacyMgp ["streaming"],
        "the result of a streamed call has the text of its chunks" => whole;
    "mgp.stream.totals", "MGP §12.5", Must, LegacyMgp ["streaming"],
        "the result of a streamed call counts its chunks" => totals;
    "mgp.stream.cancel.unknown", "MGP §12.7", Must, LegacyMgp ["streaming"],
        "a cancellation of an unknown call changes nothing" => cancel_unknown;
    "mgp.stream.cancel.params", "MGP §12.7", Must, LegacyMgp ["streaming"],
        "a cancellation without a request is refused" => cancel_nothing;
}

const CHUNK: &str = "notifications/mgp.stream.chunk";

/// Calls the tool that the judge is allowed to call, and returns the id of the call, its chunks and its result.
async fn call(
    session: &mut Session,
    streams: bool,
) -> Result<(Value, Vec<Value>, Value), crate::rule::Outcome> {
    let (name, arguments) = callable_tool(session).await?;
    session.notices.clear();
    let mut params = json!({ "name": name, "arguments": arguments });
    if streams {
        params["_mgp"] = json!({ "stream": true });
    }
    let result = super::tools::call(session, params).await?;
    if session.notices.has_dropped() {
        return Err(skip("the server sent too many messages during the call"));
    }
    let chunks = session.notices.iter().filter(|notice| notice["method"] == CHUNK);
    // Leave out chunks that the client asked for again, because they are sent out of order.
    let chunks = chunks
        .filter(|chunk| chunk.pointer("/params/_mgp/retransmit") != Some(&json!(true)))
        .map(|notice| notice["params"].clone())
        .collect();
    Ok((session.sent()["id"].clone(), chunks, result))
}

/// Calls the tool and requests chunks; skips the rule if the tool sends none.
async fn streamed(
    session: &mut Session,
) -> Result<(Value, Vec<Value>, Value), crate::rule::Outcome> {
    let (id, chunks, result) = call(session, true).await?;
    super::tools::check_result(&result)?;
    if chunks.is_empty() {
        return Err(skip("the tool sent no chunks: name one that does with `--tool`"));
    }
    Ok((id, chunks, result))
}

async fn unwanted(session: &mut Session) -> Check {
    let (_, chunks, _) = call(session, false).await?;
    ensure(chunks.is_empty(), || format!("{} chunks were sent", chunks.len()))
}

async fn chunks(session: &mut Session) -> Check {
    let (id, chunks, _) = streamed(session).await?;
    for (expected, chunk) in chunks.iter().enumerate() {
        ensure(chunk["request_id"] == id, || {
            format!("a chunk of another request: {}", shown(chunk))
        })?;
        let index = member(chunk, "index")?.as_u64();
        ensure(index == Some(expected as u64), || {
            format!("chunk {expected} has the index {}", shown(&chunk["index"]))
        })?;
        text(object(chunk, "content")?, "type")?;
        let is_done = boolean(chunk, "done")?;
        ensure(!is_done || expected + 1 == chunks.len(), || {
            "a chunk follows the one with `done`".to_owned()
        })?;
    }
    Ok(())
}

async fn whole(session: &mut Session) -> Check {
    let (_, chunks, result) = streamed(session).await?;
    if result["isError"] == json!(true) {
        return Err(skip("the call failed, so its result is the error"));
    }
    let parts = chunks.iter().filter_map(|chunk| chunk.pointer("/content/text")?.as_str());
    let sent: String = parts.collect();
    let blocks = result["content"].as_array().into_iter().flatten();
    let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
    ensure(text.contains(&sent), || {
        format!(
            "the result with {} bytes of text does not contain the {} bytes of the chunks",
            text.len(),
            sent.len()
        )
    })
}

async fn totals(session: &mut Session) -> Check {
    let (_, chunks, result) = streamed(session).await?;
    let mgp = object(&result, "_mgp")?;
    ensure(boolean(mgp, "streamed")?, || "`_mgp.streamed` must be true".to_owned())?;
    let sent = number(mgp, "chunks_sent")?;
    #[expect(clippy::cast_precision_loss, reason = "few chunks")]
    let received = chunks.len() as f64;
    ensure(sent >= received, || format!("`chunks_sent` is {sent}, and {received} came"))
}

async fn cancel_unknown(session: &mut Session) -> Check {
    let params = json!({ "request_id": "no-such-request", "reason": "test" });
    match session.ask("mgp/stream/cancel", params).await? {
        Answer::Result(result) => {
            ensure(!boolean(&result, "cancelled")?, || "an unknown call was cancelled".to_owned())
        }
        refused @ Answer::Error { .. } => refused.check_error("mgp/stream/cancel", &[-32602, 4004]),
    }
}

async fn cancel_nothing(session: &mut Session) -> Check {
    let answer = session.ask("mgp/stream/cancel", json!({ "reason": "test" })).await?;
    answer.check_error("mgp/stream/cancel", &[-32602, 4000])
}
