//! The index in a database: opening it, and storing each change (MGP §16.4).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{mem, thread};

use mgp_types::store::{Db, StoreError};
use tokio::sync::oneshot;

use super::builder::ToolIndexBuilder;
use super::change::{Change, Embedded, StoredTool};
use super::server_change::{PutTool, ServerChange};
use super::shared::SharedIndex;
use super::snapshot::Snapshot;
use super::tool_index::ToolIndex;
use super::writer::IndexWriter;
use crate::catalog::{Bitmap, IndexedTool, ServerEntry, Slot};
use crate::error::IndexError;
use crate::keyword::{self, Step};
use crate::persist::{
    self, IndexStore, LoadedIndex, LoadedServer, LoadedTool, LoadedVector, NewSegments, NewServer,
    NewTool, NewVector, ServerRow,
};
use crate::vector::VectorTable;

/// The minimum number of changed documents before the keyword segments are stored again. Fewer documents are indexed
/// again quickly when the index is opened.
const MIN_CHANGED_DOCUMENTS: usize = 1000;
/// The keyword segments are stored again only after at least one document in `CHANGED_FRACTION` has changed.
const CHANGED_FRACTION: usize = 8;

#[derive(Debug, Default)]
pub(super) struct RestoreResult {
    /// The number of damaged rows, plus the number of stored tools that the index refused.
    dropped: usize,
    /// The tools whose stored vectors are up to date.
    fresh: Bitmap,
}

impl ToolIndexBuilder {
    /// Opens the index of a database, and stores all later changes there.
    ///
    /// Changes are written to the database in the background, in order and each as a whole; [`ToolIndex::flush`] waits
    /// until all are written. After a crash, the database has the state after some change. Damaged tools are omitted
    /// and counted ([`IndexStats::dropped`](super::IndexStats::dropped)). Restored servers are disconnected until their
    /// state is set.
    ///
    /// If the index has at least a thousand tools, the keyword segments are stored too, with about 220 bytes per tool.
    /// They are stored again when an eighth of the tools has changed. Until then, the changed tools are indexed again
    /// whenever the index is opened.
    ///
    /// Several processes can use one database. A process sees the tools of other processes only after it opens the
    /// database again. If several processes put the same server, the last of them wins.
    ///
    /// ```
    /// use mgp_toolindex::{AllTools, Query, ServerEntry, ToolIndex};
    /// use mgp_types::RawObject;
    /// use mgp_types::mcp::Tool;
    /// use mgp_types::store::Db;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let db = Db::in_memory().await?;
    /// let index = ToolIndex::builder().open(db.clone()).await?;
    /// let tool = Tool::new("read_file".to_owned(), RawObject::empty());
    /// index.put(ServerEntry::new("files").tool(tool))?;
    /// index.flush().await?;
    ///
    /// let again = ToolIndex::builder().open(db).await?;
    /// let found = again.search(&Query::new("read a file"), &AllTools)?;
    /// assert_eq!(found.hits[0].tool.name(), "read_file");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Returns [`IndexError::Store`] if the database cannot be read, [`IndexError::Keywords`] if its contents cannot be
    /// indexed.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the database as it was.
    pub async fn open(self, db: Db) -> Result<ToolIndex, IndexError> {
        let (store, opened) = IndexStore::open(db).await?;
        self.restore(opened, Some(store)).await
    }

    /// Opens the index of a database without writing to it: later changes are not stored, and missing vectors are not
    /// computed. Only stored vectors of the embedder's model are used.
    ///
    /// Use it in a process that has no embedder or a different embedder, so that the stored vectors stay unchanged.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::open`].
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn open_read_only(self, db: Db) -> Result<ToolIndex, IndexError> {
        let opened = IndexStore::load(&db).await?;
        self.restore(opened, None).await
    }

    async fn restore(
        self,
        opened: LoadedIndex,
        store: Option<IndexStore>,
    ) -> Result<ToolIndex, IndexError> {
        let (sender, opened_index) = oneshot::channel();
        // Restore on a blocking thread: ten thousand tools take some hundred milliseconds, which is too long for a
        // thread of the runtime.
        let make = move || {
            let mut shared = self.shared();
            shared.store = store;
            let shared = Arc::new(shared);
            let restored = shared.restore(opened);
            drop(sender.send(restored.map(|()| ToolIndex { shared })));
        };
        let thread = thread::Builder::new().name("mgp-index-open".to_owned());
        thread.spawn(make).map_err(StoreError::failed)?;
        opened_index.await.map_err(StoreError::failed)?
    }
}

impl ToolIndex {
    /// Waits until all changes made so far are in the database; returns immediately for an index that is only in
    /// memory.
    ///
    /// # Errors
    /// Returns [`IndexError::Store`] if they cannot be written. The write is retried later.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn flush(&self) -> Result<(), IndexError> {
        match &self.shared.store {
            Some(store) => Ok(store.flush().await?),
            None => Ok(()),
        }
    }
}

impl SharedIndex {
    /// Stores exact token counts ([`Entry::count`](crate::catalog::Entry::count)) in the database.
    pub(crate) fn store_counts(&self, tools: Vec<IndexedTool>) {
        if let Some(store) = &self.store
            && !tools.is_empty()
        {
            store.push(vec![persist::Change::Counts(tools)]);
        }
    }
}

impl Change<'_> {
    pub(super) fn note_put(&mut self, given: ServerEntry, tools: Vec<PutTool>) {
        if let Some(notes) = &mut self.notes {
            let ServerEntry { id, name, description, categories, .. } = given;
            notes.push(ServerChange::Put(ServerRow { id, name, description, categories }, tools));
        }
    }

    pub(super) fn note_remove(&mut self, id: &str) {
        if let Some(notes) = &mut self.notes {
            notes.push(ServerChange::Remove(id.to_owned()));
        }
    }

    /// Queues the restoration of a tool's stored document in the keyword index; returns `false` if no document is
    /// stored.
    pub(super) fn restore_document(&mut self, slot: Slot, hash: &[u8; 16]) -> bool {
        let Some(at) = self.writer.keywords.take_stored(hash) else { return false };
        self.step(Step::Restore(slot, at));
        self.changed_documents -= 1;
        true
    }

    fn load_segments(&mut self, opened: &mut LoadedIndex) {
        let key = keyword::key(self.limits.bounds());
        let tools = opened.servers.iter().flat_map(|server| &server.tools);
        let known_hashes = tools.map(|tool| tool.hash).collect();
        let segments =
            mem::take(&mut opened.words).into_iter().filter(|(segment_key, _)| *segment_key == key);
        let segments = segments.map(|(_, segment)| segment).collect();
        self.writer.keywords.restore(&key, segments, &known_hashes);
    }

    fn restore(&mut self, mut opened: LoadedIndex, model: Option<&str>) -> RestoreResult {
        self.load_segments(&mut opened);
        let mut restored = RestoreResult { dropped: opened.unreadable, ..RestoreResult::default() };
        for LoadedServer { server, tools } in opened.servers {
            let mut entry = server.into_entry();
            let mut stored = Vec::with_capacity(tools.len());
            for mut tool in tools {
                match tool.take_entry() {
                    Some(given) => {
                        entry.tools.push(given);
                        stored.push(tool);
                    }
                    None => restored.dropped += 1,
                }
            }
            self.restore_server(entry, stored, model, &mut restored);
        }
        restored
    }

    fn restore_server(
        &mut self,
        entry: ServerEntry,
        mut stored: Vec<LoadedTool>,
        model: Option<&str>,
        restored: &mut RestoreResult,
    ) {
        let id = entry.id.clone();
        let names: Vec<_> = entry.tools.iter().map(|tool| tool.tool.name.clone()).collect();
        let dimensions = self.next.vectors.as_ref().map(VectorTable::dimensions);
        // Use only vectors of the current model; vectors of another model stay in the database until they are replaced.
        let fits = |vector: &LoadedVector| {
            Some(&*vector.model) == model && Some(vector.row.len()) == dimensions
        };
        let known = |tool: &mut LoadedTool| {
            let mut vector = tool.vector.iter().filter(|vector| fits(vector));
            let is_fresh = vector.any(|vector| vector.hash == tool.hash);
            let embedded = if is_fresh { Embedded::Yes } else { Embedded::No };
            StoredTool { definition: mem::take(&mut tool.definition), hash: tool.hash, embedded }
        };
        let known: Vec<_> = stored.iter_mut().map(known).collect();
        let embedded: Vec<_> = known.iter().map(|known| known.embedded).collect();
        let put = self.put_stored(entry, known);
        restored.dropped += put.refused.len();
        for ((name, tool), embedded) in names.iter().zip(stored).zip(embedded) {
            let Some(slot) = self.next.catalog.find(&id, name) else { continue };
            if let (Some(tokens), Some(entry)) = (tool.tokens, self.next.catalog.entry(slot)) {
                entry.count(tokens);
            }
            let Some(vector) = tool.vector.filter(fits) else { continue };
            if let Some(vectors) = &mut self.next.vectors {
                vectors.restore(slot, &vector.row);
            }
            if embedded == Embedded::Yes {
                restored.fresh.set(slot);
            }
        }
    }
}

impl SharedIndex {
    fn restore(self: &Arc<Self>, opened: LoadedIndex) -> Result<(), IndexError> {
        let model = self.embedder.as_ref().map(|embedder| embedder.model());
        let dropped = self.change(|change| {
            // Do not write the restored tools again, because they are already in the database.
            change.notes = None;
            let restored = change.restore(opened, model);
            change.texts.retain(|slot| !restored.fresh.contains(*slot));
            if self.store.is_none() {
                // Do not compute missing vectors, because the index was opened only for reading.
                change.texts.clear();
                change.sentences.clear();
            }
            Ok(restored.dropped)
        })?;
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "damaged tools of the stored index are left out until they are put again"
            );
        }
        self.dropped.store(dropped, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn store_changes(
        &self,
        now: &Snapshot,
        notes: Vec<ServerChange>,
        embedded: &[Slot],
    ) {
        let Some(store) = &self.store else { return };
        let changes = notes.into_iter().map(|note| match note {
            ServerChange::Remove(id) => persist::Change::Remove(id),
            ServerChange::Put(server, tools) => {
                let tools = tools.into_iter().filter_map(|given| {
                    let PutTool { slot, mode, categories, keywords } = given;
                    let tool = now.catalog.listed(slot)?;
                    Some(NewTool { mode, slot, tool, categories, keywords })
                });
                persist::Change::Put(NewServer { server, tools: tools.collect() })
            }
        });
        let vectors = self.vectors(now, embedded.iter().copied());
        store.push(changes.chain(vectors).collect());
    }

    /// Stores the segments of the keyword index, if enough documents have changed.
    pub(super) fn store_segments(
        &self,
        writer: &mut IndexWriter,
        now: &Snapshot,
        changed_documents: usize,
    ) {
        let (Some(store), Some(keywords)) = (&self.store, &now.keywords) else { return };
        writer.unstored_documents += changed_documents;
        if writer.unstored_documents
            < MIN_CHANGED_DOCUMENTS.max(now.catalog.len() / CHANGED_FRACTION)
        {
            return;
        }
        writer.unstored_documents = 0;
        let (keywords, catalog) = (keywords.clone(), now.catalog.clone());
        let key = keyword::key(self.limits.bounds());
        let segment_key = key.clone();
        let make = Box::new(move || keywords.save(&segment_key, &catalog));
        store.push(vec![persist::Change::Segments(NewSegments { key, make })]);
    }

    /// Stores vectors that were computed in the background.
    pub(super) fn store_vectors(&self, now: &Snapshot, slots: impl Iterator<Item = Slot>) {
        let Some(store) = &self.store else { return };
        store.push(self.vectors(now, slots).into_iter().collect());
    }

    fn vectors(
        &self,
        now: &Snapshot,
        slots: impl Iterator<Item = Slot>,
    ) -> Option<persist::Change> {
        let model: Arc<str> = self.embedder.as_ref()?.model().into();
        let table = now.vectors.as_ref()?;
        let vectors: Vec<_> = slots
            .filter_map(|slot| {
                let (tool, row) = (now.catalog.listed(slot)?, table.row(slot)?.into());
                Some(NewVector { tool, model: Arc::clone(&model), row })
            })
            .collect();
        (!vectors.is_empty()).then_some(persist::Change::Vectors(vectors))
    }
}
