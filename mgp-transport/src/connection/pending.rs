//! Requests of ours that the peer has not answered.
//!
//! Applies to: both.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use mgp_types::service::{Context, InFlight, Inbox, Item, Mailslot, Reply, Room, closed};
use mgp_types::{Id, RpcError};

/// How many partial results of one call may wait for their consumer.
const INBOX_ITEMS: usize = 256;

/// The table of unanswered requests, by the number they have on the wire.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: i64,
    closed: bool,
    entries: HashMap<i64, Entry>,
}

#[derive(Debug)]
struct Entry {
    cx: Context,
    slot: Arc<Slot>,
}

impl Pending {
    /// Enters a request; `None` once the connection is gone.
    pub(crate) fn enter(&self, cx: &Context) -> Option<(i64, Arc<Slot>)> {
        let mut table = self.table();
        if table.closed {
            return None;
        }
        table.next += 1;
        let number = table.next;
        let slot = Arc::new(Slot::default());
        table.entries.insert(number, Entry { cx: cx.clone(), slot: Arc::clone(&slot) });
        Some((number, slot))
    }

    /// Takes a request out; `true` when it was still unanswered.
    pub(crate) fn leave(&self, number: i64) -> bool {
        self.table().entries.remove(&number).is_some()
    }

    /// Hands an answer to the request it belongs to; a second answer finds nobody.
    pub(crate) fn answer(&self, id: &Id, make: impl FnOnce(&Context) -> Result<Reply, RpcError>) -> bool {
        let Id::Number(number) = id else { return false };
        let Some(entry) = self.table().entries.remove(number) else { return false };
        entry.slot.finish(make(&entry.cx));
        true
    }

    pub(crate) fn get(&self, id: &Id) -> Option<InFlight> {
        let Id::Number(number) = id else { return None };
        self.table().entries.get(number).map(Entry::in_flight)
    }

    pub(crate) fn all(&self) -> Vec<InFlight> {
        let table = self.table();
        let mut entries: Vec<_> = table.entries.iter().collect();
        entries.sort_by_key(|(number, _)| **number);
        entries.into_iter().map(|(_, entry)| entry.in_flight()).collect()
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
            entry.slot.finish(Err(closed(why)));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn in_flight(&self) -> InFlight {
        InFlight { cx: self.cx.clone(), inbox: Inbox::new(Arc::clone(&self.slot) as Arc<dyn Mailslot>) }
    }
}

/// Where the partial results and the answer of one request wait, in the order they were read.
///
/// Overflow rule: above its bound the call's further chunks are dropped and counted; the answer has the full text.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<SlotState>);

#[derive(Debug, Default)]
struct SlotState {
    items: VecDeque<Item>,
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
    /// Waits for the next item, and for the answer after the last.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&self) -> Next {
        poll_fn(|task| {
            let mut state = self.state();
            if let Some(item) = state.items.pop_front() {
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
            tracing::debug!(dropped = state.dropped, "partial results were dropped: their consumer is slow");
        }
        state.outcome = Some(outcome);
        let consumer = state.consumer.take();
        drop(state);
        if let Some(consumer) = consumer {
            consumer.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mailslot for Slot {
    fn push(&self, item: Item) -> Room {
        let mut state = self.state();
        // After one chunk was dropped the rest would have a hole: they stop until the answer.
        let stopped = state.dropped > 0 && matches!(item, Item::Chunk(_));
        if stopped || state.items.len() >= INBOX_ITEMS {
            state.dropped += 1;
            return Room::Full;
        }
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
