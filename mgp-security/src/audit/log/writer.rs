//! The writer thread of a log.
//!
//! The thread writes waiting items as one group, in three steps: it appends the lines to the file (`append.rs`), saves
//! the head, i.e. the number and hash of the last line, and acknowledges the callers. A crash between the steps leaves
//! lines after the head, which were not acknowledged and which [recovery](super::recover) verifies. The head is never
//! ahead of the lines, unless the power fails and `Fsync` is not `Always`. Therefore the head also has the number of
//! the last record that was synced to the disk. Only the records after it, i.e. those of a few seconds, can be missing
//! without a change by another program.
//!
//! If the disk or the store fails, or another program has removed the file, no caller is acknowledged and no call can
//! begin; final records of running calls stay queued until writing works again. The writer reports such failures, and
//! new files, in the log of the program; the messages begin with `failed`, `recovered`, `rotated` or `dropped`.
//!
//! `opening.rs` opens the log; `checkpoint.rs` begins a new file once the current one is full, and writes checkpoints.

mod append;
mod checkpoint;
mod opening;

use std::collections::{BTreeMap, VecDeque};
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::AuditError;
use mgp_types::store::StoreError;
use tokio::time::Instant;

use self::append::HeadSave;
use super::chain::{Chain, MAX_LINE};
use super::config::LogConfig;
use super::group::{Group, encode_or_replace};
use super::head::HeadPlace;
use super::outbox::{BATCH, Outbox, RecentEvents};
use super::queue::{Item, LogQueue, Reservation};
use super::segments::{Disk, Lock};

/// The limits of a group: the maximum number of records, and the number of bytes after which no further record is
/// added.
const MAX_GROUP: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 * MAX_LINE;

/// The maximum time after which the head is saved for records that no caller waits for.
const MAX_HEAD_LAG: Duration = Duration::from_secs(1);

/// The maximum time that records stay unsynced under `Fsync::OnCheckpoint`.
const MAX_UNSYNCED: Duration = Duration::from_secs(5);

/// The time without queued items after which a newly opened log is synced to the disk.
const SYNC_DELAY: Duration = Duration::from_millis(100);

/// The delay before the writer retries a failed operation on the log.
const RETRY_DELAY: Duration = Duration::from_millis(250);

type Reason = Arc<dyn StdError + Send + Sync>;

pub(super) struct Writer {
    shared: Arc<LogQueue>,
    config: LogConfig,
    disk: Box<dyn Disk>,
    head_place: HeadPlace,
    outbox: Option<Outbox>,
    /// The state of the hash chain after the last written record.
    chain: Chain,
    /// The number that the last event taken from the store had there.
    outbox_number: u64,
    recent: RecentEvents,
    /// The intents of running calls, by record number. They are bounded, because each running call has reserved room
    /// for its final record.
    open_intents: BTreeMap<u64, String>,
    /// The record number that the last saved head contains.
    head_seq: u64,
    /// The number of the last synced record that the last saved head contains.
    head_synced: u64,
    /// The time at which the first record after the last saved head (number and hash of a record) was written; `None`
    /// if the saved head is that of the last record.
    head_lag_since: Option<Instant>,
    /// The number of the last record that was synced to the disk.
    synced: u64,
    /// The time at which the first record that is to be synced was written; `None` if all such records are synced.
    unsynced_since: Option<Instant>,
    /// `true` while the sync after the opening of the log has not been done. Waiting callers are served first: if the
    /// process is killed, nothing is lost even without the sync.
    sync_owed: bool,
    /// The length of the newest file in bytes, without an incomplete write at its end.
    segment_length: u64,
    /// `true` if there might be an incomplete write after `segment_length`.
    may_have_torn_end: bool,
    /// The record number with which each file begins, oldest file first.
    segment_firsts: VecDeque<u64>,
    /// The number of the first record that is retained, as the last checkpoint defines it.
    retained_from: u64,
    records_since_checkpoint: u64,
    bytes_since_checkpoint: u64,
    /// `true` after a write failed, until the next one succeeds.
    is_failing: bool,
    /// The items that were taken from the queue and are not written yet.
    batch: VecDeque<Item>,
    /// The lines that are written together, and the state of the log after them.
    group: Group,
    _lock: Lock,
}

fn is_closed_store(reason: &(dyn StdError + Send + Sync + 'static)) -> bool {
    matches!(reason.downcast_ref(), Some(StoreError::Closed))
}

impl Writer {
    /// Returns the queue that the writer shares with the handles of the log.
    pub(super) fn shared(&self) -> &Arc<LogQueue> {
        &self.shared
    }

    /// Writes until the log is closed and no calls are running.
    pub(super) fn run(mut self) {
        let _last = CloseGuard(Arc::clone(&self.shared));
        loop {
            let pause = self.is_failing.then_some(RETRY_DELAY);
            let idle = self.idle_time();
            let closing = self.shared.next(&mut self.batch, idle, pause);
            self.shared.sweep(closing);
            if let Err(reason) = self.process_batch(closing) {
                if closing && self.batch.is_empty() && is_closed_store(&*reason) {
                    // Nothing is lost: the next start completes the head, and writes the events in the store.
                    tracing::debug!(
                        log = self.config.name,
                        "the store was closed before the audit log"
                    );
                    return;
                }
                self.fail(&reason);
                if closing {
                    let lost = self.batch.len();
                    tracing::error!(
                        log = self.config.name,
                        lost,
                        "dropped records: the audit log was closed while it could not be written"
                    );
                    return;
                }
            }
            // The request to close came before this batch, so the writer has saved the head by now.
            if closing && self.batch.is_empty() && self.shared.may_end() {
                return;
            }
        }
    }

    /// Returns the time after which the writer must act even if no item arrives.
    fn idle_time(&self) -> Option<Duration> {
        if self.sync_owed {
            return Some(SYNC_DELAY);
        }
        let waits = self.shared.has_suspended();
        // Suspended calls are checked at least once a minute, so their end may be recorded a little late.
        let sweep = waits.then_some(Duration::from_mins(1));
        let head = self.head_lag_since.map(|since| MAX_HEAD_LAG.saturating_sub(since.elapsed()));
        let sync = self.unsynced_since.map(|since| MAX_UNSYNCED.saturating_sub(since.elapsed()));
        head.into_iter().chain(sync).min().or(sweep)
    }

    /// Writes the batch, then the events that wait in the store. After that, syncs the records and saves the head if
    /// this is due, or if the log is being closed.
    fn process_batch(&mut self, closing: bool) -> Result<(), Reason> {
        if self.is_failing {
            // First write a checkpoint to find out whether writing works; only then report success to callers.
            self.checkpoint()?;
        }
        // A flush includes the events that were committed to the store for this log, so write these events first.
        if self.batch.iter().any(|item| matches!(item, Item::Flush { .. })) {
            self.take_new_events()?;
        }
        if !self.batch.is_empty() {
            self.write_batch()?;
        }
        if self.sync_owed {
            self.sync_and_prune()?;
        }
        while !self.batch.is_empty() {
            self.write_batch()?;
        }
        self.take_new_events()?;
        let is_unsynced =
            self.unsynced_since.is_some_and(|since| closing || since.elapsed() >= MAX_UNSYNCED);
        if is_unsynced {
            self.sync_and_prune()?;
        }
        let late =
            self.head_lag_since.is_some_and(|since| closing || since.elapsed() >= MAX_HEAD_LAG);
        if late {
            self.save_lagging_head()?;
        }
        if std::mem::take(&mut self.is_failing) {
            self.shared.set_failure(None);
            tracing::warn!(log = self.config.name, "recovered: the audit log is written again");
        }
        Ok(())
    }

    /// Writes the next queued items as one group, and acknowledges them.
    fn write_batch(&mut self) -> Result<(), Reason> {
        self.rotate_if_due()?;
        self.group.begin(self.chain, self.outbox_number);
        let mut head_save = HeadSave::Later;
        let mut acknowledged = VecDeque::new();
        let mut count = 0;
        for item in self.batch.iter().take(MAX_GROUP) {
            self.group.push(item);
            count += 1;
            if item.has_waiter() {
                head_save = HeadSave::Now;
                acknowledged.push_back(self.group.chain.seq);
            }
            if self.group.text.len() > MAX_GROUP_BYTES {
                break;
            }
        }
        self.write(head_save)?;
        let mut permits = 0;
        for item in self.batch.drain(..count) {
            let (room, ack) = item.into_parts();
            if let Some(ack) = ack
                && let Some(seq) = acknowledged.pop_front()
            {
                // Ignore the error: the caller may no longer wait.
                let _ = ack.send(Ok(seq));
            }
            match room {
                Some(Reservation::Permit) => permits += 1,
                Some(room) => self.shared.release(room),
                None => {}
            }
        }
        self.shared.room.add_permits(permits);
        Ok(())
    }

    /// Writes the events that wait in the store, if the store has changed since the last check.
    fn take_new_events(&mut self) -> Result<(), Reason> {
        if self.outbox.as_mut().is_some_and(Outbox::has_changed) {
            self.take_outbox()?;
        }
        Ok(())
    }

    /// Writes the events that wait in the store, and removes them from the store once they are durable in the log.
    fn take_outbox(&mut self) -> Result<(), Reason> {
        while let Some(outbox) = &mut self.outbox {
            let pending = outbox.pending().map_err(reason)?;
            let (count, last) = (pending.len(), pending.last().map(|event| event.number));
            let new_events =
                pending.into_iter().map(|event| (event.number, encode_or_replace(event.event)));
            let new_events: Vec<_> =
                new_events.filter(|(number, text)| !self.recent.contains(*number, text)).collect();
            if !new_events.is_empty() {
                self.rotate_if_due()?;
                self.group.begin(self.chain, self.outbox_number);
                for (number, text) in &new_events {
                    self.group.take(*number, text);
                }
                self.write(HeadSave::Now)?;
                for (number, text) in &new_events {
                    self.recent.note(*number, text);
                }
            }
            if let (Some(outbox), Some(last)) = (&self.outbox, last) {
                outbox.settle(last).map_err(reason)?;
            }
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Reports a failure to the waiting callers. Items that no caller waits for stay queued for a retry.
    fn fail(&mut self, reason: &Reason) {
        self.is_failing = true;
        let failure = AuditError::Failed(Arc::clone(reason));
        if self.shared.set_failure(Some(failure.clone())) {
            let log = &self.config.name;
            tracing::error!(log, error = %reason, "failed to write the audit log; calls are denied until it can be written");
        }
        for item in std::mem::take(&mut self.batch) {
            if !item.has_waiter() {
                self.batch.push_back(item);
                continue;
            }
            if let Item::Intent { intent, .. } = &item {
                intent.void();
            }
            let (room, ack) = item.into_parts();
            if let Some(ack) = ack {
                let _ = ack.send(Err(failure.clone()));
            }
            if let Some(room) = room {
                self.shared.release(room);
            }
        }
    }
}

fn reason(error: impl StdError + Send + Sync + 'static) -> Reason {
    Arc::new(error)
}

/// A guard that marks the log as closed when the writer ends, even if the writer panics.
struct CloseGuard(Arc<LogQueue>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}
