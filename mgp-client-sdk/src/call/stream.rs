//! A call as a stream: partial results while it runs, then the result (MGP §12).
//!
//! Applies to: outbound.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use futures_util::Stream;
use mgp_types::mcp::{CallToolResult, ContentBlock};
use mgp_types::mgp::{CancelParams, CancelResult, Extension};
use mgp_types::service::{BoxFuture, CallKey, Gone, Item, ItemKind, Outlet, Progress, Sink};
use tokio::sync::mpsc;

use super::ToolCall;
use crate::client::Client;
use crate::error::Error;

/// How many partial results may wait for whoever reads the stream; the connection holds further ones within its bounds.
const WAITING: usize = 64;

/// What comes out of a [`ToolStream`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Streamed {
    /// A piece of the result.
    Chunk(ContentBlock),
    /// How far the call is.
    Progress(Progress),
    /// The whole result; nothing comes after it.
    Result(CallToolResult),
}

/// A running call: its partial results in the order they came, then its result or error.
///
/// It runs while it is polled; dropping it cancels the call at the server.
#[must_use = "a stream does nothing until it is polled"]
pub struct ToolStream {
    items: mpsc::Receiver<Item>,
    call: Option<BoxFuture<'static, Result<CallToolResult, Error>>>,
    last: Option<Result<CallToolResult, Error>>,
    client: Client,
    key: CallKey,
}

impl ToolStream {
    pub(super) fn new(call: ToolCall) -> Self {
        let (sender, items) = mpsc::channel(WAITING);
        let (inner, client, key) = (call.outlet.clone(), call.client.clone(), call.key);
        let call = call.outlet(Outlet::new(Arc::new(Channel { sender, inner })));
        Self { items, call: Some(Box::pin(call.send())), last: None, client, key }
    }

    /// Cancels the call and takes what there is of its result (MGP §12.7).
    ///
    /// A server that did not negotiate streaming is told to stop and has nothing to give.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call all the same.
    pub async fn cancel(self) -> Result<CancelResult, Error> {
        let logical = self.key.to_string();
        let in_flight = self.client.peer().all_in_flight();
        let running = in_flight
            .iter()
            .find(|call| call.cx.key == self.key || call.cx.logical.as_deref() == Some(&*logical));
        let Some(running) = running else {
            let mut over = CancelResult::new(false);
            over.reason = Some("not_active".to_owned());
            return Ok(over);
        };
        if !self.client.server().has(Extension::Streaming) {
            return Ok(CancelResult::new(true));
        }
        self.client.mgp().stream_cancel(&CancelParams::new(running.id.clone())).await
    }

    /// Takes the next item that has a form here.
    fn poll_item(&mut self, task: &mut Task<'_>) -> Poll<Option<Result<Streamed, Error>>> {
        loop {
            match ready!(self.items.poll_recv(task)) {
                Some(Item::Chunk(chunk)) => {
                    return Poll::Ready(Some(match chunk.get() {
                        Ok(block) => Ok(Streamed::Chunk(block)),
                        Err(error) => Err(error.into()),
                    }));
                }
                Some(Item::Progress(step)) => {
                    return Poll::Ready(Some(Ok(Streamed::Progress(step))));
                }
                Some(_) => {}
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for ToolStream {
    type Item = Result<Streamed, Error>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Poll::Ready(Some(item)) = self.poll_item(task) {
                return Poll::Ready(Some(item));
            }
            let Some(call) = &mut self.call else {
                // Nothing is left in the channel: the result is the last word.
                return Poll::Ready(self.last.take().map(|last| last.map(Streamed::Result)));
            };
            match call.as_mut().poll(task) {
                Poll::Ready(result) => {
                    self.last = Some(result);
                    self.call = None;
                }
                // The call may have put something into the channel while it was polled.
                Poll::Pending => match self.poll_item(task) {
                    Poll::Ready(Some(item)) => return Poll::Ready(Some(item)),
                    _ => return Poll::Pending,
                },
            }
        }
    }
}

impl fmt::Debug for ToolStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolStream")
    }
}

/// Puts items into the channel, and whatever else listens hears them too.
struct Channel {
    sender: mpsc::Sender<Item>,
    inner: Outlet,
}

impl Sink for Channel {
    fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
        Box::pin(async move {
            if self.inner.wants(item.kind()) {
                let _ = self.inner.send(item.clone()).await;
            }
            self.sender.send(item).await.map_err(|_| Gone)
        })
    }

    fn wants(&self, kind: ItemKind) -> bool {
        matches!(kind, ItemKind::Chunk | ItemKind::Progress) || self.inner.wants(kind)
    }
}
