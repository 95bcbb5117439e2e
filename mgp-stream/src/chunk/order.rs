//! Puts the chunks of one call in order.

use std::collections::BTreeMap;

use mgp_types::mcp::ContentBlock;
use mgp_types::service::Chunk;

/// The maximum number of chunks of one call that wait for a missing chunk.
const MAX_WAITING_CHUNKS: usize = 64;
/// The maximum size, in bytes, of the chunks of one call that wait for a missing chunk.
const MAX_WAITING_BYTES: usize = 256 << 10;
/// The maximum number of missing chunks that are requested at a time.
const MAX_REQUESTED: u64 = 64;

/// A chunk as it arrived from the callee, not yet put in order.
#[derive(Debug)]
pub(crate) struct ReceivedChunk {
    /// The sequence number of the chunk, or `None` if the callee sent no number; the chunk then follows the previous
    /// chunk.
    pub(crate) index: Option<u64>,
    pub(crate) chunk: Chunk,
    /// `true` if the callee reports with this chunk that it has lost this chunk or an earlier chunk.
    pub(crate) reports_loss: bool,
}

/// The result of accepting a chunk: the chunks to deliver now, and the sequence numbers of the chunks to request from
/// the callee.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    pub(super) next: Option<Chunk>,
    pub(super) after: Vec<Chunk>,
    pub(super) missing: Vec<u64>,
}

/// The order of the chunks of one call. Repeated chunks, and all chunks after a lost chunk, are dropped.
#[derive(Debug, Default)]
pub(super) struct ChunkOrder {
    /// The sequence number of the next chunk to deliver.
    next: u64,
    /// The chunks that wait for an earlier chunk, by sequence number.
    waiting: BTreeMap<u64, Chunk>,
    waiting_bytes: usize,
    /// The sequence number below which missing chunks were already requested. A chunk is requested only once.
    requested: u64,
    /// `true` if a chunk is lost.
    is_cut: bool,
    /// `true` if the chunk that the callee marked as the last was delivered.
    is_done: bool,
    arrived: u64,
    dropped: u64,
}

impl ChunkOrder {
    /// Accepts a chunk, and returns the chunks that can be delivered now, and those that must be requested.
    pub(super) fn accept(&mut self, received: ReceivedChunk) -> Arrival {
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
            self.store_early(index, received.chunk, &mut arrival.missing);
        }
        self.end_at_last(&mut arrival);
        arrival
    }

    /// Records that the callee reported a chunk that it cannot send again.
    pub(super) fn record_lost(&mut self, index: u64) {
        if index >= self.next && !self.waiting.contains_key(&index) {
            self.cut();
        }
    }

    /// Counts a chunk that had no room in the inbox of the call.
    pub(super) fn count_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Returns the number of chunks that arrived, without repeated chunks.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Returns the number of chunks that were dropped, and of gaps of lost chunks. Chunks that still wait for an
    /// earlier chunk count as dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped + self.waiting.len() as u64
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

    /// Drops chunks after the chunk that the callee marked as the last, because the caller does not expect more.
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
        self.next = self.next.max(index.saturating_add(1));
    }

    /// Moves the chunks that need not wait for earlier chunks any more from `waiting` to `out`.
    fn release(&mut self, out: &mut Vec<Chunk>) {
        while let Some(chunk) = self.waiting.remove(&self.next) {
            self.waiting_bytes -= chunk.content.as_str().len();
            self.next += 1;
            out.push(chunk);
        }
    }

    /// Stores a chunk until the chunks before it have arrived.
    fn store_early(&mut self, index: u64, chunk: Chunk, missing: &mut Vec<u64>) {
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

/// Returns whether a chunk is empty, i.e. its content is a text block with an empty text.
fn is_empty(chunk: &Chunk) -> bool {
    chunk.content.get::<ContentBlock>().is_ok_and(|block| block.as_text() == Some(""))
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    fn chunk(index: u64) -> ReceivedChunk {
        let chunk = Chunk::text(&index.to_string());
        ReceivedChunk { index: Some(index), chunk, reports_loss: false }
    }

    /// Accepts a chunk. Returns the texts of the chunks to deliver, and the sequence numbers of the chunks to request.
    fn accept(order: &mut ChunkOrder, received: ReceivedChunk) -> (Vec<String>, Vec<u64>) {
        let arrival = order.accept(received);
        let delivered = arrival.next.into_iter().chain(arrival.after);
        let text = |chunk: Chunk| {
            let content: serde_json::Value = chunk.content.get().unwrap();
            content["text"].as_str().unwrap().to_owned()
        };
        (delivered.map(text).collect(), arrival.missing)
    }

    #[test]
    fn a_hole_is_requested_once_and_filled_in_order() {
        let mut order = ChunkOrder::default();
        assert_eq!(accept(&mut order, chunk(0)).0, ["0"]);
        assert_eq!(accept(&mut order, chunk(0)).0, [""; 0], "a repeat");
        assert_eq!(accept(&mut order, chunk(3)), (vec![], vec![1, 2]));
        assert_eq!(accept(&mut order, chunk(5)), (vec![], vec![4]));
        assert_eq!(accept(&mut order, chunk(2)), (vec![], vec![]));
        assert_eq!(accept(&mut order, chunk(1)).0, ["1", "2", "3"]);
        assert_eq!(accept(&mut order, chunk(4)).0, ["4", "5"]);
        assert_eq!(order.dropped(), 0);
    }

    #[test]
    fn the_caller_has_a_prefix_when_a_chunk_is_lost() {
        // The callee reports the loss of chunk 1 in a separate notification (0), or with an empty chunk (1 and 2), or
        // never answers (3).
        for lost in 0..4 {
            let mut order = ChunkOrder::default();
            assert_eq!(accept(&mut order, chunk(0)).0, ["0"]);
            assert_eq!(accept(&mut order, chunk(2)), (vec![], vec![1]));
            match lost {
                0 => order.record_lost(1),
                1 | 2 => {
                    // Some programs write spaces between the members of JSON objects, so both forms must be recognized
                    // as empty chunks.
                    let empty = [r#"{"type":"text","text":""}"#, r#"{"type": "text", "text": ""}"#];
                    let chunk = Chunk::new(Payload::from_trusted(empty[lost - 1]));
                    let report = ReceivedChunk { index: Some(1), chunk, reports_loss: true };
                    assert_eq!(accept(&mut order, report).0, [""; 0]);
                }
                _ => {
                    assert_eq!(order.dropped(), 1);
                    continue;
                }
            }
            assert_eq!(accept(&mut order, chunk(3)).0, [""; 0]);
            assert_eq!(order.dropped(), 3, "{lost}");
        }
    }

    #[test]
    fn chunks_behind_the_last_one_are_counted_as_dropped() {
        let mut order = ChunkOrder::default();
        let mut first = chunk(0);
        first.chunk.done = true;
        assert_eq!(accept(&mut order, first).0, ["0"]);
        for index in [1, 3, 2] {
            assert_eq!(accept(&mut order, chunk(index)).0, [""; 0]);
        }
        assert_eq!((order.arrived(), order.dropped()), (4, 3));
    }

    #[test]
    fn a_repeated_chunk_is_not_counted_after_a_loss() {
        let mut order = ChunkOrder::default();
        accept(&mut order, chunk(10));
        let long = Chunk::text(&"x".repeat(MAX_WAITING_BYTES));
        order.accept(ReceivedChunk { index: Some(7), chunk: long, reports_loss: false });
        accept(&mut order, chunk(10));
        assert_eq!((order.arrived(), order.dropped()), (2, 3));
    }

    #[test]
    fn what_waits_is_bounded_and_any_number_is_survived() {
        let mut order = ChunkOrder::default();
        for index in (1..=64).rev().chain([u64::MAX, u64::MAX - 1, 0, u64::MAX]) {
            accept(&mut order, chunk(index));
        }
        assert!(order.waiting.is_empty());
        // The largest sequence number was used already, so a loss cannot increase the number of the next chunk.
        order.record_lost(u64::MAX);
        assert_eq!(order.next, u64::MAX);
        let mut order = ChunkOrder::default();
        for index in 1..10 {
            let chunk = Chunk::text(&"x".repeat(MAX_WAITING_BYTES / 4));
            order.accept(ReceivedChunk { index: Some(index), chunk, reports_loss: false });
        }
        assert!(order.waiting_bytes <= MAX_WAITING_BYTES);
        assert_eq!(order.dropped(), 10, "the chunk that never came counts");
    }
}
