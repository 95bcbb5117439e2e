//! The task for one sink: it reads, sends and confirms events, saves how far it got, and retries after failures.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::method::AuditNotification;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{Call, Context, Peer, Principal, Scope, ScopeKind, Stack};
use mgp_types::store::{Change, Record, Store, StoreError};
use mgp_types::{Backoff, Payload, RpcError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::source::EventSource;
use super::confirm::{Unconfirmed, confirm_all};
use super::forwarder::Delivery;

/// The space of the store that holds, for each sink, the number of the last event delivered to it.
pub(in crate::audit) const POSITIONS: &str = "audit.forward";

/// The number of events that are read, sent and confirmed together.
const BATCH: usize = 100;

/// The interval at which the number of the last delivered event is saved. It limits how many events are sent twice
/// after a crash.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// The delays before the task tries again after a failure.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// The task that forwards a log to one sink.
pub(super) struct SinkTask {
    pub(super) name: String,
    pub(super) source: Arc<dyn EventSource>,
    pub(super) store: Arc<dyn Store>,
    pub(super) peer: Stack,
    pub(super) confirm: Delivery,
    pub(super) reached: watch::Sender<u64>,
    /// `true` once the task must end.
    pub(super) stopping: watch::Receiver<bool>,
}

/// The reason why a batch of events was not delivered.
#[derive(Debug, thiserror::Error)]
enum ForwardError {
    #[error("the events cannot be sent: {0}")]
    Unsent(#[from] RpcError),
    #[error(transparent)]
    Unconfirmed(#[from] Unconfirmed),
    #[error(transparent)]
    Unread(#[from] StoreError),
}

impl SinkTask {
    pub(super) async fn run(self) {
        let (mut retry, mut stopping) = (RETRY, self.stopping.clone());
        let mut at = loop {
            match self.position().await {
                Ok(at) => break at,
                Err(error) => self.pause(&mut retry, &error.into()).await,
            }
            if *stopping.borrow() {
                return;
            }
        };
        let mut newest = self.source.newest();
        if at > *newest.borrow() {
            // The saved number is higher than the number of any event in the log, so a new log has replaced the earlier
            // log. A log that only lost events does not reach this line, because it lowers the saved numbers when it is
            // opened.
            tracing::warn!(sink = %self.name, at, "the log is newer than the sink's progress; sending all events");
            at = 0;
        }
        self.reached.send_replace(at);
        retry.reset();
        let (mut saved, mut save_at) = (at, Instant::now() + SAVE_INTERVAL);
        loop {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|must_stop| *must_stop) => break,
                news = newest.wait_for(|newest| *newest > at) => {
                    // The log was closed, so there are no more events.
                    if news.is_err() { break }
                }
                () = sleep_until(save_at), if at > saved => {}
            }
            if *newest.borrow() > at {
                match self.next(&mut at).await {
                    Ok(()) => retry.reset(),
                    Err(error) => self.pause(&mut retry, &error).await,
                }
                self.reached.send_replace(at);
            }
            if at > saved && Instant::now() >= save_at {
                match self.save(at).await {
                    Ok(()) => saved = at,
                    Err(error) => {
                        tracing::error!(sink = %self.name, %error, "failed to save forwarding progress");
                    }
                }
                save_at = Instant::now() + SAVE_INTERVAL;
            }
        }
        // Save the position also before the last events are sent, because sending them may take longer than this task
        // may run.
        let _ = self.save(at).await;
        let last = *newest.borrow();
        while at < last && self.next(&mut at).await.is_ok() {}
        self.reached.send_replace(at);
        let _ = self.save(at).await;
    }

    /// Sends the next events, and sets `at` to the number of the last one that was delivered or is lost.
    async fn next(&self, at: &mut u64) -> Result<(), ForwardError> {
        let events = self.source.after(*at, BATCH).await?;
        let number = |event: &AuditEvent| event.mgp.as_ref().and_then(|mgp| mgp.seq);
        let Some(first) = events.first().and_then(number) else {
            return Err(StoreError::Unreadable("events without numbers".to_owned()).into());
        };
        if first > *at + 1 {
            let lost = first - *at - 1;
            tracing::error!(sink = %self.name, lost, "dropped events: the log removed them before they were forwarded");
            // Otherwise each attempt would report these events again, and so would the next process.
            *at = first - 1;
            let _ = self.save(*at).await;
        }
        let mut sent = Vec::with_capacity(events.len());
        for event in &events {
            self.send(event).await?;
            sent.extend(number(event));
            if let (Delivery::Sent, Some(last)) = (self.confirm, sent.last()) {
                *at = *last;
            }
        }
        if self.confirm == Delivery::Confirmed {
            confirm_all(&self.peer, &sent, at).await?;
        }
        Ok(())
    }

    async fn send(&self, event: &AuditEvent) -> Result<(), RpcError> {
        self.peer.send(Call::tell::<AuditNotification>(event, context())?).await.map(drop)
    }

    async fn position(&self) -> Result<u64, StoreError> {
        let records = self.store.load(POSITIONS).await?.records;
        let own = records.iter().find(|record| record.key == self.name);
        own.map_or(Ok(0), read_position)
    }

    async fn save(&self, at: u64) -> Result<(), StoreError> {
        let value = Payload::from_trusted(at.to_string());
        self.store.commit(Change::new().put(POSITIONS, self.name.clone(), value)).await.map(drop)
    }

    /// Waits for the delay before the next attempt. Returns earlier if the task must end.
    async fn pause(&self, retry: &mut Backoff, error: &ForwardError) {
        let delay = retry.next_delay();
        tracing::warn!(sink = %self.name, %error, ?delay, "failed to forward events; retrying");
        // Ignore the error, which only means that the whole delay has passed.
        let _ = timeout(delay, self.stopping.clone().wait_for(|must_stop| *must_stop)).await;
    }
}

/// Returns the context for a call that this process itself makes, without a caller.
pub(super) fn context() -> Context {
    Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local())
}

/// Returns the saved position of a sink; zero if it was removed.
fn read_position(record: &Record) -> Result<u64, StoreError> {
    let Some(value) = &record.value else { return Ok(0) };
    value.get().map_err(|error| {
        let key = &record.key;
        let why = format!("`{key}` in `{POSITIONS}` is damaged ({error}); restore a backup");
        StoreError::Unreadable(why)
    })
}

/// Checks that the saved positions of all sinks can be read.
pub(crate) async fn check_positions(store: &dyn Store) -> Result<(), StoreError> {
    let loaded = store.load(POSITIONS).await?;
    loaded.records.iter().try_for_each(|record| read_position(record).map(drop))
}
