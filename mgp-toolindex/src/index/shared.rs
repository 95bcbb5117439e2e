//! The state that all handles of an index share: the current snapshot and the writer (MGP §16.4).

use std::collections::HashSet;
#[cfg(feature = "sqlite")]
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::thread;

use mgp_types::mgp::ServerState;
use mgp_types::sync::{Mutex, MutexGuard, RwLock};

use super::change::Change;
use super::embedding::EmbeddingQueue;
use super::limits::IndexLimits;
use super::set_values::SetValues;
use super::snapshot::Snapshot;
use super::tool_sets::ToolSets;
use super::writer::{IndexWriter, PendingMerge};
use crate::catalog::CategoryTree;
use crate::embed::{Cost, Embedder};
use crate::error::IndexError;
use crate::keyword::{KeywordReader, Merge};
use crate::learn::History;
#[cfg(feature = "sqlite")]
use crate::persist::IndexStore;
use crate::search::Figures;
use crate::text::Analyzer;
use crate::vector::VectorTable;

/// The number of keyword segments at which a change waits until a running merge has ended, because every segment makes
/// searches slower.
const MAX_SEGMENTS: usize = 40;

#[derive(Debug)]
pub(crate) struct SharedIndex {
    now: RwLock<Arc<Snapshot>>,
    writer: Mutex<IndexWriter>,
    pub(crate) sets: ToolSets,
    pub(super) trees: SetValues<CategoryTree>,
    /// The figures for the scores of a search, by the set of tools that a caller may find.
    pub(super) figures: SetValues<Figures>,
    pub(crate) analyzer: Analyzer,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) limits: IndexLimits,
    pub(crate) history: Option<History>,
    pub(super) embedding: EmbeddingQueue,
    /// The ids of removed servers. `resolve` still reserves names that begin with such an id, so that a tool of another
    /// server cannot be called by such a name.
    pub(super) removed: Mutex<HashSet<String>>,
    #[cfg(feature = "sqlite")]
    pub(super) store: Option<IndexStore>,
    /// The number of damaged tools in the database.
    #[cfg(feature = "sqlite")]
    pub(super) dropped: AtomicUsize,
}

impl SharedIndex {
    pub(super) fn new(embedder: Option<Arc<dyn Embedder>>, limits: IndexLimits) -> Self {
        let table = || embedder.as_ref().map(|embedder| VectorTable::new(embedder.dimensions()));
        let empty = Snapshot { vectors: table(), servers: table(), ..Snapshot::default() };
        Self {
            now: RwLock::new(Arc::new(empty)),
            writer: Mutex::new(IndexWriter::new()),
            sets: ToolSets::default(),
            trees: SetValues::default(),
            figures: SetValues::default(),
            analyzer: Analyzer::new(),
            embedder,
            limits,
            history: None,
            embedding: EmbeddingQueue::default(),
            removed: Mutex::default(),
            #[cfg(feature = "sqlite")]
            store: None,
            #[cfg(feature = "sqlite")]
            dropped: AtomicUsize::new(0),
        }
    }

    /// Sets the history. The embedder of the index computes the vectors of the history's queries.
    pub(super) fn set_history(&mut self, history: Option<History>) {
        if let Some(history) = &history {
            history.set_embedder(self.embedder.clone());
        }
        self.history = history;
    }

    /// Returns the current snapshot, which never changes.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.now.read())
    }

    /// Makes a change and publishes it, either completely or not at all.
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
        if self.store.is_some() {
            change.notes = Some(Vec::new());
        }
        let result = make(&mut change).and_then(|value| change.finish().map(|()| value));
        if result.is_err() || !change.has_changes {
            change.abort();
            return result;
        }
        let result = result?;
        #[cfg(feature = "sqlite")]
        let (notes, changed_documents) = (change.notes.take(), change.changed_documents);
        let Change { next, texts, server_texts, freed, servers_freed, .. } = change;
        self.publish(next);
        let now = self.snapshot();
        self.embedding.remove(&freed, &servers_freed);
        if self.is_costly() {
            self.embedding.add(self, &now, &texts, &server_texts);
        }
        #[cfg(feature = "sqlite")]
        {
            let embedded: &[_] = if self.is_costly() { &[] } else { &texts };
            self.store_changes(&now, notes.unwrap_or_default(), embedded);
            self.store_segments(&mut writer, &now, changed_documents);
        }
        // Release the slots only after the publication. Otherwise, searches in the old snapshot could find other tools
        // under these numbers.
        writer.slots.release(freed);
        writer.servers.release(servers_freed);
        self.start_merge(&mut writer);
        Ok(result)
    }

    pub(super) fn set_state(self: &Arc<Self>, server: &str, state: ServerState) {
        let changed = self.change(|change| {
            change.set_state(server, state);
            Ok(())
        });
        if let Err(error) = changed {
            tracing::error!(%error, server, "server state update failed");
        }
    }

    /// Publishes a snapshot with new vectors, which were computed in the background; nothing else changes.
    pub(crate) fn set_vectors(&self, change: impl FnOnce(&mut Snapshot)) {
        let _writer = self.writer();
        let mut next = Snapshot::clone(&self.snapshot());
        change(&mut next);
        next.content_version += 1;
        self.publish(next);
    }

    fn publish(&self, next: Snapshot) {
        let next = Arc::new(next);
        let mut now = self.now.write();
        let before = std::mem::replace(&mut *now, next);
        drop(now);
        // Drop the old snapshot only after the lock is released: dropping it can take long, and searches would wait.
        drop(before);
    }

    fn writer(&self) -> MutexGuard<'_, IndexWriter> {
        // Use the writer even if an earlier change panicked, because the panic can at most have leaked some slots.
        self.writer.lock()
    }

    /// Returns whether vectors are computed in the background, because the embedder is slow.
    pub(super) fn is_costly(&self) -> bool {
        self.embedder.as_ref().is_some_and(|embedder| embedder.cost() != Cost::Small)
    }

    /// Applies the result of a finished merge of keyword segments. Then starts another merge on a thread if there are
    /// too many segments.
    fn start_merge(self: &Arc<Self>, writer: &mut IndexWriter) {
        if let Some(pending_merge) = &writer.pending_merge {
            let segments = self.snapshot().keywords.as_ref().map_or(0, KeywordReader::segments);
            if segments < MAX_SEGMENTS && !pending_merge.is_done() {
                return;
            }
            if let Some(merged) = pending_merge.take() {
                let mut next = Snapshot::clone(&self.snapshot());
                next.keywords = Some(writer.keywords.refresh(merged));
                self.publish(next);
            }
            writer.pending_merge = None;
        }
        let Some(merge) = writer.keywords.merge() else { return };
        let pending_merge = Arc::new(PendingMerge::default());
        let worker =
            MergeWorker { pending_merge: Arc::clone(&pending_merge), index: Arc::downgrade(self) };
        let thread = thread::Builder::new().name("mgp-index-merge".to_owned());
        match thread.spawn(move || worker.run(merge)) {
            Ok(_) => writer.pending_merge = Some(pending_merge),
            // Only log the failure, because the next change tries to start the thread again.
            Err(error) => tracing::debug!(%error, "segment merge thread not started"),
        }
    }
}

/// The data of a merge thread. Its reference to the index is weak, so the thread does not keep the index alive.
struct MergeWorker {
    pending_merge: Arc<PendingMerge>,
    index: Weak<SharedIndex>,
}

impl MergeWorker {
    fn run(self, merge: Merge) {
        match merge.run() {
            Ok(merged) => self.pending_merge.finish(Some(merged)),
            Err(error) => {
                tracing::debug!(%error, "segment merge failed");
                return;
            }
        }
        if let Some(index) = self.index.upgrade() {
            let mut writer = index.writer();
            index.start_merge(&mut writer);
        }
    }
}

impl Drop for MergeWorker {
    fn drop(&mut self) {
        // The merge failed or panicked; wake the callers that wait for it.
        if !self.pending_merge.is_done() {
            self.pending_merge.finish(None);
        }
    }
}
