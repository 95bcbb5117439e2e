//! The log of connections that cannot be accepted, e.g. while the process has no free file descriptor, or while the
//! clock shows a time without an HTTP date.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two messages.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Logs failed attempts to accept a connection: the first failure immediately, later failures as at most one message a
/// minute with their number.
#[derive(Debug, Default)]
pub struct AcceptFailures {
    /// The time of the last message.
    logged_at: Option<Instant>,
    /// The number of failures since the last message.
    unlogged: u64,
}

impl AcceptFailures {
    /// Counts a failure, and logs it unless there was a message in the last minute.
    pub fn log(&mut self, error: &io::Error) {
        if let Some(failures) = self.count() {
            tracing::warn!(%error, failures, "accept failed");
        }
    }

    /// Counts a failure; returns the number of failures to log, or `None` if the last message is too new.
    pub(super) fn count(&mut self) -> Option<u64> {
        self.unlogged += 1;
        if self.logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            return None;
        }
        self.logged_at = Some(Instant::now());
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_in_quick_succession_are_logged_once_a_minute_with_their_number() {
        let mut failures = AcceptFailures::default();
        assert_eq!(failures.count(), Some(1));
        assert_eq!([failures.count(), failures.count()], [None, None]);
        tokio::time::advance(LOG_INTERVAL).await;
        assert_eq!(failures.count(), Some(3));
        assert_eq!(failures.count(), None);
    }
}
