//! State that outlives a call: records, each found by its space (a named group of records) and its key. A change of
//! records is stored together with the audit events that report it.
//!
//! Code that has such state writes it through a [`Store`], but decides on the basis of its own copy in memory.
//! [`Store::revision`] notifies this code when another writer changes the store.

mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod tests;
mod timeout;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::mgp::AuditEvent;
use crate::service::BoxFuture;
use crate::{ErrorCode, Payload, RpcError};

pub use memory::MemoryStore;
/// The SQLite library that [`Db`] uses, for closures given to [`Db::read`] and [`Db::write`].
#[cfg(feature = "sqlite")]
pub use rusqlite as sql;
#[cfg(feature = "sqlite")]
pub use sqlite::{Db, DbConfig, DbError, Durability};
pub use timeout::with_timeout;

/// The maximum number of removals that a store remembers. A reader that asks for changes since an older revision must
/// load all records again.
const MAX_REMOVALS: usize = 4096;

/// The maximum number of events that wait for their audit logs to read them. A change whose events would exceed this
/// number fails with [`PENDING_FULL`].
const MAX_PENDING: usize = 65_536;

/// The error of a change whose events would exceed [`MAX_PENDING`].
const PENDING_FULL: StoreError = StoreError::Busy("too many events wait for their logs");

/// A store of records, in memory or in a file that several processes share.
///
/// ```
/// use mgp_types::store::{Change, MemoryStore, Store};
/// use mgp_types::Payload;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// let change = Change::new().put("fruit", "apple", Payload::from_trusted(r#"{"colour":"red"}"#));
/// let revision = store.commit(change).await.unwrap();
/// assert_eq!(store.load("fruit").await.unwrap().records.len(), 1);
///
/// store.commit(Change::new().remove("fruit", "apple")).await.unwrap();
/// let later = store.changes("fruit", revision).await.unwrap();
/// assert!(later.records[0].value.is_none(), "it is gone");
/// # });
/// ```
// The methods are not `async`: an operation is queued when its method is called, instead of when its future is first
// polled, so that calls keep their order.
pub trait Store: Send + Sync {
    /// Returns all records of a space (a named group of records).
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be read.
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<LoadedRecords, StoreError>>;

    /// Returns the records of a space that changed after a revision. A record that was removed is returned without a
    /// value.
    ///
    /// # Errors
    /// Returns [`StoreError::TooOld`] if removals after that revision are no longer known, else the error that occurred
    /// while the store was read.
    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<LoadedRecords, StoreError>>;

    /// Applies a change completely or not at all. Returns the revision that the change created, once the change is
    /// stored.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if an expectation failed, else the error that occurred while the store was
    /// written.
    ///
    /// # Cancel safety
    /// The change is queued before the future is returned; if the future is dropped, the change
    /// may or may not be applied.
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// Returns a receiver of the store's newest revision, as far as this process knows it. The revision increases with
    /// every change, by this process or by others.
    fn revision(&self) -> watch::Receiver<u64>;

    /// Returns up to `limit` events that were committed for the audit log `log` and that it has not acknowledged yet,
    /// oldest first.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be read.
    fn pending_events(
        &self,
        log: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>>;

    /// Removes the pending events of the audit log `log`, up to and including the event with the sequence number
    /// `through`.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be written.
    fn acknowledge(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Returns the time for which callers wait for an operation before it fails with [`StoreError::Timeout`]; 500 ms
    /// unless the store needs longer.
    fn answer_timeout(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// A record of a space, as [`Store::load`] and [`Store::changes`] return it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// The key of the record, unique in its space.
    pub key: String,
    /// The value of the record; `None` if the record was removed.
    pub value: Option<Payload>,
    /// The revision in which the record was written or removed.
    pub revision: u64,
}

impl Record {
    /// Creates a record as a store returns it; for implementations of [`Store`].
    #[must_use]
    pub fn new(key: impl Into<String>, value: Option<Payload>, revision: u64) -> Self {
        Self { key: key.into(), value, revision }
    }
}

/// The records of a space, as they were at a certain revision.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoadedRecords {
    /// The revision of the store when the records were read.
    pub revision: u64,
    /// The records of the space, in any order.
    pub records: Vec<Record>,
}

impl LoadedRecords {
    /// Creates the set of records that a store contained at a revision; for implementations of [`Store`].
    #[must_use]
    pub fn new(revision: u64, records: Vec<Record>) -> Self {
        Self { revision, records }
    }
}

/// A set of writes and audit events that a store applies completely or not at all.
#[derive(Clone, Debug, Default)]
#[must_use = "a change does nothing until it is committed"]
pub struct Change {
    /// The records to write, or to remove if they have no value.
    pub(crate) writes: Vec<Write>,
    /// The revisions that records are expected to have. If a record has another revision, nothing is changed.
    pub(crate) expected: Vec<Expectation>,
    /// The events of the change, each with the name of its audit log; they are stored together with the change.
    pub(crate) events: Vec<(String, AuditEvent)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) space: &'static str,
    pub(crate) key: String,
    pub(crate) value: Option<Payload>,
}

#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    pub(crate) space: &'static str,
    pub(crate) key: String,
    /// The revision that must have written the record last; `None` if the record must not exist.
    pub(crate) revision: Option<u64>,
}

impl Change {
    /// Creates a change that writes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record to write.
    pub fn put(mut self, space: &'static str, key: impl Into<String>, value: Payload) -> Self {
        self.writes.push(Write { space, key: key.into(), value: Some(value) });
        self
    }

    /// Adds a record to remove; it is not an error if the record does not exist.
    pub fn remove(mut self, space: &'static str, key: impl Into<String>) -> Self {
        self.writes.push(Write { space, key: key.into(), value: None });
        self
    }

    /// Makes the change fail unless the record has this revision. `None` means that the record must not exist.
    pub fn expect_revision(
        mut self,
        space: &'static str,
        key: impl Into<String>,
        revision: Option<u64>,
    ) -> Self {
        self.expected.push(Expectation { space, key: key.into(), revision });
        self
    }

    /// Adds an event for the audit log named `log`, which reads it later; the event is stored together with the change.
    pub fn event(mut self, log: impl Into<String>, event: AuditEvent) -> Self {
        self.events.push((log.into(), event));
        self
    }

    /// Returns the keys in a space that the change writes (with `true`) or removes (with `false`).
    pub fn writes_to(&self, space: &str) -> impl Iterator<Item = (&str, bool)> {
        let of_space = self.writes.iter().filter(move |write| write.space == space);
        of_space.map(|write| (write.key.as_str(), write.value.is_some()))
    }

    /// Returns whether the change writes nothing and has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.events.is_empty()
    }
}

/// An event that was committed with a change, and that its audit log has not acknowledged yet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PendingEvent {
    /// The sequence number of the event, which increases within a store. A number is reused only if a loss of power
    /// undid the change of its event.
    pub number: u64,
    /// The audit event itself.
    pub event: AuditEvent,
}

impl PendingEvent {
    /// Creates an event as a store returns it; for implementations of [`Store`].
    #[must_use]
    pub fn new(number: u64, event: AuditEvent) -> Self {
        Self { number, event }
    }
}

/// The error of a store operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A record does not have the expected revision; the caller should read it and decide again.
    #[error("`{key}` in `{space}` was changed concurrently")]
    Conflict {
        /// The space of the record.
        space: &'static str,
        /// The key of the record.
        key: String,
    },
    /// Removals after the requested revision are no longer known; the reader must load all records again.
    #[error("the removals since that revision are no longer known; load all records again")]
    TooOld,
    /// The store has no room left, too many operations wait for it, or another process keeps it locked.
    #[error("the store is busy: {0}")]
    Busy(&'static str),
    /// The operation was not completed in time. A change may still be applied, now or later.
    #[error(
        "the store did not answer within {}; the change may still be kept, so read again before retrying",
        crate::duration_words(*.0)
    )]
    Timeout(Duration),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Another program has removed or replaced the file of the store. The store therefore accepts no changes, because
    /// they would be lost when it is closed. The file `…-wal` stays then, and must be removed: SQLite would apply it to
    /// a back-up of the file, and so damage the back-up.
    #[error(
        "the file of the store was removed or replaced; move it back, or stop this program, remove `…-wal` and `…-shm`, and restore the file from a back-up"
    )]
    Lost,
    /// Another program has removed or replaced the write-ahead log of the store (`…-wal`). The store therefore accepts
    /// no changes, because a kill of this process would lose them. If the log was removed, the accepted changes are
    /// written into the file; then other processes cannot change the store until this process closes it.
    #[error(
        "the file `…-wal` of the store was removed or replaced; restart this program, which writes the changes that it has accepted into the store"
    )]
    LogLost,
    /// The content of the store is not known, because the store was not opened yet or cannot be read.
    #[error(
        "the content of the store is not known; open it first, or wait until it can be read again"
    )]
    NotLoaded,
    /// The content cannot be read: a newer version wrote it, or it is damaged.
    #[error("the store cannot be used: {0}")]
    Unreadable(String),
    /// The store failed for the reason in the source, e.g. an error of the operating system or the database.
    #[error("the store failed: {0}")]
    Failed(#[source] Arc<dyn StdError + Send + Sync>),
}

impl StoreError {
    /// Creates the error for a failed store.
    #[must_use]
    pub fn failed(reason: impl StdError + Send + Sync + 'static) -> Self {
        Self::Failed(Arc::new(reason))
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        let (code, message) = match &error {
            // Another change was applied before this change, or there is not enough room at the moment. Therefore a
            // retry can succeed.
            StoreError::Conflict { .. } | StoreError::TooOld | StoreError::Busy(_) => {
                (ErrorCode::RESOURCE_EXHAUSTED, error.to_string())
            }
            StoreError::Timeout(_) => (ErrorCode::TIMEOUT, error.to_string()),
            StoreError::Lost | StoreError::LogLost => {
                (ErrorCode::SERVER_NOT_READY, error.to_string())
            }
            // An operator must correct the cause, so the caller receives no details of it.
            _ => (
                ErrorCode::SERVER_NOT_READY,
                "the store cannot be used; the operator must check it".to_owned(),
            ),
        };
        Self::new(code, message).because(error)
    }
}
