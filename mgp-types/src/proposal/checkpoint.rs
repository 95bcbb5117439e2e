//! Proposal 8 (`checkpoint`): streams that the caller can resume after a disconnect.

use serde::{Deserialize, Serialize};

use super::Member;
use crate::mcp::{ContentBlock, Meta, TextContent};
use crate::mgp::Extension;
use crate::record::record;

record! {
    /// A position in a streamed result from which a later call can resume the stream.
    pub struct Checkpoint {
        /// The id of the operation, common to the interrupted call and the calls that resume it.
        req operation_id: String,
        /// The token by which the server finds the position in the stream; only the server can read the token.
        req checkpoint_token: String,
        /// The number of chunks of this call before the checkpoint.
        opt sequence read whole: Option<u64>,
    }
}

impl Member for Checkpoint {
    const EXTENSION: Extension = Extension::Checkpoint;
    const NAME: &'static str = "resume";
}

/// The member of a call by which the caller requests checkpoints in the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WantsCheckpoints(pub bool);

impl Member for WantsCheckpoints {
    const EXTENSION: Extension = Extension::Checkpoint;
    const NAME: &'static str = "checkpoints";
}

/// The name of the member of a chunk's `_meta` that contains the checkpoint.
const IN_CHUNK: &str = "checkpoint";

impl Checkpoint {
    /// Returns the content of the chunk that carries the checkpoint: an empty text, so that the chunk does not change
    /// the joined result.
    #[must_use]
    pub fn to_chunk(&self) -> ContentBlock {
        let mut meta = Meta::new();
        // Encoding a checkpoint cannot fail.
        let _ = meta.encode(IN_CHUNK, self);
        let mut text = TextContent::new(String::new());
        text.meta = Some(meta);
        text.into()
    }

    /// Returns the checkpoint that the content of a chunk carries.
    #[must_use]
    pub fn of_chunk(content: &ContentBlock) -> Option<Self> {
        let ContentBlock::Text(text) = content else { return None };
        text.meta.as_ref().filter(|_| text.text.is_empty())?.decode(IN_CHUNK).ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_from_its_chunk_and_from_no_other() {
        let mut checkpoint = Checkpoint::new("op-42".to_owned(), "t".to_owned());
        checkpoint.sequence = Some(6);
        let chunk = checkpoint.to_chunk();
        assert_eq!(Checkpoint::of_chunk(&chunk), Some(checkpoint));
        let text = serde_json::to_string(&chunk).unwrap();
        let filled = text.replace(r#""text":"""#, r#""text":"row""#);
        for other in [filled.as_str(), r#"{"type":"text","text":""}"#] {
            assert_eq!(Checkpoint::of_chunk(&serde_json::from_str(other).unwrap()), None);
        }
    }
}
