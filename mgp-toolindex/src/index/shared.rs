//! What all handles of an index share: the current snapshot, and the one who may change it (MGP §16.4).
//!
//! Applies to: both.

#[cfg(feature = "sqlite")]
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use mgp_types::mgp::ServerState;

use super::change::Change;
use super::embedding::Embedding;
use super::limits::IndexLimits;
use super::sets::Sets;
use super::snapshot::Snapshot;
use super::writer::{Done, Writer};
use crate::embed::{Cost, Embedder};
use crate::error::IndexError;
use crate::keyword::{KeywordReader, Keywords, Merge};
use crate::learn::History;
#[cfg(feature = "sqlite")]
use crate::persist::Keeper;
use crate::text::Analyzer;
use crate::vector::VectorTable;

/// With so many segments a change waits until some are merged.
const MOST_SEGMENTS: usize = 40;

/// What all handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    now: RwLock<Arc<Snapshot>>,
    writer: Mutex<Writer>,
    pub(crate) sets: Sets,
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
        let mut change = Change::new(&mut writer, &now, &self.limits, &self.analyzer, embedder);
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
        let notes = change.notes.take();
        let Change { next, texts, server_texts, freed, servers_freed, .. } = change;
        self.publish(next);
        let now = self.snapshot();
        self.embedding.forget(&freed, &servers_freed);
        if self.is_costly() {
            self.embedding.add(self, &now, &texts, &server_texts);
        }
        #[cfg(feature = "sqlite")]
        self.keep(&now, notes.unwrap_or_default(), if self.is_costly() { &[] } else { &texts });
        // Whoever still searches the old snapshot does not meet the new owners of these numbers.
        writer.slots.give_back(freed);
        writer.servers.give_back(servers_freed);
        // The change is published: what fails now is no fault of it, and the next one tries again.
        if let Err(error) = self.tidy(&mut writer) {
            tracing::warn!(%error, "segments were not merged");
        }
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

    /// Merges segments where there are many, on a thread of its own.
    fn tidy(self: &Arc<Self>, writer: &mut Writer) -> Result<(), IndexError> {
        if let Some(merging) = &writer.merging {
            let segments = self.snapshot().keywords.as_ref().map_or(0, KeywordReader::segments);
            if segments >= MOST_SEGMENTS {
                merging.wait();
            }
            if !merging.is_set() {
                return Ok(());
            }
        }
        writer.merging = None;
        let Some(merge) = writer.keywords.as_mut().map(Keywords::merge).transpose()?.flatten()
        else {
            return Ok(());
        };
        let done = Arc::new(Done::default());
        writer.merging = Some(Arc::clone(&done));
        let index = Arc::downgrade(self);
        let wait = move |merge: Merge| {
            let merged = merge.wait();
            done.set();
            match merged {
                Ok(()) => {
                    if let Some(index) = index.upgrade() {
                        index.refresh();
                    }
                }
                Err(error) => tracing::debug!(%error, "segments were not merged"),
            }
        };
        // Without a thread the merge still happens, and the next change sees it.
        let thread = thread::Builder::new().name("mgp-index".to_owned());
        if let Err(error) = thread.spawn(move || wait(merge)) {
            tracing::debug!(%error, "no thread waits for merged segments");
            writer.merging = None;
        }
        Ok(())
    }

    /// Publishes what was merged, and merges on if there is more.
    fn refresh(self: &Arc<Self>) {
        let mut writer = self.writer();
        let Some(reader) = writer.keywords.as_mut().map(Keywords::refresh) else { return };
        match reader {
            Ok(reader) => {
                let mut next = Snapshot::clone(&self.snapshot());
                next.keywords = Some(reader);
                self.publish(next);
                if let Err(error) = self.tidy(&mut writer) {
                    tracing::debug!(%error, "segments were not merged");
                }
            }
            Err(error) => tracing::error!(%error, "merged segments cannot be read"),
        }
    }
}
