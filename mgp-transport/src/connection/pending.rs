//! Requests of ours that the peer has not answered.
//!
//! Applies to: both.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use mgp_types::service::{
    Call, Context, InFlight, Inbox, Item, ItemKind, Mailslot, Outlet, Params, Reply, Room, lost,
};
use mgp_types::{Id, Payload, RpcError};
use rustc_hash::FxHashMap;

/// How many partial results of one call may wait for their consumer.
const INBOX_ITEMS: usize = 256;
/// How many bytes of them may wait behind the first.
const INBOX_BYTES: usize = 4 << 20;
/// What an item costs besides its text.
const ITEM_COST: usize = 64;

/// The table of unanswered requests, by the number they have on the wire.
#[derive(Debug)]
pub(crate) struct Pending {
    table: Mutex<Table>,
    inbox: Arc<InboxBudget>,
}

/// The partial results of all calls of a connection that wait for their consumers.
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
    /// The numbers are ours, so that nobody chooses them for their hashes.
    entries: FxHashMap<i64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The request without its params: it holds the context already, in one word.
    call: Call,
    slot: Arc<Slot>,
}

impl InboxBudget {
    /// Bytes that wait.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Items that were dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn has_room(&self, size: usize) -> bool {
        self.held() + size <= self.bound.load(Ordering::Relaxed)
    }
}

impl Pending {
    /// An empty table whose calls may together hold so many bytes of partial results.
    pub(crate) fn new(bound: usize) -> Self {
        let inbox = InboxBudget {
            held: AtomicUsize::new(0),
            bound: AtomicUsize::new(bound),
            lost: AtomicU64::new(0),
        };
        Self { table: Mutex::default(), inbox: Arc::new(inbox) }
    }

    /// Changes how many bytes of partial results may be held.
    pub(crate) fn bound(&self, bytes: usize) {
        self.inbox.bound.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn inbox(&self) -> &InboxBudget {
        &self.inbox
    }

    /// Numbers a request, and asks for progress under that number if its caller wants it; `None` once the connection is gone.
    pub(crate) fn number(&self, call: &mut Call) -> Option<i64> {
        let number = {
            let mut table = self.table();
            if table.closed {
                return None;
            }
            table.next += 1;
            table.next
        };
        if call.cx().outlet.wants(ItemKind::Progress) {
            let token = Payload::from_trusted(number.to_string());
            call.hop_mut().meta.push((Cow::Borrowed("progressToken"), token));
        }
        Some(number)
    }

    /// Enters a request that was written and that nobody has seen yet; `None` once the connection is gone.
    pub(crate) fn enter(&self, number: i64, mut call: Call) -> Option<Arc<Slot>> {
        *call.params_mut() = Params::none();
        let slot = Arc::new(Slot { state: Mutex::default(), budget: Arc::clone(&self.inbox) });
        let mut table = self.table();
        if table.closed {
            return None;
        }
        table.entries.insert(number, Entry { call, slot: Arc::clone(&slot) });
        drop(table);
        Some(slot)
    }

    /// Takes a request out; `true` when it was still unanswered.
    pub(crate) fn leave(&self, number: i64) -> bool {
        // Dropped after the lock: a request holds what others gave it.
        let entry = self.table().entries.remove(&number);
        entry.is_some()
    }

    /// Hands an answer to the request it belongs to; a second answer finds nobody.
    pub(crate) fn answer(
        &self,
        id: &Id,
        make: impl FnOnce(&Context) -> Result<Reply, RpcError>,
    ) -> bool {
        let Id::Number(number) = id else { return false };
        let Some(entry) = self.table().entries.remove(number) else { return false };
        entry.slot.finish(make(entry.call.cx()));
        true
    }

    pub(crate) fn get(&self, id: &Id) -> Option<InFlight> {
        let Id::Number(number) = id else { return None };
        self.table().entries.get(number).map(|entry| entry.in_flight(*number))
    }

    pub(crate) fn all(&self) -> Vec<InFlight> {
        let table = self.table();
        let mut entries: Vec<_> = table.entries.iter().collect();
        entries.sort_by_key(|(number, _)| **number);
        entries.into_iter().map(|(number, entry)| entry.in_flight(*number)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.table().entries.len()
    }

    /// Ends every request with the reason, and refuses new ones.
    pub(crate) fn close(&self, why: &str) {
        let entries = {
            let mut table = self.table();
            table.closed = true;
            std::mem::take(&mut table.entries)
        };
        for entry in entries.into_values() {
            entry.slot.finish(Err(lost(why)));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn in_flight(&self, number: i64) -> InFlight {
        InFlight {
            id: Id::Number(number),
            cx: self.call.cx().clone(),
            inbox: Inbox::new(Arc::clone(&self.slot) as Arc<dyn Mailslot>),
        }
    }
}

/// Where the partial results and the answer of one request wait, in the order they were read.
///
/// Overflow rule: above its bounds the call's further chunks are dropped and counted; the answer has the full text.
#[derive(Debug)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    budget: Arc<InboxBudget>,
}

#[derive(Debug, Default)]
struct SlotState {
    items: VecDeque<Item>,
    bytes: usize,
    dropped: u64,
    outcome: Option<Result<Reply, RpcError>>,
    consumer: Option<Waker>,
}

/// What comes next out of a [`Slot`].
pub(crate) enum Next {
    Item(Item),
    Done(Result<Reply, RpcError>),
}

impl Slot {
    /// Hands the items on as they come, and gives the answer after the last.
    pub(crate) async fn outcome(&self, outlet: &Outlet) -> Result<Reply, RpcError> {
        loop {
            match self.next().await {
                Next::Item(item) => {
                    // A consumer that left is no reason to lose the answer.
                    let _ = outlet.send(item).await;
                }
                Next::Done(outcome) => return outcome,
            }
        }
    }

    /// Waits for the next item, and for the answer after the last.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&self) -> Next {
        poll_fn(|task| {
            let mut state = self.state();
            if let Some(item) = state.items.pop_front() {
                let size = size_of(&item);
                state.bytes -= size;
                self.budget.held.fetch_sub(size, Ordering::Relaxed);
                return Poll::Ready(Next::Item(item));
            }
            if let Some(outcome) = state.outcome.take() {
                return Poll::Ready(Next::Done(outcome));
            }
            state.consumer = Some(task.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn finish(&self, outcome: Result<Reply, RpcError>) {
        let mut state = self.state();
        if state.dropped > 0 {
            tracing::debug!(
                dropped = state.dropped,
                "partial results were dropped: their consumer is slow"
            );
        }
        state.outcome = Some(outcome);
        let consumer = state.consumer.take();
        drop(state);
        if let Some(consumer) = consumer {
            consumer.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let bytes = self.state().bytes;
        self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What an item costs while it waits.
fn size_of(item: &Item) -> usize {
    let text = match item {
        Item::Chunk(text) | Item::Log(text) | Item::Event(text) | Item::Callback(text) => {
            text.as_str().len()
        }
        Item::Progress(step) => step.message.as_ref().map_or(0, String::len),
        _ => 0,
    };
    text + ITEM_COST
}

impl Mailslot for Slot {
    fn push(&self, item: Item) -> Room {
        let mut state = self.state();
        // After one chunk was dropped the rest would have a hole: they stop until the answer.
        let stopped = state.dropped > 0 && matches!(item, Item::Chunk(_));
        let size = size_of(&item);
        // One large item may always wait, so that a chunk above the bound is not lost to a consumer that keeps up.
        let over = !state.items.is_empty() && state.bytes + size > INBOX_BYTES;
        if stopped || over || state.items.len() >= INBOX_ITEMS || !self.budget.has_room(size) {
            state.dropped += 1;
            self.budget.lost.fetch_add(1, Ordering::Relaxed);
            return Room::Full;
        }
        state.bytes += size;
        self.budget.held.fetch_add(size, Ordering::Relaxed);
        state.items.push_back(item);
        let room = if state.items.len() == INBOX_ITEMS / 2 { Room::High } else { Room::Free };
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

    fn chunk(bytes: usize) -> Item {
        Item::Chunk(Payload::of(&"x".repeat(bytes)).unwrap())
    }

    fn enter(pending: &Pending) -> (i64, Arc<Slot>) {
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
        let mut call = Call::request(Method::from_static("ping"), Params::none(), cx);
        let number = pending.number(&mut call).unwrap();
        (number, pending.enter(number, call).unwrap())
    }

    /// 256 chunks may wait; of 16 MiB each they were 4 GiB.
    #[tokio::test]
    async fn chunks_that_wait_are_bounded_in_bytes() {
        let pending = Pending::new(64 << 20);
        let (_, slot) = enter(&pending);
        let rooms: Vec<_> = (0..8).map(|_| slot.push(chunk(1 << 20))).collect();
        assert_eq!(rooms, [[Room::Free; 3].as_slice(), &[Room::Full; 5]].concat());
        assert_eq!(pending.inbox().lost(), 5);
        assert!(matches!(slot.next().await, Next::Item(_)));
        // There is room again, but not after a hole.
        assert_eq!(slot.push(chunk(1)), Room::Full);

        // A single large one is no flood.
        let (_, other) = enter(&pending);
        assert_eq!(other.push(chunk(16 << 20)), Room::Free);
        assert_eq!(other.push(chunk(1)), Room::Full);
    }

    #[test]
    fn all_calls_share_a_budget_and_give_it_back() {
        let pending = Pending::new(3 << 20);
        let slots: Vec<_> = (0..4).map(|_| enter(&pending)).collect();
        let rooms: Vec<_> = slots.iter().map(|(_, slot)| slot.push(chunk(1_000_000))).collect();
        assert_eq!(rooms, [Room::Free, Room::Free, Room::Free, Room::Full]);
        for (number, _) in &slots {
            assert!(pending.leave(*number));
        }
        drop(slots);
        assert_eq!((pending.inbox().held(), pending.inbox().lost(), pending.len()), (0, 1, 0));
    }
}
