//! Pseudo-random numbers, the same in each run, and hashes of words.

/// A seeded pseudo-random number generator.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// Returns a pseudo-random number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // Advances the state with the algorithm xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        below(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d), bound)
    }

    /// Returns a random element.
    pub(crate) fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Returns a hash of a word and a seed.
pub(crate) fn hash(seed: u64, word: &str) -> u64 {
    let mixed = word.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // Mixes the bits once more, because the last bytes of a word have not yet affected the high bits.
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// Reduces a hash to a number below `bound`.
pub(crate) fn below(hash: u64, bound: usize) -> usize {
    usize::try_from(hash >> 33).unwrap_or(0) % bound.max(1)
}
