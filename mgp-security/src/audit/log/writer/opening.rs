//! Opens a log, and completes what an earlier process left unfinished.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mgp_types::mgp::AuditEvent;
use mgp_types::store::{Store, StoreError};

use super::super::chain::Chain;
use super::super::config::{Fsync, LogConfig};
use super::super::error::{BadRecord, LogError};
use super::super::group::{Group, encode_or_replace};
use super::super::head::{HeadPlace, LogHead};
use super::super::outbox::Outbox;
use super::super::queue::LogQueue;
use super::super::recover::{CutEnd, RecoveredLog};
use super::super::segments::{Disk, LogPlace, SegmentFile};
use super::append::HeadSave;
use super::{MAX_GROUP, Reason, Writer, reason};
use crate::audit::Event;

impl Writer {
    /// Opens a log, and completes what an earlier process left unfinished.
    pub(in crate::audit::log) fn open(
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
            open_intents: found.open,
            head_seq: head.seq.min(found.chain.seq),
            head_synced: head.synced,
            head_lag_since: None,
            synced: head.synced,
            unsynced_since: None,
            sync_owed: false,
            segment_length: found.length,
            may_have_torn_end: false,
            segment_firsts: firsts,
            retained_from: found.from,
            records_since_checkpoint: found.since,
            bytes_since_checkpoint: 0,
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

    /// Records the calls that an earlier process left running, and takes the events that wait in the store.
    ///
    /// `saved_outbox` is the number in the saved head of the last event that was taken from the store. `waiting` has
    /// the ids of the approvals for which calls waited, by the number of the call's intent.
    fn finish_recovery(
        &mut self,
        cut: CutEnd,
        lost: u64,
        saved_outbox: u64,
        waiting: &BTreeMap<u64, String>,
    ) -> Result<(), Reason> {
        if cut.bytes > 0 || !self.open_intents.is_empty() {
            tracing::warn!(
                log = self.config.name,
                interrupted = self.open_intents.len(),
                bytes_cut = cut.bytes,
                lines_cut = cut.lines,
                "recovered the audit log of a process that was killed"
            );
        }
        if lost > 0 {
            self.record_loss(lost)?;
        }
        if let Some(outbox) = &self.outbox {
            let lost = outbox.count_lost(saved_outbox, self.outbox_number, &self.recent);
            match lost.map_err(reason)? {
                0 => {}
                count => self.record_lost_changes(count)?,
            }
        }
        if !self.open_intents.is_empty() {
            let open = std::mem::take(&mut self.open_intents);
            for chunk in open.iter().collect::<Vec<_>>().chunks(MAX_GROUP) {
                self.group.begin(self.chain, self.outbox_number);
                for (intent, begun) in chunk {
                    let approval = waiting.get(*intent).map(String::as_str);
                    self.group.push_interrupted(**intent, begun, approval);
                }
                self.write(HeadSave::Now)?;
            }
        }
        // Sync later: the first caller should not wait for the disk, which may be slow after a file was truncated.
        self.sync_owed = true;
        if cut.bytes > 0 {
            self.write_checkpoint(cut.bytes)?;
            self.record_cut(cut)?;
        } else {
            self.save_lagging_head()?;
        }
        self.take_new_events()
    }

    /// Records an event about lost records, before anything else is written.
    ///
    /// Saves the number of lost records before it writes the event, together with the head of the last remaining
    /// record. Otherwise, a process that is killed after it wrote the event would leave a log that differs from its
    /// head, because the event has the number of a lost record. A process that is killed before it wrote the event
    /// would leave no trace of the loss. A power cut can undo a save in a store; then the secret in the store proves
    /// that this log wrote the event.
    fn record_loss(&mut self, lost: u64) -> Result<(), Reason> {
        tracing::error!(
            log = self.config.name,
            lost,
            "recovered the audit log without its last acknowledged records, which were not on the disk"
        );
        self.disk.sync().map_err(reason)?;
        self.synced = self.chain.seq;
        self.head_place.rewind_sinks(self.chain.no, lost).map_err(reason)?;
        self.save_head(LogHead { lost, ..LogHead::of(&self.chain, self.outbox_number) })?;
        let event = Event::records_lost(&self.config.name, lost).build();
        self.record(event)
    }

    /// Records an event about changes whose events the log has and which the store lost, e.g. in a power cut. Then a
    /// grant that was revoked may apply again.
    fn record_lost_changes(&mut self, count: u64) -> Result<(), Reason> {
        tracing::error!(
            log = self.config.name,
            count,
            "the state lost changes that the audit log has, or was replaced by an older one; compare and repeat them"
        );
        let event = Event::changes_lost(&self.config.name, count).build();
        self.record(event)
    }

    /// Records an event if complete lines were cut off at the end of the log.
    fn record_cut(&mut self, cut: CutEnd) -> Result<(), Reason> {
        if cut.lines == 0 {
            return Ok(());
        }
        let event = Event::records_rejected(&self.config.name, cut.lines, cut.bytes).build();
        self.record(event)
    }

    /// Writes an event about the log itself, as a group of its own.
    fn record(&mut self, event: AuditEvent) -> Result<(), Reason> {
        self.group.begin(self.chain, self.outbox_number);
        self.group.event(&encode_or_replace(event), None);
        self.write(HeadSave::Now)
    }
}
