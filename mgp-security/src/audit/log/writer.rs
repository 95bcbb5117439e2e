//! The writer thread of a log.
//!
//! It writes waiting items as one group, in three steps: append the lines to the file, save the head (number and hash
//! of the last line), acknowledge the callers. A crash between the steps leaves lines after the head, which were not
//! acknowledged and which [recovery](super::recover) verifies. The head is never ahead of the lines, unless the power
//! fails and [`Fsync`] is not `Always`. Therefore the head also has the number of the last record that was synced to
//! the disk: only the records after it, those of a few seconds, can be missing without a change by another program.
//!
//! If the disk or the store fails, no caller is acknowledged and no call can begin; final records of running calls stay
//! queued until writing works again. The writer reports such failures, and new files, in the log of the program; the
//! messages begin with `failed`, `recovered`, `rotated` or `dropped`.

mod opening;

use std::collections::{BTreeMap, VecDeque};
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_types::service::AuditError;
use mgp_types::store::{Store, StoreError};
use tokio::time::Instant;

use super::chain::{Chain, MAX_LINE};
use super::config::{FileRetention, Fsync, LogConfig};
use super::error::{BadRecord, LogError};
use super::group::{Group, encode_or_replace};
use super::head::{HeadPlace, LogHead};
use super::outbox::{BATCH, Outbox, RecentEvents};
use super::queue::{Item, LogQueue, Reservation};
use super::recover::RecoveredLog;
use super::segments::{Disk, Lock, LogPlace, SegmentFile};

/// The size limit for a group: this many records, or this many bytes plus one more record.
const MAX_GROUP: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 * MAX_LINE;

/// The number of bytes after which a checkpoint is due, even if they are only a few records.
const CHECKPOINT_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum time for which the saved head can lag behind records that no caller waits for.
const MAX_HEAD_LAG: Duration = Duration::from_secs(1);

/// The maximum time for which records are not synced to the disk under [`Fsync::OnCheckpoint`].
const MAX_UNSYNCED: Duration = Duration::from_secs(5);

/// The time without items after which a newly opened log is synced to the disk.
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
    /// The number that the store had given to the last event that was taken from it.
    outbox_number: u64,
    recent: RecentEvents,
    /// The intents of running calls, by record number. They are bounded, because each running call has reserved room
    /// for its final record.
    open: BTreeMap<u64, String>,
    /// The record number in the last saved head.
    head: u64,
    /// The number of the last synced record in the last saved head.
    head_synced: u64,
    /// The number of the last record that was synced to the disk.
    synced: u64,
    /// The time since which the log has records that are to be synced; `None` if it has none.
    unsynced_since: Option<Instant>,
    /// The time since which the log has records after the last saved head; `None` if it has none.
    head_lag_since: Option<Instant>,
    /// The length of the newest file in bytes, without an incomplete write at its end.
    length: u64,
    /// `true` if there might be an incomplete write after `length`.
    may_have_torn_end: bool,
    /// The record number with which each file begins, oldest file first.
    firsts: VecDeque<u64>,
    /// The number of the first record that is retained, as the last checkpoint defines it.
    from: u64,
    /// The count of records since the last checkpoint.
    records: u64,
    /// The count of bytes since the last checkpoint.
    bytes: u64,
    /// `true` while the sync that follows opening is still to be done. Waiting callers are served first, because a
    /// killed process loses nothing without the sync.
    sync_owed: bool,
    is_failing: bool,
    batch: VecDeque<Item>,
    group: Group,
    _lock: Lock,
}

/// The time at which the head of a group is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadSave {
    /// Together with the group, because a caller waits for it.
    Now,
    /// The head is saved later, because no caller waits for it.
    Later,
}

impl Writer {
    /// Opens a log, and completes what an earlier process left unfinished.
    pub(super) fn open(
        config: LogConfig,
        store: Option<Arc<dyn Store>>,
        disk_of: impl FnOnce(SegmentFile) -> Box<dyn Disk>,
    ) -> Result<Self, LogError> {
        let place = LogPlace::new(&config.dir, &config.name)?;
        place.prepare()?;
        let lock = place.lock()?;
        let (mut head_place, head) =
            HeadPlace::open(&place, store.clone(), config.fsync == Fsync::Always)?;
        let segments = place.segments().map_err(LogError::io(&config.dir, "read"))?;
        let head = match head {
            Some(head) => head,
            None if segments.is_empty() => {
                let key = head_place.new_key()?;
                let head = LogHead::of(&Chain::genesis(&place.name, key), 0);
                head_place.keep(&head)?;
                head
            }
            None => return Err(BadRecord::no_head().into()),
        };
        let found = RecoveredLog::read(&place, head)?;
        let firsts = segments.iter().map(|segment| segment.first);
        let firsts = firsts.filter(|first| *first < found.first).chain([found.first]).collect();
        let shared = Arc::new(LogQueue::new(config.queue, found.chain.seq, found.chain.no));
        shared.segment.store(found.first, Ordering::Release);
        let mut writer = Self {
            outbox: store.map(|store| Outbox::new(store, &place.name, &shared)),
            shared,
            config,
            disk: disk_of(found.disk),
            head_place,
            chain: found.chain,
            outbox_number: found.outbox,
            recent: found.recent,
            open: found.open,
            head: head.seq.min(found.chain.seq),
            head_synced: head.synced,
            synced: head.synced,
            unsynced_since: None,
            head_lag_since: None,
            length: found.length,
            may_have_torn_end: false,
            firsts,
            from: found.from,
            records: found.since,
            bytes: 0,
            sync_owed: false,
            is_failing: false,
            batch: VecDeque::new(),
            group: Group::new(found.chain),
            _lock: lock,
        };
        let mut waiting = found.waiting;
        if let Some(outbox) = &writer.outbox {
            outbox.remove_decided(&mut waiting);
        }
        let finished = writer.finish_recovery(found.cut, found.lost, head.outbox, &waiting);
        Ok(finished.map(|()| writer).map_err(StoreError::Failed)?)
    }

    pub(super) fn shared(&self) -> &Arc<LogQueue> {
        &self.shared
    }

    /// Writes until the log is closed and no calls are running.
    pub(super) fn run(mut self) {
        let _last = CloseGuard(Arc::clone(&self.shared));
        loop {
            let rest = self.is_failing.then_some(RETRY_DELAY);
            let idle = self.idle();
            let closing = self.shared.next(&mut self.batch, idle, rest);
            self.shared.sweep(closing);
            if let Err(reason) = self.work(closing) {
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
            // The writer already saw the request to close before it wrote this batch, so the head is saved at this
            // point.
            if closing && self.batch.is_empty() && self.shared.may_end() {
                return;
            }
        }
    }

    /// Returns the time after which the writer must act even if no item arrives.
    fn idle(&self) -> Option<Duration> {
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

    fn work(&mut self, closing: bool) -> Result<(), Reason> {
        if self.is_failing {
            // First write a checkpoint to find out whether writing works; only then report success to callers.
            self.checkpoint(0)?;
        }
        // A flush includes the events that were committed to the store for this log.
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

    /// Begins a new file if the newest one is full, and writes a checkpoint if one is due.
    fn rotate_if_due(&mut self) -> Result<(), Reason> {
        if self.length >= self.config.segment_bytes && !self.may_have_torn_end {
            self.save_lagging_head()?;
            if self.config.fsync != Fsync::Never {
                self.disk.sync().map_err(reason)?;
                (self.synced, self.unsynced_since) = (self.chain.seq, None);
            }
            let first = self.chain.seq + 1;
            self.disk.next(first).map_err(reason)?;
            self.shared.segment.store(first, Ordering::Release);
            self.length = 0;
            self.firsts.push_back(first);
            tracing::info!(log = self.config.name, first, "rotated the audit log");
        }
        let is_due = self.records >= self.config.checkpoint_every || self.bytes >= CHECKPOINT_BYTES;
        // Every file except the first begins with a checkpoint, so that it can be verified without the files before.
        if is_due || (self.length == 0 && self.chain.seq > 0) {
            self.checkpoint(0)?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, cut: u64) -> Result<(), Reason> {
        self.write_checkpoint(cut)?;
        self.sync_and_prune()
    }

    /// Writes a checkpoint; the files that it retires are removed by [`sync_and_prune`](Self::sync_and_prune).
    fn write_checkpoint(&mut self, cut: u64) -> Result<(), Reason> {
        // First save the head of the last record before the checkpoint, so that opening the log need not read further
        // back than the checkpoint.
        self.save_lagging_head()?;
        let from = match self.config.retention {
            FileRetention::All => None,
            FileRetention::Newest(count) => {
                let retained = usize::try_from(count).unwrap_or(usize::MAX).max(1);
                self.firsts.len().checked_sub(retained).and_then(|at| self.firsts.get(at).copied())
            }
        };
        let from = from.unwrap_or_default().max(self.from);
        self.group.begin(self.chain, self.outbox_number);
        self.group.checkpoint(from, self.open.len() as u64, cut);
        for (intent, begun) in &self.open {
            self.group.intent(Some(*intent), begun.as_bytes());
        }
        self.write(HeadSave::Now)?;
        (self.records, self.bytes, self.from) = (0, 0, from);
        Ok(())
    }

    /// Syncs the written records to the disk if they are not synced yet, and removes the files that the last checkpoint
    /// retired.
    fn sync_and_prune(&mut self) -> Result<(), Reason> {
        let is_due = match self.config.fsync {
            Fsync::Always => self.synced < self.chain.seq,
            Fsync::OnCheckpoint => true,
            Fsync::Never => false,
        };
        if is_due {
            self.disk.sync().map_err(reason)?;
            self.synced = self.chain.seq;
            // Save and sync the head after the records. Otherwise the head on the disk could count a record as synced
            // that is not on the disk.
            if self.head_synced < self.synced {
                self.save_head(self.head_of(&self.chain, self.outbox_number))?;
            }
            self.head_place.sync().map_err(reason)?;
        }
        (self.sync_owed, self.unsynced_since) = (false, None);
        let from = self.from;
        if self.firsts.front().is_some_and(|first| *first < from) {
            match self.disk.remove_before(from) {
                Ok(()) => self.firsts.retain(|first| *first >= from),
                // It does no harm if a file cannot be removed, because a checkpoint has announced already that its
                // records are removed.
                Err(error) => tracing::warn!(
                    log = self.config.name,
                    %error,
                    "failed to remove old files of the audit log"
                ),
            }
        }
        Ok(())
    }

    /// Appends the group to the file and, with [`HeadSave::Now`], saves its head.
    fn write(&mut self, head_save: HeadSave) -> Result<(), Reason> {
        self.append_group()?;
        let Group { chain, outbox, .. } = self.group;
        if head_save == HeadSave::Now && self.head < chain.seq {
            self.save_head(self.head_of(&chain, outbox))?;
        }
        self.may_have_torn_end = false;
        self.note_written();
        Ok(())
    }

    fn append_group(&mut self) -> Result<(), Reason> {
        if std::mem::replace(&mut self.may_have_torn_end, true) {
            self.disk.cut(self.length).map_err(reason)?;
        }
        if !self.group.text.is_empty() {
            self.disk.append(&self.group.text).map_err(reason)?;
            if self.config.fsync == Fsync::Always {
                self.disk.sync().map_err(reason)?;
                self.synced = self.group.chain.seq;
            }
        }
        Ok(())
    }

    /// Updates the state of the log after the group was written, and reports the group's events.
    fn note_written(&mut self) {
        let Group { chain, outbox, .. } = self.group;
        let length = self.group.text.len() as u64;
        self.length += length;
        self.bytes += length;
        self.records += chain.seq - self.chain.seq;
        (self.chain, self.outbox_number) = (chain, outbox);
        self.open.extend(self.group.opened.drain(..));
        for ended in self.group.ended.drain(..) {
            self.open.remove(&ended);
        }
        if self.head < chain.seq && self.head_lag_since.is_none() {
            self.head_lag_since = Some(Instant::now());
        }
        let is_to_sync = self.config.fsync != Fsync::Never && self.synced < chain.seq;
        if is_to_sync && self.unsynced_since.is_none() {
            self.unsynced_since = Some(Instant::now());
        }
        self.shared.written.store(chain.seq, Ordering::Release);
        self.shared
            .newest
            .send_if_modified(|newest| std::mem::replace(newest, chain.no) != chain.no);
        self.shared.show(&self.group);
    }

    fn save_lagging_head(&mut self) -> Result<(), Reason> {
        if self.head < self.chain.seq {
            self.save_head(self.head_of(&self.chain, self.outbox_number))?;
        }
        Ok(())
    }

    /// Returns the head of a chain of this log. Under [`Fsync::Never`], the head counts all records as synced. A power
    /// cut could then lose any record, and a log that lacks one must not be opened.
    fn head_of(&self, chain: &Chain, outbox: u64) -> LogHead {
        let never_syncs = self.config.fsync == Fsync::Never;
        let synced = if never_syncs { chain.seq } else { self.synced.min(chain.seq) };
        LogHead { synced, ..LogHead::of(chain, outbox) }
    }

    fn save_head(&mut self, head: LogHead) -> Result<(), Reason> {
        let revision = self.head_place.keep(&head).map_err(reason)?;
        if let (Some(outbox), Some(revision)) = (&mut self.outbox, revision) {
            outbox.note_own_commit(revision);
        }
        (self.head, self.head_synced) = (head.seq, head.synced);
        self.head_lag_since = None;
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
