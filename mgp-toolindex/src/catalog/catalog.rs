//! The tools and servers of an index at one moment; cheap to clone (MGP §16.4).

use std::sync::Arc;

use ahash::RandomState;
use mgp_types::mgp::{RiskLevel, ServerState};

use super::chunks::ChunkedList;
use super::entry::{Entry, Server};
use super::indexed_tool::IndexedTool;
use super::name_index::NameIndex;
use super::{ServerNumber, Slot};
use crate::text::fold_name;

pub(crate) const MAX_SERVER_ID_BYTES: usize = 512;

#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    tools: ChunkedList<Option<Record>>,
    /// The slots of the tools, by the hashes of their names.
    names: NameIndex,
    /// The slots of the tools, by the hashes of their names as [`fold_name`] converts them. It is not used for exact
    /// names, because thousands of names of a hostile server can become the same text.
    folded_names: NameIndex,
    servers: ChunkedList<Option<Arc<ServerRecord>>>,
    /// The numbers of the servers, by the hashes of their ids.
    ids: NameIndex,
    hasher: RandomState,
    len: usize,
    server_count: usize,
    bytes: u64,
}

/// A tool in a slot, with copies of the values that filters test, so that most filters need not access the tool's
/// entry.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) entry: Arc<Entry>,
    pub(crate) server: ServerNumber,
    /// The number that identifies the tool's list of categories; see `LabelList`.
    pub(crate) categories: u32,
    /// The effective risk of the tool as a number from 0 (safe) to 3; see [`rank`].
    pub(crate) risk: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerRecord {
    pub(crate) server: Arc<Server>,
    pub(crate) state: ServerState,
    pub(crate) slots: Arc<[Slot]>,
}

impl Catalog {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn server_count(&self) -> usize {
        self.server_count
    }

    /// Returns the total size of all definitions, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a number that is greater than every slot, i.e. the length of a bitmap with all tools.
    pub(crate) fn reach(&self) -> usize {
        self.tools.reach()
    }

    pub(crate) fn listed(&self, slot: Slot) -> Option<IndexedTool> {
        self.record(slot).map(|record| IndexedTool(Arc::clone(&record.entry)))
    }

    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.record(slot).map(|record| &*record.entry)
    }

    #[inline]
    pub(crate) fn record(&self, slot: Slot) -> Option<&Record> {
        self.tools.get(slot)?.as_ref()
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (Slot, &Record)> {
        self.tools.iter().filter_map(|(slot, record)| Some((slot, record.as_ref()?)))
    }

    /// Returns all slots in chunks, each with its first slot and the generation of the index in which the chunk last
    /// changed.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (Slot, u64, &[Option<Record>])> {
        self.tools.pieces()
    }

    pub(crate) fn server_of(&self, slot: Slot) -> Option<ServerNumber> {
        self.record(slot).map(|record| record.server)
    }

    pub(crate) fn server(&self, number: ServerNumber) -> Option<&ServerRecord> {
        self.servers.get(number)?.as_deref()
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = (ServerNumber, &ServerRecord)> {
        self.servers.iter().filter_map(|(number, server)| Some((number, server.as_deref()?)))
    }

    pub(crate) fn server_number(&self, id: &str) -> Option<ServerNumber> {
        let mut found = self.ids.get(self.hasher.hash_one(id));
        found.find(|number| self.server(*number).is_some_and(|known| *known.server.id == *id))
    }

    pub(crate) fn slots_of(&self, id: &str) -> &[Slot] {
        let server = self.server_number(id).and_then(|number| self.server(number));
        server.map_or(&[], |server| &server.slots)
    }

    /// Returns the slots of the tools with exactly this name, in ascending order.
    pub(crate) fn by_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Slot> + 'a {
        let alike = self.names.get(self.hasher.hash_one(name));
        alike.filter(move |slot| self.entry(*slot).is_some_and(|entry| entry.name() == name))
    }

    /// Returns the slots of the tools whose names have the same letters and digits as `name`: `readFile` finds
    /// `read_file`.
    pub(crate) fn by_folded<'a>(&'a self, name: &str) -> impl Iterator<Item = Slot> + 'a {
        let folded = fold_name(name);
        let alike = self.folded_names.get(self.hasher.hash_one(&*folded));
        let same = move |slot: &Slot| {
            self.entry(*slot).is_some_and(|entry| fold_name(entry.name()) == folded)
        };
        alike.filter(same)
    }

    pub(crate) fn find(&self, server: &str, name: &str) -> Option<Slot> {
        let number = self.server_number(server)?;
        self.by_name(name).find(|slot| self.server_of(*slot) == Some(number))
    }

    /// Returns the slots of the tools with the id `id`, which has the form `server.name`. Usually at most one tool has
    /// the id, but two tools can share an id, because ids of servers and names of tools can contain dots.
    pub(crate) fn by_tool_id<'a>(&'a self, id: &'a str) -> impl Iterator<Item = Slot> + 'a {
        let dots =
            id.match_indices('.').map(|(at, _)| at).take_while(|at| *at <= MAX_SERVER_ID_BYTES);
        let splits = dots.map(|at| (&id[..at], &id[at + 1..]));
        splits.filter_map(|(server, tool)| self.find(server, tool))
    }

    // === changes ===

    /// Inserts a tool into a slot; replaces the tool that had the slot before.
    pub(crate) fn insert(&mut self, slot: Slot, entry: Arc<Entry>, generation: u64) {
        self.remove(slot, generation);
        let (name, folded) = self.name_hashes(entry.name());
        self.names.insert(name, slot);
        self.folded_names.insert(folded, slot);
        self.len += 1;
        self.bytes += entry.definition.len() as u64;
        let record = Record {
            server: entry.server.number,
            categories: entry.categories.number,
            risk: rank(&entry.risk()),
            entry,
        };
        self.tools.set(slot, Some(record), generation);
    }

    pub(crate) fn remove(&mut self, slot: Slot, generation: u64) {
        let Some(entry) = self.record(slot).map(|record| Arc::clone(&record.entry)) else { return };
        let (name, folded) = self.name_hashes(entry.name());
        self.names.remove(name, slot);
        self.folded_names.remove(folded, slot);
        self.len -= 1;
        self.bytes -= entry.definition.len() as u64;
        self.tools.set(slot, None, generation);
    }

    /// Inserts a server, or replaces the server with the same number. If the new connection state differs, the server's
    /// tools count as changed.
    pub(crate) fn insert_server(&mut self, registered: ServerRecord, generation: u64) {
        let number = registered.server.number;
        match self.server(number).map(|before| before.state == registered.state) {
            None => {
                self.ids.insert(self.hasher.hash_one(&*registered.server.id), number);
                self.server_count += 1;
            }
            Some(true) => {}
            Some(false) => {
                registered.slots.iter().for_each(|slot| self.tools.touch(*slot, generation));
            }
        }
        self.servers.set(number, Some(Arc::new(registered)), generation);
    }

    /// Removes a server; the caller must remove the server's tools.
    pub(crate) fn remove_server(&mut self, number: ServerNumber, generation: u64) {
        let Some(id) = self.server(number).map(|known| self.hasher.hash_one(&*known.server.id))
        else {
            return;
        };
        self.ids.remove(id, number);
        self.server_count -= 1;
        self.servers.set(number, None, generation);
    }

    fn name_hashes(&self, name: &str) -> (u64, u64) {
        (self.hasher.hash_one(name), self.hasher.hash_one(&*fold_name(name)))
    }
}

/// Returns a number for a risk level; a higher number means a higher risk.
pub(crate) fn rank(risk: &RiskLevel) -> u8 {
    match risk {
        RiskLevel::Safe => 0,
        RiskLevel::Moderate => 1,
        RiskLevel::Dangerous => 2,
        _ => 3,
    }
}
