//! Proposal 8 (`streaming`, `progress_notifications`): converts stream messages of MGP §12 to the member names of the
//! proposal and back. Well-formed messages that are not nested too deeply lose nothing.
//!
//! The names of the proposal correspond to those of MGP: `operation_id` to `request_id`, `sequence` to `index`,
//! `is_final` to `done`, `data` to `content`, and `estimated_remaining_seconds` to `estimated_remaining_ms`. If a value
//! cannot be converted exactly, the message contains the closest value, and also the original value under its original
//! name.

use crate::mcp::{ContentBlock, Meta, TextContent};
use crate::mgp::{ChunkParams, StreamProgressParams};
use crate::record::{Number, record};
use crate::{Id, Payload};

record! {
    /// The progress of an operation.
    pub struct OperationProgress {
        /// The id of the operation.
        req operation_id: String,
        /// The progress of the operation, from 0 to 1.
        req progress: Number,
        /// A description of the current step.
        opt message: Option<String>,
        /// The estimated remaining time in seconds, a number.
        opt estimated_remaining_seconds: Option<Payload>,
    }

    /// A piece of the result of an operation.
    pub struct OperationChunk {
        /// The id of the operation.
        req operation_id: String,
        /// The position of the piece in the result, from 0.
        req sequence read whole: u64,
        /// The content of the piece.
        req data: Payload,
        /// `true` for the last piece.
        def is_final: bool,
    }
}

const SECONDS: &str = "estimated_remaining_seconds";

impl From<OperationProgress> for StreamProgressParams {
    fn from(read: OperationProgress) -> Self {
        let mut out = Self::new(to_request(&read.operation_id), read.progress);
        (out.message, out.extra) = (read.message, read.extra);
        if let Some(seconds) = read.estimated_remaining_seconds {
            let millis = to_millis(&seconds);
            out.estimated_remaining_ms = Some(millis);
            if to_seconds(millis) != seconds {
                out.extra.insert(SECONDS, seconds);
            }
        }
        out.trace_id = out.extra.remove("trace_id").and_then(|trace| trace.get().ok());
        out
    }
}

impl From<StreamProgressParams> for OperationProgress {
    fn from(params: StreamProgressParams) -> Self {
        let mut out = Self::new(to_operation(&params.request_id), params.progress);
        (out.message, out.extra) = (params.message, params.extra);
        let exact = out.extra.remove(SECONDS);
        out.estimated_remaining_seconds = exact.or(params.estimated_remaining_ms.map(to_seconds));
        if let Some(trace) = params.trace_id {
            let _ = out.extra.encode("trace_id", &trace);
        }
        out
    }
}

impl From<OperationChunk> for ChunkParams {
    fn from(read: OperationChunk) -> Self {
        let mut out =
            Self::new(to_request(&read.operation_id), read.sequence, to_content(&read.data));
        (out.done, out.extra) = (read.is_final, read.extra);
        out.trace_id = out.extra.remove("trace_id").and_then(|trace| trace.get().ok());
        out.gap_unrecoverable =
            out.extra.remove("gap_unrecoverable").and_then(|lost| lost.get().ok());
        out.mgp = out.extra.remove("_mgp").and_then(|mgp| mgp.get().ok());
        out
    }
}

impl From<ChunkParams> for OperationChunk {
    fn from(params: ChunkParams) -> Self {
        let data = to_data(&params.content);
        let mut out = Self::new(to_operation(&params.request_id), params.index, data);
        (out.is_final, out.extra) = (params.done, params.extra);
        // Cannot fail: these values can always be encoded as JSON.
        if let Some(trace) = params.trace_id {
            let _ = out.extra.encode("trace_id", &trace);
        }
        if let Some(lost) = params.gap_unrecoverable {
            let _ = out.extra.encode("gap_unrecoverable", &lost);
        }
        if let Some(mgp) = params.mgp {
            let _ = out.extra.encode("_mgp", &mgp);
        }
        out
    }
}

// === Ids ===

/// Returns the operation id for a request id. A string id that looks like a number is put in quotes, so that converting
/// it back does not turn it into a number.
fn to_operation(id: &Id) -> String {
    match id {
        Id::Number(number) => number.to_string(),
        Id::String(text) if needs_quotes(text) => quoted(text),
        Id::String(text) => text.to_string(),
    }
}

fn to_request(operation: &str) -> Id {
    if let Some(number) = as_number(operation) {
        return Id::Number(number);
    }
    match unquoted(operation).filter(|text| needs_quotes(text)) {
        Some(text) => Id::from(text.as_str()),
        None => Id::from(operation),
    }
}

fn needs_quotes(text: &str) -> bool {
    as_number(text).is_some() || unquoted(text).is_some_and(|inner| needs_quotes(&inner))
}

fn as_number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

fn quoted(text: &str) -> String {
    // Cannot fail: a text can always be encoded as JSON.
    serde_json::to_string(text).unwrap_or_default()
}

fn unquoted(text: &str) -> Option<String> {
    let inner: String = serde_json::from_str(text).ok()?;
    (quoted(&inner) == text).then_some(inner)
}

// === Times ===

/// Converts milliseconds to seconds without rounding.
fn to_seconds(millis: u64) -> Payload {
    let (whole, rest) = (millis / 1000, millis % 1000);
    if rest == 0 {
        return Payload::from_trusted(whole.to_string());
    }
    let text = format!("{whole}.{rest:03}");
    Payload::from_trusted(text.trim_end_matches('0').to_owned())
}

/// Converts seconds to milliseconds. The result is exact if there are at most three decimal places, and otherwise
/// rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a value that is not exact is kept beside it"
)]
fn to_millis(seconds: &Payload) -> u64 {
    let (whole, decimals) = seconds.as_str().split_once('.').unwrap_or((seconds.as_str(), ""));
    let exact = format!("{whole}{decimals:0<3}").parse().ok().filter(|_| decimals.len() <= 3);
    exact.unwrap_or_else(|| (seconds.get::<f64>().unwrap_or_default() * 1000.0).round() as u64)
}

// === Content ===

/// The name of the member of a text block's `_meta` in which [`to_content`] stores data of a chunk that are neither a
/// text nor a content block.
const DATA: &str = "data";

/// The maximum depth of nesting in data that count as a content block. [`as_block`] calls itself for data within data,
/// so deeper nesting could overflow the stack.
const MAX_DEPTH: usize = 32;

/// Converts the data of a chunk to a content block. A text becomes a text block, a content block stays unchanged, and
/// any other data becomes a text block with the data in its `_meta`.
fn to_content(data: &Payload) -> ContentBlock {
    as_content(data).unwrap_or_else(|| wrapped(data))
}

/// Returns the content block for data that are a text or a content block.
fn as_content(data: &Payload) -> Option<ContentBlock> {
    match data.get::<String>() {
        Ok(text) if quoted(&text) == data.as_str() => Some(ContentBlock::text(text)),
        _ => as_block(data),
    }
}

fn to_data(content: &ContentBlock) -> Payload {
    if let Some(text) = content.as_text()
        && *content == ContentBlock::text(text)
    {
        return Payload::from_trusted(quoted(text));
    }
    if let ContentBlock::Text(text) = content
        && let Some(data) = text.meta.as_ref().and_then(|meta| meta.get(DATA))
        && *content == wrapped(data)
        && as_content(data).is_none()
    {
        return data.clone();
    }
    // Cannot fail: a content block can always be encoded as JSON.
    Payload::of(content).unwrap_or_else(|_| Payload::empty_object())
}

/// Returns the data as a content block, if they are one that is not nested deeper than [`MAX_DEPTH`]. A text block with
/// other data in its `_meta` does not count, because [`to_content`] uses this form for data that are not a content
/// block.
fn as_block(data: &Payload) -> Option<ContentBlock> {
    if !data.as_str().starts_with('{') || data.is_deeper_than(MAX_DEPTH) {
        return None;
    }
    let block: ContentBlock = data.get().ok()?;
    (to_data(&block) == *data).then_some(block)
}

fn wrapped(data: &Payload) -> ContentBlock {
    let mut meta = Meta::new();
    meta.insert(DATA, data.clone());
    let plain = data.get::<ContentBlock>().ok();
    let shown = plain.as_ref().and_then(ContentBlock::as_text).unwrap_or(data.as_str());
    let mut text = TextContent::new(shown.to_owned());
    text.meta = Some(meta);
    text.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "-?[0-9]{1,20}",
            "\"?[a-z0-9\\\\\"]{0,6}\"?",
            "\"\\\\\"-?[0-9]{1,3}\\\\\"\"",
            ".{0,8}"
        ]
    }

    fn ids() -> impl Strategy<Value = Id> {
        prop_oneof![any::<i64>().prop_map(Id::Number), texts().prop_map(|text| Id::from(&*text))]
    }

    fn numbers() -> impl Strategy<Value = Number> {
        prop_oneof![
            any::<u64>().prop_map(Number::from),
            (0..100_000_u64).prop_map(Number::from),
            any::<i64>().prop_map(Number::from),
            any::<f64>().prop_map(Number::from),
            (0..1_000_000_u32).prop_map(|millis| Number::from(f64::from(millis) / 1000.0)),
        ]
    }

    fn data() -> impl Strategy<Value = Payload> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            numbers().prop_map(|number| number.to_string()),
            texts().prop_map(|text| quoted(&text)),
            Just(r#""\u0061""#.to_owned()),
        ];
        let nested = leaf.prop_recursive(4, 16, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|value| format!("[{value}]")),
                inner.clone().prop_map(|value| format!(r#"{{"row":{value}}}"#)),
                inner.clone().prop_map(|value| format!(r#"{{"type":"text","text":{value}}}"#)),
                inner.clone().prop_map(|value| format!(r#"{{"type":"table","rows":{value}}}"#)),
                inner.prop_map(|value| {
                    let text = quoted(&value);
                    format!(r#"{{"type":"text","text":{text},"_meta":{{"data":{value}}}}}"#)
                }),
            ]
        });
        nested.prop_map(Payload::from_trusted)
    }

    proptest! {
        #[test]
        fn progress_of_the_proposal_survives_both_directions(
            operation in texts(),
            progress in numbers(),
            message in proptest::option::of(texts()),
            seconds in proptest::option::of(prop_oneof![
                numbers().prop_map(|number| number.to_string()),
                "[1-9][0-9]{0,20}(\\.[0-9]{1,5})?(e[0-9])?",
            ]),
            token in proptest::option::of(texts()),
        ) {
            let mut sent = OperationProgress::new(operation, progress);
            sent.message = message;
            sent.estimated_remaining_seconds = seconds.map(Payload::from_trusted);
            if let Some(token) = token {
                sent.extra.encode("checkpoint_token", &token).unwrap();
            }
            let mapped = StreamProgressParams::from(sent.clone());
            prop_assert_eq!(OperationProgress::from(mapped), sent);
        }

        #[test]
        fn progress_of_mgp_survives_both_directions(
            request in ids(),
            progress in numbers(),
            millis in proptest::option::of(any::<u64>()),
            trace in proptest::option::of(texts()),
        ) {
            let mut sent = StreamProgressParams::new(request, progress);
            (sent.estimated_remaining_ms, sent.trace_id) = (millis, trace);
            let mapped = OperationProgress::from(sent.clone());
            prop_assert_eq!(StreamProgressParams::from(mapped), sent);
        }

        #[test]
        fn a_chunk_of_the_proposal_survives_both_directions(
            operation in texts(),
            sequence: u64,
            data in data(),
            is_final: bool,
        ) {
            let mut sent = OperationChunk::new(operation, sequence, data);
            sent.is_final = is_final;
            sent.extra.encode("checkpoint_token", "t").unwrap();
            let mapped = ChunkParams::from(sent.clone());
            prop_assert_eq!(OperationChunk::from(mapped), sent);
        }

        #[test]
        fn a_chunk_of_mgp_survives_both_directions(
            request in ids(),
            index: u64,
            data in data(),
            lost in proptest::option::of(any::<bool>()),
        ) {
            let content = data.get::<ContentBlock>().unwrap_or_else(|_| wrapped(&data));
            let mut sent = ChunkParams::new(request, index, content);
            sent.gap_unrecoverable = lost;
            let mapped = OperationChunk::from(sent.clone());
            prop_assert_eq!(ChunkParams::from(mapped), sent);
        }
    }

    /// Regression test: each level of such data took several levels of the stack.
    #[test]
    fn deeply_nested_data_does_not_overflow_the_stack() {
        for depth in [MAX_DEPTH / 2, 20_000] {
            let open = r#"{"type":"text","text":"","_meta":{"data":"#.repeat(depth);
            let data = Payload::from_trusted(format!("{open}1{}", "}}".repeat(depth)));
            let sent = OperationChunk::new("7", 0_u64, data);
            let mapped = ChunkParams::from(sent.clone());
            assert_eq!(OperationChunk::from(mapped), sent, "{depth}");
        }
    }

    #[test]
    fn the_words_of_the_proposal_are_those_of_mgp() {
        let text = r#"{"operation_id":"op-42","progress":0.6,"message":"Processing row 6,000 of 10,000","estimated_remaining_seconds":12}"#;
        let mapped =
            StreamProgressParams::from(serde_json::from_str::<OperationProgress>(text).unwrap());
        assert_eq!(
            (mapped.request_id.clone(), mapped.estimated_remaining_ms),
            (Id::from("op-42"), Some(12_000))
        );
        assert!(mapped.extra.is_empty());
        let text = r#"{"operation_id":"7","sequence":3,"data":"row","is_final":true}"#;
        let mapped = ChunkParams::from(serde_json::from_str::<OperationChunk>(text).unwrap());
        assert_eq!((mapped.request_id, mapped.index, mapped.done), (Id::Number(7), 3, true));
        assert_eq!(mapped.content, ContentBlock::text("row"));
    }
}
