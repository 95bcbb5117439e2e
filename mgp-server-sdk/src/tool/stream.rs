//! Records the content that a tool's function sends before it returns, and joins it with the result (MGP §12.4, §12.5).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;

use mgp_types::mcp::Era;
use mgp_types::service::{
    Body, BoxFuture, Chunk, ConsumerGone, JoinedContent, Outlet, OutletItem, OutletItemKind, Reply,
    Sink, StreamLimit,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Object, Payload, RpcError};

use super::result::IntoToolResult;

/// The server's limit on the total size of a call's chunks, in bytes. Tools find it in the server's state, because a
/// call has no [`StreamLimit`] if its caller wants no chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxStreamBytes(pub(crate) u64);

/// A recorder of the chunks of one call. It adds them to the result of the call, and marks the last chunk if that chunk
/// was not sent before the function returned.
///
/// For this mark, the recorder holds a chunk back until the function waits or sends the next chunk.
pub(crate) struct ChunkRecorder {
    /// The outlet through which chunks are sent to the caller; `Outlet::none()` if the caller wants no chunks.
    inner: Outlet,
    /// `true` if chunks are sent immediately instead of being held back, because the function blocks its thread and
    /// never waits.
    is_blocking: bool,
    max_bytes: u64,
    /// A lock that is held while an item is sent, so that items from several tasks keep their order.
    order: tokio::sync::Mutex<()>,
    state: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    content: JoinedContent,
    /// The number of chunks, including those that are not part of the result.
    sent: u64,
    bytes: u64,
    is_too_long: bool,
    held: Option<Chunk>,
    /// `true` while the function is being polled. After the poll, the recorder passes on the chunk in `held`.
    is_polled: bool,
    waker: Option<Waker>,
}

impl ChunkRecorder {
    /// Creates the recorder of a call; `max_bytes` limits the chunks if the caller wants none.
    pub(super) fn new(outlet: &Outlet, is_blocking: bool, max_bytes: Option<u64>) -> Arc<Self> {
        let wants = outlet.wants(OutletItemKind::Chunk);
        Arc::new(Self {
            inner: if wants { outlet.clone() } else { Outlet::none() },
            is_blocking,
            // If the caller wants chunks, the layer that sends them limits their size, so no limit is needed here.
            max_bytes: if wants {
                u64::MAX
            } else {
                max_bytes.unwrap_or(StreamLimit::DEFAULT_BYTES)
            },
            order: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// Returns whether the caller wants chunks.
    pub(super) fn is_streamed(&self) -> bool {
        !self.inner.is_none()
    }

    /// Sends a chunk to the caller, if the caller wants chunks, and adds the chunk to the result.
    pub(super) async fn send(&self, chunk: Chunk) -> Result<(), ConsumerGone> {
        let _turn = self.order.lock().await;
        self.send_held().await?;
        if self.is_blocking && self.is_streamed() {
            self.inner.send(OutletItem::Chunk(chunk.clone())).await?;
        }
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_add(chunk.content.as_str().len() as u64);
        state.is_too_long |= state.bytes > self.max_bytes;
        if state.is_too_long {
            return Err(ConsumerGone);
        }
        state.content.push(&chunk.content);
        state.sent += 1;
        if !self.is_blocking && self.is_streamed() {
            state.held = Some(chunk);
            // A chunk that is held back is passed on after the next poll of the function. If another task sent the
            // chunk while the function is not being polled, wake the function.
            let waker = if state.is_polled { None } else { state.waker.take() };
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        Ok(())
    }

    /// Sends a chunk that is not part of the result, e.g. the mark of a checkpoint.
    pub(super) async fn send_mark(&self, chunk: Chunk) -> Result<(), ConsumerGone> {
        let _turn = self.order.lock().await;
        self.send_held().await?;
        self.inner.send(OutletItem::Chunk(chunk)).await?;
        self.state.lock().sent += 1;
        Ok(())
    }

    /// Returns the number of chunks so far.
    pub(super) fn sent(&self) -> u64 {
        self.state.lock().sent
    }

    async fn send_other(&self, item: OutletItem) -> Result<(), ConsumerGone> {
        let _turn = self.order.lock().await;
        self.send_held().await?;
        self.inner.send(item).await
    }

    /// Sends the chunk that was held back, if any. The caller of this method must hold the lock `order`.
    async fn send_held(&self) -> Result<(), ConsumerGone> {
        let held = self.state.lock().held.clone();
        if let Some(chunk) = held {
            self.inner.send(OutletItem::Chunk(chunk)).await?;
            // Remove the chunk only now: if this future is dropped while the chunk is being sent, the chunk is not
            // lost.
            self.state.lock().held = None;
        }
        Ok(())
    }

    async fn flush(self: Arc<Self>) {
        let _turn = self.order.lock().await;
        // The error is ignored: the connection has ended, or the result contains the chunk.
        let _ = self.send_held().await;
    }

    /// Runs the function of the tool, and returns its result. A complete, successful result is joined with the
    /// content that the function streamed.
    pub(super) async fn run<F>(self: Arc<Self>, running: F, era: Era) -> Result<Reply, RpcError>
    where
        F: Future<Output: IntoToolResult>,
    {
        let mut flushing: Option<BoxFuture<'static, ()>> = None;
        let mut running = pin!(running);
        let value = poll_fn(|task| {
            if flushing.as_mut().is_some_and(|flush| flush.as_mut().poll(task).is_ready()) {
                flushing = None;
            }
            self.begin_poll(task.waker());
            let polled = running.as_mut().poll(task);
            let is_held = self.end_poll();
            if polled.is_pending() && is_held && flushing.is_none() {
                let mut flush: BoxFuture<'static, ()> = Box::pin(Arc::clone(&self).flush());
                if flush.as_mut().poll(task).is_pending() {
                    flushing = Some(flush);
                }
            }
            polled
        })
        .await;
        if let Some(flush) = flushing {
            flush.await;
        }
        let outcome = value.into_result_for(era);
        if self.state.lock().is_too_long {
            return Err(too_long(self.max_bytes));
        }
        match outcome {
            Ok(Reply::Complete(body)) if self.has_content() && !is_error(&body) => {
                self.complete(&body).await
            }
            outcome => {
                self.flush().await;
                outcome
            }
        }
    }

    fn begin_poll(&self, waker: &Waker) {
        let mut state = self.state.lock();
        state.is_polled = true;
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
    }

    /// Records that a poll of the function has ended, and returns whether a chunk is held back.
    fn end_poll(&self) -> bool {
        let mut state = self.state.lock();
        state.is_polled = false;
        state.held.is_some()
    }

    fn has_content(&self) -> bool {
        !self.state.lock().content.is_empty()
    }

    /// Completes the result and the chunks, so that both contain the same text.
    ///
    /// If the returned content begins with the streamed content, the returned content is the whole result; otherwise it
    /// is appended to the streamed content. In both cases, the caller receives the rest as the last chunks.
    async fn complete(self: Arc<Self>, body: &Body) -> Result<Reply, RpcError> {
        let mut result: Object = Reply::Complete(body.clone()).get()?;
        let returned: Vec<Payload> = result.decode("content")?.unwrap_or_default();
        let returned = JoinedContent::from_iter(returned);
        let mut streamed = std::mem::take(&mut self.state.lock().content);
        let rest = if streamed.is_same_text(&returned) || returned.is_empty() {
            Vec::new()
        } else {
            streamed.rest_of(&returned).unwrap_or_else(|| returned.to_blocks())
        };
        for block in &rest {
            streamed.push(block);
        }
        self.send_last(rest).await;
        if streamed == returned {
            return Ok(Reply::Complete(body.clone()));
        }
        result.insert("content", Payload::of(&streamed.to_blocks())?);
        Reply::of(&result)
    }

    /// Sends the held chunk and the remaining content, and marks the last chunk as such.
    async fn send_last(&self, rest: Vec<Payload>) {
        let _turn = self.order.lock().await;
        let mut left: Vec<_> = self.state.lock().held.take().into_iter().collect();
        left.extend(rest.into_iter().map(Chunk::new));
        let last = left.len().checked_sub(1);
        for (index, mut chunk) in left.into_iter().enumerate() {
            chunk.done = Some(index) == last;
            // The error is ignored: the connection has ended, or the result contains the chunk.
            if self.inner.send(OutletItem::Chunk(chunk)).await.is_err() {
                return;
            }
        }
    }
}

fn is_error(body: &Body) -> bool {
    body.get("isError").is_some_and(|value| value.as_str() == "true")
}

fn too_long(max: u64) -> RpcError {
    let message = format!("the streamed result has more than {max} bytes");
    let details =
        Object::new().with("limit", &max).with("of", "partial results").with("started", &true);
    let error = RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message);
    // Advise against a retry: the tool has already run, and would send as much again.
    match error.as_recovery().cloned() {
        Some(hints) => error.recovery(hints.no_retry().details(details)),
        None => error,
    }
}

mgp_types::opaque_debug!(ChunkRecorder);

/// The outlet that the function of a tool uses: it records chunks before they are sent to the caller.
pub(super) struct RecordedOutlet(pub(super) Arc<ChunkRecorder>);

impl Sink for RecordedOutlet {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        match item {
            OutletItem::Chunk(chunk) => Box::pin(self.0.send(chunk)),
            item => Box::pin(self.0.send_other(item)),
        }
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.0.inner.wants(kind)
    }
}
