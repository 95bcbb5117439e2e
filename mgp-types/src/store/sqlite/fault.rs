//! What SQLite says, in words that say what to do.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Error, ErrorCode};

use crate::store::StoreError;

/// Why the file of a [`Db`](super::Db) could not be read or written; the reason of a [`StoreError::Failed`].
///
/// The file is named when it is opened, and not later: errors of calls may reach whoever called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbFault {
    /// It was not opened.
    #[error("`{path}`: {source}")]
    Opening {
        /// The file.
        path: PathBuf,
        /// Why: mostly one of the others.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// There is no room.
    #[error("there is no room for it: free some on its disk, and try again; nothing was changed")]
    Full(#[source] Error),
    /// It may be read, but not written.
    #[error(
        "it is read-only: let this user write the file and its folder, on a disk that can be written"
    )]
    ReadOnly(#[source] Error),
    /// It, or one of the files beside it (`…-wal`, `…-shm`), may not be opened.
    #[error("it cannot be opened: let this user read and write the file and its folder")]
    NotOpened(#[source] Error),
    /// Its file system cannot be shared by processes.
    #[error("its file system has no write-ahead log: put it on a local disk")]
    NotShared,
    /// A closure given to [`Db::write`](super::Db::write) ended the transaction it ran in.
    #[error("a write ended the transaction that it shares with others: leave that to the store")]
    Ended,
    /// A closure given to [`Db::read`](super::Db::read) or [`Db::write`](super::Db::write) panicked.
    #[error("it panicked; what it had written was undone")]
    Panicked,
    /// Anything else.
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
