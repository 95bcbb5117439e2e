//! The feed of changes: one poll of the kernel for all open pages, and none while no page is open.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use mgp_types::method::{KernelApprovals, KernelEvents};
use mgp_types::mgp::{KernelApprovalsParams, KernelEventsParams};
use tokio::sync::watch;
use tokio::time::sleep;

use super::inbox::waiting_definitions;
use super::{Console, Shared};

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The number of polls between two looks at definitions, whose list is long.
const DEFINITIONS_EVERY: u64 = 20;

const MAX_EVENTS: u64 = 200;

/// A change that open pages learn of: how much waits, and a number that grows with each change.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Change {
    waiting: u64,
    number: u64,
}

pub(super) struct Live {
    changes: watch::Sender<Change>,
    is_polling: AtomicBool,
    waiting: AtomicU64,
}

impl Live {
    pub(super) fn new() -> Self {
        let (changes, _) = watch::channel(Change::default());
        Self { changes, is_polling: AtomicBool::new(false), waiting: AtomicU64::new(0) }
    }

    /// Stores how many items wait, as a page has just counted them.
    pub(super) fn set_waiting(&self, count: usize) {
        self.waiting.store(count as u64, Ordering::Relaxed);
    }

    /// Returns the number of waiting items, or an empty text for none.
    pub(super) fn waiting_mark(&self) -> String {
        match self.waiting.load(Ordering::Relaxed) {
            0 => String::new(),
            count => count.to_string(),
        }
    }
}

/// Streams changes to a page.
pub(super) async fn events(
    State(console): Shared,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = console.live.changes.subscribe();
    if !console.live.is_polling.swap(true, Ordering::SeqCst) {
        tokio::spawn(poll(Arc::clone(&console)));
    }
    let first = *changes.borrow();
    let state = (changes, Change { number: u64::MAX, ..first }, Arc::clone(&console));
    let feed = stream::unfold(state, |(mut changes, last, console)| async move {
        let now = if last.number == u64::MAX {
            // The first event of a page only sets its number of waiting items.
            Change { waiting: console.live.waiting.load(Ordering::Relaxed), ..*changes.borrow() }
        } else {
            changes.changed().await.ok()?;
            *changes.borrow_and_update()
        };
        let is_counted = now.waiting == last.waiting && last.number != u64::MAX;
        let (name, data) =
            if is_counted { ("change", now.number) } else { ("waiting", now.waiting) };
        let event = Event::default().event(name).data(data.to_string());
        Some((Ok(event), (changes, now, console)))
    });
    Sse::new(feed).keep_alive(KeepAlive::default())
}

/// Asks the kernel for news while pages are open.
async fn poll(console: Arc<Console>) {
    let live = &console.live;
    loop {
        poll_until_closed(&console).await;
        live.is_polling.store(false, Ordering::SeqCst);
        // A page may have been opened since the last look, which found a running poll.
        let is_needed = live.changes.receiver_count() > 0 && !console.client.is_closed();
        if !is_needed || live.is_polling.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

/// Asks the kernel for news until the last page is closed.
async fn poll_until_closed(console: &Console) {
    let mut after = None;
    let mut open = Vec::new();
    let mut definitions = 0;
    for round in 0_u64.. {
        if console.client.is_closed() || console.live.changes.receiver_count() == 0 {
            break;
        }
        let mut is_changed = false;
        if round % DEFINITIONS_EVERY == 0 {
            definitions = waiting_definitions(console).await.map_or(definitions, |all| all.len());
        }
        if let Some(ids) = open_approvals(console).await {
            is_changed |= ids != open;
            open = ids;
        }
        is_changed |= has_events(console, &mut after).await;
        let waiting = open.len() + definitions;
        console.live.set_waiting(waiting);
        console.live.changes.send_if_modified(|change| {
            let is_counted = change.waiting == waiting as u64;
            change.waiting = waiting as u64;
            change.number += u64::from(is_changed);
            is_changed || !is_counted
        });
        sleep(POLL_INTERVAL).await;
    }
}

async fn open_approvals(console: &Console) -> Option<Vec<String>> {
    let params = KernelApprovalsParams::new();
    let all = console.client.request::<KernelApprovals>(&params).await.ok()?.approvals;
    Some(all.into_iter().filter(|one| one.state == "open").map(|one| one.id).collect())
}

/// Returns whether the kernel has published events since the last look.
async fn has_events(console: &Console, after: &mut Option<u64>) -> bool {
    let mut params = KernelEventsParams::new();
    params.after = *after;
    params.limit = Some(MAX_EVENTS);
    let Ok(page) = console.client.request::<KernelEvents>(&params).await else { return false };
    let is_first = after.is_none();
    *after = Some(page.next);
    !is_first && !page.events.is_empty()
}
