//! A change of the index, from its input to the published snapshot (MGP §16.4).

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use mgp_types::Lenient;
use mgp_types::mgp::ServerState;

use super::definition::Definition;
use super::embedding::server_sentence;
use super::limits::IndexLimits;
use super::put_report::{PutReport, RefusedTool, ToolRefusal};
#[cfg(feature = "sqlite")]
use super::server_change::{PutTool, ServerChange};
use super::snapshot::Snapshot;
use super::tool_source::ToolSource;
use super::writer::IndexWriter;
use crate::catalog::{
    Entry, Labels, SecuritySource, Server, ServerEntry, ServerNumber, ServerRecord, Slot, Text,
    ToolEntry, ToolFeatures, all_canonical, derive,
};
use crate::embed::Embedder;
use crate::error::IndexError;
use crate::keyword::Step;
#[cfg(feature = "sqlite")]
use crate::persist::WriteMode;
use crate::text::{truncate, words_of};
use crate::vector::VectorTable;

/// The maximum number of bytes of a tool's name, and of a server's id, that an error contains.
const MAX_SHOWN_BYTES: usize = 80;

/// The maximum number of words of each text (name, description, server name) that are used to derive a category.
const MAX_CATEGORY_WORDS: usize = 24;

/// The number of steps, i.e. added or removed documents, that are passed to the keyword index in one batch.
const STEP_BATCH: usize = 256;

/// The number of texts that are collected before their vectors are computed together.
const SENTENCE_BATCH: usize = 1024;

/// A change in progress; searches do not see it before it is published.
pub(super) struct Change<'a> {
    pub(super) writer: &'a mut IndexWriter,
    pub(super) next: Snapshot,
    pub(super) limits: &'a IndexLimits,
    /// The embedder, if it is fast enough to compute vectors within the change
    /// ([`Cost::Small`](crate::embed::Cost::Small)).
    embedder: Option<&'a dyn Embedder>,
    /// Steps that the keyword index has not received yet.
    steps: Vec<Step>,
    /// `true` if the keyword index has received at least one step of this change.
    is_written: bool,
    /// The error of the first failed step; later steps are dropped.
    failed: Option<IndexError>,
    /// The tools whose texts are new or changed, so that they need new vectors.
    pub(super) texts: Vec<Slot>,
    pub(super) server_texts: Vec<ServerNumber>,
    /// The texts of tools whose vectors are computed within the change.
    pub(super) sentences: Vec<(Slot, String)>,
    pub(super) server_sentences: Vec<(ServerNumber, String)>,
    /// Slots allocated by the change; they are released if the change fails.
    pub(super) allocated: Vec<Slot>,
    pub(super) servers_allocated: Vec<ServerNumber>,
    /// Slots that are released once the change is published.
    pub(super) freed: Vec<Slot>,
    pub(super) servers_freed: Vec<ServerNumber>,
    /// `true` if the change altered anything, so that it must be published.
    pub(super) has_changes: bool,
    /// The number of documents that the change adds to the keyword index or removes from it, without those that it takes
    /// from the stored segments. After enough changed documents, the segments are stored again.
    #[cfg(feature = "sqlite")]
    pub(super) changed_documents: usize,
    /// The changes for the database, if the index has a database.
    #[cfg(feature = "sqlite")]
    pub(super) notes: Option<Vec<ServerChange>>,
}

impl<'a> Change<'a> {
    pub(super) fn new(
        writer: &'a mut IndexWriter,
        now: &Snapshot,
        limits: &'a IndexLimits,
        embedder: Option<&'a dyn Embedder>,
    ) -> Self {
        // If the previous change panicked, the keyword index might still have its unfinished steps, so discard them.
        writer.keywords.roll_back();
        let mut next = now.clone();
        next.generation += 1;
        Self {
            writer,
            next,
            limits,
            embedder,
            steps: Vec::new(),
            is_written: false,
            failed: None,
            texts: Vec::new(),
            server_texts: Vec::new(),
            sentences: Vec::new(),
            server_sentences: Vec::new(),
            allocated: Vec::new(),
            servers_allocated: Vec::new(),
            freed: Vec::new(),
            servers_freed: Vec::new(),
            has_changes: false,
            #[cfg(feature = "sqlite")]
            changed_documents: 0,
            #[cfg(feature = "sqlite")]
            notes: None,
        }
    }

    pub(super) fn put(&mut self, given: ServerEntry) -> PutReport {
        let put = self.put_stored(given, Vec::new());
        if self.sentences.len() >= SENTENCE_BATCH {
            self.embed();
        }
        put
    }

    /// Replaces the tools of a server. When an index is opened, `stored` has further data of each tool from the
    /// database; otherwise it is empty.
    pub(super) fn put_stored(
        &mut self,
        mut given: ServerEntry,
        stored: Vec<StoredTool>,
    ) -> PutReport {
        let known = self.next.catalog.server_number(&given.id);
        let before = known.and_then(|number| self.next.catalog.server(number)).cloned();
        let server = self.server(&given, before.as_ref().map(|before| &before.server));
        let mut old = self.slots_by_name(before.as_ref());
        let mut put = PutReport::default();
        let mut slots = Vec::with_capacity(given.tools.len());
        let mut names: HashSet<String, ahash::RandomState> = HashSet::default();
        #[cfg(feature = "sqlite")]
        let mut noted = Vec::new();
        let mut stored = stored.into_iter();
        #[cfg_attr(not(feature = "sqlite"), expect(unused_mut, reason = "nothing is stored"))]
        for mut tool in mem::take(&mut given.tools) {
            let slot = old.get(&tool.tool.name).copied();
            match self.tool(&tool, stored.next(), &server, slot, slots.len(), &names) {
                Ok((slot, change)) => {
                    #[cfg(feature = "sqlite")]
                    if self.notes.is_some() {
                        let mode = match change {
                            ToolChange::Unchanged => WriteMode::IfChanged,
                            _ => WriteMode::Always,
                        };
                        noted.push(PutTool::take(slot, mode, &mut tool));
                    }
                    *change.counter(&mut put) += 1;
                    slots.push(slot);
                    old.remove(&tool.tool.name);
                    names.insert(tool.tool.name);
                }
                Err(reason) => put.refused.push(RefusedTool {
                    server: truncate(&given.id, MAX_SHOWN_BYTES).to_owned(),
                    name: truncate(&tool.tool.name, MAX_SHOWN_BYTES).to_owned(),
                    reason,
                }),
            }
        }
        put.removed = old.len();
        for slot in old.into_values() {
            self.remove_tool(slot);
        }
        let is_same = before.as_ref().is_some_and(|before| {
            before.state == given.state
                && *before.slots == *slots
                && Arc::ptr_eq(&before.server, &server)
        });
        if !is_same {
            self.has_changes = true;
            let state = given.state.clone();
            let registered = ServerRecord { server, state, slots: slots.into() };
            self.next.catalog.insert_server(registered, self.next.generation);
        }
        #[cfg(feature = "sqlite")]
        self.note_put(given, noted);
        put
    }

    fn slots_by_name(
        &self,
        server: Option<&ServerRecord>,
    ) -> HashMap<String, Slot, ahash::RandomState> {
        let slots = server.into_iter().flat_map(|server| server.slots.iter());
        slots
            .filter_map(|slot| Some((self.next.catalog.entry(*slot)?.name().to_owned(), *slot)))
            .collect()
    }

    /// Removes a server with its tools; returns the number of removed tools.
    pub(super) fn remove(&mut self, id: &str) -> usize {
        let Some(number) = self.next.catalog.server_number(id) else { return 0 };
        let slots = self.next.catalog.slots_of(id).to_vec();
        for slot in &slots {
            self.remove_tool(*slot);
        }
        self.next.catalog.remove_server(number, self.next.generation);
        if let Some(servers) = &mut self.next.servers {
            servers.clear(number);
        }
        self.servers_freed.push(number);
        self.has_changes = true;
        #[cfg(feature = "sqlite")]
        self.note_remove(id);
        slots.len()
    }

    pub(super) fn set_state(&mut self, id: &str, state: ServerState) {
        let number = self.next.catalog.server_number(id);
        let Some(known) = number.and_then(|number| self.next.catalog.server(number)) else {
            return;
        };
        if known.state != state {
            let registered = ServerRecord { state, ..known.clone() };
            self.next.catalog.insert_server(registered, self.next.generation);
            self.has_changes = true;
        }
    }

    fn remove_tool(&mut self, slot: Slot) {
        self.next.catalog.remove(slot, self.next.generation);
        if let Some(vectors) = &mut self.next.vectors {
            vectors.clear(slot);
        }
        self.step(Step::Remove(slot));
        self.freed.push(slot);
        self.has_changes = true;
    }

    /// Returns the data of a server that all its tools share. Returns the previous object if nothing has changed.
    fn server(&mut self, given: &ServerEntry, before: Option<&Arc<Server>>) -> Arc<Server> {
        let categories = self.writer.labels.list(&all_canonical(&given.categories));
        if let Some(before) = before
            && before.name.as_deref() == given.name.as_deref()
            && before.description.as_deref() == given.description.as_deref()
            && Arc::ptr_eq(&before.categories, &categories)
        {
            return Arc::clone(before);
        }
        let number = before.map_or_else(|| self.allocate_server(), |before| before.number);
        let server = Arc::new(Server {
            number,
            id: given.id.as_str().into(),
            name: given.name.as_deref().map(Into::into),
            description: given.description.as_deref().map(Into::into),
            categories,
        });
        self.server_texts.push(number);
        if self.embedder.is_some() {
            let sentence = server_sentence(&server, self.limits.bounds());
            self.server_sentences.push((number, sentence));
        }
        server
    }

    fn tool(
        &mut self,
        given: &ToolEntry,
        stored: Option<StoredTool>,
        server: &Arc<Server>,
        slot: Option<Slot>,
        before: usize,
        names: &HashSet<String, ahash::RandomState>,
    ) -> Result<(Slot, ToolChange), ToolRefusal> {
        let (json, hash, embedded) = match stored {
            Some(StoredTool { definition, hash, embedded }) => {
                (Some(definition), Some(hash), embedded)
            }
            None => (None, None, Embedded::No),
        };
        let definition = Definition::of(given, json, server, self.limits)?;
        if hash.is_some_and(|hash| hash != definition.hash) {
            return Err(ToolRefusal::Damaged);
        }
        if names.contains(&given.tool.name) {
            return Err(ToolRefusal::SameName);
        }
        if before >= self.limits.tools_of_server {
            return Err(ToolRefusal::ServerFull(self.limits.tools_of_server));
        }
        if let Some(slot) = slot
            && self.next.catalog.entry(slot).is_some_and(|entry| entry.hash == definition.hash)
        {
            return Ok((slot, ToolChange::Unchanged));
        }
        if slot.is_none() && self.next.catalog.len() >= self.limits.tools {
            return Err(ToolRefusal::Full(self.limits.tools));
        }
        if self.next.catalog.bytes() + definition.json.len() as u64 > self.limits.bytes {
            return Err(ToolRefusal::NoRoom(self.limits.bytes));
        }
        let change = if slot.is_some() { ToolChange::Changed } else { ToolChange::Added };
        let slot = match slot {
            Some(slot) => {
                self.step(Step::Remove(slot));
                slot
            }
            None => self.allocate_slot(),
        };
        let entry = self.entry(given, definition, server, slot, embedded);
        self.next.catalog.insert(slot, Arc::new(entry), self.next.generation);
        self.has_changes = true;
        Ok((slot, change))
    }

    /// Creates the catalogue entry of a tool, and queues its words for the keyword index.
    fn entry(
        &mut self,
        given: &ToolEntry,
        definition: Definition,
        server: &Arc<Server>,
        slot: Slot,
        embedded: Embedded,
    ) -> Entry {
        let categories = self.categories(given, server);
        let keywords = self.writer.labels.list(&clean_keywords(&given.keywords));
        self.texts.push(slot);
        let is_to_embed = self.embedder.is_some() && embedded == Embedded::No;
        #[cfg(feature = "sqlite")]
        let is_restored = self.restore_document(slot, &definition.hash);
        #[cfg(not(feature = "sqlite"))]
        let is_restored = false;
        if is_to_embed || !is_restored {
            let texts = ToolSource {
                tool: given.tool.clone(),
                server: Arc::clone(server),
                categories: Arc::clone(&categories),
                keywords: Arc::clone(&keywords),
                bounds: self.limits.bounds(),
            };
            if is_to_embed {
                self.sentences.push((slot, texts.tool_text().sentence()));
            }
            if !is_restored {
                self.step(Step::Add(
                    slot,
                    Box::new(move |words| texts.tool_text().document(words)),
                ));
            }
        }
        let claimed = || given.tool.find_security().as_ref().and_then(Lenient::valid).cloned();
        let (security, security_source) = match &given.security {
            Some(security) => (Some(security.clone()), SecuritySource::Kernel),
            None => (claimed(), SecuritySource::Server),
        };
        let security = security.map(|security| self.writer.security(security));
        let json = definition.json;
        Entry {
            name: Text::of(&given.tool.name, &json),
            description: given.tool.description.as_deref().map(|text| Text::of(text, &json)),
            tokens: AtomicU32::new(0),
            features: ToolFeatures::of(&given.tool),
            definition: json,
            server: Arc::clone(server),
            security,
            security_source,
            categories,
            keywords,
            hash: definition.hash,
        }
    }

    /// Returns the categories of a tool: its own, else the categories of its server, else a derived category.
    fn categories(&mut self, given: &ToolEntry, server: &Server) -> Labels {
        let own = all_canonical(&given.categories);
        if !own.is_empty() {
            return self.writer.labels.list(&own);
        }
        if !server.categories.words.is_empty() {
            return Arc::clone(&server.categories);
        }
        let name = words_of(&given.tool.name, MAX_CATEGORY_WORDS);
        let name: Vec<&str> = name.iter().map(String::as_str).collect();
        let description = given.tool.description.as_deref().unwrap_or_default();
        let max = self.limits.description.min(20 * MAX_CATEGORY_WORDS);
        let description = words_of(truncate(description, max), MAX_CATEGORY_WORDS);
        let server_words = server.name.as_deref().unwrap_or(&server.id);
        let server_words =
            words_of(truncate(server_words, 20 * MAX_CATEGORY_WORDS), MAX_CATEGORY_WORDS);
        let derived = derive(
            &name,
            description.iter().map(String::as_str),
            server_words.iter().map(String::as_str),
        );
        self.writer.labels.list(&[derived])
    }

    /// Queues a step for the keyword index. A full batch is passed on immediately, so that the index is built in
    /// parallel, and the texts of a large change are not in memory at the same time.
    pub(super) fn step(&mut self, step: Step) {
        #[cfg(feature = "sqlite")]
        {
            self.changed_documents += 1;
        }
        self.steps.push(step);
        if self.steps.len() >= STEP_BATCH {
            self.write();
        }
    }

    fn write(&mut self) {
        let steps = mem::take(&mut self.steps);
        if self.failed.is_none() && !steps.is_empty() {
            self.is_written = true;
            self.failed = self.writer.keywords.write(steps).err();
        }
    }

    /// Computes the vectors of the changed texts, if the cost of the embedder is small.
    fn embed(&mut self) {
        let Some(embedder) = self.embedder else { return };
        let mut failed = None;
        let mut embed = |table: &mut Option<VectorTable>, all: Vec<(u32, String)>| {
            let Some(table) = table else { return };
            for (number, sentence) in all {
                match embedder.embed(&sentence) {
                    Ok(vector) => table.set(number, &vector),
                    Err(error) => {
                        table.clear(number);
                        failed = Some(error);
                    }
                }
            }
        };
        embed(&mut self.next.vectors, mem::take(&mut self.sentences));
        embed(&mut self.next.servers, mem::take(&mut self.server_sentences));
        if let Some(error) = failed {
            tracing::warn!(%error, "embedding failed; some tools are found by words only");
        }
    }

    /// Completes the change in all parts of the index, so that it can be published.
    pub(super) fn finish(&mut self) -> Result<(), IndexError> {
        // Compute the vectors before the keyword index allocates its buffers. The vectors stay in memory, while the
        // buffers are freed soon. If the buffers are at the end of the heap, the allocator can return their memory to
        // the system.
        self.embed();
        self.write();
        match self.failed.take() {
            Some(error) => Err(error),
            None if !self.is_written => Ok(()),
            None => {
                self.next.keywords = Some(self.writer.keywords.commit()?);
                self.next.content_version += 1;
                Ok(())
            }
        }
    }

    /// Discards the change: the keyword index drops its steps, and the allocated slots become free.
    pub(super) fn abort(self) {
        self.writer.keywords.roll_back();
        self.writer.slots.release(self.allocated);
        self.writer.servers.release(self.servers_allocated);
    }

    fn allocate_slot(&mut self) -> Slot {
        let slot = self.writer.slots.allocate();
        self.allocated.push(slot);
        slot
    }

    fn allocate_server(&mut self) -> ServerNumber {
        let number = self.writer.servers.allocate();
        self.servers_allocated.push(number);
        number
    }
}

/// The stored data of a tool that its [`ToolEntry`] does not contain.
#[derive(Debug)]
pub(super) struct StoredTool {
    pub(super) definition: String,
    pub(super) hash: [u8; 16],
    pub(super) embedded: Embedded,
}

/// The state of a stored tool's vector: `Yes` if it was computed from the tool's current texts, so that it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Embedded {
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "nothing is stored"))]
    Yes,
    No,
}

enum ToolChange {
    Added,
    Changed,
    Unchanged,
}

impl ToolChange {
    fn counter(self, report: &mut PutReport) -> &mut usize {
        match self {
            Self::Added => &mut report.added,
            Self::Changed => &mut report.changed,
            Self::Unchanged => &mut report.unchanged,
        }
    }
}

/// Returns the first 64 keywords, each cut to 64 bytes, without control characters and duplicates.
fn clean_keywords(given: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in given.iter().take(64) {
        let word: String = truncate(word, 64).chars().filter(|c| !c.is_control()).collect();
        if !word.is_empty() && !all.contains(&word) {
            all.push(word);
        }
    }
    all
}
