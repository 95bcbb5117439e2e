//! The bounds of tasks.

use std::time::Duration;

/// Bounds of a [`TasksLayer`](super::TasksLayer).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TasksConfig {
    /// The most tasks, running or ended; further ones are refused with 3001. Default: 128.
    ///
    /// A task keeps the permit its call has at a limit, so this should stay below what the limit lets run.
    ///
    /// When the table is full, the oldest ended task whose outcome was delivered is evicted first.
    pub max_tasks: usize,
    /// The most tasks of one principal. Default: 64.
    pub max_per_principal: usize,
    /// The time to live of a task from its start, unless its caller asks for another. Default: 10 minutes.
    ///
    /// A call that is still running then is dropped.
    pub ttl: Duration,
    /// The longest time to live a caller can ask for. Default: 24 hours.
    pub max_ttl: Duration,
    /// The poll interval that callers are given. Default: 1 s.
    pub poll_interval: Duration,
    /// The time a modern call stays in its request before it becomes a task. Default: 50 ms; zero is one poll.
    ///
    /// A tool that runs on a task of its own never completes within one poll of its call, however fast it is.
    /// Callers of 2025-11-25 request a task themselves, so for them it is always one poll.
    pub grace: Duration,
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
