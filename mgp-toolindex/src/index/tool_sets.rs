//! Caches sets of tools: the tools that pass a filter, and the tools that a caller is allowed to call (MGP §16.5).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::sync::Mutex;
use tokio::time::Instant;

use super::snapshot::Snapshot;
use crate::catalog::{Allowed, AllowedKey, Bitmap, CHUNK_LEN, Catalog, Extent, FilterTest, Record};
use crate::error::IndexError;
use crate::search::Filter;
use crate::text::{Analyzer, INPUT_PREFIX, OUTPUT_PREFIX, kind_words};

/// The maximum number of cached sets of each kind; the least recently used set is evicted.
pub(super) const MAX_SETS: usize = 256;

/// The maximum total size of the cached sets of each kind, in bytes. A single set is cached even if it is larger.
const MAX_BYTES: usize = 16 << 20;

/// The maximum number of words that are looked up for an input or output type.
const MAX_TYPE_WORDS: usize = 6;

/// The lifetime of a cached set of allowed tools. It is short, because the right to call a tool can expire without any
/// change of the index or the rules.
const ALLOWED_TTL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct ToolSets {
    filters: Mutex<SetCache<Filter>>,
    allowed: Mutex<SetCache<AllowedKey>>,
}

#[derive(Debug)]
struct SetCache<K> {
    sets: HashMap<K, CachedSet, ahash::RandomState>,
    clock: u64,
}

#[derive(Clone, Debug)]
struct CachedSet {
    set: Arc<Bitmap>,
    /// The generation of the index from which the set was computed.
    generation: u64,
    computed_at: Instant,
    used: u64,
}

impl ToolSets {
    /// Returns the set of the tools that pass a filter; `None` means all tools.
    pub(crate) fn filter(
        &self,
        now: &Snapshot,
        filter: &Filter,
        analyzer: &Analyzer,
    ) -> Result<Option<Arc<Bitmap>>, IndexError> {
        if filter.is_empty() {
            return Ok(None);
        }
        let before = self.filters.lock().get(filter);
        if let Some(before) = before.as_ref().filter(|before| before.generation == now.generation) {
            return Ok(Some(Arc::clone(&before.set)));
        }
        let mut test = FilterTest::new(&now.catalog, filter);
        let kinds = kinds(now, filter, analyzer)?;
        let set = match (kinds, test.servers()) {
            (Some(mut kinds), _) => {
                if !test.is_empty() {
                    retain(&mut kinds, &now.catalog, |record| test.passes(record));
                }
                kinds
            }
            (None, Some(_)) => test.all(),
            (None, None) => update_set(now, before.as_ref(), |record| test.passes(record)),
        };
        let set = Arc::new(set);
        self.filters.lock().put(filter.clone(), &set, now.generation);
        Ok(Some(set))
    }

    /// Returns the set of the tools that the caller is allowed to call; `None` means all tools.
    pub(crate) fn allowed(&self, now: &Snapshot, allowed: &dyn Allowed) -> Option<Arc<Bitmap>> {
        if allowed.extent() == Extent::All {
            return None;
        }
        let allows = |record: &Record| allowed.allows(&record.entry.server.id, record.entry.name());
        let Some(key) = allowed.cache_key() else {
            return Some(Arc::new(update_set(now, None, allows)));
        };
        let before = self.allowed.lock().get(&key);
        let before = before.filter(|before| before.computed_at.elapsed() < ALLOWED_TTL);
        if let Some(before) = before.as_ref().filter(|before| before.generation == now.generation) {
            return Some(Arc::clone(&before.set));
        }
        let set = Arc::new(update_set(now, before.as_ref(), allows));
        match before {
            // The new set contains decisions that were copied from the older set, so it expires when the older set
            // would.
            Some(before) => {
                self.allowed.lock().replace(&key, &set, now.generation, before.computed_at);
            }
            None => self.allowed.lock().put(key, &set, now.generation),
        }
        Some(set)
    }
}

/// Returns the tools that have at least one of the filter's input types and at least one of its output types; `None` if
/// the filter names no types.
fn kinds(
    now: &Snapshot,
    filter: &Filter,
    analyzer: &Analyzer,
) -> Result<Option<Bitmap>, IndexError> {
    let mut both: Option<Bitmap> = None;
    for (sign, wanted) in
        [(INPUT_PREFIX, &filter.input_types), (OUTPUT_PREFIX, &filter.output_types)]
    {
        if wanted.is_empty() {
            continue;
        }
        let mut any = Bitmap::with_len(now.catalog.reach());
        for kind in wanted {
            let mut all: Option<Bitmap> = None;
            // Read only the first words of a type: each word needs a set as large as the index, and real types have few
            // words.
            for word in kind_words(sign, kind, analyzer).into_iter().take(MAX_TYPE_WORDS) {
                let Some(reader) = &now.keywords else { break };
                let having = reader.tools_of_kind(&word)?;
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

/// Returns whether these sets are too many or too large for a cache, so that it must remove one.
pub(super) fn are_too_many<'a>(sets: impl Iterator<Item = &'a Bitmap>) -> bool {
    let (mut count, mut bytes) = (0, 0);
    for set in sets {
        count += 1;
        bytes += size_of_val(set.words());
    }
    count > MAX_SETS || (count > 1 && bytes > MAX_BYTES)
}

/// Removes from the set all tools that `passes` does not accept.
pub(super) fn retain(set: &mut Bitmap, catalog: &Catalog, mut passes: impl FnMut(&Record) -> bool) {
    let all: Vec<u32> = set.iter().collect();
    for slot in all {
        if !catalog.record(slot).is_some_and(&mut passes) {
            set.clear(slot);
        }
    }
}

/// Computes the set of tools that `passes` accepts. `before` is an older set of the same kind; for chunks of the
/// catalogue that have not changed since, its bits are copied.
///
/// Ignores a `before` that is newer than the snapshot: a search that began before a change can get such a set, if
/// another search computed it after the change.
fn update_set(
    now: &Snapshot,
    before: Option<&CachedSet>,
    mut passes: impl FnMut(&Record) -> bool,
) -> Bitmap {
    const WORDS: usize = CHUNK_LEN / 64;
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

impl<K> Default for SetCache<K> {
    fn default() -> Self {
        Self { sets: HashMap::default(), clock: 0 }
    }
}

impl<K: Clone + Eq + Hash> SetCache<K> {
    fn get(&mut self, key: &K) -> Option<CachedSet> {
        self.clock += 1;
        let entry = self.sets.get_mut(key)?;
        entry.used = self.clock;
        Some(entry.clone())
    }

    fn put(&mut self, key: K, set: &Arc<Bitmap>, generation: u64) {
        self.clock += 1;
        let entry = CachedSet {
            set: Arc::clone(set),
            generation,
            computed_at: Instant::now(),
            used: self.clock,
        };
        self.sets.insert(key, entry);
        while are_too_many(self.sets.values().map(|entry| &*entry.set)) {
            let oldest = self.sets.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.sets.remove(&oldest);
        }
    }

    fn replace(&mut self, key: &K, set: &Arc<Bitmap>, generation: u64, computed_at: Instant) {
        if let Some(entry) = self.sets.get_mut(key) {
            *entry = CachedSet { set: Arc::clone(set), generation, computed_at, used: entry.used };
        }
    }
}
