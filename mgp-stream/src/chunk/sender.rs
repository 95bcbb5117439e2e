//! The sending side of the chunks of one inbound call.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;

use mgp_types::mcp::ContentBlock;
use mgp_types::method::{Notification, StreamChunk, StreamGapUnrecoverable};
use mgp_types::mgp::GapUnrecoverableParams;
use mgp_types::service::{Chunk, ConsumerGone, Params, StreamLimit};
use mgp_types::sync::Mutex;
use mgp_types::{Id, Payload};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::pace::{NextSlot, Pace};
use super::too_long::StreamTooLong;
use crate::cancel::CancelSignal;
use crate::recipient::Recipient;

/// The maximum number of sent chunks of one call that are kept, so that they can be sent again if the caller misses
/// them.
const MAX_KEPT_CHUNKS: usize = 32;
/// The maximum size, in bytes, of the kept chunks of one call.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// The maximum number of chunks of one call that are sent again or reported as lost.
const MAX_RESENT: usize = 256;
/// The maximum number of missing chunks that are sent again for one notification of a gap; further numbers in the
/// notification are ignored.
const MAX_MISSING: usize = 64;

/// Sender that numbers the chunks of one call, and sends them at the caller's pace. It refuses chunks beyond the
/// [`StreamLimit`] of the call.
#[derive(Debug)]
pub(crate) struct ChunkSender {
    to: Recipient,
    limit: Arc<StreamLimit>,
    signal: Option<Arc<CancelSignal>>,
    since: Instant,
    /// Locked while a chunk is sent, so that chunks from several tasks are sent in the order of their numbers.
    order: tokio::sync::Mutex<()>,
    state: Mutex<SendState>,
    pace_changed: Notify,
}

#[derive(Debug, Default)]
struct SendState {
    /// The sequence number of the next chunk.
    next: u64,
    bytes: u64,
    is_done: bool,
    /// `true` after the end of the call. A chunk is then sent only if the caller's pace permits it immediately;
    /// otherwise, it is refused.
    is_over: bool,
    /// The number of chunks that the tool sent although it had marked an earlier chunk as the last. They are dropped.
    dropped: u64,
    refused: Option<StreamTooLong>,
    /// The waker of the task that answers the call; it must answer with an error when a chunk is refused.
    answering: Option<Waker>,
    pace: Pace,
    kept: VecDeque<(u64, Chunk)>,
    kept_bytes: usize,
    resent: usize,
}

/// The reason for sending a chunk: it is sent for the first time, sent again, or reported as lost.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    #[default]
    First,
    Again,
    /// The chunk has no content: it reports that this chunk or an earlier chunk is lost.
    Lost,
}

impl ChunkSender {
    pub(crate) fn new(
        to: Recipient,
        limit: Arc<StreamLimit>,
        signal: Option<Arc<CancelSignal>>,
    ) -> Arc<Self> {
        let this = Arc::new(Self {
            to,
            limit,
            signal,
            since: Instant::now(),
            order: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            pace_changed: Notify::new(),
        });
        if let Some(signal) = &this.signal {
            signal.attach(&this);
        }
        this
    }

    pub(crate) fn limit(&self) -> &Arc<StreamLimit> {
        &self.limit
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn sent(&self) -> u64 {
        self.state.lock().next
    }

    /// Returns the number of chunks that the tool sent although it had marked an earlier chunk as the last.
    pub(crate) fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }

    /// Returns whether a chunk that is marked as the last was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.state.lock().is_done
    }

    /// Returns the refusal if the chunks of the call have exceeded the size limit. Otherwise stores `waker`, which is
    /// woken when that happens.
    pub(crate) fn poll_refused(&self, waker: &Waker) -> Option<StreamTooLong> {
        let mut state = self.state.lock();
        if !state.answering.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.answering = Some(waker.clone());
        }
        state.refused.clone()
    }

    /// Sends a chunk after the chunks before it, as soon as the caller's pace allows it and the connection has room.
    pub(crate) async fn send(&self, chunk: Chunk) -> Result<(), ConsumerGone> {
        let _turn = self.order.lock().await;
        let Some(index) = self.admit(&chunk)? else { return Ok(()) };
        self.wait_for_slot().await?;
        self.transmit(index, &chunk, Form::First).await?;
        self.note_sent(index, chunk);
        Ok(())
    }

    /// Ends the stream with an empty chunk that is marked as the last, unless a chunk was already marked so. If
    /// `is_whole` is `false`, the empty chunk also reports that chunks are lost.
    pub(crate) async fn finish(&self, is_whole: bool) {
        let _turn = self.order.lock().await;
        let chunk = Chunk::text("").last();
        let index = self.sent();
        let form = if is_whole { Form::First } else { Form::Lost };
        // Ignore the error: the answer to the call follows in any case.
        if !self.is_done() && self.transmit(index, &chunk, form).await.is_ok() {
            self.note_sent(index, chunk);
        }
    }

    /// Returns the sequence number for a new chunk; `None` if a chunk was already marked as the last. Fails if the
    /// chunks of the call would exceed the size limit.
    fn admit(&self, chunk: &Chunk) -> Result<Option<u64>, ConsumerGone> {
        let mut state = self.state.lock();
        if state.refused.is_some() {
            return Err(ConsumerGone);
        }
        if state.is_done {
            state.dropped += 1;
            tracing::debug!(id = %self.to.id, "dropped a chunk after the last one");
            return Ok(None);
        }
        let size = state.bytes.saturating_add(chunk.content.as_str().len() as u64);
        if size <= self.limit.bytes() {
            return Ok(Some(state.next));
        }
        state.refused = Some(StreamTooLong::new(size, &self.limit));
        let answering = state.answering.take();
        drop(state);
        if let Some(answering) = answering {
            answering.wake();
        }
        Err(ConsumerGone)
    }

    fn note_sent(&self, index: u64, chunk: Chunk) {
        let size = chunk.content.as_str().len();
        if let Some(signal) = &self.signal {
            signal.record_chunk(&chunk.content);
        }
        let mut state = self.state.lock();
        state.next = index + 1;
        state.bytes = state.bytes.saturating_add(size as u64);
        state.is_done = chunk.done;
        let Some(kept) = self.signal.as_ref().map(|signal| signal.kept()) else { return };
        while state.kept.len() >= MAX_KEPT_CHUNKS || state.kept_bytes + size > MAX_KEPT_BYTES {
            let Some((_, oldest)) = state.kept.pop_front() else { break };
            let oldest = oldest.content.as_str().len();
            state.kept_bytes -= oldest;
            kept.release(oldest);
        }
        if size <= MAX_KEPT_BYTES && kept.reserve(size) {
            state.kept.push_back((index, chunk));
            state.kept_bytes += size;
        }
    }

    async fn transmit(&self, index: u64, chunk: &Chunk, form: Form) -> Result<(), ConsumerGone> {
        #[derive(Serialize)]
        struct Params<'a> {
            request_id: &'a Id,
            index: u64,
            content: &'a Payload,
            done: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            trace_id: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            gap_unrecoverable: Option<bool>,
            #[serde(rename = "_mgp", skip_serializing_if = "Option::is_none")]
            mgp: Option<Again>,
        }
        #[derive(Serialize)]
        struct Again {
            retransmit: bool,
        }
        if form == Form::First && ContentBlock::plain_text(&chunk.content).is_some() {
            return self.transmit_text(index, chunk).await;
        }
        let params = Payload::of(&Params {
            request_id: &self.to.id,
            index,
            content: &chunk.content,
            done: chunk.done,
            trace_id: self.to.trace.as_deref(),
            gap_unrecoverable: (form == Form::Lost).then_some(true),
            mgp: (form == Form::Again).then_some(Again { retransmit: true }),
        });
        self.to.notify(StreamChunk::METHOD, params).await
    }

    /// Sends a chunk of text. Text is the most frequent kind by far, so its params are written directly, without
    /// encoding and parsing them again.
    async fn transmit_text(&self, index: u64, chunk: &Chunk) -> Result<(), ConsumerGone> {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(br#""request_id":"#);
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(&mut *out, &self.to.id);
            out.extend_from_slice(br#","index":"#);
            let _ = serde_json::to_writer(&mut *out, &index);
            out.extend_from_slice(br#","content":"#);
            out.extend_from_slice(chunk.content.as_str().as_bytes());
            out.extend_from_slice(if chunk.done {
                br#","done":true"#
            } else {
                br#","done":false"#
            });
        };
        let params = Params::from_members(write, self.to.trace.as_deref());
        self.to.send(StreamChunk::METHOD, params).await
    }

    // === Pace ===

    /// Sets the maximum number of chunks per second; 0 pauses the stream.
    pub(crate) fn set_pace(&self, per_second: u32) {
        self.state.lock().pace.set(per_second);
        self.pace_changed.notify_waiters();
    }

    /// Ends the waiting for the caller's pace, because the call has ended. From then on, a chunk that would have to
    /// wait is refused.
    pub(crate) fn end(&self) {
        self.state.lock().is_over = true;
        self.pace_changed.notify_waiters();
    }

    async fn wait_for_slot(&self) -> Result<(), ConsumerGone> {
        loop {
            let mut changed = pin!(self.pace_changed.notified());
            changed.as_mut().enable();
            let (slot, is_over) = {
                let mut state = self.state.lock();
                (state.pace.next_slot(), state.is_over)
            };
            match slot {
                NextSlot::Now => return Ok(()),
                _ if is_over => return Err(ConsumerGone),
                NextSlot::Paused => changed.await,
                NextSlot::At(time) => {
                    let _ = timeout_at(time, changed).await;
                }
            }
        }
    }

    // === Gaps ===

    /// Sends the chunks again whose numbers the caller reports as missing. A chunk that is not kept any more is
    /// reported as lost.
    pub(crate) async fn resend(&self, missing: &[u64]) {
        for index in missing.iter().copied().take(MAX_MISSING) {
            let kept = {
                let mut state = self.state.lock();
                if index >= state.next || state.resent >= MAX_RESENT {
                    continue;
                }
                state.resent += 1;
                state.kept.iter().find(|(kept, _)| *kept == index).map(|(_, chunk)| chunk.clone())
            };
            let sent = match kept {
                Some(chunk) => self.transmit(index, &chunk, Form::Again).await,
                None => self.report_lost(index).await,
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// Reports a lost chunk in both forms that implementations use: as an empty chunk, and as a separate notification.
    async fn report_lost(&self, index: u64) -> Result<(), ConsumerGone> {
        self.transmit(index, &Chunk::text(""), Form::Lost).await?;
        let mut params = GapUnrecoverableParams::new(self.to.id.clone(), index);
        params.reason = Some("the chunk is no longer kept".to_owned());
        self.to.notify(StreamGapUnrecoverable::METHOD, Payload::of(&params)).await
    }
}

impl Drop for ChunkSender {
    fn drop(&mut self) {
        if let Some(signal) = &self.signal {
            signal.kept().release(self.state.get_mut().kept_bytes);
        }
    }
}
