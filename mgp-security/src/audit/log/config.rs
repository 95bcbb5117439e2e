//! Where a log is kept, and how much of it.
//!
//! Applies to: both.

use std::path::PathBuf;

/// What an [`AuditLog`](super::AuditLog) is opened with.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct LogConfig {
    /// The directory: only its owner may use it. One that is missing is made, and an empty one is made private.
    pub dir: PathBuf,
    /// The log's name, under which its files stand, its head is kept and events wait in a store.
    pub name: String,
    /// When the system is asked to bring the file to the disk.
    pub fsync: Fsync,
    /// From this size on a new file is begun; a group of records may go beyond it.
    pub segment_bytes: u64,
    /// How many files are kept.
    pub keep: Keep,
    /// A checkpoint is written after so many records, or after 8 MiB: opening reads back to the last one.
    pub checkpoint_every: u64,
    /// How many records may wait or be owed by running calls.
    ///
    /// Then calls wait for room for half a second; as many again may do so, and all others are refused at once.
    pub queue: usize,
    /// The file of the key that digests of secrets are made with; it is made where it is missing.
    pub digest_key: Option<PathBuf>,
}

/// When the system is asked to bring the file to the disk; what was written survives a killed process in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fsync {
    /// Before anything is acknowledged: it survives a power cut.
    Always,
    /// With each checkpoint and each new file; after opening, once those were answered who waited first.
    OnCheckpoint,
    /// Whenever the system likes.
    Never,
}

/// How many files of a log are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// All of them.
    All,
    /// The newest; older ones are removed once a checkpoint says so. The file being written is always kept.
    Newest(u32),
}

impl LogConfig {
    /// The log `audit` in a directory: files of 64 MiB, all of them kept.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            name: "audit".to_owned(),
            fsync: Fsync::OnCheckpoint,
            segment_bytes: 64 * 1024 * 1024,
            keep: Keep::All,
            checkpoint_every: 16_384,
            queue: 16_384,
            digest_key: None,
        }
    }

    /// Names the log: letters, digits, `-` and `_`, at most 64. Each writer in a directory has a name of its own.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Says when the system is asked to bring the file to the disk.
    pub fn fsync(mut self, fsync: Fsync) -> Self {
        self.fsync = fsync;
        self
    }

    /// Begins a new file from this size on.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Says how many files are kept.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Writes a checkpoint after so many records.
    pub fn checkpoint_every(mut self, records: u64) -> Self {
        self.checkpoint_every = records;
        self
    }

    /// Bounds the records that wait or are owed by running calls.
    pub fn queue(mut self, records: usize) -> Self {
        self.queue = records;
        self
    }

    /// Makes digests with the key in a file.
    pub fn digest_key(mut self, file: impl Into<PathBuf>) -> Self {
        self.digest_key = Some(file.into());
        self
    }
}
