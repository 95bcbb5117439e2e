//! Requests sent by this side that the peer has not answered yet.
//!
//! [`PendingRequests::assign_number`] chooses the JSON-RPC id of each request. A forwarded request therefore has a
//! different id than the request that was received.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use mgp_types::method::SubscriptionsListen;
use mgp_types::service::{
    Call, Context, InFlight, Inbox, ItemReceiver, Method, Outlet, OutletItem, OutletItemKind,
    Params, QueueRoom, Reply, connection_lost,
};
use mgp_types::sync::Mutex;
use mgp_types::{Id, Payload, RpcError};
use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of partial results of one call that wait for its caller; enough for a burst of many small chunks.
const MAX_INBOX_ITEMS: usize = 4096;
/// The maximum size, in bytes, of the waiting partial results of one call. A single larger result is accepted if no
/// other result is waiting.
const MAX_INBOX_BYTES: usize = 4 << 20;
/// The divisor of both limits: from a quarter of either limit on, the sender is asked to pause. The rest is for items
/// that still arrive after that.
const HIGH_SHARE: usize = 4;
/// The estimated memory of a waiting item in addition to its text, in bytes.
const ITEM_COST: usize = 64;

/// The table of unanswered requests, by number. The number of a request is also its JSON-RPC id.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    table: Mutex<Table>,
    inbox: Arc<InboxBudget>,
}

/// The limit for the partial results of all calls of a connection together.
#[derive(Debug)]
pub(crate) struct InboxBudget {
    held: AtomicUsize,
    bound: AtomicUsize,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    next: i64,
    closed: bool,
    /// The requests by number. A fast hash is safe, because the peer cannot choose the numbers to cause collisions.
    entries: FxHashMap<i64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The request without its params. Its context is needed for the answer, and for messages of the peer that refer to
    /// the request.
    call: Call,
    slot: Arc<Slot>,
}

impl InboxBudget {
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn has_room(&self, size: usize) -> bool {
        self.held() + size <= self.bound.load(Ordering::Relaxed)
    }
}

impl PendingRequests {
    /// Creates an empty table whose calls can together store `bound` bytes of partial results.
    pub(crate) fn new(bound: usize) -> Self {
        let inbox = InboxBudget {
            held: AtomicUsize::new(0),
            bound: AtomicUsize::new(bound),
            lost: AtomicU64::new(0),
        };
        Self { table: Mutex::default(), inbox: Arc::new(inbox) }
    }

    /// Sets the maximum total size, in bytes, of the waiting partial results of all calls.
    pub(crate) fn set_bound(&self, bytes: usize) {
        self.inbox.bound.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn inbox(&self) -> &InboxBudget {
        &self.inbox
    }

    /// Assigns a number to a request; also sets it as the progress token if the caller wants progress.
    ///
    /// Returns `None` if the connection is closed.
    pub(crate) fn assign_number(&self, call: &mut Call) -> Option<i64> {
        let number = {
            let mut table = self.table.lock();
            if table.closed {
                return None;
            }
            table.next += 1;
            table.next
        };
        if call.cx().outlet.wants(OutletItemKind::Progress) {
            let token = Payload::from_trusted(number.to_string());
            call.hop_mut().meta.push((Cow::Borrowed("progressToken"), token));
        }
        Some(number)
    }

    /// Inserts a request that is about to be sent; returns `None` if the connection is closed.
    pub(crate) fn insert(&self, number: i64, mut call: Call) -> Option<Arc<Slot>> {
        *call.params_mut() = Params::none();
        let slot = Arc::new(Slot { state: Mutex::default(), budget: Arc::clone(&self.inbox) });
        let mut table = self.table.lock();
        if table.closed {
            return None;
        }
        table.entries.insert(number, Entry { call, slot: Arc::clone(&slot) });
        drop(table);
        Some(slot)
    }

    /// Removes a request; returns `true` if it was still unanswered.
    pub(crate) fn remove(&self, number: i64) -> bool {
        // The entry is dropped after the lock is released, because it contains values of its caller, whose destructors
        // can run any code.
        let entry = self.table.lock().entries.remove(&number);
        entry.is_some()
    }

    /// Passes an answer to its request; returns `false` if no request waits for the answer, e.g. if the request was
    /// answered before.
    pub(crate) fn complete(
        &self,
        id: &Id,
        make: impl FnOnce(&Context) -> Result<Reply, RpcError>,
    ) -> bool {
        let Some(number) = number_of(id) else { return false };
        let Some(entry) = self.table.lock().entries.remove(&number) else { return false };
        entry.slot.finish(make(entry.call.cx()));
        true
    }

    pub(crate) fn get(&self, id: &Id) -> Option<InFlight> {
        let number = number_of(id)?;
        self.table.lock().entries.get(&number).map(|entry| entry.in_flight(number))
    }

    /// Returns whether an unanswered request has this id and method.
    pub(crate) fn is_of(&self, id: &Id, method: &Method) -> bool {
        let Id::Number(number) = id else { return false };
        self.table.lock().entries.get(number).is_some_and(|entry| entry.call.method() == method)
    }

    /// Returns the id of the first request of the connection, if it has this method and is unanswered.
    pub(crate) fn first_of(&self, method: &str) -> Option<Id> {
        let table = self.table.lock();
        let is_unanswered =
            table.entries.get(&1).is_some_and(|entry| entry.call.method().as_str() == method);
        is_unanswered.then_some(Id::Number(1))
    }

    pub(crate) fn all(&self) -> Vec<InFlight> {
        let table = self.table.lock();
        let mut entries: Vec<_> = table.entries.iter().collect();
        entries.sort_by_key(|(number, _)| **number);
        entries.into_iter().map(|(number, entry)| entry.in_flight(*number)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().entries.len()
    }

    /// Returns whether a request other than the given requests is unanswered. Subscriptions do not count, because they
    /// are answered only at their end.
    pub(crate) fn has_other_calls(&self, numbers: &FxHashSet<i64>) -> bool {
        let table = self.table.lock();
        table.entries.iter().any(|(number, entry)| {
            !numbers.contains(number) && !entry.call.is::<SubscriptionsListen>()
        })
    }

    /// Fails every request with this reason, and rejects new requests.
    pub(crate) fn close(&self, reason: &str) {
        let entries = {
            let mut table = self.table.lock();
            table.closed = true;
            std::mem::take(&mut table.entries)
        };
        for entry in entries.into_values() {
            entry.slot.finish(Err(connection_lost(reason)));
        }
    }
}

impl Entry {
    fn in_flight(&self, number: i64) -> InFlight {
        InFlight {
            id: Id::Number(number),
            cx: self.call.cx().clone(),
            inbox: Inbox::new(Arc::clone(&self.slot) as Arc<dyn ItemReceiver>),
        }
    }
}

/// The queue for the partial results and the answer of one request, in the order in which they were read.
///
/// Overflow rule: above its limits, further items are dropped and counted. After a dropped chunk, all further chunks
/// are dropped too; the answer contains the full text.
#[derive(Debug)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    budget: Arc<InboxBudget>,
}

#[derive(Debug, Default)]
struct SlotState {
    items: VecDeque<OutletItem>,
    bytes: usize,
    dropped: u64,
    /// `true` after a dropped chunk: all further chunks are dropped too, because a gap in the middle would corrupt the
    /// text.
    has_gap: bool,
    outcome: Option<Result<Reply, RpcError>>,
    consumer: Option<Waker>,
}

/// The next event of a [`Slot`].
pub(crate) enum SlotEvent {
    Item(OutletItem),
    Done(Result<Reply, RpcError>),
}

impl Slot {
    /// Forwards partial results to the outlet (the caller's channel for them) as they arrive, then returns the answer.
    pub(crate) async fn outcome(&self, outlet: &Outlet) -> Result<Reply, RpcError> {
        loop {
            match self.next().await {
                SlotEvent::Item(item) => {
                    // Ignore the error: the answer is needed even if the consumer of the partial results was dropped.
                    let _ = outlet.send(item).await;
                }
                SlotEvent::Done(outcome) => return outcome,
            }
        }
    }

    /// Waits for the next partial result or, after the last partial result, for the answer.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&self) -> SlotEvent {
        poll_fn(|task| {
            let mut state = self.state.lock();
            if let Some(item) = state.items.pop_front() {
                let size = item_size(&item);
                state.bytes -= size;
                self.budget.held.fetch_sub(size, Ordering::Relaxed);
                return Poll::Ready(SlotEvent::Item(item));
            }
            if let Some(outcome) = state.outcome.take() {
                return Poll::Ready(SlotEvent::Done(outcome));
            }
            state.consumer = Some(task.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn finish(&self, outcome: Result<Reply, RpcError>) {
        let mut state = self.state.lock();
        if state.dropped > 0 {
            tracing::debug!(dropped = state.dropped, "dropped partial results of a slow consumer");
        }
        state.outcome = Some(outcome);
        let consumer = state.consumer.take();
        drop(state);
        if let Some(consumer) = consumer {
            consumer.wake();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let bytes = self.state.lock().bytes;
        self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the number in an id of the peer. Some peers repeat the number as a string, which the official SDKs accept.
fn number_of(id: &Id) -> Option<i64> {
    match id {
        Id::Number(number) => Some(*number),
        Id::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Returns the estimated memory of an item while it waits.
fn item_size(item: &OutletItem) -> usize {
    let text = match item {
        OutletItem::Chunk(chunk) => chunk.content.as_str().len(),
        OutletItem::Log(text) | OutletItem::Event(text) | OutletItem::Callback(text) => {
            text.as_str().len()
        }
        OutletItem::Progress(step) => step.message.as_ref().map_or(0, String::len),
        _ => 0,
    };
    text + ITEM_COST
}

impl ItemReceiver for Slot {
    fn push(&self, item: OutletItem) -> QueueRoom {
        let mut state = self.state.lock();
        let is_chunk = matches!(item, OutletItem::Chunk(_));
        let stopped = state.has_gap && is_chunk;
        let size = item_size(&item);
        // If no item is waiting, an item may exceed `MAX_INBOX_BYTES`, so that a fast consumer receives even such
        // chunks.
        let over = !state.items.is_empty() && state.bytes + size > MAX_INBOX_BYTES;
        if stopped || over || state.items.len() >= MAX_INBOX_ITEMS || !self.budget.has_room(size) {
            state.dropped += 1;
            state.has_gap |= is_chunk;
            self.budget.lost.fetch_add(1, Ordering::Relaxed);
            return QueueRoom::Full;
        }
        state.bytes += size;
        self.budget.held.fetch_add(size, Ordering::Relaxed);
        state.items.push_back(item);
        let is_high = state.items.len() >= MAX_INBOX_ITEMS / HIGH_SHARE
            || state.items.len() > 1 && state.bytes >= MAX_INBOX_BYTES / HIGH_SHARE;
        let room = if is_high { QueueRoom::High } else { QueueRoom::Free };
        let consumer = state.consumer.take();
        drop(state);
        if let Some(consumer) = consumer {
            consumer.wake();
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Method, Peer, Principal, Scope, ScopeKind};

    use super::*;

    fn chunk(bytes: usize) -> OutletItem {
        OutletItem::chunk(Payload::of(&"x".repeat(bytes)).unwrap())
    }

    fn insert(pending: &PendingRequests) -> (i64, Arc<Slot>) {
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
        let mut call = Call::request(Method::from_static("ping"), Params::none(), cx);
        let number = pending.assign_number(&mut call).unwrap();
        (number, pending.insert(number, call).unwrap())
    }

    /// Some servers keep ids as strings, and answer request `1` with the id `"1"`. The call must end nevertheless.
    #[tokio::test]
    async fn an_answer_whose_id_is_the_number_as_text_ends_its_call() {
        let pending = PendingRequests::new(64 << 20);
        let (number, slot) = insert(&pending);
        let text = Id::from(number.to_string().as_str());
        assert!(pending.get(&text).is_some());
        assert!(!pending.complete(&Id::from("x"), |_| Ok(Reply::None)));
        assert!(pending.complete(&text, |_| Ok(Reply::None)));
        assert!(matches!(slot.next().await, SlotEvent::Done(Ok(Reply::None))));
    }

    /// Guards the limit in bytes: without it, 256 chunks of 16 MiB (4 GiB) could wait.
    #[tokio::test]
    async fn chunks_that_wait_are_bounded_in_bytes() {
        let pending = PendingRequests::new(64 << 20);
        let (_, slot) = insert(&pending);
        let rooms: Vec<_> = (0..8).map(|_| slot.push(chunk(1 << 20))).collect();
        assert_eq!(
            rooms,
            [[QueueRoom::Free].as_slice(), &[QueueRoom::High; 2], &[QueueRoom::Full; 5]].concat()
        );
        assert_eq!(pending.inbox().lost(), 5);
        assert!(matches!(slot.next().await, SlotEvent::Item(_)));
        // There is room again, but further chunks are refused because a chunk was dropped before.
        assert_eq!(slot.push(chunk(1)), QueueRoom::Full);

        // A single large item must be accepted.
        let (_, other) = insert(&pending);
        assert_eq!(other.push(chunk(16 << 20)), QueueRoom::Free);
        assert_eq!(other.push(chunk(1)), QueueRoom::Full);
    }

    #[tokio::test]
    async fn dropped_progress_does_not_end_the_chunks() {
        let pending = PendingRequests::new(64 << 20);
        let (_, slot) = insert(&pending);
        for number in 1..=MAX_INBOX_ITEMS {
            let is_high = number >= MAX_INBOX_ITEMS / HIGH_SHARE;
            let room = if is_high { QueueRoom::High } else { QueueRoom::Free };
            assert_eq!(slot.push(chunk(1)), room, "{number}");
        }
        let log = OutletItem::Log(Payload::of("x").unwrap());
        assert_eq!(slot.push(log), QueueRoom::Full);
        assert!(matches!(slot.next().await, SlotEvent::Item(_)));
        assert_eq!(slot.push(chunk(1)), QueueRoom::High);
    }

    #[test]
    fn all_calls_share_a_budget_and_give_it_back() {
        let pending = PendingRequests::new(3 << 20);
        let slots: Vec<_> = (0..4).map(|_| insert(&pending)).collect();
        let rooms: Vec<_> = slots.iter().map(|(_, slot)| slot.push(chunk(1_000_000))).collect();
        assert_eq!(rooms, [QueueRoom::Free, QueueRoom::Free, QueueRoom::Free, QueueRoom::Full]);
        for (number, _) in &slots {
            assert!(pending.remove(*number));
        }
        drop(slots);
        assert_eq!((pending.inbox().held(), pending.inbox().lost(), pending.len()), (0, 1, 0));
    }
}
