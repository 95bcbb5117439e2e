//! How long calls usually take, to say how long a drain may: a fixed table, measured where calls are slow.
//!
//! Calls that complete at once are not measured: they are over before anybody could ask.
//!
//! Applies to: inbound.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Tools share lanes where there are more of them: then the estimate is a little off, and the memory is bounded.
const LANES: usize = 64;
/// The table.
#[derive(Debug)]
pub(super) struct Pace([Lane; LANES]);

#[derive(Debug, Default)]
struct Lane {
    /// Calls that are slow at the moment.
    running: AtomicU32,
    /// What they took lately, in milliseconds; 0 where nothing is known yet.
    usual: AtomicU32,
}

impl Default for Pace {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Lane::default()))
    }
}

/// The lane of a tool, or of a method.
///
/// Every call pays for it, and it need not tell all names apart.
pub(super) fn lane_of(name: &str) -> u8 {
    let last = name.as_bytes().last().copied().unwrap_or(0);
    let digest = name.len() * 7 + usize::from(last);
    u8::try_from(digest % LANES).unwrap_or(0)
}

impl Pace {
    /// A call of a lane turned out to be slow.
    pub(super) fn begin(&self, lane: u8) -> Instant {
        self.lane(lane).running.fetch_add(1, Ordering::Relaxed);
        Instant::now()
    }

    /// It ended.
    pub(super) fn end(&self, lane: u8, begun: Instant) {
        let lane = self.lane(lane);
        lane.running.fetch_sub(1, Ordering::Relaxed);
        let took = u32::try_from(begun.elapsed().as_millis()).unwrap_or(u32::MAX).max(1);
        let usual = lane.usual.load(Ordering::Relaxed);
        // A quarter of the way to what was just seen; two calls that end at once may lose one of their words.
        let next = match usual {
            0 => took,
            _ if took > usual => usual + (took - usual).div_ceil(4),
            _ => usual - (usual - took) / 4,
        };
        lane.usual.store(next, Ordering::Relaxed);
    }

    /// How long the slowest of the lanes in use usually takes; `None` where one of them is not known yet.
    pub(super) fn longest(&self) -> Option<Duration> {
        let used = self.0.iter().filter(|lane| lane.running.load(Ordering::Relaxed) > 0);
        used.map(|lane| match lane.usual.load(Ordering::Relaxed) {
            0 => None,
            usual => Some(Duration::from_millis(usual.into())),
        })
        .try_fold(Duration::ZERO, |longest, usual| Some(longest.max(usual?)))
    }

    fn lane(&self, lane: u8) -> &Lane {
        &self.0[usize::from(lane) % LANES]
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_slowest_tool_in_use_decides() {
        let pace = Pace::default();
        assert_eq!(pace.longest(), Some(Duration::ZERO), "nothing runs");
        for (lane, seconds) in [(1, 8), (2, 2)] {
            let begun = pace.begin(lane);
            assert_eq!(pace.longest(), None, "nothing is known yet");
            advance(Duration::from_secs(seconds)).await;
            pace.end(lane, begun);
        }
        let quick = pace.begin(2);
        assert_eq!(pace.longest(), Some(Duration::from_secs(2)), "the slow one is not in use");
        let slow = pace.begin(1);
        assert_eq!(pace.longest(), Some(Duration::from_secs(8)));
        advance(Duration::from_secs(4)).await;
        pace.end(1, slow);
        pace.end(2, quick);
        pace.begin(1);
        assert_eq!(pace.longest(), Some(Duration::from_secs(7)), "it learns");
    }
}
