//! Typical durations of calls, used to estimate how long a drain takes. The table has a fixed size.
//!
//! Only slow calls are measured. A call that completes at its first poll cannot be running when a drain begins.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The number of buckets for collecting durations. Several tools can share a bucket, which makes the estimate less
/// exact but limits memory.
const BUCKETS: usize = 64;

#[derive(Debug)]
pub(super) struct CallDurations([Bucket; BUCKETS]);

#[derive(Debug, Default)]
struct Bucket {
    /// The number of running calls that did not complete at their first poll.
    running: AtomicU32,
    /// The recent average duration, in milliseconds; 0 if there is none yet.
    typical: AtomicU32,
}

impl Default for CallDurations {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Bucket::default()))
    }
}

/// Returns the bucket of a tool or method.
///
/// Uses a cheap hash, because every call computes it; collisions are harmless.
pub(super) fn bucket_of(name: &str) -> u8 {
    let last = name.as_bytes().last().copied().unwrap_or(0);
    let digest = name.len() * 7 + usize::from(last);
    u8::try_from(digest % BUCKETS).unwrap_or(0)
}

impl CallDurations {
    pub(super) fn begin(&self, bucket: u8) -> Instant {
        self.bucket(bucket).running.fetch_add(1, Ordering::Relaxed);
        Instant::now()
    }

    pub(super) fn end(&self, bucket: u8, begun: Instant) {
        let bucket = self.bucket(bucket);
        bucket.running.fetch_sub(1, Ordering::Relaxed);
        let took = u32::try_from(begun.elapsed().as_millis()).unwrap_or(u32::MAX).max(1);
        let typical = bucket.typical.load(Ordering::Relaxed);
        // Move the average by a quarter of the difference between it and this duration. If two calls end at the same
        // time, one of them might be ignored.
        let next = match typical {
            0 => took,
            _ if took > typical => typical + (took - typical).div_ceil(4),
            _ => typical - (typical - took) / 4,
        };
        bucket.typical.store(next, Ordering::Relaxed);
    }

    /// Returns the longest typical duration among the buckets with running calls; `None` if one of them has no typical
    /// duration yet.
    pub(super) fn estimate(&self) -> Option<Duration> {
        let used = self.0.iter().filter(|bucket| bucket.running.load(Ordering::Relaxed) > 0);
        used.map(|bucket| match bucket.typical.load(Ordering::Relaxed) {
            0 => None,
            typical => Some(Duration::from_millis(typical.into())),
        })
        .try_fold(Duration::ZERO, |longest, typical| Some(longest.max(typical?)))
    }

    fn bucket(&self, bucket: u8) -> &Bucket {
        &self.0[usize::from(bucket) % BUCKETS]
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_slowest_tool_in_use_decides() {
        let durations = CallDurations::default();
        assert_eq!(durations.estimate(), Some(Duration::ZERO), "nothing runs");
        for (bucket, seconds) in [(1, 8), (2, 2)] {
            let begun = durations.begin(bucket);
            assert_eq!(durations.estimate(), None, "nothing is known yet");
            advance(Duration::from_secs(seconds)).await;
            durations.end(bucket, begun);
        }
        let quick = durations.begin(2);
        assert_eq!(
            durations.estimate(),
            Some(Duration::from_secs(2)),
            "the slow one is not in use"
        );
        let slow = durations.begin(1);
        assert_eq!(durations.estimate(), Some(Duration::from_secs(8)));
        advance(Duration::from_secs(4)).await;
        durations.end(1, slow);
        durations.end(2, quick);
        durations.begin(1);
        assert_eq!(durations.estimate(), Some(Duration::from_secs(7)), "the average adapts");
    }
}
