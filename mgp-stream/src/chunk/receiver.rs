//! The receiving side of the chunks of one outbound call.
//!
//! The chunks are put in order, and then pushed into the inbox of the call. If the inbox is full, it drops the chunk
//! and all later chunks (see `has_gap` in `src/connection/pending.rs` of `mgp-transport`). While too many chunks wait
//! for the caller, the callee is asked to pause.

use std::borrow::Cow;
use std::time::Duration;

use mgp_types::mcp::key;
use mgp_types::method::StreamPace;
use mgp_types::mgp::PaceParams;
use mgp_types::service::{Call, Chunk, Context, HopMembers, QueueRoom, Reply};
use mgp_types::sync::Mutex;
use mgp_types::{Id, Payload, RpcError};
use tokio::time::{Instant, sleep};

use super::order::{ChunkOrder, ReceivedChunk};

/// The number of delivered chunks that the caller has not taken, at or below which a paused stream is resumed.
const RESUMING_CHUNKS: usize = 256;
/// The total size, in bytes, of the delivered chunks that the caller has not taken, at or below which a paused stream
/// is resumed.
const RESUMING_BYTES: usize = 256 << 10;
/// The maximum time for which the stream of one call is paused, over all its pauses. The time limits of the tool run
/// during a pause, so a longer pause could make the call fail.
const MAX_PAUSED: Duration = Duration::from_secs(10);
/// The pace that means "no limit"; it resumes a paused stream. It is the largest signed number of 32 bits, because some
/// implementations cannot read a larger one.
const UNLIMITED: u32 = 0x7fff_ffff;

/// Receiver that puts the chunks of one call in order. It drops repeated chunks, and all chunks after a lost chunk. If
/// the caller's inbox is full, the chunk is counted as dropped, and the inbox refuses all later chunks too. So the
/// content that the caller gets has no gap, but can lack its end.
#[derive(Debug, Default)]
pub(crate) struct ChunkReceiver {
    state: Mutex<ReceiveState>,
    /// The last pace that was sent to the callee, if any. The lock is held while a pace is sent, so that the callee
    /// receives the paces in the right order.
    sent_pace: tokio::sync::Mutex<Option<u32>>,
    /// The members of `_meta` of the call that identify this side. Notifications to the callee about the chunks repeat
    /// them.
    meta: Vec<(Cow<'static, str>, Payload)>,
}

#[derive(Debug, Default)]
struct ReceiveState {
    order: ChunkOrder,
    /// The number of the delivered chunks that the caller has not taken yet.
    untaken_chunks: usize,
    /// The total size, in bytes, of the delivered chunks that the caller has not taken yet.
    untaken_bytes: usize,
    /// The start of the current pause: the callee was asked to send nothing, because too many chunks wait for the
    /// caller. `None` while the stream is not paused.
    paused_since: Option<Instant>,
    /// The total duration of the earlier pauses of the stream.
    paused_for: Duration,
    /// `true` while [`limit_pause`](ChunkReceiver::limit_pause) runs.
    has_limit: bool,
    /// The pace that the caller itself requested, if any; it applies while the stream is not paused.
    own_pace: Option<u32>,
    /// The context for notifications to the callee, and the id that the callee knows for the call.
    callee: Option<(Context, Id)>,
}

/// The work that remains for the caller of [`deliver`](ChunkReceiver::deliver) after a chunk was delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// The sequence numbers of the chunks to request from the callee.
    pub(crate) missing: Vec<u64>,
    /// `true` if the callee must be asked to pause.
    pub(crate) pauses: bool,
}

impl ChunkReceiver {
    /// Creates the receiver for a call that was sent with the members `hop`. Keeps those members that later
    /// notifications about the call must repeat.
    pub(crate) fn new(hop: &HopMembers) -> Self {
        let names =
            [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::CLIENT_INFO, key::MGP_HANDLE];
        let meta = hop.meta.iter().filter(|(name, _)| names.contains(&&**name)).cloned().collect();
        Self { state: Mutex::default(), sent_pace: tokio::sync::Mutex::default(), meta }
    }

    pub(crate) fn meta(&self) -> Vec<(Cow<'static, str>, Payload)> {
        self.meta.clone()
    }

    /// Accepts a chunk. Passes it to `push`, and then the chunks that waited for it. `push` returns the room that is
    /// left in the queue of the caller.
    ///
    /// Chunks can arrive on two streams at the same time, so `push` is called while the lock is held, which keeps the
    /// chunks in order. `push` must not block.
    pub(crate) fn deliver(
        &self,
        received: ReceivedChunk,
        push: impl Fn(Chunk) -> QueueRoom,
    ) -> Delivered {
        let mut state = self.state.lock();
        let was_paused = state.paused_since.is_some();
        let arrival = state.order.accept(received);
        for chunk in arrival.next.into_iter().chain(arrival.after) {
            let size = chunk.content.as_str().len();
            match push(chunk) {
                QueueRoom::Full => state.order.count_dropped(),
                room => {
                    state.untaken_chunks += 1;
                    state.untaken_bytes += size;
                    if room == QueueRoom::High && state.paused_for < MAX_PAUSED {
                        state.paused_since.get_or_insert_with(Instant::now);
                    }
                }
            }
        }
        let pauses = state.paused_since.is_some() && !was_paused;
        Delivered { missing: arrival.missing, pauses }
    }

    // === Pace ===

    /// Sets the context for notifications to the callee, and the id that the callee knows for the call.
    pub(crate) fn set_callee(&self, cx: Context, id: Id) {
        self.state.lock().callee = Some((cx, id));
    }

    /// Records that the caller takes a chunk. Returns whether the callee must now be asked to resume the stream.
    pub(crate) fn record_taken(&self, chunk: &Chunk) -> bool {
        let mut state = self.state.lock();
        state.untaken_chunks = state.untaken_chunks.saturating_sub(1);
        state.untaken_bytes = state.untaken_bytes.saturating_sub(chunk.content.as_str().len());
        let resumes = state.paused_since.is_some()
            && state.untaken_chunks <= RESUMING_CHUNKS
            && state.untaken_bytes <= RESUMING_BYTES;
        if resumes {
            state.end_pause();
        }
        resumes
    }

    /// Waits until the caller has taken enough chunks for the stream to be resumed. If the pauses of the call have
    /// lasted for [`MAX_PAUSED`] in total before that, asks the callee to resume the stream. Returns immediately if
    /// another task already does this.
    pub(crate) async fn limit_pause(&self) {
        if std::mem::replace(&mut self.state.lock().has_limit, true) {
            return;
        }
        loop {
            let left = {
                let mut state = self.state.lock();
                let Some(since) = state.paused_since else {
                    state.has_limit = false;
                    return;
                };
                let left = MAX_PAUSED.saturating_sub(state.paused_for + since.elapsed());
                if left.is_zero() {
                    state.end_pause();
                }
                left
            };
            if left.is_zero() {
                self.send_pace().await;
            }
            // If the pace could not be sent, the stream counts as paused again, and the next iteration of this loop
            // sends the pace again.
            sleep(left.max(Duration::from_secs(1))).await;
        }
    }

    /// Sends the pace that applies now to the callee, unless the callee knows it already or the call has ended.
    pub(crate) async fn send_pace(&self) {
        let mut sent = self.sent_pace.lock().await;
        let (pace, callee) = {
            let state = self.state.lock();
            let is_paused = state.paused_since.is_some();
            (if is_paused { Some(0) } else { state.own_pace }, state.callee.clone())
        };
        let Some((cx, id)) = callee.filter(|_| pace != *sent) else { return };
        let peer = cx.peer.clone();
        if peer.in_flight(&id).is_none() {
            return;
        }
        let params = PaceParams::new(id, pace.unwrap_or(UNLIMITED));
        let Ok(mut call) = Call::tell::<StreamPace>(&params, cx) else { return };
        call.hop_mut().meta = self.meta();
        if pace == Some(0) {
            // Count the pause as sent even if sending fails: it may have arrived nevertheless, and then a pace that
            // resumes the stream must be sent later.
            *sent = pace;
        }
        match peer.send(call).await {
            Ok(_) => *sent = pace,
            Err(error) => {
                tracing::debug!(%error, "a pace was not sent");
                let mut state = self.state.lock();
                if *sent == Some(0) {
                    state.paused_since.get_or_insert_with(Instant::now);
                } else {
                    state.end_pause();
                }
            }
        }
    }

    /// Stores the pace that the caller requests, and awaits `sending`, which sends it to the callee. While the stream
    /// is paused, `sending` is dropped: the callee then gets the pace when the stream is resumed.
    pub(crate) async fn set_pace(
        &self,
        pace: u32,
        sending: impl Future<Output = Result<Reply, RpcError>>,
    ) -> Result<Reply, RpcError> {
        let mut sent = self.sent_pace.lock().await;
        let is_paused = {
            let mut state = self.state.lock();
            state.own_pace = Some(pace);
            state.paused_since.is_some()
        };
        if is_paused {
            return Ok(Reply::None);
        }
        let reply = sending.await?;
        *sent = Some(pace);
        Ok(reply)
    }

    /// Records that the callee reported a chunk that it cannot send again.
    pub(crate) fn record_lost(&self, index: u64) {
        self.state.lock().order.record_lost(index);
    }

    /// Returns the number of chunks that arrived, without repeated chunks.
    pub(crate) fn arrived(&self) -> u64 {
        self.state.lock().order.arrived()
    }

    /// Returns the number of chunks that were lost or dropped, so that the caller did not get them. Must be called
    /// after the call has ended, because chunks that still wait count as dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.state.lock().order.dropped()
    }
}

impl ReceiveState {
    fn end_pause(&mut self) {
        self.paused_for += self.paused_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mgp_types::service::{
        BoxFuture, InFlight, Inbox, ItemReceiver, Link, OutletItem, Peer, Principal, Scope,
        ScopeKind,
    };

    use super::*;

    fn chunk(index: u64) -> ReceivedChunk {
        let chunk = Chunk::text(&index.to_string());
        ReceivedChunk { index: Some(index), chunk, reports_loss: false }
    }

    /// A connection to a callee that records the paces that are sent to it; its calls never end.
    #[derive(Default)]
    struct Callee {
        paces: Mutex<Vec<u32>>,
        /// `true` if the answer to each notification that pauses the stream is lost.
        loses_answers: bool,
    }

    impl Callee {
        fn context(self: &Arc<Self>) -> Context {
            let peer = Peer::new(Arc::clone(self) as Arc<dyn Link>);
            Context::new(peer, Scope::new(ScopeKind::Connection), Principal::local())
        }
    }

    impl Link for Callee {
        fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
            let params: PaceParams = call.params().get().unwrap();
            self.paces.lock().push(params.max_chunks_per_second);
            let is_lost = self.loses_answers && params.max_chunks_per_second == 0;
            let answer = if is_lost { Err(RpcError::internal("lost")) } else { Ok(Reply::None) };
            Box::pin(std::future::ready(answer))
        }

        fn in_flight(&self, id: &Id) -> Option<InFlight> {
            struct NoRoom;
            impl ItemReceiver for NoRoom {
                fn push(&self, _: OutletItem) -> QueueRoom {
                    QueueRoom::Full
                }
            }
            let cx = Arc::new(Self::default()).context();
            Some(InFlight { id: id.clone(), cx, inbox: Inbox::new(Arc::new(NoRoom)) })
        }
    }

    #[tokio::test]
    async fn a_stream_is_paused_once_and_goes_on_at_the_pace_of_its_caller() {
        let (receiver, callee) = (ChunkReceiver::default(), Arc::new(Callee::default()));
        receiver.set_callee(callee.context(), 1.into());
        let deliver = |index, room| receiver.deliver(chunk(index), |_| room).pauses;
        assert!(!deliver(0, QueueRoom::Free));
        assert!(deliver(1, QueueRoom::High));
        assert!(!deliver(2, QueueRoom::High), "it is paused already");
        receiver.send_pace().await;
        assert!(receiver.record_taken(&chunk(0).chunk), "few chunks are left");
        assert!(!receiver.record_taken(&chunk(1).chunk));
        receiver.send_pace().await;
        receiver.send_pace().await;
        assert_eq!(*callee.paces.lock(), [0, UNLIMITED]);

        assert!(deliver(3, QueueRoom::High));
        receiver.send_pace().await;
        let too_early = async { Err(RpcError::internal("it was sent during the pause")) };
        receiver.set_pace(50, too_early).await.unwrap();
        assert!(receiver.record_taken(&chunk(2).chunk));
        receiver.send_pace().await;
        assert_eq!(*callee.paces.lock(), [0, UNLIMITED, 0, 50]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_pauses_its_stream_for_a_limited_time() {
        let (receiver, callee) = (ChunkReceiver::default(), Arc::new(Callee::default()));
        receiver.set_callee(callee.context(), 1.into());
        let begin = Instant::now();
        assert!(receiver.deliver(chunk(0), |_| QueueRoom::High).pauses);
        receiver.send_pace().await;
        receiver.limit_pause().await;
        let lasted = MAX_PAUSED..MAX_PAUSED + Duration::from_secs(2);
        assert!(lasted.contains(&begin.elapsed()), "{:?}", begin.elapsed());
        assert_eq!(*callee.paces.lock(), [0, UNLIMITED]);
        assert!(!receiver.deliver(chunk(1), |_| QueueRoom::High).pauses, "it was paused for long");
    }

    /// Regression test: each pause had a task of its own, which ended up to 10 s later.
    #[tokio::test(start_paused = true)]
    async fn one_task_limits_all_pauses_of_a_stream() {
        let (receiver, callee) = (Arc::new(ChunkReceiver::default()), Arc::new(Callee::default()));
        receiver.set_callee(callee.context(), 1.into());
        assert!(receiver.deliver(chunk(0), |_| QueueRoom::High).pauses);
        let first = Arc::clone(&receiver);
        let first = tokio::spawn(async move { first.limit_pause().await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(receiver.record_taken(&chunk(0).chunk));
        assert!(receiver.deliver(chunk(1), |_| QueueRoom::High).pauses);
        let begin = Instant::now();
        receiver.send_pace().await;
        receiver.limit_pause().await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        first.await.unwrap();
        assert_eq!(*callee.paces.lock(), [0, UNLIMITED]);
    }

    #[tokio::test]
    async fn a_pause_whose_answer_is_lost_is_ended_too() {
        let callee = Arc::new(Callee { loses_answers: true, ..Callee::default() });
        let receiver = ChunkReceiver::default();
        receiver.set_callee(callee.context(), 1.into());
        assert!(receiver.deliver(chunk(0), |_| QueueRoom::High).pauses);
        receiver.send_pace().await;
        assert!(receiver.record_taken(&chunk(0).chunk));
        receiver.send_pace().await;
        assert_eq!(*callee.paces.lock(), [0, UNLIMITED]);
    }

    #[tokio::test]
    async fn a_pause_that_ended_before_it_was_sent_is_not_sent() {
        let (receiver, callee) = (ChunkReceiver::default(), Arc::new(Callee::default()));
        receiver.set_callee(callee.context(), 1.into());
        assert!(receiver.deliver(chunk(0), |_| QueueRoom::High).pauses);
        assert!(receiver.record_taken(&chunk(0).chunk));
        receiver.send_pace().await;
        assert!(callee.paces.lock().is_empty());
    }
}
