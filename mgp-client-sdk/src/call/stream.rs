//! A call as a stream: partial results while it runs, then the result (MGP §12).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use futures_util::Stream;
use mgp_types::mcp::{CallToolResult, ContentBlock};
use mgp_types::mgp::{CancelParams, CancelResult, Extension, PaceParams};
use mgp_types::proposal::Checkpoint;
use mgp_types::service::{
    BoxFuture, CallKey, ConsumerGone, Context, Outlet, OutletItem, OutletItemKind, Progress, Sink,
};
use mgp_types::{Id, Payload, RpcError};
use tokio::sync::mpsc;

use super::ToolCall;
use crate::client::Client;
use crate::error::Error;

/// The maximum number of buffered partial results for the reader. The connection buffers more, within its own limits.
const MAX_BUFFERED: usize = 64;

/// An item of a [`ToolStream`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamItem {
    /// A part of the result of the call.
    Chunk(ContentBlock),
    /// The progress of the call.
    Progress(Progress),
    /// A point from which an interrupted call can continue, if the call requested checkpoints: send the call again
    /// [with](super::ToolCall::with) this member.
    Checkpoint(Checkpoint),
    /// The complete result. It is always the last item.
    Result(CallToolResult),
}

/// A running call: a stream of its partial results in order, then its result or error.
///
/// The call runs while the stream is polled; dropping the stream cancels it at the server.
#[must_use = "a stream does nothing until it is polled"]
pub struct ToolStream {
    items: mpsc::Receiver<OutletItem>,
    call: Option<BoxFuture<'static, Result<CallToolResult, Error>>>,
    last: Option<Result<CallToolResult, Error>>,
    client: Client,
    key: CallKey,
}

impl ToolStream {
    pub(super) fn new(call: ToolCall) -> Self {
        let (sender, items) = mpsc::channel(MAX_BUFFERED);
        let (inner, client, key) = (call.outlet.clone(), call.client.clone(), call.key);
        let call = call.outlet(Outlet::new(Arc::new(Channel { sender, inner })));
        Self { items, call: Some(Box::pin(call.send())), last: None, client, key }
    }

    /// Cancels the call and returns its partial result (MGP §12.7).
    ///
    /// If streaming was not negotiated, the call is only cancelled, and there is no partial result.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call as well.
    pub async fn cancel(self) -> Result<CancelResult, Error> {
        let Some(running) = self.running() else {
            let mut over = CancelResult::new(false);
            over.reason = Some("not_active".to_owned());
            return Ok(over);
        };
        if !self.client.server().has(Extension::Streaming) {
            return Ok(CancelResult::new(true));
        }
        self.client.mgp().stream_cancel(&CancelParams::new(running)).await
    }

    /// Limits the number of chunks that the server sends per second; 0 pauses the stream (MGP §12.8).
    ///
    /// Does nothing if the call is not running, or if the server did not negotiate streaming. Chunks that the server
    /// has already sent still arrive.
    ///
    /// # Errors
    /// Code 2000 (server not ready) if the connection is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the notification may or may not have been sent.
    pub fn pace(
        &self,
        max_chunks_per_second: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (running, client) = (self.running(), self.client.clone());
        async move {
            let Some(id) = running else { return Ok(()) };
            let params = PaceParams::new(id, max_chunks_per_second);
            client.mgp().stream_pace(&params).await
        }
    }

    /// Returns the id of the request if it was sent and has not been answered.
    fn running(&self) -> Option<Id> {
        let logical = self.key.to_string();
        let in_flight = self.client.peer().all_in_flight();
        let is_own = |cx: &Context| cx.key == self.key || cx.logical.as_deref() == Some(&*logical);
        in_flight.into_iter().find(|call| is_own(&call.cx)).map(|call| call.id)
    }

    /// Polls for the next item that this stream reports.
    fn poll_item(&mut self, task: &mut Task<'_>) -> Poll<Option<Result<StreamItem, Error>>> {
        loop {
            match ready!(self.items.poll_recv(task)) {
                Some(OutletItem::Chunk(chunk)) => match decode(&chunk.content) {
                    // Skip the empty chunk that ends a stream, because it is not part of the result.
                    Ok(block) if chunk.done && block.as_text() == Some("") => {}
                    Ok(block) if let Some(checkpoint) = Checkpoint::of_chunk(&block) => {
                        return Poll::Ready(Some(Ok(StreamItem::Checkpoint(checkpoint))));
                    }
                    Ok(block) => return Poll::Ready(Some(Ok(StreamItem::Chunk(block)))),
                    // An invalid chunk can be dropped, because the result also contains its content.
                    Err(error) => tracing::debug!(%error, "dropped an invalid chunk"),
                },
                Some(OutletItem::Progress(step)) => {
                    return Poll::Ready(Some(Ok(StreamItem::Progress(step))));
                }
                Some(_) => {}
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for ToolStream {
    type Item = Result<StreamItem, Error>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let next = self.poll_item(task);
            if let Poll::Ready(Some(item)) = next {
                return Poll::Ready(Some(item));
            }
            let Some(call) = &mut self.call else {
                // The result follows the last item, so the channel must be empty first. `Pending` does not show that it
                // is empty: Tokio also returns it if the task has used up its budget, although items are waiting.
                ready!(next);
                return Poll::Ready(self.last.take().map(|last| last.map(StreamItem::Result)));
            };
            match call.as_mut().poll(task) {
                Poll::Ready(result) => {
                    self.last = Some(result);
                    self.call = None;
                    self.items.close();
                }
                // Poll again, because the call may have put an item into the channel while it was polled.
                Poll::Pending => match self.poll_item(task) {
                    Poll::Ready(Some(item)) => return Poll::Ready(Some(item)),
                    _ => return Poll::Pending,
                },
            }
        }
    }
}

/// Decodes the content of a chunk. Almost all chunks are plain text, so this form is tried first.
fn decode(content: &Payload) -> Result<ContentBlock, RpcError> {
    ContentBlock::plain_text(content)
        .map_or_else(|| content.get(), |text| Ok(ContentBlock::text(text)))
}

mgp_types::opaque_debug!(ToolStream);

/// A `Sink` of an outlet that sends each item to the stream, and to the caller's own outlet if that accepts the item.
struct Channel {
    sender: mpsc::Sender<OutletItem>,
    inner: Outlet,
}

impl Sink for Channel {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        Box::pin(async move {
            if self.inner.wants(item.kind()) {
                let _ = self.inner.send(item.clone()).await;
            }
            self.sender.send(item).await.map_err(|_| ConsumerGone)
        })
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        matches!(kind, OutletItemKind::Chunk | OutletItemKind::Progress) || self.inner.wants(kind)
    }
}
