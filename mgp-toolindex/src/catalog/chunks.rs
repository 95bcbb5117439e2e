//! A list that is cheap to clone: what is not changed after is shared (MGP §16.4).
//!
//! Applies to: both.

use std::sync::Arc;

/// How many items a piece has; a multiple of 64, so that pieces and words of bitmaps end together.
pub(crate) const CHUNK: usize = 1024;

/// A list in pieces.
///
/// A clone costs a counter per piece; a change after it copies one piece.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<T> {
    chunks: Vec<Chunk<T>>,
}

#[derive(Clone, Debug)]
struct Chunk<T> {
    items: Arc<Vec<T>>,
    /// The generation that changed it last.
    changed: u64,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Clone + Default> Chunks<T> {
    /// The item at a place, if the list reaches there.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let at = at as usize;
        self.chunks.get(at / CHUNK)?.items.get(at % CHUNK)
    }

    /// Changes the item at a place; the list grows to reach there.
    pub(crate) fn set(&mut self, at: u32, item: T, generation: u64) {
        let at = at as usize;
        while self.chunks.len() <= at / CHUNK {
            self.chunks.push(Chunk { items: Arc::default(), changed: generation });
        }
        let chunk = &mut self.chunks[at / CHUNK];
        let items = Arc::make_mut(&mut chunk.items);
        if items.len() <= at % CHUNK {
            items.resize(at % CHUNK + 1, T::default());
        }
        items[at % CHUNK] = item;
        chunk.changed = generation;
    }

    /// Marks the piece around a place as changed.
    pub(crate) fn touch(&mut self, at: u32, generation: u64) {
        if let Some(chunk) = self.chunks.get_mut(at as usize / CHUNK) {
            chunk.changed = generation;
        }
    }

    /// The pieces, each with its first place and the generation that changed it last.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u32, u64, &[T])> {
        let starts = (0u32..).step_by(CHUNK);
        starts.zip(&self.chunks).map(|(start, chunk)| (start, chunk.changed, &chunk.items[..]))
    }

    /// All items with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pieces().flat_map(|(start, _, items)| (start..).zip(items))
    }

    /// One more than the last place there may be an item at.
    pub(crate) fn reach(&self) -> usize {
        self.chunks.len() * CHUNK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_what_it_had() {
        let mut list = Chunks::default();
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
        let mut list = Chunks::default();
        list.set(1500, 1u8, 1);
        assert_eq!((list.get(1400), list.get(3), list.reach()), (Some(&0), None, 2 * CHUNK));
    }
}
