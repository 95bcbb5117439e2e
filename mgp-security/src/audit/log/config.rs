//! Configuration of a log: its location, durability and retention.

use std::path::PathBuf;

/// The configuration of an [`AuditLog`](super::AuditLog).
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct LogConfig {
    /// The directory, which only its owner may access. If it is missing, it is created; if it is empty, it is made
    /// private.
    pub dir: PathBuf,
    /// The name of the log. Its files, its saved head and its events in a store have this name.
    pub name: String,
    /// The rule for syncing the file to the disk.
    pub fsync: Fsync,
    /// The size in bytes at which a file is full: later records are written to a new file. A group of records is never
    /// split between files, so a file can be larger by the last group.
    pub segment_bytes: u64,
    /// The number of log files that are retained.
    pub retention: FileRetention,
    /// The number of records after which a checkpoint is written; a checkpoint is also written after 8 MiB. When a log
    /// is opened, it is read only from its last checkpoint on.
    pub checkpoint_every: u64,
    /// The maximum number of records in the queue, including the room that running calls reserve for their records.
    ///
    /// At the limit, calls wait for room for up to half a second. At most `queue` calls can wait; the log refuses
    /// further calls immediately.
    pub queue: usize,
    /// The file with the key for digests of secrets; a missing file is created. If `None`, the log has no such key.
    pub digest_key: Option<PathBuf>,
}

/// The rule for syncing the file to the disk. Written records survive a killed process even without a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fsync {
    /// Before a record is acknowledged: acknowledged records survive a power cut.
    Always,
    /// With each checkpoint and each new file, at most five seconds after a record was written, and when the log is
    /// closed. Records written while the log is opened are synced after the first callers were answered.
    OnCheckpoint,
    /// The file is never synced explicitly; the operating system decides. A log that lost records in a power cut is not
    /// opened.
    Never,
}

/// The number of files of a log that are retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileRetention {
    /// All files of the log are retained.
    All,
    /// The given number of newest files is retained; older files are removed after a checkpoint. The file being written
    /// is always retained.
    Newest(u32),
}

impl LogConfig {
    /// Creates the configuration of the log `audit` in a directory: files of 64 MiB, all of them retained.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            name: "audit".to_owned(),
            fsync: Fsync::OnCheckpoint,
            segment_bytes: 64 * 1024 * 1024,
            retention: FileRetention::All,
            checkpoint_every: 16_384,
            queue: 16_384,
            digest_key: None,
        }
    }

    /// Sets the name: letters, digits, `-` and `_`, at most 64. Each writer in a directory needs its own name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets when the file is synced to the disk.
    pub fn fsync(mut self, fsync: Fsync) -> Self {
        self.fsync = fsync;
        self
    }

    /// Sets the size in bytes at which a file is full, so that later records are written to a new file.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Sets the number of files that are retained.
    pub fn retention(mut self, keep: FileRetention) -> Self {
        self.retention = keep;
        self
    }

    /// Sets the number of records after which a checkpoint is written.
    pub fn checkpoint_every(mut self, records: u64) -> Self {
        self.checkpoint_every = records;
        self
    }

    /// Sets the maximum number of records in the queue, including the room that running calls reserve.
    pub fn queue(mut self, records: usize) -> Self {
        self.queue = records;
        self
    }

    /// Sets the file with the key for digests of secrets; a missing file is created.
    pub fn digest_key(mut self, file: impl Into<PathBuf>) -> Self {
        self.digest_key = Some(file.into());
        self
    }
}
