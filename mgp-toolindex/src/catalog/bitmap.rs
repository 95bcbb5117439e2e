//! A set of tools with one bit for each tool. The position of the bit is the number of the tool, its slot (MGP §16.5).

use super::Slot;

const BITS: usize = u64::BITS as usize;

/// A set of tools, each given by its [`Slot`]; a slot beyond the bitmap's length counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// Creates an empty set with room for the slots below `len`.
    pub(crate) fn with_len(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(BITS)] }
    }

    /// Adds a slot to the set, which grows if necessary.
    pub(crate) fn set(&mut self, slot: Slot) {
        let (word, bit) = place(slot);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    pub(crate) fn clear(&mut self, slot: Slot) {
        let (word, bit) = place(slot);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    #[inline]
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Returns the slots in the set, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        (0u32..).zip(&self.words).flat_map(|(at, word)| Ones(*word).map(move |bit| at * 64 + bit))
    }

    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Keeps only the slots that are also in the other set.
    pub(crate) fn and(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Adds all slots of another set.
    pub(crate) fn or(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Returns the words of the set, each with the bits of 64 slots.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the words of the set mutably, so that the caller can write the bits of 64 slots in one step.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }
}

impl FromIterator<Slot> for Bitmap {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.set(slot));
        set
    }
}

/// An iterator over the positions of the bits that are set in a word.
struct Ones(u64);

impl Iterator for Ones {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    }
}

fn place(slot: Slot) -> (usize, u64) {
    let slot = slot as usize;
    (slot / BITS, 1 << (slot % BITS))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slots_beyond_the_length_are_not_in_the_set() {
        let mut set = Bitmap::with_len(10);
        set.clear(1000);
        assert!(!set.contains(1000));
        set.set(1000);
        assert!(set.contains(1000) && set.count() == 1);
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(
            ours in prop::collection::btree_set(0u32..500, 0..60),
            theirs in prop::collection::btree_set(0u32..300, 0..60),
        ) {
            let mut set: Bitmap = ours.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), ours.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.count(), ours.len());
            let other: Bitmap = theirs.iter().copied().collect();
            set.and(&other);
            let both: Vec<_> = ours.intersection(&theirs).copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), both);
        }
    }
}
