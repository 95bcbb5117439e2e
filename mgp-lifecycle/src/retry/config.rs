//! The caller's own bounds for calls that are made again, and who is told of attempts.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::ErrorCode;
use mgp_types::service::{Call, ServerId};

use super::budget::RetryBudget;
use super::circuit::CircuitConfig;

/// Bounds of a [`RetryLayer`](super::RetryLayer): no figure of a server reaches beyond them.
///
/// ```
/// use mgp_lifecycle::RetryConfig;
/// use std::time::Duration;
///
/// let mut config = RetryConfig::default();
/// config.retries = 5;
/// config.longest_wait = Duration::from_secs(2);
/// let config = config
///     .repeat(|call| call.tool().is_some_and(|tool| tool.name == "send_report"))
///     .on_attempt(|attempt| println!("{}: {:?}", attempt.attempt, attempt.code));
/// # drop(config);
/// ```
#[derive(Clone)]
#[non_exhaustive]
#[must_use]
pub struct RetryConfig {
    /// How often a call is made again at most. 3.
    pub retries: u32,
    /// The longest single wait; a server that wants a longer one is not asked again. 10 s.
    pub longest_wait: Duration,
    /// The first wait where the server does not say how long. 500 ms.
    pub first_wait: Duration,
    /// How long after its first failure a call may still be made again. 30 s.
    pub total: Duration,
    /// How many of all calls may be attempts of others.
    pub budget: RetryBudget,
    /// When a server is left alone.
    pub circuit: CircuitConfig,
    /// Whether `fallback_tool` is followed.
    pub fallback: FollowFallback,
    repeat: Option<Arc<Repeatable>>,
    observer: Option<Arc<Observer>>,
}

type Repeatable = dyn Fn(&Call) -> bool + Send + Sync;
type Observer = dyn Fn(&Attempted<'_>) + Send + Sync;

/// Whether another tool is called where a server proposes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowFallback {
    /// If it is listed and no more dangerous, once all attempts have failed.
    Listed,
    /// In no case.
    Never,
}

/// One attempt that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempted<'a> {
    /// Which one it was, from 1; the call of a fallback tool is the last one.
    pub attempt: u32,
    /// The code it ended with; none where it was answered, also by a tool that ran and failed.
    pub code: Option<ErrorCode>,
    /// How long was waited before it.
    pub waited: Duration,
    /// The server, where it is known.
    pub server: Option<&'a ServerId>,
    /// The tool that was called; none for other requests.
    pub tool: Option<&'a str>,
}

impl RetryConfig {
    /// Says which calls may be made again though they may have run: these do no harm when they run twice.
    pub fn repeat(mut self, may: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        self.repeat = Some(Arc::new(may));
        self
    }

    /// Hears of every attempt when it ends, first ones included; it must not wait.
    pub fn on_attempt(mut self, hear: impl Fn(&Attempted<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(hear));
        self
    }

    /// Whether the caller said that a call may be repeated.
    pub(super) fn repeats(&self, call: &Call) -> bool {
        self.repeat.as_ref().is_some_and(|may| may(call))
    }

    pub(super) fn observer(&self) -> Option<&Observer> {
        self.observer.as_deref()
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            retries: 3,
            longest_wait: Duration::from_secs(10),
            first_wait: Duration::from_millis(500),
            total: Duration::from_secs(30),
            budget: RetryBudget::default(),
            circuit: CircuitConfig::default(),
            fallback: FollowFallback::Listed,
            repeat: None,
            observer: None,
        }
    }
}

impl fmt::Debug for RetryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryConfig")
            .field("retries", &self.retries)
            .field("longest_wait", &self.longest_wait)
            .field("first_wait", &self.first_wait)
            .field("total", &self.total)
            .field("budget", &self.budget)
            .field("circuit", &self.circuit)
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}
