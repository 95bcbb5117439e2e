//! A cache of vectors (MGP §16.4).

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The BLAKE3 hash of a text.
pub(super) type TextHash = [u8; 32];

/// A cache of text vectors with least-recently-used eviction.
///
/// The cache first evicts texts that were used only once. So embedding all tools, which uses each text once, does not
/// evict the queries that users repeat.
#[derive(Debug)]
pub(super) struct VectorCache {
    rows: FxHashMap<TextHash, Row>,
    max: usize,
    clock: u64,
}

#[derive(Debug)]
struct Row {
    vector: Arc<[f32]>,
    last_use: u64,
    uses: Uses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uses {
    Once,
    Repeated,
}

impl VectorCache {
    pub(super) fn new(max: usize) -> Self {
        Self { rows: FxHashMap::default(), max, clock: 0 }
    }

    pub(super) fn get(&mut self, key: &TextHash) -> Option<Arc<[f32]>> {
        self.clock += 1;
        let row = self.rows.get_mut(key)?;
        (row.last_use, row.uses) = (self.clock, Uses::Repeated);
        Some(Arc::clone(&row.vector))
    }

    /// Inserts the vector of a text; evicts another vector if the cache is full.
    pub(super) fn insert(&mut self, key: TextHash, vector: Arc<[f32]>) {
        if self.max == 0 {
            return;
        }
        self.clock += 1;
        if self.rows.len() >= self.max && !self.rows.contains_key(&key) {
            self.evict();
        }
        self.rows.insert(key, Row { vector, last_use: self.clock, uses: Uses::Once });
    }

    /// Evicts one vector. The linear search is cheap compared with the encoder, which runs next.
    fn evict(&mut self) {
        let once = self.rows.values().filter(|row| row.uses == Uses::Once).count();
        // Reserve a quarter of the cache for texts that were used once. Otherwise a new text would be evicted
        // immediately, before it can be used a second time.
        let from = if once * 4 > self.max { Uses::Once } else { Uses::Repeated };
        let oldest = |(_, row): &(&TextHash, &Row)| (row.uses != from, row.last_use);
        if let Some(key) = self.rows.iter().min_by_key(oldest).map(|(key, _)| *key) {
            self.rows.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> TextHash {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    fn row() -> Arc<[f32]> {
        Arc::from([1.0])
    }

    #[test]
    fn the_cache_never_exceeds_its_maximum() {
        for max in [0, 1, 8] {
            let mut cache = VectorCache::new(max);
            for number in 0..100 {
                cache.insert(key(number), row());
                cache.get(&key(number / 2));
                assert!(cache.rows.len() <= max, "{max}");
            }
        }
    }

    #[test]
    fn a_repeated_text_survives_a_flood_of_new_ones() {
        let mut cache = VectorCache::new(8);
        for number in 0..4 {
            cache.insert(key(number), row());
            cache.get(&key(number));
        }
        for number in 100..10_000 {
            cache.insert(key(number), row());
        }
        for number in 0..4 {
            assert!(cache.get(&key(number)).is_some(), "{number}");
        }
        assert!(cache.get(&key(5_000)).is_none());
    }

    #[test]
    fn a_new_repeated_text_replaces_the_oldest_one() {
        let mut cache = VectorCache::new(8);
        for number in 0..50 {
            cache.insert(key(number), row());
            cache.get(&key(number));
        }
        assert!(cache.get(&key(49)).is_some());
        assert!(cache.get(&key(0)).is_none());
    }
}
