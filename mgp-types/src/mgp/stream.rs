//! Chunks, progress, cancellation, flow control (MGP §12).
//!
//! Applies to: both.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::NotificationExtension;
use crate::mcp::ContentBlock;
use crate::record::{Number, decode, record};
use crate::{Id, Payload};

record! {
    /// Parameters of `notifications/mgp.stream.chunk` (§12.4).
    pub struct ChunkParams {
        /// The call.
        req request_id: Id,
        /// The running number, from 0.
        req index: u64,
        /// The piece.
        req content: ContentBlock,
        /// Whether it is the last.
        def done: bool,
        /// Whether an earlier chunk is lost (later revisions).
        opt gap_unrecoverable: Option<bool>,
        /// More (later revisions).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Parameters of `notifications/mgp.stream.progress` (§12.6).
    pub struct StreamProgressParams {
        /// The call.
        req request_id: Id,
        /// How far it is, 0 to 1.
        req progress: Number,
        /// What it does now.
        opt message: Option<String>,
        /// How long it still takes.
        opt estimated_remaining_ms: Option<u64>,
    }

    /// Parameters of `mgp/stream/cancel` (§12.7).
    pub struct CancelParams {
        /// The call.
        req request_id: Id,
        /// Why.
        opt reason: Option<String>,
    }

    /// Result of `mgp/stream/cancel`.
    pub struct CancelResult {
        /// Whether a running call was cancelled.
        req cancelled: bool,
        /// What there was until then.
        opt partial_result: Option<PartialResult>,
        /// Why not: `not_active`.
        opt reason: Option<String>,
    }

    /// What a cancelled call had said.
    pub struct PartialResult {
        /// The content.
        req content: PartialContent,
    }

    /// Parameters of `notifications/mgp.stream.pace` (later revisions).
    pub struct PaceParams {
        /// The call.
        req request_id: Id,
        /// How many chunks a second; 0 is a pause.
        req max_chunks_per_second: u32,
        /// Why.
        opt reason: Option<String>,
    }

    /// Parameters of `notifications/mgp.stream.gap` (later revisions).
    pub struct GapParams {
        /// The call.
        req request_id: Id,
        /// The numbers that did not come.
        req missing_indices: Vec<u64>,
    }

    /// Parameters of `notifications/mgp.stream.gap_unrecoverable` (one implementation).
    pub struct GapUnrecoverableParams {
        /// The call.
        req request_id: Id,
        /// The number that is lost.
        req missing_index: u64,
        /// Why.
        opt reason: Option<String>,
    }
}

/// The content of a cancelled call: blocks or, from one implementation, a text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PartialContent {
    /// Blocks.
    Blocks(Vec<ContentBlock>),
    /// A text.
    Text(String),
}

impl PartialContent {
    /// Takes the content as blocks.
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
