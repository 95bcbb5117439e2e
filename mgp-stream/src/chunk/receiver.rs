//! The receiving side of the chunks of one outbound call.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mgp_types::Payload;
use mgp_types::mcp::key;
use mgp_types::service::{Chunk, HopMembers};
use mgp_types::sync::Mutex;

/// The maximum number of chunks of one call that wait for a missing one.
const MAX_WAITING_CHUNKS: usize = 64;
/// The maximum size, in bytes, of the chunks of one call that wait for a missing one.
const MAX_WAITING_BYTES: usize = 256 << 10;
/// The maximum number of missing chunks that are requested at once.
const MAX_REQUESTED: u64 = 64;

/// A chunk in the form in which it arrived.
#[derive(Debug)]
pub(crate) struct ReceivedChunk {
    /// The sequence number of the chunk, or `None` if the callee sent none; the chunk then follows the previous one.
    pub(crate) index: Option<u64>,
    pub(crate) chunk: Chunk,
    /// `true` if the callee reports that it has lost this chunk or an earlier one.
    pub(crate) reports_loss: bool,
}

/// The effect of a received chunk: the chunks to deliver now, and the sequence numbers of the chunks to request from
/// the callee.
#[derive(Debug, Default)]
struct Arrival {
    next: Option<Chunk>,
    after: Vec<Chunk>,
    missing: Vec<u64>,
}

/// Puts the chunks of one call in order. Drops repeated chunks, and all chunks after one that is lost, so that the
/// caller always gets the content from its beginning without a gap.
#[derive(Debug, Default)]
pub(crate) struct ChunkReceiver {
    state: Mutex<ReceiveState>,
    /// The members of `_meta` that this side adds to further messages to the callee.
    meta: Vec<(Cow<'static, str>, Payload)>,
}

#[derive(Debug, Default)]
struct ReceiveState {
    next: u64,
    waiting: BTreeMap<u64, Chunk>,
    waiting_bytes: usize,
    /// The sequence number below which missing chunks were already requested; they are not requested again.
    requested: u64,
    is_cut: bool,
    /// `true` if the chunk that the callee marked as the last was delivered.
    is_done: bool,
    arrived: u64,
    dropped: u64,
}

impl ChunkReceiver {
    /// Creates the receiver for a call that was sent with the members `hop`; further messages repeat some of them.
    pub(crate) fn new(hop: &HopMembers) -> Self {
        let names =
            [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::CLIENT_INFO, key::MGP_HANDLE];
        let meta = hop.meta.iter().filter(|(name, _)| names.contains(&&**name)).cloned().collect();
        Self { state: Mutex::default(), meta }
    }

    pub(crate) fn meta(&self) -> Vec<(Cow<'static, str>, Payload)> {
        self.meta.clone()
    }

    /// Accepts a chunk. Delivers it, and those that waited for it, with `push`, which returns `false` if there is no
    /// room. Returns the sequence numbers of the chunks to request from the callee.
    ///
    /// Chunks can arrive on two streams at once, so `push` is called while the lock is held, which keeps the chunks in
    /// order. `push` must not block.
    pub(crate) fn deliver(
        &self,
        received: ReceivedChunk,
        push: impl Fn(Chunk) -> bool,
    ) -> Vec<u64> {
        let mut state = self.state.lock();
        let arrival = state.accept(received);
        for chunk in arrival.next.into_iter().chain(arrival.after) {
            if !push(chunk) {
                state.dropped += 1;
            }
        }
        arrival.missing
    }

    /// Records that the callee cannot send a chunk again.
    pub(crate) fn note_lost(&self, index: u64) {
        let mut state = self.state.lock();
        if index >= state.next && !state.waiting.contains_key(&index) {
            state.cut();
        }
    }

    /// Returns the number of chunks that arrived, without repeats.
    pub(crate) fn arrived(&self) -> u64 {
        self.state.lock().arrived
    }

    /// Returns the number of chunks that the caller did not get. To be called after the call has ended.
    pub(crate) fn dropped(&self) -> u64 {
        let state = self.state.lock();
        state.dropped + state.waiting.len() as u64
    }
}

impl ReceiveState {
    /// Accepts a chunk and returns its effect.
    fn accept(&mut self, received: ReceivedChunk) -> Arrival {
        let index = received.index.unwrap_or(self.next);
        let mut arrival = Arrival::default();
        if index >= self.next && !self.waiting.contains_key(&index) {
            self.arrived += 1;
        }
        if index < self.next {
            tracing::debug!(index, "dropped a repeated chunk");
        } else if self.is_cut {
            self.drop_chunk(index);
        } else if received.reports_loss && (index > self.next || is_empty(&received.chunk)) {
            if received.chunk.done {
                arrival.next = Some(received.chunk);
            }
            self.cut();
        } else if index == self.next {
            arrival.next = Some(received.chunk);
            self.next += 1;
            self.release(&mut arrival.after);
        } else {
            self.hold(index, received.chunk, &mut arrival.missing);
        }
        self.end_at_last(&mut arrival);
        arrival
    }

    /// Stops waiting for a missing chunk, because it is lost. All chunks that waited for it are dropped.
    fn cut(&mut self) {
        if !self.is_cut {
            tracing::debug!(index = self.next, "a chunk is lost; the rest is in the result only");
        }
        self.is_cut = true;
        self.dropped += 1 + self.waiting.len() as u64;
        let last = self.waiting.keys().next_back().map_or(self.next, |last| *last);
        self.next = last.saturating_add(1);
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// Drops chunks after the one that the callee marked as the last, because the caller does not expect more.
    fn end_at_last(&mut self, arrival: &mut Arrival) {
        let keep = |state: &mut Self, chunk: &Chunk| {
            if state.is_done {
                state.dropped += 1;
                return false;
            }
            state.is_done = chunk.done;
            true
        };
        arrival.next = arrival.next.take().filter(|chunk| keep(self, chunk));
        arrival.after.retain(|chunk| keep(self, chunk));
    }

    fn drop_chunk(&mut self, index: u64) {
        self.dropped += 1;
        self.next = index.saturating_add(1);
    }

    /// Moves the chunks that need not wait any more to `out`.
    fn release(&mut self, out: &mut Vec<Chunk>) {
        while let Some(chunk) = self.waiting.remove(&self.next) {
            self.waiting_bytes -= chunk.content.as_str().len();
            self.next += 1;
            out.push(chunk);
        }
    }

    /// Stores a chunk until the chunks before it have arrived.
    fn hold(&mut self, index: u64, chunk: Chunk, missing: &mut Vec<u64>) {
        let size = chunk.content.as_str().len();
        let is_full = self.waiting.len() >= MAX_WAITING_CHUNKS
            || self.waiting_bytes + size > MAX_WAITING_BYTES
            || index - self.next > MAX_REQUESTED;
        if is_full {
            self.cut();
            self.drop_chunk(index);
            return;
        }
        missing.extend(
            (self.next.max(self.requested)..index)
                .filter(|index| !self.waiting.contains_key(index)),
        );
        self.requested = self.requested.max(index);
        if let Some(before) = self.waiting.insert(index, chunk) {
            self.waiting_bytes -= before.content.as_str().len();
        }
        self.waiting_bytes += size;
    }
}

/// Returns whether a chunk is an empty text.
fn is_empty(chunk: &Chunk) -> bool {
    chunk.content.as_str().contains(r#""text":"""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(index: u64) -> ReceivedChunk {
        let chunk = Chunk::text(&index.to_string());
        ReceivedChunk { index: Some(index), chunk, reports_loss: false }
    }

    /// Passes a chunk to the receiver. Returns the texts that are delivered, and the sequence numbers of the chunks to
    /// request.
    fn take(receiver: &ChunkReceiver, received: ReceivedChunk) -> (Vec<String>, Vec<u64>) {
        let texts = Mutex::new(Vec::new());
        let missing = receiver.deliver(received, |chunk| {
            let content: serde_json::Value = chunk.content.get().unwrap();
            texts.lock().push(content["text"].as_str().unwrap().to_owned());
            true
        });
        (texts.into_inner(), missing)
    }

    #[test]
    fn a_hole_is_requested_once_and_filled_in_order() {
        let receiver = ChunkReceiver::default();
        assert_eq!(take(&receiver, chunk(0)).0, ["0"]);
        assert_eq!(take(&receiver, chunk(0)).0, [""; 0], "a repeat");
        assert_eq!(take(&receiver, chunk(3)), (vec![], vec![1, 2]));
        assert_eq!(take(&receiver, chunk(5)), (vec![], vec![4]));
        assert_eq!(take(&receiver, chunk(2)), (vec![], vec![]));
        assert_eq!(take(&receiver, chunk(1)).0, ["1", "2", "3"]);
        assert_eq!(take(&receiver, chunk(4)).0, ["4", "5"]);
        assert_eq!(receiver.dropped(), 0);
    }

    #[test]
    fn the_caller_has_a_prefix_when_a_chunk_is_lost() {
        // The callee reports the loss in the form of another implementation or as a chunk, or never answers.
        for lost in 0..3 {
            let receiver = ChunkReceiver::default();
            assert_eq!(take(&receiver, chunk(0)).0, ["0"]);
            assert_eq!(take(&receiver, chunk(2)), (vec![], vec![1]));
            match lost {
                0 => receiver.note_lost(1),
                1 => {
                    let report = ReceivedChunk {
                        index: Some(1),
                        chunk: Chunk::text(""),
                        reports_loss: true,
                    };
                    assert_eq!(take(&receiver, report).0, [""; 0]);
                }
                _ => {
                    assert_eq!(receiver.dropped(), 1);
                    continue;
                }
            }
            assert_eq!(take(&receiver, chunk(3)).0, [""; 0]);
            assert_eq!(receiver.dropped(), 3, "{lost}");
        }
    }

    #[test]
    fn chunks_behind_the_last_one_are_counted_as_dropped() {
        let receiver = ChunkReceiver::default();
        let mut first = chunk(0);
        first.chunk.done = true;
        assert_eq!(take(&receiver, first).0, ["0"]);
        for index in [1, 3, 2] {
            assert_eq!(take(&receiver, chunk(index)).0, [""; 0]);
        }
        assert_eq!((receiver.arrived(), receiver.dropped()), (4, 3));
    }

    #[test]
    fn what_waits_is_bounded_and_any_number_is_survived() {
        let receiver = ChunkReceiver::default();
        for index in (1..=64).rev().chain([u64::MAX, u64::MAX - 1, 0, u64::MAX]) {
            take(&receiver, chunk(index));
        }
        assert!(receiver.state.lock().waiting.is_empty());
        // All numbers are used, so a loss does not move the number of the next chunk.
        receiver.note_lost(u64::MAX);
        assert_eq!(receiver.state.lock().next, u64::MAX);
        let receiver = ChunkReceiver::default();
        for index in 1..10 {
            let chunk = Chunk::text(&"x".repeat(MAX_WAITING_BYTES / 4));
            receiver
                .deliver(ReceivedChunk { index: Some(index), chunk, reports_loss: false }, |_| {
                    true
                });
        }
        assert!(receiver.state.lock().waiting_bytes <= MAX_WAITING_BYTES);
        assert_eq!(receiver.dropped(), 10, "the chunk that never came counts");
    }
}
