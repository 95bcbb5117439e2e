//! Appends a group to the file, and saves the head.

use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::super::chain::Chain;
use super::super::config::Fsync;
use super::super::group::Group;
use super::super::head::LogHead;
use super::{Reason, Writer, reason};

/// The time at which the head of a group is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadSave {
    /// The head is saved together with the group, because a caller waits for it.
    Now,
    /// The head is saved later, because no caller waits for it.
    Later,
}

impl Writer {
    /// Appends the group to the file and, with [`HeadSave::Now`], saves its head.
    pub(super) fn write(&mut self, head_save: HeadSave) -> Result<(), Reason> {
        self.append_group()?;
        let Group { chain, outbox, .. } = self.group;
        if head_save == HeadSave::Now && self.head_seq < chain.seq {
            self.save_head(self.head_of(&chain, outbox))?;
        }
        self.may_have_torn_end = false;
        self.note_written();
        Ok(())
    }

    /// Cuts off an incomplete write at the end of the file, and then appends the lines of the group.
    fn append_group(&mut self) -> Result<(), Reason> {
        if std::mem::replace(&mut self.may_have_torn_end, true) {
            self.disk.cut(self.segment_length).map_err(reason)?;
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
        self.segment_length += length;
        self.bytes_since_checkpoint += length;
        self.records_since_checkpoint += chain.seq - self.chain.seq;
        (self.chain, self.outbox_number) = (chain, outbox);
        self.open_intents.extend(self.group.opened.drain(..));
        for ended in self.group.ended.drain(..) {
            self.open_intents.remove(&ended);
        }
        if self.head_seq < chain.seq && self.head_lag_since.is_none() {
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

    /// Saves the head of the last written record, unless the saved head has that record already.
    pub(super) fn save_lagging_head(&mut self) -> Result<(), Reason> {
        if self.head_seq < self.chain.seq {
            self.save_head(self.head_of(&self.chain, self.outbox_number))?;
        }
        Ok(())
    }

    /// Returns the head of a chain of this log. Under [`Fsync::Never`], the head counts all records as synced. A power
    /// cut could then lose any record, and a log that lacks one must not be opened.
    pub(super) fn head_of(&self, chain: &Chain, outbox: u64) -> LogHead {
        let never_syncs = self.config.fsync == Fsync::Never;
        let synced = if never_syncs { chain.seq } else { self.synced.min(chain.seq) };
        LogHead { synced, ..LogHead::of(chain, outbox) }
    }

    pub(super) fn save_head(&mut self, head: LogHead) -> Result<(), Reason> {
        let revision = self.head_place.keep(&head).map_err(reason)?;
        if let (Some(outbox), Some(revision)) = (&mut self.outbox, revision) {
            outbox.note_own_commit(revision);
        }
        (self.head_seq, self.head_synced) = (head.seq, head.synced);
        self.head_lag_since = None;
        Ok(())
    }
}
