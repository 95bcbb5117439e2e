//! The work for one sink: read, send, confirm, remember, and try again.
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::method::AuditNotification;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{Call, Context, Peer, Principal, Scope, ScopeKind, Stack};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, RpcError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::source::EventSource;
use super::delivery::{Unconfirmed, confirmed};
use super::forwarder::Delivery;

/// Where it is kept how far each sink is.
const SPACE: &str = "audit.forward";

/// How many events are read and confirmed at once.
const BATCH: usize = 100;

/// How long progress may be unsaved: what is sent twice after a crash is bounded by it.
const SAVE_AFTER: Duration = Duration::from_secs(1);

/// The first wait after a failure; each further one is twice as long.
const AGAIN: Duration = Duration::from_millis(250);

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// What one sink needs.
pub(super) struct Task {
    pub(super) name: String,
    pub(super) source: Arc<dyn EventSource>,
    pub(super) store: Arc<dyn Store>,
    pub(super) peer: Stack,
    pub(super) confirm: Delivery,
    pub(super) reached: watch::Sender<u64>,
}

/// Why a batch is not there.
#[derive(Debug, thiserror::Error)]
enum Undelivered {
    #[error("it cannot be sent: {0}")]
    Unsent(#[from] RpcError),
    #[error(transparent)]
    Unconfirmed(#[from] Unconfirmed),
    #[error(transparent)]
    Unread(#[from] StoreError),
}

impl Task {
    pub(super) async fn run(self) {
        let mut wait = AGAIN;
        let mut at = loop {
            match self.position().await {
                Ok(at) => break at,
                Err(error) => self.pause(&mut wait, &error.into()).await,
            }
        };
        let mut newest = self.source.newest();
        if at > *newest.borrow() {
            // Numbers are never used again within a log, so this is another one.
            tracing::warn!(sink = %self.name, at, "the log is younger than what the sink has; all is sent");
            at = 0;
        }
        self.reached.send_replace(at);
        wait = AGAIN;
        let (mut saved, mut save_at) = (at, Instant::now() + SAVE_AFTER);
        loop {
            tokio::select! {
                news = newest.wait_for(|newest| *newest > at) => {
                    // Without a log there will be no events.
                    if news.is_err() { break }
                }
                () = sleep_until(save_at), if at > saved => {}
            }
            if *newest.borrow() > at {
                match self.next(&mut at).await {
                    Ok(()) => wait = AGAIN,
                    Err(error) => self.pause(&mut wait, &error).await,
                }
                self.reached.send_replace(at);
            }
            if at > saved && Instant::now() >= save_at {
                match self.save(at).await {
                    Ok(()) => saved = at,
                    Err(error) => {
                        tracing::error!(sink = %self.name, %error, "progress is not saved");
                    }
                }
                save_at = Instant::now() + SAVE_AFTER;
            }
        }
        let _ = self.save(at).await;
    }

    /// Sends the next events; `at` is moved as far as they are there.
    async fn next(&self, at: &mut u64) -> Result<(), Undelivered> {
        let events = self.source.after(*at, BATCH).await?;
        let number = |event: &AuditEvent| event.mgp.as_ref().and_then(|mgp| mgp.seq);
        let Some(first) = events.first().and_then(number) else {
            return Err(StoreError::Unreadable("events without numbers".to_owned()).into());
        };
        if first > *at + 1 {
            let lost = first - *at - 1;
            tracing::error!(sink = %self.name, lost, "events left the log before they were forwarded");
        }
        let mut sent = Vec::with_capacity(events.len());
        for event in &events {
            self.send(event).await?;
            sent.extend(number(event));
            if let (Delivery::Sent, Some(last)) = (self.confirm, sent.last()) {
                *at = *last;
            }
        }
        if self.confirm == Delivery::Asked {
            confirmed(&self.peer, &sent, at).await?;
        }
        Ok(())
    }

    async fn send(&self, event: &AuditEvent) -> Result<(), RpcError> {
        self.peer.send(Call::tell::<AuditNotification>(event, context())?).await.map(drop)
    }

    async fn position(&self) -> Result<u64, StoreError> {
        let records = self.store.load(SPACE).await?.records;
        let own = records.into_iter().find(|record| record.key == self.name);
        let Some(value) = own.and_then(|record| record.value) else { return Ok(0) };
        value.get().map_err(|error| StoreError::Unreadable(error.to_string()))
    }

    async fn save(&self, at: u64) -> Result<(), StoreError> {
        let value = Payload::from_trusted(at.to_string());
        self.store.commit(Change::new().put(SPACE, self.name.clone(), value)).await.map(drop)
    }

    async fn pause(&self, wait: &mut Duration, error: &Undelivered) {
        tracing::warn!(sink = %self.name, %error, again = ?*wait, "events are not forwarded");
        sleep(*wait).await;
        *wait = (*wait * 2).min(LONGEST);
    }
}

/// The surroundings of a call of our own: it belongs to no caller.
pub(super) fn context() -> Context {
    Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local())
}
