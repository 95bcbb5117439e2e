//! The configuration of tasks.

use std::time::Duration;

/// Bounds of a [`TasksLayer`](super::TasksLayer).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TasksConfig {
    /// Maximum number of tasks, running or ended. Default: 128.
    ///
    /// At this limit, a new task replaces the oldest ended task whose outcome was delivered. If there is none, a call
    /// that does not need a task runs without a task, and any other call is refused with code 3001 (resource
    /// exhausted). The same applies at the limit of a principal.
    ///
    /// While its call runs, a task occupies the call's permit of a concurrency limit. So `max_tasks` should be lower
    /// than that limit.
    pub max_tasks: usize,
    /// The maximum number of tasks per principal. Default: 64. At this limit, a new task can replace only a task of the
    /// same principal.
    ///
    /// A few principals cannot take all places: when at most half of `max_tasks` are free, or at most
    /// `max_tasks - max_per_principal` if that is less, a principal may have tasks for a quarter of the free places, or
    /// two tasks if that is more. Tasks whose outcome was delivered count as free places.
    pub max_per_principal: usize,
    /// The time to live of a task from its start, unless its caller asks for another time. Default: 10 minutes.
    ///
    /// A call that is still running when this time has passed is dropped.
    pub ttl: Duration,
    /// Maximum time to live that a caller can request. Default: 24 hours.
    pub max_ttl: Duration,
    /// Poll interval that is recommended to callers. Default: 1 s.
    pub poll_interval: Duration,
    /// The time that a modern call runs as a normal request before it becomes a task. Default: 50 ms.
    ///
    /// With zero, a call becomes a task unless its future completes the first time it is polled. If a tool runs on its
    /// own tokio task, its calls never complete at the first poll, so they always become MCP tasks.
    ///
    /// Does not apply to callers of MCP 2025-11-25: they request each task themselves, and get a task even for a call
    /// that completes immediately.
    pub grace: Duration,
}

/// The divisor for the share of a principal in the free places.
const FREE_SHARE_DIVISOR: usize = 4;

const MIN_SHARE: usize = 2;

impl TasksConfig {
    /// Returns the number of tasks that a principal may have while other principals take `others` places.
    pub(super) fn share(&self, others: usize) -> usize {
        let unused = self.max_tasks.saturating_sub(others);
        // Keep half of the places for the time when many principals have tasks, but fewer if a single principal could
        // otherwise not have as many tasks as its limit permits.
        let beyond_limit = self.max_tasks.saturating_sub(self.max_per_principal);
        let most = unused.saturating_sub(beyond_limit.min(self.max_tasks / 2));
        // A principal that has this many tasks has about a quarter of the places that are then free.
        let of_free = unused.saturating_add(1) / (FREE_SHARE_DIVISOR + 1);
        MIN_SHARE.max(most).max(of_free).min(self.max_per_principal)
    }
}

impl Default for TasksConfig {
    fn default() -> Self {
        Self {
            max_tasks: 128,
            max_per_principal: 64,
            ttl: Duration::from_mins(10),
            max_ttl: Duration::from_hours(24),
            poll_interval: Duration::from_secs(1),
            grace: Duration::from_millis(50),
        }
    }
}
