//! Errors of opening a log, and the flaws that its verification can find.

use std::io;
use std::path::{Path, PathBuf};

use mgp_types::PrivateFileError;
use mgp_types::store::StoreError;

/// An error that occurs when an audit log is opened or verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The name cannot be part of a file name.
    #[error("`{0}` cannot name a log: use at most 64 letters, digits, `-` and `_`")]
    Name(String),
    /// Other users can access the directory or a file.
    #[error(
        "`{path}` is accessible to other users (mode {mode:o}), who may read or change the log; run `chmod {private:o}` on it"
    )]
    Exposed {
        /// The path of the directory or file that other users can access.
        path: PathBuf,
        /// The permission bits that the directory or file has.
        mode: u32,
        /// The required permission bits.
        private: u32,
    },
    /// The log is already open for writing in another process, or through another handle in this process.
    #[error(
        "another process writes the log `{name}` in `{dir}`; stop it, or set another name for this log"
    )]
    InUse {
        /// The directory that contains the log.
        dir: PathBuf,
        /// The name of the log.
        name: String,
    },
    /// The log was modified or truncated.
    #[error(
        "the log was changed: {0}; keep its files as evidence, and continue with a log in another directory"
    )]
    BadRecord(#[from] BadRecord),
    /// The last acknowledged records are missing, and they were not synced to the disk yet.
    #[error(
        "the last {count} acknowledged records are missing, from record {seq} on: a power cut lost them, or another program removed them; the log records this when it is opened"
    )]
    Lost {
        /// The number of the first missing record.
        seq: u64,
        /// The number of missing records.
        count: u64,
    },
    /// The store lost changes, although the log has the events about them.
    #[error(
        "the state lost {count} of the changes that the log has: a power cut undid them, or an older state replaced it; put the newer one back, or repeat the changes, whose loss the log records when it is opened"
    )]
    ChangesLost {
        /// The number of lost changes.
        count: u64,
    },
    /// The key for digests cannot be used.
    #[error("the key for digests cannot be used: {0}")]
    Key(#[from] PrivateFileError),
    /// The store with the head of the log failed.
    #[error("the head of the log cannot be read or saved: {0}")]
    Store(#[from] StoreError),
    /// A file system operation failed.
    #[error("`{path}` cannot be {verb}: {source}")]
    Io {
        /// The path of the file or directory.
        path: PathBuf,
        /// The failed operation, as a verb.
        verb: &'static str,
        /// The error that the operating system returned.
        source: io::Error,
    },
}

/// The first record of a log that differs from what was written, and how it differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {seq}: {why}")]
#[non_exhaustive]
pub struct BadRecord {
    /// The record number; zero if the flaw is in the head, the lock or the key.
    pub seq: u64,
    /// The flaw that verification found in the record.
    pub why: RecordFlaw,
}

/// A flaw that verification finds in a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFlaw {
    /// The line does not have the form of a record.
    #[error("its line is malformed")]
    Form,
    /// The line has the number of another record.
    #[error("record {0} is in its place")]
    Number(u64),
    /// The hash is wrong: this line or an earlier one was changed.
    #[error("its hash does not match the text")]
    Hash,
    /// The line is incomplete, i.e. has no newline.
    #[error("its line is not complete")]
    Torn,
    /// The record that the head or a checkpoint refers to is missing.
    #[error("it is missing")]
    Missing,
    /// The record has another hash than the head: the log or its head was replaced.
    #[error("it is not the record that the head names")]
    Head,
    /// The saved head belongs to an older state of the log.
    #[error("the head is older than the log's last checkpoint")]
    StaleHead,
    /// The log has records, but there is no saved head against which they can be verified.
    #[error(
        "the log has no head; it was lost, or the store is a different one or does not persist its entries"
    )]
    NoHead,
    /// Another file of the log is damaged: the head file, the lock file or the key file.
    #[error("`{0}` was changed")]
    Beside(PathBuf),
}

impl BadRecord {
    /// Creates the error for a log without a saved head against which it can be verified.
    #[must_use]
    pub fn no_head() -> Self {
        Self::new(0, RecordFlaw::NoHead)
    }

    pub(super) fn new(seq: u64, why: RecordFlaw) -> Self {
        Self { seq, why }
    }
}

impl LogError {
    pub(super) fn io(path: &Path, verb: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, verb, source }
    }
}
