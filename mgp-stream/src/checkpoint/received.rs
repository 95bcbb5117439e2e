//! The client's record of the chunks of a call that can be resumed. Chunks after a checkpoint wait for the next
//! checkpoint before they are delivered, because a resumed call sends them again.

use std::sync::Arc;

use mgp_types::mcp::ContentBlock;
use mgp_types::proposal::Checkpoint;
use mgp_types::service::{
    BoxFuture, Chunk, ConsumerGone, JoinedContent, Outlet, OutletItem, OutletItemKind, Sink,
};
use mgp_types::sync::Mutex;

/// The maximum number of chunks that wait for a checkpoint; if there are more, they are delivered immediately.
const MAX_WAITING: usize = 256;
/// The maximum size, in bytes, of the chunks that wait for a checkpoint.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// The maximum size, in bytes, of all chunks of a call; beyond this size, the call can no longer be resumed.
const MAX_BYTES: usize = 16 << 20;

/// The receiver of the chunks of a call that can be resumed; it passes them on to the outlet of the caller.
pub(super) struct Received {
    inner: Outlet,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last checkpoint that arrived; the next attempt continues from it. `None` if no checkpoint has arrived yet,
    /// or if chunks after it had to be delivered already, e.g. because too many chunks waited.
    last: Option<Checkpoint>,
    /// The number of chunks that arrived in the current attempt.
    count: u64,
    /// The content that was delivered in the attempts before the current one.
    before: JoinedContent,
    /// The content that the current attempt has delivered.
    delivered: JoinedContent,
    delivered_bytes: usize,
    waiting: Vec<Chunk>,
    waiting_bytes: usize,
    /// `true` if the call cannot be resumed any more, because a chunk was lost or too much content was delivered.
    is_broken: bool,
}

impl Received {
    pub(super) fn new(inner: Outlet) -> Arc<Self> {
        Arc::new(Self { inner, state: Mutex::default() })
    }

    /// Starts the next attempt. Returns the checkpoint from which it continues, or `None` if the call cannot be
    /// resumed.
    pub(super) fn restart(&self) -> Option<Checkpoint> {
        let mut state = self.state.lock();
        let last = state.last.clone().filter(|_| !state.is_broken)?;
        (state.count, state.waiting_bytes) = (0, 0);
        state.waiting.clear();
        let delivered = std::mem::take(&mut state.delivered);
        for block in delivered.to_blocks() {
            state.before.push(&block);
        }
        Some(last)
    }

    /// Delivers the chunks that still wait for a checkpoint, and returns the content that earlier attempts delivered.
    pub(super) async fn finish(&self) -> JoinedContent {
        let (waiting, before) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.before))
        };
        for chunk in waiting {
            // Ignore the error: even if the caller no longer accepts chunks, the result contains the content of this
            // chunk.
            let _ = self.inner.send(OutletItem::Chunk(chunk)).await;
        }
        before
    }

    /// Accepts a chunk of the current attempt, and returns the chunks that must be delivered to the caller now.
    fn take(&self, chunk: Chunk) -> Vec<Chunk> {
        let mut state = self.state.lock();
        let content = chunk.content.get::<ContentBlock>().ok();
        if let Some(checkpoint) = content.and_then(|block| Checkpoint::of_chunk(&block)) {
            let is_whole = checkpoint.sequence.is_none_or(|sequence| sequence == state.count);
            state.is_broken |= !is_whole;
            state.count += 1;
            state.last = Some(checkpoint);
            return state.release();
        }
        state.count += 1;
        state.waiting_bytes += chunk.content.as_str().len();
        state.waiting.push(chunk);
        let is_full = state.waiting.len() > MAX_WAITING || state.waiting_bytes > MAX_WAITING_BYTES;
        if state.last.is_none() || state.is_broken || is_full {
            // These chunks cannot be taken back after delivery, so the call can no longer be resumed from an earlier
            // checkpoint.
            state.last = None;
            return state.release();
        }
        Vec::new()
    }
}

impl State {
    fn release(&mut self) -> Vec<Chunk> {
        self.delivered_bytes += std::mem::take(&mut self.waiting_bytes);
        if self.delivered_bytes > MAX_BYTES {
            // The call cannot be resumed again, so the content of this attempt need not be kept. Keep `before`: the
            // result of this attempt lacks the content of earlier attempts.
            self.is_broken = true;
            self.delivered = JoinedContent::default();
        }
        let ready = std::mem::take(&mut self.waiting);
        if !self.is_broken {
            for chunk in &ready {
                self.delivered.push(&chunk.content);
            }
        }
        ready
    }
}

impl Sink for Received {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        let OutletItem::Chunk(chunk) = item else { return Box::pin(self.inner.send(item)) };
        let ready = self.take(chunk);
        Box::pin(async move {
            for chunk in ready {
                self.inner.send(OutletItem::Chunk(chunk)).await?;
            }
            Ok(())
        })
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    async fn send(received: &Received, block: &ContentBlock) {
        let chunk = Chunk::new(Payload::of(block).unwrap());
        received.send(OutletItem::Chunk(chunk)).await.unwrap();
    }

    #[tokio::test]
    async fn a_resumed_call_that_exceeds_the_limit_keeps_the_content_of_earlier_attempts() {
        let received = Received::new(Outlet::none());
        let checkpoint = Checkpoint::new("operation", "token").to_chunk();
        let begin = ContentBlock::text("begin");
        send(&received, &begin).await;
        send(&received, &checkpoint).await;
        assert!(received.restart().is_some());
        send(&received, &ContentBlock::text("x".repeat(MAX_BYTES))).await;
        send(&received, &checkpoint).await;
        assert!(received.restart().is_none(), "there are too many bytes to resume it again");
        let before = received.finish().await;
        assert_eq!(before.to_blocks(), [Payload::of(&begin).unwrap()]);
    }
}
