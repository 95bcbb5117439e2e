//! Begins new files, writes checkpoints, and removes files that are no longer retained.

use std::sync::atomic::Ordering;

use super::super::config::{FileRetention, Fsync};
use super::append::HeadSave;
use super::{Reason, Writer, reason};

/// The number of bytes after which a checkpoint is due, even if they are only a few records.
const CHECKPOINT_BYTES: u64 = 8 * 1024 * 1024;

impl Writer {
    /// Begins a new file if the newest one is full, and writes a checkpoint if one is due.
    pub(super) fn rotate_if_due(&mut self) -> Result<(), Reason> {
        if self.segment_length >= self.config.segment_bytes && !self.may_have_torn_end {
            self.save_lagging_head()?;
            if self.config.fsync != Fsync::Never {
                self.disk.sync().map_err(reason)?;
                (self.synced, self.unsynced_since) = (self.chain.seq, None);
            }
            let first = self.chain.seq + 1;
            self.disk.next(first).map_err(reason)?;
            self.shared.segment.store(first, Ordering::Release);
            self.segment_length = 0;
            self.segment_firsts.push_back(first);
            tracing::info!(log = self.config.name, first, "rotated the audit log");
        }
        let is_due = self.records_since_checkpoint >= self.config.checkpoint_every
            || self.bytes_since_checkpoint >= CHECKPOINT_BYTES;
        // Every file except the first begins with a checkpoint, so that it can be verified without the files before.
        if is_due || (self.segment_length == 0 && self.chain.seq > 0) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Writes a checkpoint, syncs it to the disk, and removes the files that it retires.
    pub(super) fn checkpoint(&mut self) -> Result<(), Reason> {
        self.write_checkpoint(0)?;
        self.sync_and_prune()
    }

    /// Writes a checkpoint; the files that it retires are removed by [`sync_and_prune`](Self::sync_and_prune). `cut` is
    /// the number of bytes that were cut off when the log was opened.
    pub(super) fn write_checkpoint(&mut self, cut: u64) -> Result<(), Reason> {
        // First save the head of the last record before the checkpoint, so that opening the log need not read further
        // back than the checkpoint.
        self.save_lagging_head()?;
        let from = match self.config.retention {
            FileRetention::All => None,
            FileRetention::Newest(count) => {
                let retained = usize::try_from(count).unwrap_or(usize::MAX).max(1);
                self.segment_firsts
                    .len()
                    .checked_sub(retained)
                    .and_then(|at| self.segment_firsts.get(at).copied())
            }
        };
        let from = from.unwrap_or_default().max(self.retained_from);
        self.group.begin(self.chain, self.outbox_number);
        self.group.checkpoint(from, self.open_intents.len() as u64, cut);
        for (intent, begun) in &self.open_intents {
            self.group.intent(Some(*intent), begun.as_bytes());
        }
        self.write(HeadSave::Now)?;
        (self.records_since_checkpoint, self.bytes_since_checkpoint, self.retained_from) =
            (0, 0, from);
        Ok(())
    }

    /// Syncs the written records to the disk, unless they are synced already or `fsync` is `never`. Then removes the
    /// files that the last checkpoint retired.
    pub(super) fn sync_and_prune(&mut self) -> Result<(), Reason> {
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
        let from = self.retained_from;
        if self.segment_firsts.front().is_some_and(|first| *first < from) {
            match self.disk.remove_before(from) {
                Ok(()) => self.segment_firsts.retain(|first| *first >= from),
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
}
