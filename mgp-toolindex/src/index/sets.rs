//! Sets of tools that are asked for again and again: filters, and what a caller may call (MGP §16.5).
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::snapshot::Snapshot;
use crate::catalog::{Allowed, AllowedKey, Bitmap, CHUNK, Catalog, Extent, Record, Test};
use crate::error::IndexError;
use crate::search::Filter;
use crate::text::{Analyzer, INPUT, OUTPUT, kind_words};

/// How many sets of a kind are kept; the one that was asked for longest ago goes.
const MOST: usize = 64;

/// How many words of a type of input or output are looked for.
const KIND_WORDS: usize = 6;

/// How long decisions about a caller are kept: grants end by the clock, too.
const FRESH: Duration = Duration::from_secs(1);

/// Sets that are kept.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    filters: Mutex<Kept<Filter>>,
    allowed: Mutex<Kept<AllowedKey>>,
}

/// Sets under their keys.
#[derive(Debug)]
struct Kept<K> {
    sets: HashMap<K, Entry, ahash::RandomState>,
    clock: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    set: Arc<Bitmap>,
    /// The generation it was made of.
    generation: u64,
    made: Instant,
    used: u64,
}

impl Sets {
    /// The tools that pass a filter; none if all do.
    pub(crate) fn filter(
        &self,
        now: &Snapshot,
        filter: &Filter,
        analyzer: &Analyzer,
    ) -> Result<Option<Arc<Bitmap>>, IndexError> {
        if filter.is_empty() {
            return Ok(None);
        }
        let before = lock(&self.filters).get(filter);
        if let Some(before) = before.as_ref().filter(|before| before.generation == now.generation) {
            return Ok(Some(Arc::clone(&before.set)));
        }
        let mut test = Test::new(&now.catalog, filter);
        let kinds = kinds(now, filter, analyzer)?;
        let set = match (kinds, test.servers()) {
            (Some(mut kinds), _) => {
                if !test.is_empty() {
                    keep(&mut kinds, &now.catalog, |record| test.passes(record));
                }
                kinds
            }
            (None, Some(_)) => test.all(),
            (None, None) => again(now, before.as_ref(), |record| test.passes(record)),
        };
        let set = Arc::new(set);
        lock(&self.filters).put(filter.clone(), &set, now.generation);
        Ok(Some(set))
    }

    /// The tools that a caller may call, of those that pass a filter; none if it may call all.
    pub(crate) fn allowed(
        &self,
        now: &Snapshot,
        allowed: &dyn Allowed,
        within: Option<&Bitmap>,
    ) -> Option<Arc<Bitmap>> {
        if allowed.extent() == Extent::All {
            return None;
        }
        let allows = |record: &Record| allowed.allows(&record.entry.server.id, record.entry.name());
        let Some(key) = allowed.standing() else {
            let set = match within {
                Some(within) => {
                    let mut set = within.clone();
                    keep(&mut set, &now.catalog, allows);
                    set
                }
                None => again(now, None, allows),
            };
            return Some(Arc::new(set));
        };
        let before = lock(&self.allowed).get(&key);
        let before = before.filter(|before| before.made.elapsed() < FRESH);
        if let Some(before) = before.as_ref().filter(|before| before.generation == now.generation) {
            return Some(Arc::clone(&before.set));
        }
        let set = Arc::new(again(now, before.as_ref(), allows));
        match before {
            // What was decided about most tools is as old as it was.
            Some(before) => lock(&self.allowed).renew(&key, &set, now.generation, before.made),
            None => lock(&self.allowed).put(key, &set, now.generation),
        }
        Some(set)
    }
}

/// The tools that have one of the types of input, and one of those of output, that a filter wants.
fn kinds(
    now: &Snapshot,
    filter: &Filter,
    analyzer: &Analyzer,
) -> Result<Option<Bitmap>, IndexError> {
    let mut both: Option<Bitmap> = None;
    for (sign, wanted) in [(INPUT, &filter.input_types), (OUTPUT, &filter.output_types)] {
        if wanted.is_empty() {
            continue;
        }
        let mut any = Bitmap::with_len(now.catalog.reach());
        for kind in wanted {
            let mut all: Option<Bitmap> = None;
            // Each word is a set of all tools: a type of many words is no type.
            for word in kind_words(sign, kind, analyzer).into_iter().take(KIND_WORDS) {
                let Some(reader) = &now.keywords else { break };
                let having = reader.of_kind(&word)?;
                match &mut all {
                    Some(all) => all.and(&having),
                    None => all = Some(having),
                }
            }
            if let Some(all) = all {
                any.or(&all);
            }
        }
        match &mut both {
            Some(both) => both.and(&any),
            None => both = Some(any),
        }
    }
    Ok(both)
}

/// Takes out of a set what does not pass.
fn keep(set: &mut Bitmap, catalog: &Catalog, mut passes: impl FnMut(&Record) -> bool) {
    let all: Vec<u32> = set.iter().collect();
    for slot in all {
        if !catalog.record(slot).is_some_and(&mut passes) {
            set.clear(slot);
        }
    }
}

/// The tools that pass; where nothing changed since a set was made, what it says.
///
/// A search that began before a change may come across a set that was made after it; that one says nothing of the
/// tools there were.
fn again(
    now: &Snapshot,
    before: Option<&Entry>,
    mut passes: impl FnMut(&Record) -> bool,
) -> Bitmap {
    const WORDS: usize = CHUNK / 64;
    let before = before.filter(|before| before.generation <= now.generation);
    let mut set = Bitmap::with_len(now.catalog.reach());
    for (piece, (start, changed, records)) in now.catalog.pieces().enumerate() {
        let words = piece * WORDS..(piece + 1) * WORDS;
        let known = before.filter(|before| changed <= before.generation);
        if let Some(known) = known.and_then(|known| known.set.words().get(words.clone())) {
            set.words_mut()[words].copy_from_slice(known);
            continue;
        }
        for (slot, record) in (start..).zip(records) {
            if record.as_ref().is_some_and(&mut passes) {
                set.set(slot);
            }
        }
    }
    set
}

fn lock<K>(kept: &Mutex<Kept<K>>) -> std::sync::MutexGuard<'_, Kept<K>> {
    // Whole entries are put in and taken out, so that a panic leaves none half made.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self { sets: HashMap::default(), clock: 0 }
    }
}

impl<K: Clone + Eq + Hash> Kept<K> {
    fn get(&mut self, key: &K) -> Option<Entry> {
        self.clock += 1;
        let entry = self.sets.get_mut(key)?;
        entry.used = self.clock;
        Some(entry.clone())
    }

    fn put(&mut self, key: K, set: &Arc<Bitmap>, generation: u64) {
        self.clock += 1;
        if self.sets.len() >= MOST && !self.sets.contains_key(&key) {
            let oldest = self.sets.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.sets.remove(&oldest);
            }
        }
        let entry =
            Entry { set: Arc::clone(set), generation, made: Instant::now(), used: self.clock };
        self.sets.insert(key, entry);
    }

    fn renew(&mut self, key: &K, set: &Arc<Bitmap>, generation: u64, made: Instant) {
        if let Some(entry) = self.sets.get_mut(key) {
            *entry = Entry { set: Arc::clone(set), generation, made, used: entry.used };
        }
    }
}
