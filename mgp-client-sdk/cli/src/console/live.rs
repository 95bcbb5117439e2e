//! The feed of changes: one task polls the kernel for all open pages of an operator. While no page is open, no task
//! runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::response::sse::Event;
use futures_util::stream::{self, Stream};
use mgp_client_sdk::Client;
use mgp_types::method::{KernelApprovals, KernelEvents};
use mgp_types::mgp::{KernelApprovalsParams, KernelEventsParams, KernelTool};
use mgp_types::service::CredentialGrant;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::commands::tools::{fetch_tools, needs_decision};
use crate::exit::CliResult;

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The minimum number of polls between two changes that only report events. Each open page loads again after a change,
/// and a busy kernel publishes events all the time; questions for a person are reported at once.
const EVENTS_EVERY: u64 = 8;

/// The number of polls between two checks of the tool definitions, whose list is long.
const DEFINITIONS_EVERY: u64 = 20;

/// A change that is sent to open pages: the number of waiting items, and a number that increases with each change.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Change {
    waiting: u64,
    number: u64,
}

/// The feed of changes for the open pages of one operator.
pub(super) struct Live {
    client: Client,
    /// The credentials of the operator, if they logged in with any.
    grant: Option<CredentialGrant>,
    changes: watch::Sender<Change>,
    is_polling: AtomicBool,
    waiting: AtomicU64,
}

impl Live {
    pub(super) fn new(client: Client, grant: Option<CredentialGrant>) -> Self {
        let (changes, _) = watch::channel(Change::default());
        let (is_polling, waiting) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { client, grant, changes, is_polling, waiting }
    }

    /// Returns whether the credentials still hold, and the connection is open.
    pub(super) fn is_valid(&self) -> bool {
        !self.client.is_closed() && self.grant.as_ref().is_none_or(CredentialGrant::is_valid)
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

    /// Returns the changes for one page, until the connection of the operator ends.
    pub(super) fn stream(live: Arc<Self>) -> impl Stream<Item = Result<Event, Infallible>> {
        let changes = live.changes.subscribe();
        if !live.is_polling.swap(true, Ordering::SeqCst) {
            tokio::spawn(poll(Arc::clone(&live)));
        }
        let first = *changes.borrow();
        let state = (changes, Change { number: u64::MAX, ..first }, live);
        stream::unfold(state, |(mut changes, last, live)| async move {
            let now = if last.number == u64::MAX {
                // The first event of a page only sets its number of waiting items.
                Change { waiting: live.waiting.load(Ordering::Relaxed), ..*changes.borrow() }
            } else {
                tokio::select! {
                    changed = changes.changed() => changed.ok()?,
                    () = live.client.closed() => return None,
                }
                *changes.borrow_and_update()
            };
            let is_counted = now.waiting == last.waiting && last.number != u64::MAX;
            let (name, data) =
                if is_counted { ("change", now.number) } else { ("waiting", now.waiting) };
            let event = Event::default().event(name).data(data.to_string());
            Some((Ok(event), (changes, now, live)))
        })
    }
}

/// Returns the definitions that wait for a decision.
pub(super) async fn waiting_definitions(client: &Client) -> CliResult<Vec<KernelTool>> {
    let mut tools = fetch_tools(client, None, None).await?;
    tools.retain(needs_decision);
    Ok(tools)
}

/// Polls the kernel for changes while browsers have pages open.
async fn poll(live: Arc<Live>) {
    loop {
        poll_until_closed(&live).await;
        if !live.is_valid() {
            // The credentials were revoked, so the open pages are closed.
            live.client.close().await;
        }
        live.is_polling.store(false, Ordering::SeqCst);
        // A page that was opened after the last check found `is_polling` set, so it started no task of its own.
        let is_needed = live.changes.receiver_count() > 0 && !live.client.is_closed();
        if !is_needed || live.is_polling.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

/// Polls the kernel for changes until the last page is closed.
async fn poll_until_closed(live: &Live) {
    let (mut newest, mut next_events) = (None, 0);
    let mut open = Vec::new();
    let mut definitions = 0;
    for round in 0_u64.. {
        if !live.is_valid() || live.changes.receiver_count() == 0 {
            break;
        }
        let mut is_changed = false;
        if round % DEFINITIONS_EVERY == 0 {
            let waiting = waiting_definitions(&live.client).await;
            definitions = waiting.map_or(definitions, |all| all.len());
        }
        if let Some(ids) = open_approvals(&live.client).await {
            is_changed |= ids != open;
            open = ids;
        }
        if round >= next_events && has_events(&live.client, &mut newest).await {
            is_changed = true;
            next_events = round + EVENTS_EVERY;
        }
        let waiting = open.len() + definitions;
        live.set_waiting(waiting);
        live.changes.send_if_modified(|change| {
            let is_counted = change.waiting == waiting as u64;
            change.waiting = waiting as u64;
            change.number += u64::from(is_changed);
            is_changed || !is_counted
        });
        sleep(POLL_INTERVAL).await;
    }
}

async fn open_approvals(client: &Client) -> Option<Vec<String>> {
    let params = KernelApprovalsParams::new();
    let all = client.request::<KernelApprovals>(&params).await.ok()?.approvals;
    Some(all.into_iter().filter(|one| one.state == "open").map(|one| one.id).collect())
}

/// Returns whether the kernel has published events since the last poll; `newest` is the number of its newest event.
async fn has_events(client: &Client, newest: &mut Option<u64>) -> bool {
    let mut params = KernelEventsParams::new();
    // Without `after`, the answer has the number of the newest event; more than one event would only cost time.
    params.limit = Some(1);
    let Ok(page) = client.request::<KernelEvents>(&params).await else { return false };
    newest.replace(page.next).is_some_and(|last| last != page.next)
}
