//! What all handles of an index share: the current snapshot, and the one who may change it (MGP §16.4).
//!
//! Applies to: both.

#[cfg(feature = "sqlite")]
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread;

use mgp_types::mgp::ServerState;

use super::change::Change;
use super::embedding::Embedding;
use super::limits::IndexLimits;
use super::sets::Sets;
use super::snapshot::Snapshot;
use super::trees::Trees;
use super::writer::{Merging, Writer};
use crate::embed::{Cost, Embedder};
use crate::error::IndexError;
use crate::keyword::{KeywordReader, Merge};
use crate::learn::History;
#[cfg(feature = "sqlite")]
use crate::persist::Keeper;
use crate::text::Analyzer;
use crate::vector::VectorTable;

/// With so many parts a change waits until some are made one.
const MOST_PARTS: usize = 40;

/// What all handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    now: RwLock<Arc<Snapshot>>,
    writer: Mutex<Writer>,
    pub(crate) sets: Sets,
    pub(super) trees: Trees,
    pub(crate) analyzer: Analyzer,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) limits: IndexLimits,
    pub(crate) history: Option<History>,
    pub(super) embedding: Embedding,
    #[cfg(feature = "sqlite")]
    pub(super) keeper: Option<Keeper>,
    /// What the database had that could not be used.
    #[cfg(feature = "sqlite")]
    pub(super) dropped: AtomicUsize,
}

impl Shared {
    pub(super) fn new(embedder: Option<Arc<dyn Embedder>>, limits: IndexLimits) -> Self {
        let table = || embedder.as_ref().map(|embedder| VectorTable::new(embedder.dimensions()));
        let empty = Snapshot { vectors: table(), servers: table(), ..Snapshot::default() };
        Self {
            now: RwLock::new(Arc::new(empty)),
            writer: Mutex::new(Writer::new()),
            sets: Sets::default(),
            trees: Trees::default(),
            analyzer: Analyzer::new(),
            embedder,
            limits,
            history: None,
            embedding: Embedding::default(),
            #[cfg(feature = "sqlite")]
            keeper: None,
            #[cfg(feature = "sqlite")]
            dropped: AtomicUsize::new(0),
        }
    }

    /// Learns from a history, whose queries get vectors of the same embedder.
    pub(super) fn learn(&mut self, history: Option<History>) {
        if let Some(history) = &history {
            history.embed_with(self.embedder.clone());
        }
        self.history = history;
    }

    /// The index as it is now; it stays so for whoever has it.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a change and publishes it, or nothing of it.
    pub(super) fn change<T>(
        self: &Arc<Self>,
        make: impl FnOnce(&mut Change<'_>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut writer = self.writer();
        let embedder = self.embedder.as_deref().filter(|_| !self.is_costly());
        let now = self.snapshot();
        let mut change = Change::new(&mut writer, &now, &self.limits, embedder);
        drop(now);
        #[cfg(feature = "sqlite")]
        if self.keeper.is_some() {
            change.notes = Some(Vec::new());
        }
        let made = make(&mut change).and_then(|made| change.finish().map(|()| made));
        if made.is_err() || !change.is_any {
            change.abort();
            return made;
        }
        let made = made?;
        #[cfg(feature = "sqlite")]
        let (notes, worded) = (change.notes.take(), change.worded);
        let Change { next, texts, server_texts, freed, servers_freed, .. } = change;
        self.publish(next);
        let now = self.snapshot();
        self.embedding.forget(&freed, &servers_freed);
        if self.is_costly() {
            self.embedding.add(self, &now, &texts, &server_texts);
        }
        #[cfg(feature = "sqlite")]
        {
            let embedded: &[_] = if self.is_costly() { &[] } else { &texts };
            self.keep(&now, notes.unwrap_or_default(), embedded);
            self.keep_words(&mut writer, &now, worded);
        }
        // Whoever still searches the old snapshot does not meet the new owners of these numbers.
        writer.slots.give_back(freed);
        writer.servers.give_back(servers_freed);
        self.tidy(&mut writer);
        Ok(made)
    }

    /// Notes the state of a server.
    pub(super) fn set_state(self: &Arc<Self>, server: &str, state: ServerState) {
        let changed = self.change(|change| {
            change.set_state(server, state);
            Ok(())
        });
        if let Err(error) = changed {
            tracing::error!(%error, server, "the state of a server was not noted");
        }
    }

    /// Changes vectors alone, as embedding in the background does.
    pub(crate) fn set_vectors(&self, change: impl FnOnce(&mut Snapshot)) {
        let _writer = self.writer();
        let mut next = Snapshot::clone(&self.snapshot());
        change(&mut next);
        self.publish(next);
    }

    fn publish(&self, next: Snapshot) {
        let next = Arc::new(next);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *now, next);
        drop(now);
        // Readers do not wait while the old one is taken apart.
        drop(before);
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic within a change leaves numbers that nobody has, and nothing else.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether vectors are made in the background.
    fn is_costly(&self) -> bool {
        self.embedder.as_ref().is_some_and(|embedder| embedder.cost() != Cost::Small)
    }

    /// Makes one of many parts, on a thread of its own.
    fn tidy(self: &Arc<Self>, writer: &mut Writer) {
        if let Some(merging) = &writer.merging {
            let parts = self.snapshot().keywords.as_ref().map_or(0, KeywordReader::parts);
            if parts < MOST_PARTS && !merging.is_done() {
                return;
            }
            if let Some(merged) = merging.take() {
                let mut next = Snapshot::clone(&self.snapshot());
                next.keywords = Some(writer.keywords.refresh(merged));
                self.publish(next);
            }
            writer.merging = None;
        }
        let Some(merge) = writer.keywords.merge() else { return };
        let merging = Arc::new(Merging::default());
        let worker = Worker { merging: Arc::clone(&merging), index: Arc::downgrade(self) };
        let thread = thread::Builder::new().name("mgp-index-merge".to_owned());
        match thread.spawn(move || worker.run(merge)) {
            Ok(_) => writer.merging = Some(merging),
            // The next change tries again.
            Err(error) => tracing::debug!(%error, "no thread makes one of many parts"),
        }
    }
}

/// The thread that makes one of many parts; it does not keep the index alive.
struct Worker {
    merging: Arc<Merging>,
    index: Weak<Shared>,
}

// === impl Worker ===

impl Worker {
    fn run(self, merge: Merge) {
        match merge.run() {
            Ok(merged) => self.merging.end(Some(merged)),
            Err(error) => {
                tracing::debug!(%error, "parts were not made one");
                return;
            }
        }
        if let Some(index) = self.index.upgrade() {
            let mut writer = index.writer();
            index.tidy(&mut writer);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Whoever waits must not wait for a thread that failed.
        if !self.merging.is_done() {
            self.merging.end(None);
        }
    }
}
