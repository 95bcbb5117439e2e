//! Chunks, progress, cancellation, flow control (MGP §12).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::NotificationExtension;
use crate::mcp::ContentBlock;
use crate::record::{Number, decode, record};
use crate::{Id, Payload};

record! {
    /// Parameters of `notifications/mgp.stream.chunk` (§12.4).
    pub struct ChunkParams {
        /// The request id of the call.
        req request_id: Id,
        /// The number of the chunk, from 0.
        req index read whole: u64,
        /// The content of the chunk.
        req content: ContentBlock,
        /// `true` for the last chunk.
        def done: bool,
        /// The trace id of the call (§6.5).
        opt trace_id: Option<String>,
        /// `true` if an earlier chunk is lost and cannot be sent again (later revisions of MGP).
        opt gap_unrecoverable: Option<bool>,
        /// Further MGP members of the notification (later revisions of MGP).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Parameters of `notifications/mgp.stream.progress` (§12.6).
    pub struct StreamProgressParams {
        /// The request id of the call.
        req request_id: Id,
        /// The progress of the call, from 0 to 1.
        req progress: Number,
        /// A description of the current step.
        opt message: Option<String>,
        /// The estimated remaining time in milliseconds.
        opt estimated_remaining_ms read rounded: Option<u64>,
        /// The trace id of the call (§6.5).
        opt trace_id: Option<String>,
    }

    /// Parameters of `mgp/stream/cancel` (§12.7).
    pub struct CancelParams {
        /// The request id of the call.
        req request_id: Id,
        /// The reason for the cancellation.
        opt reason: Option<String>,
    }

    /// Result of `mgp/stream/cancel`.
    pub struct CancelResult {
        /// `true` if a running call was cancelled.
        req cancelled: bool,
        /// The content produced before the cancellation.
        opt partial_result: Option<PartialResult>,
        /// `not_active`, if no call with this id was running.
        opt reason: Option<String>,
    }

    /// The partial result of a cancelled call.
    pub struct PartialResult {
        /// The content that the call produced.
        req content: PartialContent,
    }

    /// Parameters of `notifications/mgp.stream.pace` (later revisions of MGP).
    pub struct PaceParams {
        /// The request id of the call.
        req request_id: Id,
        /// The maximum number of chunks per second; 0 pauses the stream.
        req max_chunks_per_second read whole: u32,
        /// The reason for the new rate.
        opt reason: Option<String>,
    }

    /// Parameters of `notifications/mgp.stream.gap` (later revisions of MGP).
    pub struct GapParams {
        /// The request id of the call.
        req request_id: Id,
        /// The indices of the chunks that the receiver is missing.
        req missing_indices: Vec<u64>,
    }

    /// Parameters of `notifications/mgp.stream.gap_unrecoverable`, which another implementation of MGP defines.
    pub struct GapUnrecoverableParams {
        /// The request id of the call.
        req request_id: Id,
        /// The index of the lost chunk.
        req missing_index read whole: u64,
        /// The reason why the chunk is lost.
        opt reason: Option<String>,
    }
}

/// The partial content of a cancelled call: content blocks or, from another implementation of MGP, plain text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PartialContent {
    /// Content blocks, as MGP defines them.
    Blocks(Vec<ContentBlock>),
    /// Plain text, as another implementation of MGP sends it.
    Text(String),
}

impl PartialContent {
    /// Returns the content as blocks; plain text becomes one text block.
    #[must_use]
    pub fn into_blocks(self) -> Vec<ContentBlock> {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Text(text) => vec![ContentBlock::text(text)],
        }
    }
}

impl From<Vec<ContentBlock>> for PartialContent {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self::Blocks(blocks)
    }
}

impl Serialize for PartialContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Blocks(blocks) => blocks.serialize(serializer),
            Self::Text(text) => text.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PartialContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        if raw.as_str().trim_start().starts_with('"') {
            decode(&raw).map(Self::Text)
        } else {
            decode(&raw).map(Self::Blocks)
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for PartialContent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PartialContent".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [generator.subschema_for::<Vec<ContentBlock>>(), { "type": "string" }],
        })
    }
}
