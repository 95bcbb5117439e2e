//! Errors of the SQLite store, and how an operator can correct them.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Error, ErrorCode, ffi};

use crate::store::StoreError;

/// A fault of the database file of a [`Db`](super::Db), as the source of a [`StoreError::Failed`].
///
/// Only an error that occurs while the file is opened contains the path. Later errors can be sent to callers, who must
/// not learn the path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// The file could not be opened.
    #[error("`{path}`: {source}")]
    Opening {
        /// The path of the file.
        path: PathBuf,
        /// The fault that prevented opening the file, usually another variant of this type.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The disk is full, so nothing was changed.
    #[error("its disk is full and nothing was changed; free some space and try again")]
    Full(#[source] Error),
    /// The disk reported an error, e.g. because the quota of this user is used up.
    #[error(
        "its disk reports an error; check the disk, its free space, and the quota and limits of this user"
    )]
    Disk(#[source] Error),
    /// The file can be read, but not written.
    #[error(
        "it is read-only; allow this user to write the file and its folder, on a writable disk"
    )]
    ReadOnly(#[source] Error),
    /// The database file, or one of the files that belong to it (`…-wal`, `…-shm`), cannot be opened.
    #[error(
        "it cannot be opened; allow this user to read and write the file and its folder, and to open more files (`ulimit -n`)"
    )]
    NotOpened(#[source] Error),
    /// The file system does not support sharing the file between processes.
    #[error("its file system does not support a write-ahead log; put it on a local disk")]
    NotShared,
    /// A closure given to [`Db::write`](super::Db::write) ended the transaction in which it ran.
    #[error(
        "a closure ended the transaction that it shares with others; only the store may end it"
    )]
    Ended,
    /// A closure given to [`Db::read`](super::Db::read) or [`Db::write`](super::Db::write) panicked.
    #[error("the closure panicked; its writes were rolled back")]
    Panicked,
    /// Any other error of SQLite.
    #[error(transparent)]
    Sql(Error),
}

impl From<DbError> for StoreError {
    fn from(fault: DbError) -> Self {
        Self::failed(fault)
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy("another process keeps its lock; look for one that hangs")
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Unreadable(format!(
                "its file is damaged ({error}); move it away together with `…-wal` and `…-shm`, then restore a back-up or start without one"
            )),
            Some(ErrorCode::NotADatabase) => Self::Unreadable(
                "its file is not an SQLite database; name another one, or move it away".to_owned(),
            ),
            Some(ErrorCode::DiskFull) => DbError::Full(error).into(),
            Some(ErrorCode::SystemIoFailure) if lacks_space(&error) => DbError::Full(error).into(),
            Some(ErrorCode::SystemIoFailure) => DbError::Disk(error).into(),
            Some(ErrorCode::ReadOnly) => DbError::ReadOnly(error).into(),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                DbError::NotOpened(error).into()
            }
            _ => DbError::Sql(error).into(),
        }
    }
}

/// Returns whether the disk had no room for the index of the write-ahead log (`…-shm`), which SQLite reports as an I/O
/// error.
fn lacks_space(error: &Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHMSIZE)
}
