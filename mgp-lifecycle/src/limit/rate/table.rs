//! The buckets of a layer: bounded in number, and all or none of those a call needs.
//!
//! Applies to: both.

use std::collections::HashMap;

use super::bucket::{Pace, TooSoon};

/// How long is waited until buckets that are full again are looked for once more, in nanoseconds.
const SWEEP_EVERY: u64 = 100_000_000;

/// How many buckets those share who have none, for each limit.
const SHARED: usize = 256;

/// Buckets by the hash of what they are counted by; a bucket that is full is as good as none.
///
/// The hash is keyed with secrets of this process and 64 bits wide: two keys that share one would share a bucket.
#[derive(Debug)]
pub(super) struct Table {
    /// When each is full again.
    buckets: HashMap<u64, u64, ahash::RandomState>,
    bound: usize,
    /// For each limit the buckets of all keys that have none, while there is no room: one for those of a caller, so that
    /// who fills the table with keys of its own takes the turns of hardly anybody else.
    shared: Vec<[u64; SHARED]>,
    swept: u64,
}

/// What a call is counted by under a limit, as hashes.
pub(super) trait Counted {
    /// All of it.
    fn key(&self, limit: usize) -> u64;

    /// Whose it is: what of it the caller cannot choose.
    fn whose(&self, limit: usize) -> u64;
}

/// A limit that was reached, by its place among the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) limit: usize,
    pub(super) soon: TooSoon,
}

impl Table {
    pub(super) fn new(bound: usize, limits: usize) -> Self {
        Self { buckets: HashMap::default(), bound, shared: vec![[0; SHARED]; limits], swept: 0 }
    }

    /// How many buckets there are.
    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Takes a call from the bucket of each limit, or from none of them.
    ///
    /// # Errors
    /// The limit that makes the call wait longest.
    pub(super) fn take(
        &mut self,
        paces: &[Pace],
        by: &impl Counted,
        now: u64,
    ) -> Result<(), Reached> {
        for (limit, pace) in paces.iter().enumerate() {
            let bucket = self.bucket(limit, by, now);
            match pace.take(*bucket, now) {
                Ok(full) => *bucket = full,
                Err(soon) => {
                    for (limit, pace) in paces[..limit].iter().enumerate() {
                        let bucket = self.bucket(limit, by, now);
                        *bucket = pace.give_back(*bucket);
                    }
                    return Err(self.longest(paces, by, now, Reached { limit, soon }));
                }
            }
        }
        Ok(())
    }

    /// The limit that is reached for longest, from the first that is.
    fn longest(&mut self, paces: &[Pace], by: &impl Counted, now: u64, first: Reached) -> Reached {
        // Where none may come at all, there is nothing to wait for.
        let wait = |reached: &Reached| reached.soon.wait.unwrap_or(u64::MAX);
        let mut longest = first;
        for (limit, pace) in paces.iter().enumerate().skip(first.limit + 1) {
            if let Err(soon) = pace.take(*self.bucket(limit, by, now), now) {
                let reached = Reached { limit, soon };
                if wait(&reached) > wait(&longest) {
                    longest = reached;
                }
            }
        }
        longest
    }

    /// The bucket of a key; where there is no room for one, the one that such keys share.
    fn bucket(&mut self, limit: usize, by: &impl Counted, now: u64) -> &mut u64 {
        let key = by.key(limit);
        if self.buckets.len() >= self.bound && !self.buckets.contains_key(&key) {
            if now >= self.swept.saturating_add(SWEEP_EVERY) {
                self.swept = now;
                self.buckets.retain(|_, full| *full > now);
            }
            if self.buckets.len() >= self.bound {
                let slot = usize::try_from(by.whose(limit) % SHARED as u64).unwrap_or(0);
                return &mut self.shared[limit][slot];
            }
        }
        self.buckets.entry(key).or_insert(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::RateLimit;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn paces() -> [Pace; 2] {
        [Pace::of(&RateLimit::per_minute(60).burst(2)), Pace::of(&RateLimit::per_hour(6).burst(3))]
    }

    /// What one caller may choose in the ones, whose it is in the hundreds.
    struct Of(u64);

    impl Counted for Of {
        fn key(&self, limit: usize) -> u64 {
            self.0 * 10 + limit as u64
        }

        fn whose(&self, _: usize) -> u64 {
            self.0 / 100
        }
    }

    #[test]
    fn a_refused_call_takes_nothing_and_hears_of_the_longest_wait() {
        let (mut table, paces) = (Table::new(100, 2), paces());
        for _ in 0..2 {
            table.take(&paces, &Of(1), 7).unwrap();
        }
        let reached = table.take(&paces, &Of(1), 7).unwrap_err();
        assert_eq!((reached.limit, reached.soon.wait), (0, Some(SECOND)));
        // The hour has one left: the refused call did not take it.
        table.take(&paces, &Of(1), 7 + SECOND).unwrap();
        let reached = table.take(&paces, &Of(1), 7 + SECOND).unwrap_err();
        let left = 600 * SECOND - SECOND;
        assert_eq!(
            (reached.limit, reached.soon.wait),
            (1, Some(left)),
            "both are, the hour longer"
        );
        // The minute has room again and the hour has not: the minute is not charged for it.
        for _ in 0..5 {
            let reached = table.take(&paces, &Of(1), 7 + 9 * SECOND).unwrap_err();
            assert_eq!(reached.limit, 1);
        }
        assert!(table.take(&paces[..1], &Of(1), 7 + 9 * SECOND).is_ok());
        assert!(table.take(&paces[..1], &Of(1), 7 + 9 * SECOND).is_ok());
        table.take(&paces, &Of(2), 7 + SECOND).unwrap();
    }

    #[test]
    fn keys_without_a_bucket_share_one_until_others_are_full_again() {
        let pace = [Pace::of(&RateLimit::per_minute(60).burst(2))];
        let mut table = Table::new(4, 1);
        for of in 0..4 {
            table.take(&pace, &Of(of), 7).unwrap();
        }
        table.take(&pace, &Of(8), 7).unwrap();
        table.take(&pace, &Of(9), 7).unwrap();
        assert!(table.take(&pace, &Of(10), 7).is_err(), "they share what one may have");
        assert!(table.take(&pace, &Of(3), 7).is_ok(), "who has a bucket keeps it");
        assert!(table.take(&pace, &Of(100), 7).is_ok(), "another caller shares with others");
        assert_eq!(table.len(), 4);
        table.take(&pace, &Of(11), 7 + 2 * SECOND).unwrap();
        table.take(&pace, &Of(12), 7 + 2 * SECOND).unwrap();
        assert_eq!(table.len(), 2, "buckets that are full again made room");
    }

    proptest! {
        #[test]
        fn the_table_never_outgrows_its_bound(
            steps in proptest::collection::vec((0_u64..40, 0_u64..SECOND), 0..400),
        ) {
            let (mut table, paces) = (Table::new(16, 2), paces());
            let mut now = 0;
            for (of, step) in steps {
                now += step;
                let _ = table.take(&paces, &Of(of), now);
                prop_assert!(table.len() <= 16);
            }
        }
    }
}
