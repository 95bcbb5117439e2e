//! Errors of SQLite, with their remedies.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Error, ErrorCode};

use crate::store::StoreError;

/// A fault of the file of a [`Db`](super::Db); the source of a [`StoreError::Failed`].
///
/// Only errors of opening name the file, since errors of calls may be sent to callers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbFault {
    /// The file was not opened.
    #[error("`{path}`: {source}")]
    Opening {
        /// The file.
        path: PathBuf,
        /// The fault, usually another variant of this type.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The disk is full.
    #[error("there is no room for it: free some on its disk, and try again; nothing was changed")]
    Full(#[source] Error),
    /// The file is readable, but not writable.
    #[error(
        "it is read-only: let this user write the file and its folder, on a disk that can be written"
    )]
    ReadOnly(#[source] Error),
    /// The file, or one beside it (`…-wal`, `…-shm`), cannot be opened.
    #[error("it cannot be opened: let this user read and write the file and its folder")]
    NotOpened(#[source] Error),
    /// The file system cannot be shared by processes.
    #[error("its file system has no write-ahead log: put it on a local disk")]
    NotShared,
    /// A closure given to [`Db::write`](super::Db::write) ended its transaction.
    #[error("a write ended the transaction that it shares with others: leave that to the store")]
    Ended,
    /// A closure given to [`Db::read`](super::Db::read) or [`Db::write`](super::Db::write) panicked.
    #[error("it panicked; what it had written was undone")]
    Panicked,
    /// Any other error.
    #[error(transparent)]
    Sql(Error),
}

impl From<DbFault> for StoreError {
    fn from(fault: DbFault) -> Self {
        Self::failed(fault)
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy("another process keeps writing to it; look for one that hangs")
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Unreadable(format!(
                "its file is damaged ({error}): restore a backup, or move it away together with `…-wal` and `…-shm`"
            )),
            Some(ErrorCode::NotADatabase) => Self::Unreadable(
                "its file is no SQLite database: name another, or move it away".to_owned(),
            ),
            Some(ErrorCode::DiskFull) => DbFault::Full(error).into(),
            Some(ErrorCode::ReadOnly) => DbFault::ReadOnly(error).into(),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                DbFault::NotOpened(error).into()
            }
            _ => DbFault::Sql(error).into(),
        }
    }
}
