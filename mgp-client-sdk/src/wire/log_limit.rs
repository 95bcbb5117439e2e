//! The limit of log messages that a server can cause.

use std::time::Duration;

use mgp_types::sync::Mutex;
use tokio::time::Instant;

/// The maximum number of messages in each [`LOG_INTERVAL`].
const MAX_LOGGED: u32 = 20;
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// A counter of the log messages of one kind.
#[derive(Default)]
pub(super) struct LogLimit(Mutex<Option<(Instant, u32)>>);

impl LogLimit {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Counts a message; returns whether it may be logged.
    pub(super) fn admits(&self) -> bool {
        let now = Instant::now();
        let mut counted = self.0.lock();
        let current = counted.filter(|(since, _)| now.duration_since(*since) < LOG_INTERVAL);
        let (since, count) = current.unwrap_or((now, 0));
        *counted = Some((since, count.saturating_add(1)));
        count < MAX_LOGGED
    }
}
