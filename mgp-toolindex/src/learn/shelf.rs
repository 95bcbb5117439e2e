//! All that is remembered, and the bounds of it.
//!
//! Applies to: inbound.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::book::{Book, Title, ToolUse};
use super::config::{Erase, HistoryConfig, HistoryStats, Keep, Share};
use super::entry::{CALLS, Call, Entry, Key, Owner, Place, TEXT, Word};
use crate::text::cut;
use crate::vector::VectorTable;

/// A model is fitted anew after so many calls at least, and after a fifth of the queries.
const NEWS: usize = 8;

/// The share of a tenant's room that one subject may have.
const QUARTER: usize = 4;

/// All that is remembered. Entries and tools of all books lie in the same tables; a book knows its own.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) config: HistoryConfig,
    pub(super) entries: Slab<Entry>,
    pub(super) tools: Slab<ToolUse>,
    pub(super) books: FxHashMap<Title, Book>,
    /// For each entry, the length of its words as a vector, as it was when they were last weighed.
    pub(super) lengths: Vec<f32>,
    /// For each tool, what its calls count. Searches run through these two: they lie close together.
    pub(super) weights: Vec<f32>,
    /// The vectors of the entries.
    pub(super) rows: Option<VectorTable>,
    /// The mean vectors of the tools.
    pub(super) centres: Option<VectorTable>,
    keys: FxHashMap<Key, Place>,
    turns: BTreeMap<u64, Place>,
    next: u64,
    /// Entries with a text and without a vector.
    bare: BTreeSet<Place>,
    /// Whether a book has so much new in it that its model should be fitted.
    pub(super) is_due: bool,
    /// What has to be written to the database, where there is one.
    pub(super) changed: Option<FxHashSet<Key>>,
}

/// Values by small numbers that are used again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

/// A query that is to be remembered.
#[derive(Debug)]
pub(super) struct Fresh<'a> {
    pub(super) owner: Owner,
    pub(super) key: Key,
    pub(super) text: Option<&'a str>,
    pub(super) words: Vec<Word>,
    pub(super) vector: Option<Vec<f32>>,
    /// In seconds since 1970.
    pub(super) now: u64,
}

// === impl Shelf ===

impl Shelf {
    pub(super) fn new(config: HistoryConfig) -> Self {
        Self {
            config,
            entries: Slab::new(),
            tools: Slab::new(),
            books: FxHashMap::default(),
            lengths: Vec::new(),
            weights: Vec::new(),
            rows: None,
            centres: None,
            keys: FxHashMap::default(),
            turns: BTreeMap::new(),
            next: 0,
            bare: BTreeSet::new(),
            is_due: false,
            changed: None,
        }
    }

    /// The book that an owner's ranking learns from.
    pub(super) fn title(&self, owner: &Owner) -> Title {
        let subject = match self.config.share {
            Share::Subject => Some(owner.subject.clone()),
            Share::Tenant => None,
        };
        (owner.tenant.clone(), subject)
    }

    /// Remembers a call after a query. Whatever is too much then, goes.
    pub(super) fn remember(&mut self, fresh: &Fresh<'_>, tool: &str, times: u32) {
        let title = self.title(&fresh.owner);
        self.forget_before(fresh.now);
        let place = match self.keys.get(&fresh.key) {
            Some(place) => *place,
            None => self.enter(&title, fresh),
        };
        self.touch(&title, place, fresh.now);
        self.call(&title, place, tool, times);
        self.keep_within(&title, &fresh.owner);
        if let Some(book) = self.books.get_mut(&title) {
            book.news += 1;
            self.is_due |= book.news >= NEWS.max(book.len() / 5);
        }
    }

    /// Whether a query is remembered.
    pub(super) fn knows(&self, key: Key) -> bool {
        self.keys.contains_key(&key)
    }

    /// The entry of a key.
    #[cfg(feature = "sqlite")]
    pub(super) fn entry(&self, key: Key) -> Option<(Place, &Entry)> {
        let place = *self.keys.get(&key)?;
        Some((place, self.entries.get(place)?))
    }

    /// Gives an entry its vector, and its tools their part of it.
    pub(super) fn place_vector(&mut self, place: Place, vector: &[f32]) {
        self.bare.remove(&place);
        let Some(rows) = &mut self.rows else { return };
        if rows.dimensions() == vector.len() && rows.row(place).is_none() {
            rows.set(place, vector);
            self.count_vector(place);
        }
    }

    /// Gives an entry the vector that it had before.
    #[cfg(feature = "sqlite")]
    pub(super) fn restore(&mut self, key: Key, row: &[i8]) {
        let (Some(place), Some(rows)) = (self.keys.get(&key).copied(), &mut self.rows) else {
            return;
        };
        if rows.row(place).is_none() {
            rows.restore(place, row);
            if rows.row(place).is_some() {
                self.bare.remove(&place);
                self.count_vector(place);
            }
        }
    }

    /// The first entry after another one that has a text and no vector.
    pub(super) fn bare(&self, after: Option<Place>) -> Option<Place> {
        self.rows.as_ref()?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.bare.range((from, Bound::Unbounded)).next().copied()
    }

    fn count_vector(&mut self, place: Place) {
        let Some(entry) = self.entries.get(place) else { return };
        if let Some(changed) = &mut self.changed {
            changed.insert(entry.key);
        }
        for call in entry.calls.clone() {
            self.sum(place, call.tool, call.weight());
        }
    }

    /// Makes room for vectors of so many numbers; those of another length go.
    pub(super) fn dimensions(&mut self, dimensions: Option<usize>) {
        if self.rows.as_ref().map(VectorTable::dimensions) == dimensions {
            return;
        }
        self.rows = dimensions.map(VectorTable::new);
        self.centres = dimensions.map(VectorTable::new);
        self.tools.iter_mut().for_each(|tool| tool.sum = Vec::new());
        let texts = self
            .turns
            .values()
            .filter(|place| self.entries.get(**place).is_some_and(|entry| entry.text.is_some()));
        self.bare = texts.copied().collect();
    }

    pub(super) fn erase(&mut self, what: Erase<'_>) -> usize {
        let before = self.keys.len();
        let places: Vec<Place> = match what {
            Erase::All => self.turns.values().copied().collect(),
            Erase::Tenant(tenant) => self.owned_by(|owner| owner.tenant == *tenant),
            Erase::Principal(who) => {
                let erased = Owner::of(who);
                self.owned_by(|owner| *owner == erased)
            }
            Erase::Tool(id) => {
                self.erase_tool(id);
                Vec::new()
            }
        };
        for place in places {
            self.remove(place);
        }
        // What the weights say came from what is gone too.
        self.books.values_mut().for_each(|book| book.news = book.news.max(book.len()));
        self.is_due = true;
        before - self.keys.len()
    }

    pub(super) fn stats(&self) -> HistoryStats {
        HistoryStats {
            queries: self.keys.len(),
            vectors: self.rows.as_ref().map_or(0, VectorTable::len),
            tools: self.tools.iter().count(),
            apart: self.books.len(),
        }
    }

    /// Weighs the words of a book's entries anew.
    pub(super) fn weigh(&mut self, title: &Title) {
        let Some(book) = self.books.get(title) else { return };
        for place in book.turns.values() {
            if let Some(entry) = self.entries.get(*place) {
                self.lengths[*place as usize] = book.length(&entry.words, book.len(), 0);
            }
        }
    }

    fn enter(&mut self, title: &Title, fresh: &Fresh<'_>) -> Place {
        self.next += 1;
        let text = match self.config.keep {
            Keep::Text => fresh.text.map(|text| cut(text, TEXT).into()),
            Keep::Vector | Keep::Words => None,
        };
        let entry = Entry {
            owner: fresh.owner.clone(),
            key: fresh.key,
            text,
            words: fresh.words.clone().into(),
            calls: Vec::new(),
            turn: self.next,
            last: fresh.now,
        };
        let book = self.books.entry(title.clone()).or_default();
        let place = self.entries.next();
        book.enter(place, &entry);
        self.lengths.resize(self.entries.len(), 1.0);
        self.lengths[place as usize] = book.length(&entry.words, book.len(), 0);
        self.keys.insert(entry.key, place);
        self.turns.insert(entry.turn, place);
        if entry.text.is_some() {
            self.bare.insert(place);
        }
        self.entries.put(place, entry);
        if let Some(vector) = &fresh.vector
            && self.config.keep != Keep::Words
        {
            self.place_vector(place, vector);
        }
        place
    }

    fn touch(&mut self, title: &Title, place: Place, now: u64) {
        self.next += 1;
        let Some(entry) = self.entries.get_mut(place) else { return };
        if let Some(book) = self.books.get_mut(title) {
            book.turn(place, entry, self.next);
        }
        self.turns.remove(&entry.turn);
        self.turns.insert(self.next, place);
        (entry.turn, entry.last) = (self.next, now.max(entry.last));
        if let Some(changed) = &mut self.changed {
            changed.insert(entry.key);
        }
    }

    fn call(&mut self, title: &Title, place: Place, id: &str, times: u32) {
        let tool = self.tool(title, id);
        let Some(entry) = self.entries.get_mut(place) else { return };
        let added = if let Some(call) = entry.calls.iter_mut().find(|call| call.tool == tool) {
            let before = call.weight();
            call.count = call.count.saturating_add(times);
            call.weight() - before
        } else {
            if entry.calls.len() >= CALLS {
                let rarest = entry.calls.iter().min_by_key(|call| call.count).copied();
                if let Some(call) = rarest {
                    self.uncall(title, place, call);
                }
            }
            let Some(entry) = self.entries.get_mut(place) else { return };
            let call = Call { tool, count: times };
            entry.calls.push(call);
            let owner = entry.owner.subject.clone();
            if let Some(used) = self.tools.get_mut(tool) {
                used.of.entry(owner).or_default().push(place);
            }
            call.weight()
        };
        self.weigh_call(title, place, tool, added);
        self.keep_tool_within(title, place, tool);
    }

    /// Takes a tool of an entry back.
    fn uncall(&mut self, title: &Title, place: Place, call: Call) {
        self.weigh_call(title, place, call.tool, -call.weight());
        let Some(entry) = self.entries.get_mut(place) else { return };
        entry.calls.retain(|known| known.tool != call.tool);
        let Some(used) = self.tools.get_mut(call.tool) else { return };
        if let Some(places) = used.of.get_mut(&entry.owner.subject) {
            places.retain(|known| *known != place);
            if places.is_empty() {
                used.of.remove(&entry.owner.subject);
            }
        }
        if !used.of.is_empty() {
            return;
        }
        if let Some(used) = self.tools.take(call.tool)
            && let Some(book) = self.books.get_mut(title)
        {
            book.names.remove(&used.id);
            book.tools.clear(call.tool);
        }
        if let Some(centres) = &mut self.centres {
            centres.clear(call.tool);
        }
    }

    /// Adds to what a call counts, by word and by vector.
    fn weigh_call(&mut self, title: &Title, place: Place, tool: u32, added: f32) {
        let Some(entry) = self.entries.get(place) else { return };
        if let Some(book) = self.books.get_mut(title) {
            book.count(&entry.words, tool, added);
        }
        self.weights[tool as usize] += added;
        self.sum(place, tool, added);
    }

    fn sum(&mut self, place: Place, tool: u32, added: f32) {
        // What is added is what the row says, so that the same can be taken back.
        let Some(vector) = self.rows.as_ref().and_then(|rows| rows.vector(place)) else { return };
        let Some(used) = self.tools.get_mut(tool) else { return };
        used.add(&vector, added);
        if let Some(centres) = &mut self.centres {
            centres.set(tool, &used.sum);
        }
    }

    fn tool(&mut self, title: &Title, id: &str) -> u32 {
        let book = self.books.entry(title.clone()).or_default();
        if let Some(tool) = book.names.get(id) {
            return *tool;
        }
        let id: Arc<str> = id.into();
        let tool = self.tools.next();
        book.names.insert(Arc::clone(&id), tool);
        book.tools.set(tool);
        self.tools.put(tool, ToolUse::new(id));
        self.weights.resize(self.tools.len(), 0.0);
        self.weights[tool as usize] = 0.0;
        tool
    }

    /// One subject has only so many queries for one tool.
    fn keep_tool_within(&mut self, title: &Title, place: Place, tool: u32) {
        let Some(owner) = self.entries.get(place).map(|entry| entry.owner.subject.clone()) else {
            return;
        };
        let Some(places) = self.tools.get(tool).and_then(|used| used.of.get(&owner)) else {
            return;
        };
        if places.len() <= self.config.most_per_tool {
            return;
        }
        let turn = |place: &Place| self.entries.get(*place).map_or(0, |entry| entry.turn);
        let Some(oldest) = places.iter().copied().min_by_key(turn) else { return };
        let call = self
            .entries
            .get(oldest)
            .and_then(|entry| entry.calls.iter().find(|call| call.tool == tool).copied());
        if let Some(call) = call {
            self.uncall(title, oldest, call);
        }
        self.changed_at(oldest);
        if self.entries.get(oldest).is_some_and(|entry| entry.calls.is_empty()) {
            self.remove(oldest);
        }
    }

    fn keep_within(&mut self, title: &Title, owner: &Owner) {
        let HistoryConfig { most, most_each, share, .. } = self.config;
        if share == Share::Tenant
            && let Some(turns) =
                self.books.get(title).and_then(|book| book.owners.get(&owner.subject))
            && turns.len() > (most_each / QUARTER).max(1)
            && let Some((_, place)) = turns.first_key_value()
        {
            self.remove(*place);
        }
        if let Some(book) = self.books.get(title)
            && book.len() > most_each
            && let Some((_, place)) = book.turns.first_key_value()
        {
            self.remove(*place);
        }
        if self.turns.len() > most
            && let Some((_, place)) = self.turns.first_key_value()
        {
            self.remove(*place);
        }
    }

    /// Forgets what was not used for too long; the longest unused comes first.
    fn forget_before(&mut self, now: u64) {
        let oldest = now.saturating_sub(self.config.forget_after.as_secs());
        while let Some((_, place)) = self.turns.first_key_value()
            && let place = *place
            && self.entries.get(place).is_none_or(|entry| entry.last < oldest)
        {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: Place) {
        let Some(entry) = self.entries.get(place) else {
            self.turns.retain(|_, known| *known != place);
            return;
        };
        let title = self.title(&entry.owner);
        for call in entry.calls.clone() {
            self.uncall(&title, place, call);
        }
        self.changed_at(place);
        let Some(entry) = self.entries.take(place) else { return };
        self.keys.remove(&entry.key);
        self.turns.remove(&entry.turn);
        self.bare.remove(&place);
        if let Some(rows) = &mut self.rows {
            rows.clear(place);
        }
        if let Some(book) = self.books.get_mut(&title) {
            book.strike(place, &entry);
            if book.len() == 0 {
                self.books.remove(&title);
            }
        }
    }

    fn erase_tool(&mut self, id: &str) {
        let tools: Vec<_> = self.books.values().filter_map(|book| book.names.get(id)).collect();
        let tools: Vec<u32> = tools.into_iter().copied().collect();
        for tool in tools {
            let Some(used) = self.tools.get(tool) else { continue };
            let places: Vec<Place> = used.of.values().flatten().copied().collect();
            for place in places {
                let Some(entry) = self.entries.get(place) else { continue };
                let title = self.title(&entry.owner);
                let call = entry.calls.iter().find(|call| call.tool == tool).copied();
                if let Some(call) = call {
                    self.uncall(&title, place, call);
                }
                self.changed_at(place);
                if self.entries.get(place).is_some_and(|entry| entry.calls.is_empty()) {
                    self.remove(place);
                }
            }
        }
    }

    fn owned_by(&self, is_meant: impl Fn(&Owner) -> bool) -> Vec<Place> {
        let entries = self
            .turns
            .values()
            .filter(|place| self.entries.get(**place).is_some_and(|entry| is_meant(&entry.owner)));
        entries.copied().collect()
    }

    fn changed_at(&mut self, place: Place) {
        if let (Some(changed), Some(entry)) = (&mut self.changed, self.entries.get(place)) {
            changed.insert(entry.key);
        }
    }
}

// === impl Slab ===

impl<T> Slab<T> {
    fn new() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }

    /// Where the next value goes.
    fn next(&mut self) -> u32 {
        if let Some(free) = self.free.pop() {
            return free;
        }
        self.values.push(None);
        u32::try_from(self.values.len() - 1).expect("the bounds are far below 2^32")
    }

    fn put(&mut self, at: u32, value: T) {
        if let Some(place) = self.values.get_mut(at as usize) {
            *place = Some(value);
        }
    }

    fn take(&mut self, at: u32) -> Option<T> {
        let value = self.values.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.values.get(at as usize)?.as_ref()
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.values.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().flatten()
    }

    /// One more than the largest number in use.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}
