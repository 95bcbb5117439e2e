//! The events that a store keeps for this log.
//!
//! Applies to: both.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};

use mgp_types::service::BoxFuture;
use mgp_types::store::{PendingEvent, Store, StoreError};
use tokio::sync::watch;

use super::head::wait;
use super::queue::Shared;

/// So many events are taken at once.
pub(super) const TAKE: usize = 256;

/// So many of those that were taken are known again; what is older was settled long ago.
const KNOWN: usize = 4 * TAKE;

/// What was taken lately, by number and content.
///
/// A store that lost power may give numbers again, so the number alone does not tell an event that came twice.
#[derive(Debug, Default)]
pub(super) struct Taken(VecDeque<(u64, [u8; 32])>);

impl Taken {
    /// Notes an event that was written as this text.
    pub(super) fn note(&mut self, number: u64, text: &[u8]) {
        if self.0.len() == KNOWN {
            self.0.pop_front();
        }
        self.0.push_back((number, *blake3::hash(text).as_bytes()));
    }

    /// Whether this very event was taken.
    pub(super) fn has(&self, number: u64, text: &[u8]) -> bool {
        let is_number = |taken: &&(u64, [u8; 32])| taken.0 == number;
        let mut same = self.0.iter().filter(is_number).peekable();
        same.peek().is_some() && {
            let hash = blake3::hash(text);
            same.any(|taken| taken.1 == *hash.as_bytes())
        }
    }
}

/// A store, and whether it has news.
pub(super) struct Outbox {
    store: Arc<dyn Store>,
    log: String,
    revision: watch::Receiver<u64>,
    /// Ends when the revision moves, and wakes the writer then.
    news: BoxFuture<'static, ()>,
    waker: Waker,
    /// The newest revision whose events were taken.
    seen: Option<u64>,
}

impl Outbox {
    pub(super) fn new(store: Arc<dyn Store>, log: &str, shared: &Arc<Shared>) -> Self {
        let revision = store.revision();
        Self {
            news: next(revision.clone()),
            revision,
            store,
            log: log.to_owned(),
            waker: Waker::from(Arc::clone(shared)),
            seen: None,
        }
    }

    /// Whether something happened that is not known yet; if not, the writer is woken when it does.
    pub(super) fn has_news(&mut self) -> bool {
        let mut task = Task::from_waker(&self.waker);
        while let Poll::Ready(()) = self.news.as_mut().poll(&mut task) {
            self.news = next(self.revision.clone());
        }
        self.seen != Some(*self.revision.borrow())
    }

    /// Our own change of the store is no news, unless it came after others.
    pub(super) fn is_ours(&mut self, revision: u64) {
        if self.seen.is_some_and(|seen| seen + 1 == revision) {
            self.seen = Some(revision);
        }
    }

    /// Takes the next events, without forgetting them.
    pub(super) fn take(&mut self) -> Result<Vec<PendingEvent>, StoreError> {
        let revision = *self.revision.borrow();
        let pending = wait(self.store.pending(&self.log, TAKE))?;
        if pending.len() < TAKE {
            self.seen = Some(revision);
        }
        Ok(pending)
    }

    /// Forgets events that were written.
    pub(super) fn settle(&self, through: u64) -> Result<(), StoreError> {
        wait(self.store.settle(&self.log, through))
    }
}

/// Ends when the revision moves on from what it is now; never when the store is gone.
fn next(mut revision: watch::Receiver<u64>) -> BoxFuture<'static, ()> {
    revision.mark_unchanged();
    Box::pin(async move {
        if revision.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
