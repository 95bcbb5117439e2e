//! A store that lives as long as its process.
//!
//! Applies to: both.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{Change, Loaded, PendingEvent, Record, Store, StoreError};
use crate::Payload;
use crate::service::BoxFuture;

/// How many removed records are remembered; whoever looks less often than that loads everything again.
const GONE_MAX: usize = 4096;

/// How many events may wait for their logs.
const PENDING_MAX: usize = 65_536;

/// Keeps records in memory; nothing survives the process.
#[derive(Clone)]
pub struct MemoryStore(Arc<Inner>);

struct Inner {
    kept: Mutex<Kept>,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    records: BTreeMap<(&'static str, String), (Payload, u64)>,
    /// Removed records with the revision that removed them, oldest first.
    gone: VecDeque<(&'static str, String, u64)>,
    /// The newest revision whose removals are no longer all known.
    forgotten: u64,
    revision: u64,
    pending: VecDeque<(String, PendingEvent)>,
    numbers: u64,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let (revision, _) = watch::channel(0);
        Self(Arc::new(Inner { kept: Mutex::default(), revision }))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({})", self.kept().records.len())
    }
}

impl Store for MemoryStore {
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<Loaded, StoreError>> {
        Box::pin(ready(Ok(self.kept().since(space, None))))
    }

    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<Loaded, StoreError>> {
        let kept = self.kept();
        if since < kept.forgotten {
            return Box::pin(ready(Err(StoreError::Forgotten)));
        }
        Box::pin(ready(Ok(kept.since(space, Some(since)))))
    }

    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>> {
        // The lock is held until the news is out, so that revisions are told in order.
        let mut kept = self.kept();
        let committed = kept.commit(change);
        if let Ok(revision) = committed {
            self.0.revision.send_replace(revision);
        }
        Box::pin(ready(committed))
    }

    fn revision(&self) -> watch::Receiver<u64> {
        self.0.revision.subscribe()
    }

    fn pending(
        &self,
        log: &str,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
        let kept = self.kept();
        let of_log = kept.pending.iter().filter(|(name, _)| name == log);
        let found = of_log.map(|(_, event)| event.clone()).take(most).collect();
        Box::pin(ready(Ok(found)))
    }

    fn settle(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        self.kept().pending.retain(|(name, event)| name != log || event.number > through);
        Box::pin(ready(Ok(())))
    }
}

impl Kept {
    fn since(&self, space: &'static str, since: Option<u64>) -> Loaded {
        let is_news = |revision: u64| since.is_none_or(|since| revision > since);
        let of_space = self.records.iter().filter(|((of, _), _)| *of == space);
        let mut records: Vec<Record> = of_space
            .filter(|(_, (_, revision))| is_news(*revision))
            .map(|((_, key), (value, revision))| {
                Record::new(key.clone(), Some(value.clone()), *revision)
            })
            .collect();
        if since.is_some() {
            let gone = self.gone.iter().filter(|(of, _, at)| *of == space && is_news(*at));
            records.extend(gone.map(|(_, key, at)| Record::new(key.clone(), None, *at)));
        }
        Loaded::new(self.revision, records)
    }

    fn commit(&mut self, change: Change) -> Result<u64, StoreError> {
        let Change { writes, expected, events } = change;
        for expected in expected {
            let found = self.records.get(&(expected.space, expected.key.clone()));
            if found.map(|(_, revision)| *revision) != expected.revision {
                return Err(StoreError::Conflict { space: expected.space, key: expected.key });
            }
        }
        if self.pending.len() + events.len() > PENDING_MAX {
            return Err(StoreError::Busy("no log takes the events that wait"));
        }
        self.revision += 1;
        let revision = self.revision;
        for write in writes {
            self.gone.retain(|(space, key, _)| *space != write.space || *key != write.key);
            let name = (write.space, write.key);
            match write.value {
                Some(value) => {
                    self.records.insert(name, (value, revision));
                }
                None if self.records.remove(&name).is_some() => {
                    self.gone.push_back((name.0, name.1, revision));
                }
                None => {}
            }
        }
        while self.gone.len() > GONE_MAX {
            if let Some((.., at)) = self.gone.pop_front() {
                self.forgotten = self.forgotten.max(at);
            }
        }
        for (log, event) in events {
            self.numbers += 1;
            self.pending.push_back((log, PendingEvent::new(self.numbers, event)));
        }
        Ok(revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Payload {
        Payload::from_trusted("1")
    }

    #[tokio::test]
    async fn a_change_that_expects_otherwise_changes_nothing() {
        let store = MemoryStore::new();
        let first = store.commit(Change::new().put("s", "a", one())).await.unwrap();
        let wrong = Change::new().put("s", "b", one()).expect("s", "a", None);
        assert!(matches!(store.commit(wrong).await, Err(StoreError::Conflict { .. })));
        assert_eq!(store.load("s").await.unwrap().records.len(), 1);
        let right = Change::new().remove("s", "a").expect("s", "a", Some(first));
        assert_eq!(store.commit(right).await.unwrap(), 2);
        assert_eq!(*store.revision().borrow(), 2);
    }

    #[tokio::test]
    async fn a_record_that_came_back_is_not_gone() {
        let store = MemoryStore::new();
        store.commit(Change::new().put("s", "a", one())).await.unwrap();
        store.commit(Change::new().remove("s", "a")).await.unwrap();
        store.commit(Change::new().put("s", "a", one())).await.unwrap();
        let changes = store.changes("s", 1).await.unwrap();
        assert_eq!(changes.records, [Record::new("a", Some(one()), 3)]);
        assert!(store.changes("other", 0).await.unwrap().records.is_empty());
    }

    #[tokio::test]
    async fn removals_are_remembered_for_a_while() {
        let store = MemoryStore::new();
        for number in 0..=GONE_MAX {
            let key = number.to_string();
            store.commit(Change::new().put("s", key.clone(), one())).await.unwrap();
            store.commit(Change::new().remove("s", key)).await.unwrap();
        }
        assert!(matches!(store.changes("s", 1).await, Err(StoreError::Forgotten)));
        assert_eq!(store.changes("s", 2).await.unwrap().records.len(), GONE_MAX);
    }
}
