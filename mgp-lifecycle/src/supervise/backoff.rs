//! The restarts within a sliding window, the wait before the next restart, and the time limit of a start (MGP §11.5).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::Backoff;

use super::config::SuperviseConfig;

/// The maximum number of restarts that are counted if restarts are not limited. After this number, the wait already has
/// its maximum length.
const MAX_COUNTED: usize = 32;

/// The maximum length of a reason, in bytes. Longer reasons are clipped, because a server can describe its end in a
/// text of any length.
pub(super) const MAX_REASON_BYTES: usize = 512;

/// The restarts within the window. A restart is stored as the total time for which the server had been connected before
/// it.
#[derive(Debug)]
pub(super) struct RestartWindow {
    restarts: VecDeque<Duration>,
    /// The number of consecutive starts after which the server was not ready in time.
    missed_starts: u32,
    random: fastrand::Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllowedRestart {
    /// Number of the restart within the window, from 1.
    pub(super) number: usize,
    /// The time to wait before the restart.
    pub(super) wait: Duration,
}

impl AllowedRestart {
    /// Returns the reason that observers see during the wait: the cause, and the time until the next attempt.
    pub(super) fn reason(self, how: &str, config: &SuperviseConfig) -> Arc<str> {
        let seconds = self.wait.as_secs_f64();
        let limit = if config.gives_up {
            format!(" ({} of {})", self.number, config.max_restarts)
        } else {
            String::new()
        };
        let next = format!("; next try in {seconds:.1} s{limit}");
        (mgp_types::clip(how, MAX_REASON_BYTES - next.len()) + &next).into()
    }
}

impl RestartWindow {
    pub(super) fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { restarts: VecDeque::new(), missed_starts: 0, random }
    }

    pub(super) fn start_deadline(&self, now: Duration, config: &SuperviseConfig) -> Duration {
        now.saturating_add(config.start_limit(self.missed_starts))
    }

    /// Counts a start after which the server was not ready in time, and returns the time limit of that start.
    pub(super) fn miss_start(&mut self, config: &SuperviseConfig) -> Duration {
        let limit = config.start_limit(self.missed_starts);
        self.missed_starts = self.missed_starts.saturating_add(1);
        limit
    }

    /// Records that the server was ready in time after a start.
    pub(super) fn meet_start(&mut self) {
        self.missed_starts = 0;
    }

    /// Adds a restart; returns `None` if the window already contains the maximum number of restarts.
    pub(super) fn add(
        &mut self,
        connected: Duration,
        config: &SuperviseConfig,
    ) -> Option<AllowedRestart> {
        while self.restarts.front().is_some_and(|at| connected.saturating_sub(*at) >= config.window)
        {
            self.restarts.pop_front();
        }
        let before = self.restarts.len();
        if !config.gives_up {
            // The wait no longer grows, so further restarts need not be counted.
            let surplus = (before + 1).saturating_sub(MAX_COUNTED);
            self.restarts.drain(..surplus);
        } else if before >= usize::try_from(config.max_restarts).unwrap_or(usize::MAX) {
            return None;
        }
        self.restarts.push_back(connected);
        let delay = Backoff::new(config.backoff_base, config.backoff_max)
            .delay(u32::try_from(before).unwrap_or(u32::MAX));
        Some(AllowedRestart { number: before + 1, wait: self.jittered(delay) })
    }

    /// Removes all restarts, e.g. after an operator's request.
    pub(super) fn clear(&mut self) {
        self.restarts = VecDeque::new();
    }

    /// Subtracts up to a quarter from a wait at random, so that servers that crashed together do not restart together.
    fn jittered(&mut self, full: Duration) -> Duration {
        let nanos = u64::try_from(full.as_nanos()).unwrap_or(u64::MAX);
        full.saturating_sub(Duration::from_nanos(self.random.u64(..=nanos / 4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_huge_limit_allocates_only_what_is_used() {
        let config = SuperviseConfig { max_restarts: u32::MAX, ..SuperviseConfig::default() };
        let (mut window, config) = (RestartWindow::new(1), config.bounded());
        assert_eq!(window.restarts.capacity(), 0);
        let allowed = (0..20_000).filter(|_| window.add(secs(1), &config).is_some()).count();
        assert_eq!(allowed, 10_000);
        assert!(window.restarts.capacity() < 20_000);
    }
}
