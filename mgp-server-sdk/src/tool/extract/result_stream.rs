//! The extractor for tools that send their result in pieces.

use std::sync::Arc;

use mgp_types::mcp::ContentBlock;
use mgp_types::service::{Chunk, ConsumerGone};
use mgp_types::{Payload, RpcError};

use super::super::stream::ChunkRecorder;
use super::{FromCall, ToolRequest};

/// The result of the call, in pieces: each piece is sent to a caller that asked for chunks, and the result contains
/// all of them (MGP §12.4).
///
/// The value that the function returns follows the pieces, unless it begins with their content: then it is the whole
/// result. A caller that did not ask for chunks gets the same result at once. An error, or a result with `isError`,
/// replaces the pieces.
///
/// ```
/// use mgp_server_sdk::ResultStream;
/// use mgp_server_sdk::prelude::*;
///
/// let think = Tool::new("think", "Thinks aloud", |stream: ResultStream| async move {
///     for word in ["to ", "be"] {
///         stream.send_text(word).await?;
///     }
///     Ok::<_, RpcError>(())
/// });
/// # drop(think);
/// ```
#[derive(Clone, Debug)]
pub struct ResultStream(Arc<ChunkRecorder>);

impl ResultStream {
    /// Sends a piece of text; waits while the caller is slow.
    ///
    /// # Errors
    /// Returns [`ConsumerGone`] if the caller left, or if the result is too large; the tool should stop.
    ///
    /// # Cancel safety
    /// If the future is dropped, the text may or may not be part of the result.
    pub async fn send_text(&self, text: impl AsRef<str>) -> Result<(), ConsumerGone> {
        self.0.send(Chunk::text(text.as_ref())).await
    }

    /// Sends a content block, e.g. an image; waits while the caller is slow.
    ///
    /// # Errors
    /// See [`send_text`](Self::send_text).
    ///
    /// # Cancel safety
    /// If the future is dropped, the block may or may not be part of the result.
    pub async fn send(&self, block: &ContentBlock) -> Result<(), ConsumerGone> {
        // Encoding a content block cannot fail.
        let content = Payload::of(block).map_err(|_| ConsumerGone)?;
        self.0.send(Chunk::new(content)).await
    }

    /// Returns whether the caller receives the pieces while the tool runs.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.0.is_streamed()
    }
}

impl FromCall for ResultStream {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self(request.recorder()))
    }
}
