//! Events in the store that this log has not written yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};

use mgp_types::service::BoxFuture;
use mgp_types::store::{PendingEvent, Store, StoreError};
use tokio::sync::watch;

use super::chain::Line;
use super::group::encode_or_replace;
use super::head::{LogHead, wait};
use super::queue::LogQueue;

/// The number of events that are taken from the store at a time.
pub(super) const BATCH: usize = 256;

/// The maximum number of remembered events. Older events need not be remembered, because they were removed from the
/// store long ago.
const MAX_REMEMBERED: usize = 4 * BATCH;

/// The events last taken from the store, each with its number and a hash of its content, so that none of them is
/// written a second time.
///
/// The number alone does not identify a duplicate, because a store that lost power can assign a number twice.
#[derive(Debug, Default)]
pub(super) struct RecentEvents(VecDeque<(u64, [u8; 32])>);

impl RecentEvents {
    /// Remembers that an event with this number and text was written.
    pub(super) fn note(&mut self, number: u64, text: &[u8]) {
        if self.0.len() == MAX_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((number, *blake3::hash(text).as_bytes()));
    }

    /// Returns the count of remembered events whose numbers are above `number`.
    fn count_above(&self, number: u64) -> u64 {
        self.0.iter().filter(|event| event.0 > number).count() as u64
    }

    /// Remembers the event of a line if it came from the store after this head was saved.
    pub(super) fn note_after(&mut self, head: &LogHead, line: &Line<'_>) {
        if let Some(number) = line.outbox.filter(|number| *number > head.outbox) {
            self.note(number, line.body.as_bytes());
        }
    }

    /// Returns the number of the event that was remembered last.
    #[cfg(feature = "sqlite")]
    pub(super) fn last(&self) -> Option<u64> {
        self.0.back().map(|event| event.0)
    }

    /// Returns the number of remembered events that a store lost, as [`Outbox::count_lost`] does. `pending` has the
    /// events that are in the store.
    pub(super) fn count_lost(&self, saved: u64, written: u64, pending: Vec<PendingEvent>) -> u64 {
        let pending = pending.into_iter().filter(|event| event.number > saved);
        let is_known = |event: PendingEvent| {
            let number = event.number;
            self.contains(number, &encode_or_replace(event.event)).then_some(number)
        };
        let known: Vec<u64> = pending.filter_map(is_known).collect();
        if known.last() == Some(&written) {
            return 0;
        }
        self.count_above(saved).saturating_sub(known.len() as u64).max(1)
    }

    /// Returns whether an event with this number and text was already taken.
    pub(super) fn contains(&self, number: u64, text: &[u8]) -> bool {
        let is_number = |event: &&(u64, [u8; 32])| event.0 == number;
        let mut same = self.0.iter().filter(is_number).peekable();
        same.peek().is_some() && {
            let hash = blake3::hash(text);
            same.any(|event| event.1 == *hash.as_bytes())
        }
    }
}

/// The events that were committed to the store together with a change, and are not in the log yet.
pub(super) struct Outbox {
    store: Arc<dyn Store>,
    log: String,
    revision: watch::Receiver<u64>,
    /// A future that completes when the revision of the store changes; it wakes the writer then.
    change: BoxFuture<'static, ()>,
    waker: Waker,
    /// The newest revision of the store whose events were all taken.
    handled: Option<u64>,
}

impl Outbox {
    pub(super) fn new(store: Arc<dyn Store>, log: &str, shared: &Arc<LogQueue>) -> Self {
        let revision = store.revision();
        Self {
            change: next_revision(revision.clone()),
            revision,
            store,
            log: log.to_owned(),
            waker: Waker::from(Arc::clone(shared)),
            handled: None,
        }
    }

    /// Returns whether the store has changed since the last check. If not, the next change wakes the writer.
    pub(super) fn has_changed(&mut self) -> bool {
        let mut task = Task::from_waker(&self.waker);
        while let Poll::Ready(()) = self.change.as_mut().poll(&mut task) {
            self.change = next_revision(self.revision.clone());
        }
        self.handled != Some(*self.revision.borrow())
    }

    /// Marks a commit of this log itself as handled, because such a commit adds no events. Does nothing if earlier
    /// commits were not read yet.
    pub(super) fn note_own_commit(&mut self, revision: u64) {
        if self.handled.is_some_and(|handled| handled + 1 == revision) {
            self.handled = Some(revision);
        }
    }

    /// Returns the next events without removing them from the store.
    pub(super) fn pending(&mut self) -> Result<Vec<PendingEvent>, StoreError> {
        let revision = *self.revision.borrow();
        let pending = wait(self.store.pending_events(&self.log, BATCH))?;
        if pending.len() < BATCH {
            self.handled = Some(revision);
        }
        Ok(pending)
    }

    /// Removes calls from `waiting` if an event that is still in the store names their approval: the event might report
    /// that the call was approved, so the call might have run. Removes all calls if the events cannot be read or are
    /// too many.
    pub(super) fn remove_decided(&self, waiting: &mut BTreeMap<u64, String>) {
        if waiting.is_empty() {
            return;
        }
        match wait(self.store.pending_events(&self.log, BATCH)) {
            Ok(pending) if pending.len() < BATCH => {
                let texts = pending.iter().map(|pending| serde_json::to_string(&pending.event));
                let texts: Vec<_> = texts.collect();
                let names = |id: &String| {
                    texts.iter().any(|text| text.as_ref().map_or(true, |text| text.contains(id)))
                };
                waiting.retain(|_, id| !names(id));
            }
            _ => waiting.clear(),
        }
    }

    /// Returns the number of events that the log has and the store lost together with the changes that these events
    /// record. Returns at least 1 if the store lost any.
    ///
    /// `saved` is the number of the last event from the store according to the saved head, `written` the number of the
    /// last such event in the log. A killed process can leave events in the log that the head does not include, but
    /// those events are still in the store.
    pub(super) fn count_lost(
        &self,
        saved: u64,
        written: u64,
        recent: &RecentEvents,
    ) -> Result<u64, StoreError> {
        if written <= saved {
            return Ok(0);
        }
        let pending = wait(self.store.pending_events(&self.log, BATCH))?;
        Ok(recent.count_lost(saved, written, pending))
    }

    /// Removes from the store the events up to the number `through`, which the log has written.
    pub(super) fn settle(&self, through: u64) -> Result<(), StoreError> {
        wait(self.store.acknowledge(&self.log, through))
    }
}

/// Completes at the next change of the revision; never completes if the store is dropped.
fn next_revision(mut revision: watch::Receiver<u64>) -> BoxFuture<'static, ()> {
    revision.mark_unchanged();
    Box::pin(async move {
        if revision.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
