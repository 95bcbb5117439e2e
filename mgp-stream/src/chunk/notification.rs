//! The notification that carries a chunk, decoded from its params.

use mgp_types::mcp::ContentBlock;
use mgp_types::mgp::ChunkParams;
use mgp_types::proposal::OperationChunk;
use mgp_types::service::Params;
use mgp_types::{Id, Payload, RpcError};
use serde::Deserialize;

/// A chunk whose content is not decoded but stays raw JSON.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(PartialEq))]
pub(crate) struct ChunkNotification {
    pub(crate) request_id: Id,
    pub(crate) index: Option<u64>,
    pub(crate) content: Payload,
    #[serde(default)]
    pub(crate) done: bool,
    #[serde(default)]
    pub(crate) gap_unrecoverable: bool,
}

impl ChunkNotification {
    /// Reads the params of the notification, also in the form that other implementations use.
    ///
    /// # Errors
    /// Returns −32602 (invalid params), with the reason why the params cannot be read.
    pub(crate) fn read(params: &Params) -> Result<Self, RpcError> {
        if let Some(read) = Self::read_plain(params) {
            return Ok(read);
        }
        params.get().or_else(|error| {
            // `ChunkParams` also reads `null` and numbers such as `3.0`. Other implementations might use the member
            // names that the proposal for streams defines, e.g. `sequence` for `index`.
            let read = params.get::<ChunkParams>();
            let mapped = read
                .or_else(|_| params.get::<OperationChunk>().map(ChunkParams::from))
                .map_err(|_| error)?;
            Ok(Self {
                request_id: mapped.request_id,
                index: Some(mapped.index),
                content: Payload::of(&mapped.content)?,
                done: mapped.done,
                gap_unrecoverable: mapped.gap_unrecoverable.unwrap_or_default(),
            })
        })
    }

    /// Parses a chunk of text if its members are in the order that this crate uses. Returns `None` for params in any
    /// other form.
    ///
    /// Such a chunk is parsed by hand, because streams of text have many small chunks, and decoding them with serde
    /// takes six times as long.
    fn read_plain(params: &Params) -> Option<Self> {
        let body = params.body()?;
        let (id, rest) = body.strip_prefix(r#""request_id":"#)?.split_once(',')?;
        let (index, rest) = rest.strip_prefix(r#""index":"#)?.split_once(',')?;
        let rest = rest.strip_prefix(r#""content":"#)?;
        let (content, done) = match rest.strip_suffix(r#","done":false"#) {
            Some(content) => (content, false),
            None => (rest.strip_suffix(r#","done":true"#)?, true),
        };
        let content = Payload::from_trusted(body.slice_ref(content));
        // This check also proves that `content` is a single JSON value, so no further member was taken as a part of it.
        ContentBlock::plain_text(&content)?;
        let (request_id, index) = (Id::Number(id.parse().ok()?), Some(index.parse().ok()?));
        Some(Self { request_id, index, content, done, gap_unrecoverable: false })
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Notification as _, StreamChunk};

    use super::*;

    #[track_caller]
    fn params(text: &str) -> Params {
        Params::split(StreamChunk::METHOD, text.to_owned().into()).unwrap()
    }

    #[test]
    fn what_is_read_by_hand_is_what_serde_reads() {
        let texts = ["a", "", r"\n\u0000\\", r#"\"}"#, r#"},\"done\":true"#, "日本"];
        let last = [r#","done":true"#, r#","done":false"#, r#","done":true,"trace_id":"t""#];
        for (text, last) in texts.iter().flat_map(|text| last.map(|last| (text, last))) {
            let content = format!(r#"{{"type":"text","text":"{text}"}}"#);
            let params =
                params(&format!(r#"{{"request_id":7,"index":3,"content":{content}{last}}}"#));
            let read = ChunkNotification::read_plain(&params).unwrap();
            assert_eq!(read, params.get().unwrap());
            assert_eq!(read.content.as_str(), content);
        }
    }

    #[test]
    fn null_and_numbers_with_a_point_are_read() {
        let text =
            r#"{"request_id":7,"index":3.0,"content":{"type":"text","text":"a"},"done":null}"#;
        let read = ChunkNotification::read(&params(text)).unwrap();
        assert_eq!((read.index, read.done), (Some(3), false));
    }

    #[test]
    fn other_forms_are_left_to_serde() {
        let block = r#"{"type":"text","text":"a"}"#;
        for members in [
            format!(r#""request_id":7,"index":3,"content":{block},"x":{{"y":"z"}},"done":false"#),
            format!(r#""request_id":"7","index":3,"content":{block},"done":false"#),
            format!(r#""request_id":7,"index":3.0,"content":{block},"done":false"#),
            format!(r#""request_id":7,"index":3,"content":{block},"gap_unrecoverable":true,"done":false"#),
            format!(r#""request_id":7,"index":3,"content":{block}"#),
            r#""request_id":7,"index":3,"content":{"type":"image","data":"","mimeType":"a"},"done":true"#.to_owned(),
        ] {
            assert_eq!(ChunkNotification::read_plain(&params(&format!("{{{members}}}"))), None);
        }
    }
}
