//! The restarts of a sliding window, and the wait before the next one (MGP §11.5).
//!
//! Applies to: outbound.

use std::collections::VecDeque;
use std::time::Duration;

use super::config::SuperviseConfig;

/// Restarts that still count, each by how long the server had been connected in all.
#[derive(Debug)]
pub(super) struct Window {
    kept: VecDeque<Duration>,
    random: fastrand::Rng,
}

/// A restart that the window allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Which one it is within the window, from 1.
    pub(super) number: usize,
    /// How long to wait for it.
    pub(super) wait: Duration,
}

impl Window {
    pub(super) fn new(seed: u64) -> Self {
        Self { kept: VecDeque::new(), random: fastrand::Rng::with_seed(seed) }
    }

    /// Counts one more restart; none where the window is full.
    pub(super) fn count(&mut self, lived: Duration, config: &SuperviseConfig) -> Option<Allowed> {
        while self.kept.front().is_some_and(|at| lived.saturating_sub(*at) >= config.window) {
            self.kept.pop_front();
        }
        let before = self.kept.len();
        if before >= usize::try_from(config.max_restarts).unwrap_or(usize::MAX) {
            return None;
        }
        self.kept.push_back(lived);
        Some(Allowed { number: before + 1, wait: self.jittered(backoff(before, config)) })
    }

    /// Forgets everything, as a person may ask.
    pub(super) fn clear(&mut self) {
        self.kept = VecDeque::new();
    }

    /// Takes up to a quarter off, so that servers that fell together do not rise together.
    fn jittered(&mut self, full: Duration) -> Duration {
        let nanos = u64::try_from(full.as_nanos()).unwrap_or(u64::MAX);
        full.saturating_sub(Duration::from_nanos(self.random.u64(..=nanos / 4)))
    }
}

/// The first wait, doubled for each restart that counts, up to the longest.
fn backoff(before: usize, config: &SuperviseConfig) -> Duration {
    let doubled = u32::try_from(before).ok().and_then(|n| 1_u32.checked_shl(n)).unwrap_or(u32::MAX);
    config.backoff_base.saturating_mul(doubled).min(config.backoff_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let config = SuperviseConfig::default();
        let waits: Vec<_> =
            [0, 1, 2, 3, 4, 5, 31, 32, usize::MAX].map(|n| backoff(n, &config).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn jitter_takes_off_at_most_a_quarter_and_differs() {
        let mut window = Window::new(7);
        let waits: Vec<_> = (0..1000).map(|_| window.jittered(secs(4))).collect();
        assert!(waits.iter().all(|wait| (secs(3)..=secs(4)).contains(wait)));
        assert!(waits.iter().max().unwrap().abs_diff(*waits.iter().min().unwrap()) > secs(4) / 5);
        assert_eq!(window.jittered(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn the_window_slides() {
        let (mut window, config) = (Window::new(1), SuperviseConfig::default());
        for at in [0, 10, 20, 30, 40] {
            assert!(window.count(secs(at), &config).is_some());
        }
        assert_eq!(window.count(secs(299), &config), None);
        assert_eq!(window.count(secs(300), &config).unwrap().number, 5);
        assert_eq!(window.count(secs(301), &config), None);
        assert_eq!(window.count(secs(601), &config).unwrap().number, 1);
    }

    #[test]
    fn a_huge_limit_allocates_only_what_is_used() {
        let config = SuperviseConfig { max_restarts: u32::MAX, ..SuperviseConfig::default() };
        let (mut window, config) = (Window::new(1), config.bounded());
        assert_eq!(window.kept.capacity(), 0);
        let allowed = (0..20_000).filter(|_| window.count(secs(1), &config).is_some()).count();
        assert_eq!(allowed, 10_000);
        assert!(window.kept.capacity() < 20_000);
    }
}
