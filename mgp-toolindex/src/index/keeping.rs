//! The index in a database: what each change says to the one who writes, and how an index is opened (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{mem, thread};

use mgp_types::store::{Db, StoreError};
use tokio::sync::oneshot;

use super::builder::ToolIndexBuilder;
use super::change::{Change, Embedded, Kept};
use super::shared::Shared;
use super::snapshot::Snapshot;
use super::tool_index::ToolIndex;
use super::writer::Writer;
use crate::catalog::{Bitmap, Listed, ServerEntry, Slot, ToolEntry};
use crate::error::IndexError;
use crate::keyword::{self, Step};
use crate::persist::{
    self, Keeper, NewServer, NewTool, NewVector, NewWords, News, OldServer, OldTool, OldVector,
    Opened, ServerRow,
};
use crate::vector::VectorTable;

/// Words are kept anew when those of so many tools are others, and one of so many; fewer are made as soon as read.
const MANY_WORDS: usize = 1000;
const OF_WORDS: usize = 8;

/// What a change did, for whoever keeps the index.
#[derive(Debug)]
pub(super) enum Note {
    /// A server was put in, with these tools.
    Put(ServerRow, Vec<Given>),
    /// A server was taken out.
    Remove(String),
}

/// What a tool was given that its entry does not tell.
#[derive(Debug)]
pub(super) struct Given {
    slot: Slot,
    news: News,
    categories: Vec<String>,
    keywords: Vec<String>,
}

/// An index as it was kept, on its way back.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// Rows that could not be read, or were not what they had been.
    dropped: usize,
    /// Vectors that are of their tools as they are.
    fresh: Bitmap,
}

impl Given {
    pub(super) fn take(slot: Slot, news: News, tool: &mut ToolEntry) -> Self {
        let categories = mem::take(&mut tool.categories);
        Self { slot, news, categories, keywords: mem::take(&mut tool.keywords) }
    }
}

impl ToolIndexBuilder {
    /// Opens the index that a database keeps, and keeps it there from now on.
    ///
    /// Each change is written whole and in its order, in the background: [`ToolIndex::flush`] waits for that. After a
    /// crash the database has the index as it was after one of them. Tools that are damaged there are left out and
    /// counted ([`Stats::dropped`](super::Stats::dropped)). Servers come back as disconnected, until somebody says
    /// otherwise.
    ///
    /// The words of a thousand tools and more are kept too, some 220 bytes a tool, and written anew when an eighth of
    /// the tools are other ones; those of tools that are not what they were are made when the index is opened.
    ///
    /// Several processes may use one database. What one puts in, the others find when they open it again; of a server
    /// that several put in, what the last one wrote is kept.
    ///
    /// ```
    /// use mgp_toolindex::{Everything, Query, ServerEntry, ToolIndex};
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
    /// let found = again.search(&Query::new("read a file"), &Everything)?;
    /// assert_eq!(found.hits[0].tool.name(), "read_file");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`IndexError::Store`] if the database cannot be read, [`IndexError::Keywords`] if what it has cannot be indexed.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the database as it was.
    pub async fn open(self, db: Db) -> Result<ToolIndex, IndexError> {
        let (keeper, opened) = Keeper::open(db).await?;
        let (tell, told) = oneshot::channel();
        // Some hundred milliseconds for ten thousand tools: no runtime should wait that long.
        let make = move || {
            let mut shared = self.shared();
            shared.keeper = Some(keeper);
            let shared = Arc::new(shared);
            let restored = shared.restore(opened);
            shared.answer_history();
            shared.tell_history();
            drop(tell.send(restored.map(|()| ToolIndex { shared })));
        };
        let thread = thread::Builder::new().name("mgp-index-open".to_owned());
        thread.spawn(make).map_err(StoreError::failed)?;
        told.await.map_err(StoreError::failed)?
    }
}

impl ToolIndex {
    /// Waits until all changes so far are in the database; an index in memory has nothing to wait for.
    ///
    /// # Errors
    /// [`IndexError::Store`] if they cannot be written. It is tried again later all the same.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn flush(&self) -> Result<(), IndexError> {
        match &self.shared.keeper {
            Some(keeper) => Ok(keeper.flush().await?),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// Has the tokens written that were counted of tools ([`Entry::count`](crate::catalog::Entry::count)).
    pub(crate) fn keep_counts(&self, tools: Vec<Listed>) {
        if let Some(keeper) = &self.keeper
            && !tools.is_empty()
        {
            keeper.give(vec![persist::Change::Counted(tools)]);
        }
    }
}

// === impl Change ===

impl Change<'_> {
    /// Notes a server that was put in.
    pub(super) fn note_put(&mut self, given: ServerEntry, tools: Vec<Given>) {
        if let Some(notes) = &mut self.notes {
            let ServerEntry { id, name, description, categories, .. } = given;
            notes.push(Note::Put(ServerRow { id, name, description, categories }, tools));
        }
    }

    /// Notes a server that was taken out.
    pub(super) fn note_remove(&mut self, id: &str) {
        if let Some(notes) = &mut self.notes {
            notes.push(Note::Remove(id.to_owned()));
        }
    }

    /// Brings the words of a tool back, if they were kept; says whether they were.
    pub(super) fn bring_back(&mut self, slot: Slot, hash: &[u8; 16]) -> bool {
        let Some(at) = self.writer.keywords.take_saved(hash) else { return false };
        self.step(Step::Back(slot, at));
        self.worded -= 1;
        true
    }

    /// Makes the words ready that can be brought back.
    fn bring(&mut self, opened: &mut Opened) {
        let key = keyword::key(self.limits.bounds());
        let tools = opened.servers.iter().flat_map(|server| &server.tools);
        let is_there = tools.map(|tool| tool.hash).collect();
        let same = mem::take(&mut opened.words).into_iter().filter(|(made_by, _)| *made_by == key);
        let parts = same.map(|(_, part)| part).collect();
        self.writer.keywords.bring(&key, parts, &is_there);
    }

    /// Puts back what was kept.
    fn restore(&mut self, mut opened: Opened, model: Option<&str>) -> Restored {
        self.bring(&mut opened);
        let mut restored = Restored { dropped: opened.unreadable, ..Restored::default() };
        for OldServer { server, tools } in opened.servers {
            let mut entry = server.into_entry();
            let mut kept = Vec::with_capacity(tools.len());
            for mut tool in tools {
                match tool.take_entry() {
                    Some(given) => {
                        entry.tools.push(given);
                        kept.push(tool);
                    }
                    None => restored.dropped += 1,
                }
            }
            self.restore_server(entry, kept, model, &mut restored);
        }
        restored
    }

    fn restore_server(
        &mut self,
        entry: ServerEntry,
        mut kept: Vec<OldTool>,
        model: Option<&str>,
        restored: &mut Restored,
    ) {
        let id = entry.id.clone();
        let names: Vec<_> = entry.tools.iter().map(|tool| tool.tool.name.clone()).collect();
        let dimensions = self.next.vectors.as_ref().map(VectorTable::dimensions);
        // Vectors of another model stay where they are until there are new ones.
        let fits = |vector: &OldVector| {
            Some(&*vector.model) == model && Some(vector.row.len()) == dimensions
        };
        let known = |tool: &mut OldTool| {
            let mut vector = tool.vector.iter().filter(|vector| fits(vector));
            let is_fresh = vector.any(|vector| vector.hash == tool.hash);
            let embedded = if is_fresh { Embedded::Yes } else { Embedded::No };
            Kept { definition: mem::take(&mut tool.definition), hash: tool.hash, embedded }
        };
        let known: Vec<_> = kept.iter_mut().map(known).collect();
        let embedded: Vec<_> = known.iter().map(|known| known.embedded).collect();
        let put = self.put_kept(entry, known);
        restored.dropped += put.refused.len();
        for ((name, tool), embedded) in names.iter().zip(kept).zip(embedded) {
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

// === impl Shared ===

impl Shared {
    fn restore(self: &Arc<Self>, opened: Opened) -> Result<(), IndexError> {
        let model = self.embedder.as_ref().map(|embedder| embedder.model());
        let dropped = self.change(|change| {
            // Nothing of it is news to the database.
            change.notes = None;
            let restored = change.restore(opened, model);
            change.texts.retain(|slot| !restored.fresh.contains(*slot));
            Ok(restored.dropped)
        })?;
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "tools of the kept index were damaged and are left out until they are put in again"
            );
        }
        self.dropped.store(dropped, Ordering::Relaxed);
        Ok(())
    }

    /// Has a change written, with the vectors that were made for it.
    pub(super) fn keep(&self, now: &Snapshot, notes: Vec<Note>, embedded: &[Slot]) {
        let Some(keeper) = &self.keeper else { return };
        let changes = notes.into_iter().map(|note| match note {
            Note::Remove(id) => persist::Change::Remove(id),
            Note::Put(server, tools) => {
                let tools = tools.into_iter().filter_map(|given| {
                    let Given { slot, news, categories, keywords } = given;
                    let tool = now.catalog.listed(slot)?;
                    Some(NewTool { news, slot, tool, categories, keywords })
                });
                persist::Change::Put(NewServer { server, tools: tools.collect() })
            }
        });
        let vectors = self.vectors(now, embedded.iter().copied());
        keeper.give(changes.chain(vectors).collect());
    }

    /// Has the words of all tools written, once enough of them are other ones than those that were.
    pub(super) fn keep_words(&self, writer: &mut Writer, now: &Snapshot, worded: usize) {
        let (Some(keeper), Some(keywords)) = (&self.keeper, &now.keywords) else { return };
        writer.unkept += worded;
        if writer.unkept < MANY_WORDS.max(now.catalog.len() / OF_WORDS) {
            return;
        }
        writer.unkept = 0;
        let (keywords, catalog) = (keywords.clone(), now.catalog.clone());
        let key = keyword::key(self.limits.bounds());
        let made_by = key.clone();
        let make = Box::new(move || keywords.save(&made_by, &catalog));
        keeper.give(vec![persist::Change::Words(NewWords { key, make })]);
    }

    /// Has vectors written that were made later.
    pub(super) fn keep_vectors(&self, now: &Snapshot, slots: impl Iterator<Item = Slot>) {
        let Some(keeper) = &self.keeper else { return };
        keeper.give(self.vectors(now, slots).into_iter().collect());
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
