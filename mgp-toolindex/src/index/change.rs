//! One change of the index, from what is given to what is published (MGP §16.4).
//!
//! Applies to: inbound.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use mgp_types::Lenient;
use mgp_types::mgp::ServerState;

use super::definition::Definition;
use super::embedding::server_sentence;
#[cfg(feature = "sqlite")]
use super::keeping::{Given, Note};
use super::limits::IndexLimits;
use super::put::{Put, RefusedTool, ToolRefusal};
use super::snapshot::Snapshot;
use super::texts::Texts;
use super::writer::Writer;
use crate::catalog::{
    Decided, Entry, Labels, Registered, Server, ServerEntry, ServerNumber, Slot, Text, ToolEntry,
    all_canonical, derive,
};
use crate::embed::Embedder;
use crate::error::IndexError;
use crate::keyword::Step;
#[cfg(feature = "sqlite")]
use crate::persist::News;
use crate::text::{cut, words_of};
use crate::vector::VectorTable;

/// How much of a name is repeated in a refusal, in bytes.
const SHOWN: usize = 80;

/// How many words of a description say which category a tool is in.
const SPEAKING: usize = 24;

/// How many steps the keyword index gets at once.
const STEPS: usize = 256;

/// With so many sentences those are embedded that are there.
const SENTENCES: usize = 1024;

/// A change that is being made. Nobody sees anything of it before it is published.
pub(super) struct Change<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) next: Snapshot,
    pub(super) limits: &'a IndexLimits,
    /// Makes vectors at once.
    embedder: Option<&'a dyn Embedder>,
    /// Steps that the keyword index has not got yet.
    steps: Vec<Step>,
    /// Whether it has got any.
    is_written: bool,
    /// Why a step failed; those after it are not taken.
    failed: Option<IndexError>,
    /// Tools whose text is new.
    pub(super) texts: Vec<Slot>,
    pub(super) server_texts: Vec<ServerNumber>,
    /// What is to be embedded at once.
    pub(super) sentences: Vec<(Slot, String)>,
    pub(super) server_sentences: Vec<(ServerNumber, String)>,
    /// Numbers that were given, and are given back if the change fails.
    pub(super) taken: Vec<Slot>,
    pub(super) servers_taken: Vec<ServerNumber>,
    /// Numbers that are free once the change is published.
    pub(super) freed: Vec<Slot>,
    pub(super) servers_freed: Vec<ServerNumber>,
    /// Whether there is anything to publish.
    pub(super) is_any: bool,
    /// How many documents came and went, without those that were kept.
    #[cfg(feature = "sqlite")]
    pub(super) worded: usize,
    /// What was done, if somebody keeps it.
    #[cfg(feature = "sqlite")]
    pub(super) notes: Option<Vec<Note>>,
}

impl<'a> Change<'a> {
    pub(super) fn new(
        writer: &'a mut Writer,
        now: &Snapshot,
        limits: &'a IndexLimits,
        embedder: Option<&'a dyn Embedder>,
    ) -> Self {
        // What a panic left behind.
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
            taken: Vec::new(),
            servers_taken: Vec::new(),
            freed: Vec::new(),
            servers_freed: Vec::new(),
            is_any: false,
            #[cfg(feature = "sqlite")]
            worded: 0,
            #[cfg(feature = "sqlite")]
            notes: None,
        }
    }

    /// Replaces the tools of a server.
    pub(super) fn put(&mut self, given: ServerEntry) -> Put {
        let put = self.put_kept(given, Vec::new());
        if self.sentences.len() >= SENTENCES {
            self.embed();
        }
        put
    }

    /// Replaces the tools of a server by some that were kept.
    pub(super) fn put_kept(&mut self, mut given: ServerEntry, kept: Vec<Kept>) -> Put {
        let known = self.next.catalog.server_number(&given.id);
        let before = known.and_then(|number| self.next.catalog.server(number)).cloned();
        let server = self.server(&given, before.as_ref().map(|before| &before.server));
        let mut old: HashMap<String, Slot, ahash::RandomState> = before
            .iter()
            .flat_map(|before| before.slots.iter())
            .filter_map(|slot| Some((self.next.catalog.entry(*slot)?.name().to_owned(), *slot)))
            .collect();
        let mut put = Put::default();
        let mut slots = Vec::with_capacity(given.tools.len());
        let mut names: HashSet<String, ahash::RandomState> = HashSet::default();
        #[cfg(feature = "sqlite")]
        let mut noted = Vec::new();
        let mut kept = kept.into_iter();
        #[cfg_attr(not(feature = "sqlite"), expect(unused_mut, reason = "nobody keeps it"))]
        for mut tool in mem::take(&mut given.tools) {
            let slot = old.get(&tool.tool.name).copied();
            match self.tool(&tool, kept.next(), &server, slot, slots.len(), &names) {
                Ok((slot, became)) => {
                    #[cfg(feature = "sqlite")]
                    if self.notes.is_some() {
                        let news = match became {
                            Became::Unchanged => News::Old,
                            _ => News::New,
                        };
                        noted.push(Given::take(slot, news, &mut tool));
                    }
                    match became {
                        Became::Added => put.added += 1,
                        Became::Changed => put.changed += 1,
                        Became::Unchanged => put.unchanged += 1,
                    }
                    slots.push(slot);
                    old.remove(&tool.tool.name);
                    names.insert(tool.tool.name);
                }
                Err(reason) => put.refused.push(RefusedTool {
                    server: cut(&given.id, SHOWN).to_owned(),
                    name: cut(&tool.tool.name, SHOWN).to_owned(),
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
            self.is_any = true;
            let state = given.state.clone();
            let registered = Registered { server, state, slots: slots.into() };
            self.next.catalog.insert_server(registered, self.next.generation);
        }
        #[cfg(feature = "sqlite")]
        self.note_put(given, noted);
        put
    }

    /// Takes out a server with all of its tools; says how many these were.
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
        self.is_any = true;
        #[cfg(feature = "sqlite")]
        self.note_remove(id);
        slots.len()
    }

    /// Notes the state of a server.
    pub(super) fn set_state(&mut self, id: &str, state: ServerState) {
        let number = self.next.catalog.server_number(id);
        let Some(known) = number.and_then(|number| self.next.catalog.server(number)) else {
            return;
        };
        if known.state != state {
            let registered = Registered { state, ..known.clone() };
            self.next.catalog.insert_server(registered, self.next.generation);
            self.is_any = true;
        }
    }

    fn remove_tool(&mut self, slot: Slot) {
        self.next.catalog.remove(slot, self.next.generation);
        if let Some(vectors) = &mut self.next.vectors {
            vectors.clear(slot);
        }
        self.step(Step::Gone(slot));
        self.freed.push(slot);
        self.is_any = true;
    }

    /// The server as its tools know it: the same as before if nothing changed.
    fn server(&mut self, given: &ServerEntry, before: Option<&Arc<Server>>) -> Arc<Server> {
        let categories = self.writer.labels.list(&all_canonical(&given.categories));
        if let Some(before) = before
            && before.name.as_deref() == given.name.as_deref()
            && before.description.as_deref() == given.description.as_deref()
            && Arc::ptr_eq(&before.categories, &categories)
        {
            return Arc::clone(before);
        }
        let number = before.map_or_else(|| self.take_server(), |before| before.number);
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
        kept: Option<Kept>,
        server: &Arc<Server>,
        slot: Option<Slot>,
        before: usize,
        names: &HashSet<String, ahash::RandomState>,
    ) -> Result<(Slot, Became), ToolRefusal> {
        let (json, hash, embedded) = match kept {
            Some(Kept { definition, hash, embedded }) => (Some(definition), Some(hash), embedded),
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
            return Ok((slot, Became::Unchanged));
        }
        if slot.is_none() && self.next.catalog.len() >= self.limits.tools {
            return Err(ToolRefusal::Full(self.limits.tools));
        }
        if self.next.catalog.bytes() + definition.json.len() as u64 > self.limits.bytes {
            return Err(ToolRefusal::NoRoom(self.limits.bytes));
        }
        let became = if slot.is_some() { Became::Changed } else { Became::Added };
        let slot = match slot {
            Some(slot) => {
                self.step(Step::Gone(slot));
                slot
            }
            None => self.take(),
        };
        let entry = self.entry(given, definition, server, slot, embedded);
        self.next.catalog.insert(slot, Arc::new(entry), self.next.generation);
        self.is_any = true;
        Ok((slot, became))
    }

    /// Makes what is kept of a tool, and notes what is indexed of it.
    fn entry(
        &mut self,
        given: &ToolEntry,
        definition: Definition,
        server: &Arc<Server>,
        slot: Slot,
        embedded: Embedded,
    ) -> Entry {
        let categories = self.categories(given, server);
        let keywords = self.writer.labels.list(&all_canonical_words(&given.keywords));
        self.texts.push(slot);
        let is_to_embed = self.embedder.is_some() && embedded == Embedded::No;
        #[cfg(feature = "sqlite")]
        let is_back = self.bring_back(slot, &definition.hash);
        #[cfg(not(feature = "sqlite"))]
        let is_back = false;
        if is_to_embed || !is_back {
            let texts = Texts {
                tool: given.tool.clone(),
                server: Arc::clone(server),
                categories: Arc::clone(&categories),
                keywords: Arc::clone(&keywords),
                bounds: self.limits.bounds(),
            };
            if is_to_embed {
                self.sentences.push((slot, texts.parts().sentence()));
            }
            if !is_back {
                self.step(Step::New(slot, Box::new(move |words| texts.parts().document(words))));
            }
        }
        let claimed = || given.tool.find_security().as_ref().and_then(Lenient::valid).cloned();
        let (security, decided) = match &given.security {
            Some(security) => (Some(security.clone()), Decided::Here),
            None => (claimed(), Decided::Claimed),
        };
        let security = security.map(|security| self.writer.security(security));
        let json = definition.json;
        Entry {
            name: Text::of(&given.tool.name, &json),
            description: given.tool.description.as_deref().map(|text| Text::of(text, &json)),
            tokens: AtomicU32::new(0),
            definition: json,
            server: Arc::clone(server),
            security,
            decided,
            categories,
            keywords,
            hash: definition.hash,
        }
    }

    /// The categories of a tool: its own, else its server's, else one that is derived.
    fn categories(&mut self, given: &ToolEntry, server: &Server) -> Labels {
        let own = all_canonical(&given.categories);
        if !own.is_empty() {
            return self.writer.labels.list(&own);
        }
        if !server.categories.words.is_empty() {
            return Arc::clone(&server.categories);
        }
        let name = words_of(&given.tool.name, SPEAKING);
        let name: Vec<&str> = name.iter().map(String::as_str).collect();
        let description = given.tool.description.as_deref().unwrap_or_default();
        let most = self.limits.description.min(20 * SPEAKING);
        let description = words_of(cut(description, most), SPEAKING);
        let about = server.name.as_deref().unwrap_or(&server.id);
        let about = words_of(cut(about, 20 * SPEAKING), SPEAKING);
        let derived =
            derive(&name, description.iter().map(String::as_str), about.iter().map(String::as_str));
        self.writer.labels.list(&[derived])
    }

    /// Notes a step for the keyword index, which gets some at a time: it works on them meanwhile, and no change is held
    /// as a whole.
    pub(super) fn step(&mut self, step: Step) {
        #[cfg(feature = "sqlite")]
        {
            self.worded += 1;
        }
        self.steps.push(step);
        if self.steps.len() >= STEPS {
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

    /// Makes the vectors that cost little.
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
            tracing::warn!(%error, "some tools have no vector and are found by words only");
        }
    }

    /// Brings the change into all parts of the index; it can be published then.
    pub(super) fn finish(&mut self) -> Result<(), IndexError> {
        // What is kept comes first, so that what indexing needs meanwhile lies behind it and can be given back.
        self.embed();
        self.write();
        match self.failed.take() {
            Some(error) => Err(error),
            None if !self.is_written => Ok(()),
            None => {
                self.next.keywords = Some(self.writer.keywords.commit()?);
                Ok(())
            }
        }
    }

    /// Takes the change back.
    pub(super) fn abort(self) {
        self.writer.keywords.roll_back();
        self.writer.slots.give_back(self.taken);
        self.writer.servers.give_back(self.servers_taken);
    }

    fn take(&mut self) -> Slot {
        let slot = self.writer.slots.take();
        self.taken.push(slot);
        slot
    }

    fn take_server(&mut self) -> ServerNumber {
        let number = self.writer.servers.take();
        self.servers_taken.push(number);
        number
    }
}

/// What is known of a tool that was kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) definition: String,
    pub(super) hash: [u8; 16],
    pub(super) embedded: Embedded,
}

/// Whether a tool has its vector already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Embedded {
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "nothing is kept"))]
    Yes,
    No,
}

/// What became of a tool.
enum Became {
    Added,
    Changed,
    Unchanged,
}

/// Keywords without what no list may have in it, each once.
fn all_canonical_words(given: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in given.iter().take(64) {
        let word: String = cut(word, 64).chars().filter(|c| !c.is_control()).collect();
        if !word.is_empty() && !all.contains(&word) {
            all.push(word);
        }
    }
    all
}
