//! Vectors of texts that were asked lately (MGP §16.4).
//!
//! Applies to: both.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A text, in 32 bytes whatever its length.
pub(super) type Key = [u8; 32];

/// Vectors of texts, the ones least lately asked forgotten first.
///
/// A text that was asked once makes room before one that was asked again: embedding all tools asks for each once, and
/// the queries of users stay.
#[derive(Debug)]
pub(super) struct Recent {
    rows: FxHashMap<Key, Row>,
    /// How many there may be.
    most: usize,
    clock: u64,
}

#[derive(Debug)]
struct Row {
    vector: Arc<[f32]>,
    last: u64,
    asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Once,
    Again,
}

impl Recent {
    /// Room for this many.
    pub(super) fn new(most: usize) -> Self {
        Self { rows: FxHashMap::default(), most, clock: 0 }
    }

    /// The vector of a text.
    pub(super) fn get(&mut self, key: &Key) -> Option<Arc<[f32]>> {
        self.clock += 1;
        let row = self.rows.get_mut(key)?;
        (row.last, row.asked) = (self.clock, Asked::Again);
        Some(Arc::clone(&row.vector))
    }

    /// Keeps the vector of a text, in the place of an older one if there is no room.
    pub(super) fn keep(&mut self, key: Key, vector: Arc<[f32]>) {
        if self.most == 0 {
            return;
        }
        self.clock += 1;
        if self.rows.len() >= self.most && !self.rows.contains_key(&key) {
            self.forget();
        }
        self.rows.insert(key, Row { vector, last: self.clock, asked: Asked::Once });
    }

    /// Forgets one; a look at all of them costs nothing beside the encoder that is about to run.
    fn forget(&mut self) {
        let once = self.rows.values().filter(|row| row.asked == Asked::Once).count();
        // Texts that were asked again leave a quarter of the room to new ones, or nothing new could ever stay.
        let from = if once * 4 > self.most { Asked::Once } else { Asked::Again };
        let oldest = |(_, row): &(&Key, &Row)| (row.asked != from, row.last);
        if let Some(key) = self.rows.iter().min_by_key(oldest).map(|(key, _)| *key) {
            self.rows.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    fn row() -> Arc<[f32]> {
        Arc::from([1.0])
    }

    #[test]
    fn there_is_never_more_than_the_bound() {
        for most in [0, 1, 8] {
            let mut recent = Recent::new(most);
            for number in 0..100 {
                recent.keep(key(number), row());
                recent.get(&key(number / 2));
                assert!(recent.rows.len() <= most, "{most}");
            }
        }
    }

    #[test]
    fn what_was_asked_again_outlives_a_flood() {
        let mut recent = Recent::new(8);
        for number in 0..4 {
            recent.keep(key(number), row());
            recent.get(&key(number));
        }
        for number in 100..10_000 {
            recent.keep(key(number), row());
        }
        for number in 0..4 {
            assert!(recent.get(&key(number)).is_some(), "{number}");
        }
        assert!(recent.get(&key(5_000)).is_none());
    }

    #[test]
    fn what_is_asked_now_replaces_what_was_asked_long_ago() {
        let mut recent = Recent::new(8);
        for number in 0..50 {
            recent.keep(key(number), row());
            recent.get(&key(number));
        }
        assert!(recent.get(&key(49)).is_some());
        assert!(recent.get(&key(0)).is_none());
    }
}
