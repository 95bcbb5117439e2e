//! How long to wait before a stream is opened again, and when to leave it.
//!
//! Applies to: outbound, modern.

use std::time::Duration;

use mgp_types::{RpcError, unguessable};

use crate::config::ListenConfig;

/// The pauses between attempts: each twice as long as the one before, and a little longer by chance.
#[derive(Debug)]
pub(super) struct Pause {
    config: ListenConfig,
    attempts: u32,
}

impl Pause {
    pub(super) fn new(config: ListenConfig) -> Self {
        Self { config, attempts: 0 }
    }

    /// Begins anew.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// A stream that lived longer than it was waited for was worth opening.
    pub(super) fn lived(&mut self, time: Duration) {
        if time > self.at(self.attempts) {
            self.reset();
        }
    }

    /// The next pause, no shorter than the server asks for; none when it was tried often enough.
    pub(super) fn next(&mut self, error: Option<&RpcError>) -> Option<Duration> {
        if self.attempts >= self.config.attempts {
            return None;
        }
        let said = error.and_then(|error| error.as_recovery()?.retry_after_ms);
        let said = said.map_or(Duration::ZERO, Duration::from_millis);
        let pause = self.at(self.attempts).max(said.min(self.config.max_retry));
        self.attempts += 1;
        // Not all clients of a server that was away come back at once.
        Some(pause + pause.mul_f64(chance() / 4.0))
    }

    fn at(&self, attempts: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempts).unwrap_or(u32::MAX);
        self.config.retry.saturating_mul(factor).min(self.config.max_retry)
    }
}

/// Between 0 and 1.
fn chance() -> f64 {
    let digits = unguessable().unwrap_or_default();
    digits.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok()).map_or(0.0, f64::from)
        / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use mgp_types::{ErrorCode, Recovery};

    use super::*;

    #[track_caller]
    fn check(pause: Option<Duration>, seconds: u64) {
        let (pause, least) = (pause.unwrap(), Duration::from_secs(seconds));
        assert!(pause >= least && pause <= least + least / 4, "{pause:?} for {least:?}");
    }

    #[test]
    fn pauses_grow_to_a_bound_and_end() {
        let mut pause = Pause::new(ListenConfig::default());
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60, 60] {
            check(pause.next(None), seconds);
        }
        assert_eq!(pause.next(None), None);
        pause.lived(Duration::from_secs(59));
        assert_eq!(pause.next(None), None);
        pause.lived(Duration::from_secs(61));
        check(pause.next(None), 1);
    }

    #[test]
    fn a_server_may_ask_for_longer_ones() {
        let hint = |ms| {
            let mut hints = Recovery::default_for(ErrorCode::RATE_LIMITED).unwrap();
            hints.retry_after_ms = Some(ms);
            RpcError::new(ErrorCode::RATE_LIMITED, "later").recovery(hints)
        };
        let mut pause = Pause::new(ListenConfig::default());
        check(pause.next(Some(&hint(5000))), 5);
        check(pause.next(Some(&hint(0))), 2);
        check(pause.next(Some(&hint(u64::MAX))), 60);
    }
}
