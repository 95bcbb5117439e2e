//! State that outlives a call: records by space and key, changed together with their audit events.
//!
//! Code that keeps state writes through a [`Store`] and decides from its own snapshot;
//! [`Store::revision`] notifies it of changes by others.

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
/// The SQLite library behind [`Db`], for closures given to [`Db::read`] and [`Db::write`].
#[cfg(feature = "sqlite")]
pub use rusqlite as sql;
#[cfg(feature = "sqlite")]
pub use sqlite::{Db, DbConfig, DbError, Durability};
pub use timeout::with_timeout;

/// The maximum number of remembered removals; a reader that lags further behind must load everything again.
const MAX_REMOVALS: usize = 4096;

/// The maximum number of events that wait for their logs; a change with more events is refused as [`PENDING_FULL`].
const MAX_PENDING: usize = 65_536;

/// A change whose events cannot be stored is refused.
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
// Not `async`: an operation is queued when its method is called, so that operations keep the order of the calls.
pub trait Store: Send + Sync {
    /// Returns all records of a space.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be read.
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<LoadedRecords, StoreError>>;

    /// Returns the changes in a space after a revision; removed records have no value.
    ///
    /// # Errors
    /// Returns [`StoreError::TooOld`] if the revision is too old, else the error of reading the store.
    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<LoadedRecords, StoreError>>;

    /// Applies a change as a whole, and returns its revision once it is stored.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if an expectation failed, else the error of writing the store.
    ///
    /// # Cancel safety
    /// The change is handed over before the future is returned; if the future is dropped, it may or may not be applied.
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// Returns a receiver of the newest known revision; it changes with every change by this process or another.
    fn revision(&self) -> watch::Receiver<u64>;

    /// Returns the events that were committed for an audit log and not yet consumed by it, oldest first.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be read.
    fn pending_events(
        &self,
        log: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>>;

    /// Removes the pending events of a log up to and including a number.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be written.
    fn acknowledge(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Returns the time a caller waits for an answer before it gets [`StoreError::Timeout`]; 500 ms by default.
    fn answer_timeout(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// The name in its space.
    pub key: String,
    /// The value; `None` if the record was removed.
    pub value: Option<Payload>,
    /// The revision that wrote it.
    pub revision: u64,
}

impl Record {
    /// Creates a record as a store returns it.
    #[must_use]
    pub fn new(key: impl Into<String>, value: Option<Payload>, revision: u64) -> Self {
        Self { key: key.into(), value, revision }
    }
}

/// Records as of a revision.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoadedRecords {
    /// The newest revision included.
    pub revision: u64,
    /// The records, in any order.
    pub records: Vec<Record>,
}

impl LoadedRecords {
    /// Creates a set of records as of a revision.
    #[must_use]
    pub fn new(revision: u64, records: Vec<Record>) -> Self {
        Self { revision, records }
    }
}

/// A change, applied as a whole or not at all.
#[derive(Clone, Debug, Default)]
#[must_use = "a change does nothing until it is committed"]
pub struct Change {
    /// Records to write, or to remove if there is no value.
    pub(crate) writes: Vec<Write>,
    /// Expectations about records; if one fails, nothing is changed.
    pub(crate) expected: Vec<Expectation>,
    /// Events about the change, and the logs that consume them.
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
    /// The revision that wrote the record; `None` if it must not exist.
    pub(crate) revision: Option<u64>,
}

impl Change {
    /// Creates an empty change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record to write.
    pub fn put(mut self, space: &'static str, key: impl Into<String>, value: Payload) -> Self {
        self.writes.push(Write { space, key: key.into(), value: Some(value) });
        self
    }

    /// Adds a record to remove; removing an absent one is not an error.
    pub fn remove(mut self, space: &'static str, key: impl Into<String>) -> Self {
        self.writes.push(Write { space, key: key.into(), value: None });
        self
    }

    /// Makes the change depend on the revision of a record, or on its absence.
    pub fn expect_revision(
        mut self,
        space: &'static str,
        key: impl Into<String>,
        revision: Option<u64>,
    ) -> Self {
        self.expected.push(Expectation { space, key: key.into(), revision });
        self
    }

    /// Adds an event for an audit log, which consumes it later; it is stored together with the change.
    pub fn event(mut self, log: impl Into<String>, event: AuditEvent) -> Self {
        self.events.push((log.into(), event));
        self
    }

    /// Returns the records of a space that the change writes: their keys, and whether they exist afterwards.
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

/// An event that waits for its audit log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PendingEvent {
    /// The number, which only grows within a store and is never reused.
    pub number: u64,
    /// The event.
    pub event: AuditEvent,
}

impl PendingEvent {
    /// Creates an event with a number.
    #[must_use]
    pub fn new(number: u64, event: AuditEvent) -> Self {
        Self { number, event }
    }
}

/// The error of a store operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A record is not as expected; read it again and decide again.
    #[error("`{key}` in `{space}` was changed concurrently")]
    Conflict {
        /// The space.
        space: &'static str,
        /// The record.
        key: String,
    },
    /// The changes since that revision are no longer known; load everything again.
    #[error("changes that old are forgotten; load everything again")]
    TooOld,
    /// The store is full, or too many operations wait for it.
    #[error("the store is busy: {0}")]
    Busy(&'static str),
    /// There was no answer in time; the change may still be stored, now or later.
    #[error(
        "the store did not answer within {0:?}; the change may still be kept, so read again before retrying"
    )]
    Timeout(Duration),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The content of the store is not known: the store was not opened yet, or could not be read.
    #[error(
        "the content of the store is not known; open it first, or wait until it can be read again"
    )]
    NotLoaded,
    /// The content cannot be read: a newer version wrote it, or it is damaged.
    #[error("the store cannot be used: {0}")]
    Unreadable(String),
    /// The system reported an error.
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
            // Another change was first, or there is no room now: a retry helps.
            StoreError::Conflict { .. } | StoreError::TooOld | StoreError::Busy(_) => {
                (ErrorCode::RESOURCE_EXHAUSTED, error.to_string())
            }
            StoreError::Timeout(_) => (ErrorCode::TIMEOUT, error.to_string()),
            // The operator must act; the details are not shown to callers.
            _ => (
                ErrorCode::SERVER_NOT_READY,
                "the store cannot be used; the operator must check it".to_owned(),
            ),
        };
        Self::new(code, message).because(error)
    }
}
