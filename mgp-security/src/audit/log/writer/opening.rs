//! Completes what an earlier process left unfinished, when a log is opened.

use std::collections::BTreeMap;

use super::super::group::encode_or_replace;
use super::super::head::LogHead;
use super::super::recover::CutEnd;
use super::{HeadSave, MAX_GROUP, Reason, Writer, reason};
use crate::audit::Event;

impl Writer {
    /// Records the calls that an earlier process left running, and takes the events that wait in the store.
    ///
    /// `saved_outbox` is the number of the last event of the store in the saved head. `waiting` has the ids of the
    /// approvals for which calls waited, by the number of the call's intent.
    pub(super) fn finish_recovery(
        &mut self,
        cut: CutEnd,
        lost: u64,
        saved_outbox: u64,
        waiting: &BTreeMap<u64, String>,
    ) -> Result<(), Reason> {
        if cut.bytes > 0 || !self.open.is_empty() {
            tracing::warn!(
                log = self.config.name,
                interrupted = self.open.len(),
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
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
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
    /// The number of lost records is first saved together with the head of the last record that is left. Otherwise a
    /// process that is killed after it wrote the event would leave a log that differs from its head, because the event
    /// takes the number of a lost record; and one that is killed before it wrote the event would leave no trace of the
    /// loss. A power cut can undo a save in a store; then the secret in the store proves that this log wrote the event.
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
        self.group.begin(self.chain, self.outbox_number);
        self.group.event(&encode_or_replace(event), None);
        self.write(HeadSave::Now)
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
        self.group.begin(self.chain, self.outbox_number);
        self.group.event(&encode_or_replace(event), None);
        self.write(HeadSave::Now)
    }

    /// Records an event if complete lines were cut off.
    fn record_cut(&mut self, cut: CutEnd) -> Result<(), Reason> {
        if cut.lines == 0 {
            return Ok(());
        }
        let event = Event::records_rejected(&self.config.name, cut.lines, cut.bytes).build();
        self.group.begin(self.chain, self.outbox_number);
        self.group.event(&encode_or_replace(event), None);
        self.write(HeadSave::Now)
    }
}
