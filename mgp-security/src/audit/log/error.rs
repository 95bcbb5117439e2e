//! Why a log cannot be opened, and what is wrong with one.
//!
//! Applies to: both.

use std::io;
use std::path::{Path, PathBuf};

use mgp_types::PrivateFileError;
use mgp_types::store::StoreError;

/// Why an audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The name cannot be part of a file's name.
    #[error("`{0}` cannot name a log: use at most 64 letters, digits, `-` and `_`")]
    Name(String),
    /// Others than the owner may use the log.
    #[error(
        "`{path}` is open to others (mode {mode:o}), who may read or change the log: `chmod {private:o}` it"
    )]
    Exposed {
        /// The directory or file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What they should be.
        private: u32,
    },
    /// Another process, or another handle of this one, writes the log.
    #[error(
        "somebody else writes the log `{name}` in `{dir}`: stop them, or give this log a name of its own"
    )]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// The log.
        name: String,
    },
    /// The log is not what was written.
    #[error(
        "the log was changed: {0}; keep its files as evidence, and go on with a log in another folder"
    )]
    Bad(#[from] Bad),
    /// The key for digests cannot be used.
    #[error("the key for digests cannot be used: {0}")]
    Key(#[from] PrivateFileError),
    /// The store that keeps the head failed.
    #[error("the head of the log cannot be read or kept: {0}")]
    Store(#[from] StoreError),
    /// The system refused.
    #[error("`{path}` cannot be {verb}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// The first record of a log that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {seq}: {why}")]
#[non_exhaustive]
pub struct Bad {
    /// Its number; zero for what belongs to no record: the head, the lock, the key.
    pub seq: u64,
    /// What is wrong with it.
    pub why: Flaw,
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The line is none that a log writes.
    #[error("its line has not the form of one")]
    Form,
    /// Another record stands in its place.
    #[error("record {0} stands in its place")]
    Number(u64),
    /// The hash does not fit: this line, or what stands before it, was changed.
    #[error("its hash does not fit what is written")]
    Hash,
    /// The line ends too early.
    #[error("its line is not complete")]
    Torn,
    /// It should be there, because the head or a checkpoint says so.
    #[error("it is missing")]
    Missing,
    /// The head names another record under this number: the log was replaced, or its head.
    #[error("it is not the record that the head names")]
    Head,
    /// The head is that of an older log.
    #[error("the head is older than the log's last checkpoint")]
    StaleHead,
    /// There are records, but nothing says where they should end.
    #[error(
        "the log has no head: it was lost, or the store that keeps it is another one, or forgets"
    )]
    NoHead,
    /// A file beside the log is damaged.
    #[error("`{0}` was changed")]
    Beside(PathBuf),
}

impl Bad {
    /// There is nothing to verify a log against.
    #[must_use]
    pub fn no_head() -> Self {
        Self::new(0, Flaw::NoHead)
    }

    pub(super) fn new(seq: u64, why: Flaw) -> Self {
        Self { seq, why }
    }
}

impl LogError {
    pub(super) fn io(path: &Path, verb: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, verb, source }
    }
}
