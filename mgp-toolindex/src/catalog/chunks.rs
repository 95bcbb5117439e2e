//! A list that is cheap to clone, because its clones share all unchanged chunks (MGP §16.4).

use std::sync::Arc;

/// The number of items in a chunk, a multiple of 64, so that each chunk corresponds to whole words of a bitmap.
pub(crate) const CHUNK_LEN: usize = 1024;

/// A list in chunks that clones share.
///
/// Cloning increments a reference counter for each chunk. A later change copies only the chunk that it changes.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedList<T> {
    chunks: Vec<Chunk<T>>,
}

#[derive(Clone, Debug)]
struct Chunk<T> {
    items: Arc<Vec<T>>,
    /// The generation of the index at the last change of this chunk.
    changed: u64,
}

impl<T> Default for ChunkedList<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Clone + Default> ChunkedList<T> {
    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let at = at as usize;
        self.chunks.get(at / CHUNK_LEN)?.items.get(at % CHUNK_LEN)
    }

    /// Sets an item; the list grows if necessary.
    pub(crate) fn set(&mut self, at: u32, item: T, generation: u64) {
        let at = at as usize;
        while self.chunks.len() <= at / CHUNK_LEN {
            self.chunks.push(Chunk { items: Arc::default(), changed: generation });
        }
        let chunk = &mut self.chunks[at / CHUNK_LEN];
        let items = Arc::make_mut(&mut chunk.items);
        if items.len() <= at % CHUNK_LEN {
            items.resize(at % CHUNK_LEN + 1, T::default());
        }
        items[at % CHUNK_LEN] = item;
        chunk.changed = generation;
    }

    /// Records that the chunk of an item changed in this generation of the index.
    pub(crate) fn touch(&mut self, at: u32, generation: u64) {
        if let Some(chunk) = self.chunks.get_mut(at as usize / CHUNK_LEN) {
            chunk.changed = generation;
        }
    }

    /// Returns the chunks, each with the index of its first item and the generation of its last change.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u32, u64, &[T])> {
        let starts = (0u32..).step_by(CHUNK_LEN);
        starts.zip(&self.chunks).map(|(start, chunk)| (start, chunk.changed, &chunk.items[..]))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pieces().flat_map(|(start, _, items)| (start..).zip(items))
    }

    /// Returns a number that is greater than the index of every item.
    pub(crate) fn reach(&self) -> usize {
        self.chunks.len() * CHUNK_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_does_not_change() {
        let mut list = ChunkedList::default();
        for at in 0..3000u32 {
            list.set(at, at, 1);
        }
        let before = list.clone();
        list.set(2000, 7, 2);
        assert_eq!((before.get(2000), list.get(2000)), (Some(&2000), Some(&7)));
        assert_eq!(list.get(5000), None);
        assert_eq!(
            list.iter().map(|(at, _)| at).collect::<Vec<_>>(),
            (0..3000).collect::<Vec<_>>()
        );
        let changed: Vec<u64> = list.pieces().map(|(_, changed, _)| changed).collect();
        assert_eq!(changed, [1, 2, 1]);
    }

    #[test]
    fn gaps_hold_the_default() {
        let mut list = ChunkedList::default();
        list.set(1500, 1u8, 1);
        assert_eq!((list.get(1400), list.get(3), list.reach()), (Some(&0), None, 2 * CHUNK_LEN));
    }
}
