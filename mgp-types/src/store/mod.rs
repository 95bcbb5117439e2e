//! State that outlives a call: records by space and key, changed together with the events that tell of it (DESIGN §6).
//!
//! Whoever keeps state writes through a [`Store`] and decides from a snapshot of its own;
//! [`Store::revision`] wakes it when somebody else changed something.

mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod tests;
mod within;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::mgp::AuditEvent;
use crate::service::BoxFuture;
use crate::{ErrorCode, Payload, RpcError};

pub use memory::MemoryStore;
/// The SQLite that a [`Db`] is made of, for closures given to [`Db::read`] and [`Db::write`].
#[cfg(feature = "sqlite")]
pub use rusqlite as sql;
#[cfg(feature = "sqlite")]
pub use sqlite::{Db, DbConfig, DbFault, Durability};
pub use within::within;

/// How many removed records a store remembers; whoever looks less often than that loads everything again.
const GONE_MAX: usize = 4096;

/// How many events may wait for their logs; changes that tell of more are refused as [`PENDING_FULL`].
const PENDING_MAX: usize = 65_536;

/// Nothing is changed that could not be told.
const PENDING_FULL: StoreError = StoreError::Busy("no log takes the events that wait");

/// Keeps records, in memory or in a file that several processes share.
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
pub trait Store: Send + Sync {
    /// All records of a space.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<Loaded, StoreError>>;

    /// What changed in a space after a revision; records that are gone have no value.
    ///
    /// # Errors
    /// [`StoreError::Forgotten`] when that is too long ago; else the store cannot be read.
    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<Loaded, StoreError>>;

    /// Applies a change, all of it or nothing, and answers with its revision once it is kept.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when something was expected otherwise; else the store cannot be written.
    ///
    /// # Cancel safety
    /// The change is handed over before the future is returned; dropping it leaves open whether it was applied.
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// The newest revision known here; it moves with every change, of this process and of others.
    fn revision(&self) -> watch::Receiver<u64>;

    /// Events that were committed for an audit log and not yet taken by it, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    fn pending(
        &self,
        log: &str,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>>;

    /// Forgets the pending events of a log up to and including a number.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be written.
    fn settle(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>>;

    /// How long whoever serves a caller waits for an answer; then that caller is told [`StoreError::Late`]. 500 ms.
    fn answers_within(&self) -> Duration {
        Duration::from_millis(500)
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Its name in its space.
    pub key: String,
    /// What it says; none once it is gone.
    pub value: Option<Payload>,
    /// The revision that wrote it.
    pub revision: u64,
}

impl Record {
    /// A record as a store keeps it.
    #[must_use]
    pub fn new(key: impl Into<String>, value: Option<Payload>, revision: u64) -> Self {
        Self { key: key.into(), value, revision }
    }
}

/// Records, and the revision they stand at.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Loaded {
    /// The newest revision that is in them.
    pub revision: u64,
    /// The records, in no order.
    pub records: Vec<Record>,
}

impl Loaded {
    /// Records as of a revision.
    #[must_use]
    pub fn new(revision: u64, records: Vec<Record>) -> Self {
        Self { revision, records }
    }
}

/// What is to be changed, all of it or nothing.
#[derive(Clone, Debug, Default)]
#[must_use = "a change does nothing until it is committed"]
pub struct Change {
    /// Records to write, or to remove where there is no value.
    pub(crate) writes: Vec<Write>,
    /// Records that must be as they are said to be, or nothing is changed.
    pub(crate) expected: Vec<Expected>,
    /// Events that tell of the change, and the log that is to take them.
    pub(crate) events: Vec<(String, AuditEvent)>,
}

/// One record to write.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) space: &'static str,
    pub(crate) key: String,
    pub(crate) value: Option<Payload>,
}

/// What is expected of one record.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) space: &'static str,
    pub(crate) key: String,
    /// The revision that wrote it; none where there must be no such record.
    pub(crate) revision: Option<u64>,
}

impl Change {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a record.
    pub fn put(mut self, space: &'static str, key: impl Into<String>, value: Payload) -> Self {
        self.writes.push(Write { space, key: key.into(), value: Some(value) });
        self
    }

    /// Removes a record; removing what is not there is no error.
    pub fn remove(mut self, space: &'static str, key: impl Into<String>) -> Self {
        self.writes.push(Write { space, key: key.into(), value: None });
        self
    }

    /// Makes the change depend on a record: on the revision that wrote it, or on there being none.
    pub fn expect(
        mut self,
        space: &'static str,
        key: impl Into<String>,
        revision: Option<u64>,
    ) -> Self {
        self.expected.push(Expected { space, key: key.into(), revision });
        self
    }

    /// Adds an event for an audit log, which takes it from the store later: it is kept if the change is.
    pub fn event(mut self, log: impl Into<String>, event: AuditEvent) -> Self {
        self.events.push((log.into(), event));
        self
    }

    /// The records of a space that it writes, by key, and whether there is one afterwards.
    pub fn writes_to(&self, space: &str) -> impl Iterator<Item = (&str, bool)> {
        let of_space = self.writes.iter().filter(move |write| write.space == space);
        of_space.map(|write| (write.key.as_str(), write.value.is_some()))
    }

    /// Whether there is nothing to change and nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.events.is_empty()
    }
}

/// An event that waits for its audit log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PendingEvent {
    /// Its number; it grows within a store and is never used again.
    pub number: u64,
    /// The event.
    pub event: AuditEvent,
}

impl PendingEvent {
    /// An event under a number.
    #[must_use]
    pub fn new(number: u64, event: AuditEvent) -> Self {
        Self { number, event }
    }
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A record is not as it was expected; read again and decide anew.
    #[error("`{key}` in `{space}` was changed meanwhile")]
    Conflict {
        /// The space.
        space: &'static str,
        /// The record.
        key: String,
    },
    /// What happened since that revision is no longer known: load everything again.
    #[error("changes that long ago are forgotten: load everything again")]
    Forgotten,
    /// The store is full, or too many wait for it.
    #[error("the store is busy: {0}")]
    Busy(&'static str),
    /// It did not answer in time; what it was given may still be kept, now or later.
    #[error(
        "the store did not answer within {0:?}; what it was given may still be kept: look before you try again"
    )]
    Late(Duration),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Nobody has read what is in the store: it was not opened yet, or could not be read when it was.
    #[error("what the store holds is not known: open it first, or wait until it can be read again")]
    Unread,
    /// What is in the store cannot be read: a newer version wrote it, or it is damaged.
    #[error("the store cannot be used: {0}")]
    Unreadable(String),
    /// The system refused.
    #[error("the store failed: {0}")]
    Failed(#[source] Arc<dyn StdError + Send + Sync>),
}

impl StoreError {
    /// The store failed for a reason.
    #[must_use]
    pub fn failed(reason: impl StdError + Send + Sync + 'static) -> Self {
        Self::Failed(Arc::new(reason))
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        let (code, message) = match &error {
            // Somebody else was first, or there is no room now: trying again helps.
            StoreError::Conflict { .. } | StoreError::Forgotten | StoreError::Busy(_) => {
                (ErrorCode::RESOURCE_EXHAUSTED, error.to_string())
            }
            StoreError::Late(_) => (ErrorCode::TIMEOUT, error.to_string()),
            // Whoever runs this must look; what they find there is no caller's business.
            _ => (
                ErrorCode::SERVER_NOT_READY,
                "the store cannot be used; whoever runs the server must look at it".to_owned(),
            ),
        };
        Self::new(code, message).because(error)
    }
}
