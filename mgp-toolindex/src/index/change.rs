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
use super::writer::Writer;
use crate::catalog::{
    Decided, Entry, Labels, Registered, Server, ServerEntry, ServerNumber, Slot, Text, ToolEntry,
    all_canonical, derive,
};
#[cfg(feature = "sqlite")]
use crate::persist::News;
use crate::text::{Analyzer, Document, Parts, cut, words_of};
use crate::tokens;

/// How much of a name is repeated in a refusal, in bytes.
const SHOWN: usize = 80;

/// How many words of a description say which category a tool is in.
const SPEAKING: usize = 24;

/// A change that is being made. Nobody sees anything of it before it is published.
pub(super) struct Change<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) next: Snapshot,
    limits: &'a IndexLimits,
    analyzer: &'a Analyzer,
    /// Documents that go, those of changed tools included.
    pub(super) gone: Vec<Slot>,
    /// Documents that come.
    pub(super) new: Vec<(Slot, Document)>,
    /// What is to be embedded.
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
    /// What was done, if somebody keeps it.
    #[cfg(feature = "sqlite")]
    pub(super) notes: Option<Vec<Note>>,
}

impl<'a> Change<'a> {
    pub(super) fn new(
        writer: &'a mut Writer,
        now: &Snapshot,
        limits: &'a IndexLimits,
        analyzer: &'a Analyzer,
    ) -> Self {
        let mut next = now.clone();
        next.generation += 1;
        Self {
            writer,
            next,
            limits,
            analyzer,
            gone: Vec::new(),
            new: Vec::new(),
            sentences: Vec::new(),
            server_sentences: Vec::new(),
            taken: Vec::new(),
            servers_taken: Vec::new(),
            freed: Vec::new(),
            servers_freed: Vec::new(),
            is_any: false,
            #[cfg(feature = "sqlite")]
            notes: None,
        }
    }

    /// Replaces the tools of a server.
    pub(super) fn put(&mut self, given: ServerEntry) -> Put {
        self.put_kept(given, &[])
    }

    /// Replaces the tools of a server by some that were kept, each under its hash.
    pub(super) fn put_kept(&mut self, mut given: ServerEntry, hashes: &[[u8; 16]]) -> Put {
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
        let mut hashes = hashes.iter();
        #[cfg_attr(not(feature = "sqlite"), expect(unused_mut, reason = "nobody keeps it"))]
        for mut tool in mem::take(&mut given.tools) {
            let slot = old.get(&tool.tool.name).copied();
            match self.tool(&tool, hashes.next(), &server, slot, slots.len(), &names) {
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
        old.into_values().for_each(|slot| self.remove_tool(slot));
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
        slots.iter().for_each(|slot| self.remove_tool(*slot));
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
        self.gone.push(slot);
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
        let sentence = server_sentence(&server, self.limits.bounds());
        self.server_sentences.push((number, sentence));
        server
    }

    fn tool(
        &mut self,
        given: &ToolEntry,
        hash: Option<&[u8; 16]>,
        server: &Arc<Server>,
        slot: Option<Slot>,
        before: usize,
        names: &HashSet<String, ahash::RandomState>,
    ) -> Result<(Slot, Became), ToolRefusal> {
        let definition = Definition::of(given, server, self.limits)?;
        if hash.is_some_and(|hash| *hash != definition.hash) {
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
        let slot = slot.inspect(|slot| self.gone.push(*slot)).unwrap_or_else(|| self.take());
        let entry = self.entry(given, definition, server, slot);
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
    ) -> Entry {
        let mut parts = Parts::of(&given.tool, &server.id, self.limits.bounds());
        parts.server_name = server.name.as_deref();
        parts.server_description = server.description.as_deref();
        let categories = self.categories(given, server, &parts);
        let keywords = self.writer.labels.list(&all_canonical_words(&given.keywords));
        parts.categories = categories.words.iter().map(|word| &**word).collect();
        parts.keywords = keywords.words.iter().map(|word| &**word).collect();
        self.new.push((slot, parts.document(self.analyzer)));
        self.sentences.push((slot, parts.sentence()));
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
            tokens: AtomicU32::new(tokens::bound(&json)),
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
    fn categories(&mut self, given: &ToolEntry, server: &Server, parts: &Parts<'_>) -> Labels {
        let own = all_canonical(&given.categories);
        if !own.is_empty() {
            return self.writer.labels.list(&own);
        }
        if !server.categories.words.is_empty() {
            return Arc::clone(&server.categories);
        }
        let name = words_of(parts.name, SPEAKING);
        let name: Vec<&str> = name.iter().map(String::as_str).collect();
        let description = words_of(cut(parts.description, 20 * SPEAKING), SPEAKING);
        let about = server.name.as_deref().unwrap_or(&server.id);
        let about = words_of(cut(about, 20 * SPEAKING), SPEAKING);
        let derived =
            derive(&name, description.iter().map(String::as_str), about.iter().map(String::as_str));
        self.writer.labels.list(&[derived])
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
