//! The buckets of a layer, in a table of limited size. A call is counted in all of its buckets or in none.

use std::collections::HashMap;

use super::bucket::{BucketParams, TooSoon};

/// The minimum time, in nanoseconds, between two removals of all full buckets from the table.
const SWEEP_INTERVAL: u64 = 100_000_000;

/// Number of shared buckets per limit, for keys that do not fit into the table.
const SHARED_BUCKETS: usize = 256;

/// Buckets by the hash of their key. A full bucket counts no calls, so it is removed, like a bucket that was never
/// used.
///
/// Two keys with the same hash would share a bucket. The hash has 64 bits and is keyed with secrets of this process, so
/// this is rare and a caller cannot cause it.
#[derive(Debug)]
pub(super) struct BucketTable {
    /// The buckets, by the hash of their key: the time when each is full again.
    buckets: HashMap<u64, u64, ahash::RandomState>,
    bound: usize,
    /// The shared buckets of each limit, for keys that do not fit into the table. All keys of one caller share one
    /// bucket, so a caller that fills the table with its own keys hardly affects other callers.
    shared: Vec<[u64; SHARED_BUCKETS]>,
    last_sweep: u64,
}

/// The hashes of a call's keys, for each limit.
pub(super) trait CallKeys {
    /// Returns the hash of the whole key.
    fn key(&self, index: usize) -> u64;

    /// Returns the hash of the part of the key that the caller cannot choose.
    fn owner(&self, index: usize) -> u64;
}

/// The limit (by its index) that refuses a call, and the time until it would allow the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitReached {
    pub(super) index: usize,
    pub(super) soon: TooSoon,
}

impl BucketTable {
    pub(super) fn new(bound: usize, limits: usize) -> Self {
        let shared = vec![[0; SHARED_BUCKETS]; limits];
        Self { buckets: HashMap::default(), bound, shared, last_sweep: 0 }
    }

    /// Returns the time when the bucket of a key is full again, without counting a call.
    pub(super) fn full_at(&self, index: usize, keys: &impl CallKeys) -> u64 {
        let own = self.buckets.get(&keys.key(index));
        let is_shared = || self.buckets.len() >= self.bound;
        own.copied()
            .unwrap_or_else(|| if is_shared() { self.shared[index][slot(index, keys)] } else { 0 })
    }

    /// Counts a call in the bucket of each limit, or in none of them.
    ///
    /// # Errors
    /// Returns the limit with the longest wait, if one or more limits refuse the call.
    pub(super) fn count(
        &mut self,
        params: &[BucketParams],
        keys: &impl CallKeys,
        now: u64,
    ) -> Result<(), LimitReached> {
        for (index, one) in params.iter().enumerate() {
            let bucket = self.bucket(index, keys, now);
            match one.next_full_at(*bucket, now) {
                Ok(full_at) => *bucket = full_at,
                Err(soon) => {
                    for (index, one) in params[..index].iter().enumerate() {
                        let bucket = self.bucket(index, keys, now);
                        *bucket = one.refund(*bucket);
                    }
                    return Err(self.longest(params, keys, now, LimitReached { index, soon }));
                }
            }
        }
        Ok(())
    }

    /// Returns the limit with the longest wait; `first` is the first limit that refused the call.
    fn longest(
        &mut self,
        params: &[BucketParams],
        keys: &impl CallKeys,
        now: u64,
        first: LimitReached,
    ) -> LimitReached {
        // A limit that allows no calls at all has the longest wait.
        let wait = |reached: &LimitReached| reached.soon.wait.unwrap_or(u64::MAX);
        let mut longest = first;
        for (index, one) in params.iter().enumerate().skip(first.index + 1) {
            if let Err(soon) = one.next_full_at(*self.bucket(index, keys, now), now) {
                let reached = LimitReached { index, soon };
                if wait(&reached) > wait(&longest) {
                    longest = reached;
                }
            }
        }
        longest
    }

    /// Returns the bucket of a key, or a shared bucket if the table is full.
    fn bucket(&mut self, index: usize, keys: &impl CallKeys, now: u64) -> &mut u64 {
        let key = keys.key(index);
        if self.buckets.len() >= self.bound && !self.buckets.contains_key(&key) {
            if now >= self.last_sweep.saturating_add(SWEEP_INTERVAL) {
                self.last_sweep = now;
                self.buckets.retain(|_, full_at| *full_at > now);
            }
            if self.buckets.len() >= self.bound {
                return &mut self.shared[index][slot(index, keys)];
            }
        }
        self.buckets.entry(key).or_insert(0)
    }
}

/// Returns the index of the shared bucket of a key.
fn slot(index: usize, keys: &impl CallKeys) -> usize {
    usize::try_from(keys.owner(index) % SHARED_BUCKETS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::RateLimit;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn params() -> [BucketParams; 2] {
        [
            BucketParams::of(&RateLimit::per_minute(60).burst(2)),
            BucketParams::of(&RateLimit::per_hour(6).burst(3)),
        ]
    }

    /// A key whose last two digits the caller chooses; the other digits identify the caller.
    struct Key(u64);

    impl CallKeys for Key {
        fn key(&self, index: usize) -> u64 {
            self.0 * 10 + index as u64
        }

        fn owner(&self, _: usize) -> u64 {
            self.0 / 100
        }
    }

    #[test]
    fn a_refused_call_is_not_counted_and_returns_the_longest_wait() {
        let (mut table, params) = (BucketTable::new(100, 2), params());
        for _ in 0..2 {
            table.count(&params, &Key(1), 7).unwrap();
        }
        let reached = table.count(&params, &Key(1), 7).unwrap_err();
        assert_eq!((reached.index, reached.soon.wait), (0, Some(SECOND)));
        // One call is left under the limit per hour, because the refused call was not counted.
        table.count(&params, &Key(1), 7 + SECOND).unwrap();
        let reached = table.count(&params, &Key(1), 7 + SECOND).unwrap_err();
        let left = 600 * SECOND - SECOND;
        assert_eq!(
            (reached.index, reached.soon.wait),
            (1, Some(left)),
            "both are reached, the hour for longer"
        );
        // The limit per minute allows the call, but the limit per hour does not, so the call is counted under neither
        // limit.
        for _ in 0..5 {
            let reached = table.count(&params, &Key(1), 7 + 9 * SECOND).unwrap_err();
            assert_eq!(reached.index, 1);
        }
        assert!(table.count(&params[..1], &Key(1), 7 + 9 * SECOND).is_ok());
        assert!(table.count(&params[..1], &Key(1), 7 + 9 * SECOND).is_ok());
        table.count(&params, &Key(2), 7 + SECOND).unwrap();
    }

    #[test]
    fn keys_without_a_bucket_share_one_until_others_are_full_again() {
        let params = [BucketParams::of(&RateLimit::per_minute(60).burst(2))];
        let mut table = BucketTable::new(4, 1);
        for of in 0..4 {
            table.count(&params, &Key(of), 7).unwrap();
        }
        table.count(&params, &Key(8), 7).unwrap();
        table.count(&params, &Key(9), 7).unwrap();
        assert!(table.count(&params, &Key(10), 7).is_err(), "they share one bucket");
        assert!(table.count(&params, &Key(3), 7).is_ok(), "a key with a bucket keeps it");
        assert!(
            table.count(&params, &Key(100), 7).is_ok(),
            "another caller has another shared bucket"
        );
        assert_eq!(table.buckets.len(), 4);
        table.count(&params, &Key(11), 7 + 2 * SECOND).unwrap();
        table.count(&params, &Key(12), 7 + 2 * SECOND).unwrap();
        assert_eq!(table.buckets.len(), 2, "full buckets were removed");
    }

    proptest! {
        #[test]
        fn the_table_never_outgrows_its_bound(
            steps in proptest::collection::vec((0_u64..40, 0_u64..SECOND), 0..400),
        ) {
            let (mut table, params) = (BucketTable::new(16, 2), params());
            let mut now = 0;
            for (of, step) in steps {
                now += step;
                let _ = table.count(&params, &Key(of), now);
                prop_assert!(table.buckets.len() <= 16);
            }
        }
    }
}
