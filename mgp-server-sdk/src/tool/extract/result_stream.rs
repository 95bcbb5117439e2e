//! The extractor for tools that send their result in several pieces.

use std::sync::Arc;

use mgp_stream::Checkpoints;
use mgp_types::mcp::ContentBlock;
use mgp_types::service::{Chunk, ConsumerGone};
use mgp_types::{Payload, RpcError};
use serde::Serialize;

use super::super::stream::ChunkRecorder;
use super::{FromCall, ToolRequest};

/// The result of a call, sent in pieces. A caller that requested chunks receives each piece immediately; the final
/// result contains all pieces (MGP §12.4).
///
/// If the value that the function returns begins with the content of the pieces, that value is the whole result;
/// otherwise the value is appended to the pieces. A caller that did not request chunks receives the same result in one
/// piece. An error, or a result with `isError`, replaces the pieces.
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
pub struct ResultStream {
    recorder: Arc<ChunkRecorder>,
    /// The sealer of the checkpoints that the tool marks; `None` if the caller did not request checkpoints.
    checkpoints: Option<Arc<Checkpoints>>,
}

impl ResultStream {
    /// Sends a piece of text; waits while the caller is slow.
    ///
    /// # Errors
    /// Returns [`ConsumerGone`] if the caller has disconnected, or if the result is too large;
    /// the tool should then stop.
    ///
    /// # Cancel safety
    /// If the future is dropped, the text may or may not be part of the result.
    pub async fn send_text(&self, text: impl AsRef<str>) -> Result<(), ConsumerGone> {
        self.recorder.send(Chunk::text(text.as_ref())).await
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
        self.recorder.send(Chunk::new(content)).await
    }

    /// Marks a point of the result from which the call can be resumed if the connection is lost. Everything sent so far
    /// precedes this point.
    ///
    /// `place` describes the point in a form that only the tool interprets, e.g. the number of the next row; at most 4
    /// KiB of JSON. A call that resumes there receives it as [`Resume`](crate::Resume). Nothing is sent to a caller
    /// that did not request checkpoints (extension `checkpoint`).
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::{CheckpointLayer, Resume, ResultStream};
    ///
    /// # fn run() -> Result<(), RpcError> {
    /// let rows = Tool::new("rows", "Lists rows", |from: Resume<u64>, stream: ResultStream| async move {
    ///     for row in from.0.unwrap_or(0)..10_000 {
    ///         stream.send_text(format!("row {row}\n")).await?;
    ///         if row % 100 == 99 {
    ///             stream.checkpoint(&(row + 1)).await?;
    ///         }
    ///     }
    ///     Ok::<_, RpcError>(())
    /// });
    /// let server = Server::new("rows", "1.0").tool(rows).extension(CheckpointLayer::new()?);
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`send_text`](Self::send_text); also fails if the place is too long.
    ///
    /// # Cancel safety
    /// If the future is dropped, the place may or may not be marked.
    pub async fn checkpoint(&self, place: &impl Serialize) -> Result<(), RpcError> {
        let Some(checkpoints) = self.checkpoints.as_ref().filter(|_| self.is_streamed()) else {
            return Ok(());
        };
        let checkpoint = checkpoints.seal(place, self.recorder.sent())?;
        let chunk = Chunk::new(Payload::of(&checkpoint.to_chunk())?);
        Ok(self.recorder.send_mark(chunk).await?)
    }

    /// Returns whether the caller receives the pieces while the tool runs.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.recorder.is_streamed()
    }
}

impl FromCall for ResultStream {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        let checkpoints = request.cx().extensions.get_shared::<Checkpoints>();
        let checkpoints = checkpoints.filter(|checkpoints| checkpoints.is_wanted());
        Ok(Self { recorder: request.recorder(), checkpoints })
    }
}
