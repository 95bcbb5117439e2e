//! A store in memory.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::sync::Arc;

use tokio::sync::watch;

use super::{
    Change, LoadedRecords, MAX_PENDING, MAX_REMOVALS, PENDING_FULL, PendingEvent, Record, Store,
    StoreError,
};
use crate::Payload;
use crate::service::BoxFuture;
use crate::sync::Mutex;

/// A store in memory; its content is lost when the last handle is dropped.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    data: Mutex<MemoryData>,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct MemoryData {
    records: BTreeMap<(&'static str, String), (Payload, u64)>,
    /// The removed records: the space and the key of each, and the revision that removed it; oldest first.
    gone: VecDeque<(&'static str, String, u64)>,
    /// The newest revision among the removals that were dropped from `gone`. Changes since an older revision cannot be
    /// listed any more.
    forgotten: u64,
    revision: u64,
    pending: VecDeque<(String, PendingEvent)>,
    numbers: u64,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        let (revision, _) = watch::channel(0);
        Self(Arc::new(Shared { data: Mutex::default(), revision }))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

crate::opaque_debug!(MemoryStore);

impl Store for MemoryStore {
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        Box::pin(ready(Ok(self.0.data.lock().since(space, None))))
    }

    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        let data = self.0.data.lock();
        if since < data.forgotten {
            return Box::pin(ready(Err(StoreError::TooOld)));
        }
        Box::pin(ready(Ok(data.since(space, Some(since)))))
    }

    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>> {
        // Hold the lock until subscribers are notified, so that revisions are reported in order.
        let mut data = self.0.data.lock();
        let committed = data.commit(change);
        if let Ok(revision) = committed {
            self.0.revision.send_replace(revision);
        }
        Box::pin(ready(committed))
    }

    fn revision(&self) -> watch::Receiver<u64> {
        self.0.revision.subscribe()
    }

    fn pending_events(
        &self,
        log: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
        let data = self.0.data.lock();
        let of_log = data.pending.iter().filter(|(name, _)| name == log);
        let found = of_log.map(|(_, event)| event.clone()).take(limit).collect();
        Box::pin(ready(Ok(found)))
    }

    fn acknowledge(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        self.0.data.lock().pending.retain(|(name, event)| name != log || event.number > through);
        Box::pin(ready(Ok(())))
    }
}

impl MemoryData {
    fn since(&self, space: &'static str, since: Option<u64>) -> LoadedRecords {
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
        LoadedRecords::new(self.revision, records)
    }

    fn commit(&mut self, change: Change) -> Result<u64, StoreError> {
        let Change { writes, expected, events } = change;
        for expected in expected {
            let found = self.records.get(&(expected.space, expected.key.clone()));
            if found.map(|(_, revision)| *revision) != expected.revision {
                return Err(StoreError::Conflict { space: expected.space, key: expected.key });
            }
        }
        if self.pending.len() + events.len() > MAX_PENDING {
            return Err(PENDING_FULL);
        }
        self.revision += 1;
        let revision = self.revision;
        for write in writes {
            let name = (write.space, write.key);
            match write.value {
                Some(value) => {
                    self.gone.retain(|(space, key, _)| *space != name.0 || *key != name.1);
                    self.records.insert(name, (value, revision));
                }
                None if self.records.remove(&name).is_some() => {
                    self.gone.push_back((name.0, name.1, revision));
                }
                None => {}
            }
        }
        while self.gone.len() > MAX_REMOVALS {
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
