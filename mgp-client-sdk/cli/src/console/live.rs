//! The feed of changes: one task polls the kernel for all open pages of an operator. While no page is open, no task
//! runs.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::response::sse::Event;
use futures_util::stream::{self, Stream, StreamExt as _};
use mgp_client_sdk::Client;
use mgp_types::method::{KernelApprovals, KernelEvents};
use mgp_types::mgp::{KernelApprovalsParams, KernelEventsParams, KernelTool};
use mgp_types::service::CredentialGrant;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::commands::callbacks::open_questions;
use crate::commands::tools::{fetch_tools, needs_decision};
use crate::commands::transactions;
use crate::exit::CliResult;

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The number of polls between two checks of the tool definitions, whose list is long, and of the transactions.
const DEFINITIONS_EVERY: u64 = 20;

/// The minimum time between two reports of events to the pages, because a busy kernel publishes events all the time.
/// Questions for a person are reported without this delay.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of pages that load again each second because of reports of events.
const LOADS_PER_SECOND: u32 = 5;

/// The number of items that wait for a person, and a counter of their changes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Waiting {
    count: usize,
    /// A counter that increases with each change, because `count` stays the same if one question replaces another.
    change: u64,
}

/// The feed of changes for the open pages of one operator.
pub(super) struct Live {
    client: Client,
    /// The credentials of the operator, if they logged in with any.
    grant: Option<CredentialGrant>,
    waiting: watch::Sender<Waiting>,
    /// The sequence number of the kernel's newest event. Pages that show events watch this value.
    events: watch::Sender<u64>,
    is_polling: AtomicBool,
    /// The number of items that wait for the operator, as a page or a poll has last counted them.
    counted: AtomicUsize,
}

impl Live {
    pub(super) fn new(client: Client, grant: Option<CredentialGrant>) -> Self {
        let (waiting, events) = (watch::Sender::default(), watch::Sender::default());
        let (is_polling, counted) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { client, grant, waiting, events, is_polling, counted }
    }

    /// Returns whether the credentials are still valid, and the connection is open.
    pub(super) fn is_valid(&self) -> bool {
        !self.client.is_closed() && self.grant.as_ref().is_none_or(CredentialGrant::is_valid)
    }

    /// Stores the number of items that wait for the operator, as a page has just counted them.
    pub(super) fn set_waiting(&self, count: usize) {
        self.counted.store(count, Ordering::Relaxed);
    }

    /// Counts the items that wait for the operator, unless a poll does that: a browser without JavaScript has no feed
    /// of changes.
    pub(super) async fn count(&self) {
        if !self.is_polling.load(Ordering::SeqCst)
            && let Ok(count) = Box::pin(count_waiting(&self.client)).await
        {
            self.set_waiting(count);
        }
    }

    /// Returns the number of items that wait for the operator as text, or an empty text if none wait.
    pub(super) fn waiting_mark(&self) -> String {
        match self.counted.load(Ordering::Relaxed) {
            0 => String::new(),
            count => count.to_string(),
        }
    }

    /// Returns the changes for one page until the operator's connection ends: `waiting` with the new number of waiting
    /// items and, if the page shows events, `change` for new events of the kernel.
    pub(super) fn stream(
        live: Arc<Self>,
        shows_events: bool,
    ) -> impl Stream<Item = Result<Event, Infallible>> {
        let waiting = live.waiting.subscribe();
        let events = shows_events.then(|| live.events.subscribe());
        if !live.is_polling.swap(true, Ordering::SeqCst) {
            tokio::spawn(poll(Arc::clone(&live)));
        }
        // First send the number of waiting items. A page that has just connected shows this number, but does not report
        // it as news.
        let first = message("waiting", &live.counted.load(Ordering::Relaxed).to_string());
        let state = (live, waiting, events);
        stream::once(ready(Ok(first))).chain(stream::unfold(state, |mut state| async move {
            let (live, waiting, events) = &mut state;
            let published = async {
                match events {
                    Some(events) => events.changed().await,
                    None => pending().await,
                }
            };
            let next = tokio::select! {
                changed = waiting.changed() => {
                    changed.ok()?;
                    message("waiting", &waiting.borrow_and_update().count.to_string())
                }
                changed = published => {
                    changed.ok()?;
                    // A browser drops an event without data.
                    message("change", "events")
                }
                () = live.client.closed() => return None,
            };
            Some((Ok(next), state))
        }))
    }
}

fn message(name: &str, data: &str) -> Event {
    Event::default().event(name).data(data)
}

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
            // Close the connection, and with it the open pages: the credentials are no longer valid, or the connection
            // has already ended.
            live.client.close().await;
        }
        live.is_polling.store(false, Ordering::SeqCst);
        // Check again whether a page needs the polls: a page that was opened after the last check found `is_polling`
        // set, so it started no task of its own.
        let is_needed = live.waiting.receiver_count() > 0 && !live.client.is_closed();
        if !is_needed || live.is_polling.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

/// Polls the kernel for changes until the last page is closed, or the operator's credentials or connection end.
async fn poll_until_closed(live: &Live) {
    let (mut open, mut others) = (Vec::new(), 0);
    let mut reported_at = None;
    for round in 0_u64.. {
        if !live.is_valid() || live.waiting.receiver_count() == 0 {
            break;
        }
        if round % DEFINITIONS_EVERY == 0 {
            others = count_others(&live.client).await.unwrap_or(others);
        }
        let mut is_changed = false;
        if let Ok(ids) = open_items(&live.client).await {
            is_changed = ids != open;
            open = ids;
        }
        let count = open.len() + others;
        live.set_waiting(count);
        live.waiting.send_if_modified(|waiting| {
            is_changed |= waiting.count != count;
            *waiting = Waiting { count, change: waiting.change + u64::from(is_changed) };
            is_changed
        });
        let pages = live.events.receiver_count();
        let is_due = |at: Instant| at.elapsed() >= report_interval(pages);
        if pages > 0 && reported_at.is_none_or(is_due) {
            reported_at = report_events(live).await.then(Instant::now).or(reported_at);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the minimum time between two reports of events while this number of pages is open.
fn report_interval(pages: usize) -> Duration {
    REPORT_INTERVAL.max(Duration::from_secs(pages as u64) / LOADS_PER_SECOND)
}

/// Returns the number of items that wait for an operator.
pub(super) async fn count_waiting(client: &Client) -> CliResult<usize> {
    Ok(open_items(client).await?.len() + count_others(client).await?)
}

/// Returns the ids of the open approvals and of the open questions of servers.
async fn open_items(client: &Client) -> CliResult<Vec<String>> {
    let mut params = KernelApprovalsParams::new();
    params.max_decided = Some(0);
    let all = client.request::<KernelApprovals>(&params).await?.approvals;
    let open = all.into_iter().filter(|one| one.state == "open").map(|one| one.id);
    let questions = open_questions(client).await?.into_iter().map(|one| one.id);
    Ok(open.chain(questions).collect())
}

/// Returns the number of definitions and of transactions that wait for a decision.
async fn count_others(client: &Client) -> CliResult<usize> {
    Ok(waiting_definitions(client).await?.len() + transactions::stuck(client).await?.len())
}

/// Notifies the pages if the kernel has published events since the last report; returns whether it has.
async fn report_events(live: &Live) -> bool {
    let mut params = KernelEventsParams::new();
    // Request a single event. Without `after`, the answer has the sequence number of the newest event, and only this
    // number is needed.
    params.limit = Some(1);
    let Ok(page) = live.client.request::<KernelEvents>(&params).await else { return false };
    live.events.send_if_modified(|newest| std::mem::replace(newest, page.next) != page.next)
}
