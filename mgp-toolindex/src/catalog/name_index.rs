//! A map from hashes of names to numbers. It is cheap to clone, and stores no copy of the names (MGP §16.4).

use std::sync::Arc;

/// The number of shards of the index; a change copies only one shard.
const SHARDS: usize = 256;

/// A map from the hash of a name to the numbers of the tools or servers with that name. Different names can share a
/// hash, so the caller must compare the names.
#[derive(Clone, Debug)]
pub(crate) struct NameIndex {
    /// For each shard, sorted pairs: the lower half of a hash, and the number of a tool or server.
    shards: Vec<Arc<Vec<(u32, u32)>>>,
}

impl Default for NameIndex {
    fn default() -> Self {
        Self { shards: vec![Arc::default(); SHARDS] }
    }
}

impl NameIndex {
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        let (shard, pair) = self.place(hash, number);
        if let Err(at) = self.shards[shard].binary_search(&pair) {
            Arc::make_mut(&mut self.shards[shard]).insert(at, pair);
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, number: u32) {
        let (shard, pair) = self.place(hash, number);
        if let Ok(at) = self.shards[shard].binary_search(&pair) {
            let shard = Arc::make_mut(&mut self.shards[shard]);
            shard.remove(at);
            if shard.capacity() > 4 * shard.len() + 16 {
                shard.shrink_to_fit();
            }
        }
    }

    /// Returns the numbers stored for a hash, in ascending order.
    pub(crate) fn get(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let (shard, (key, _)) = self.place(hash, 0);
        let shard = &self.shards[shard];
        let start = shard.partition_point(|pair| pair.0 < key);
        shard[start..].iter().take_while(move |pair| pair.0 == key).map(|pair| pair.1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves of the hash are wanted")]
    fn place(&self, hash: u64, number: u32) -> (usize, (u32, u32)) {
        ((hash >> 32) as usize % self.shards.len(), (hash as u32, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_hash() {
        let mut names = NameIndex::default();
        let at = |number: u32| (u64::from(number % 7) << 32) | u64::from(number % 5);
        (0..100).rev().for_each(|number| names.insert(at(number), number));
        let before = names.clone();
        names.insert(at(3), 3);
        (0..50).for_each(|number| names.remove(at(number), number));
        assert_eq!(names.get(at(3)).collect::<Vec<_>>(), [73]);
        assert_eq!(before.get(at(3)).collect::<Vec<_>>(), [3, 38, 73]);
        assert_eq!(names.get(99).count(), 0);
    }
}
