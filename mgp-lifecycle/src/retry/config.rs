//! The caller's own limits for retries, and the observer of attempts.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::ErrorCode;
use mgp_types::service::{Call, ServerId};

use super::budget::RetryBudget;
use super::circuit::CircuitConfig;

/// Configuration of a [`RetryLayer`](super::RetryLayer). Its limits take precedence over the values that a server
/// sends.
///
/// ```
/// use mgp_lifecycle::RetryConfig;
/// use std::time::Duration;
///
/// let mut config = RetryConfig::default();
/// config.max_retries = 5;
/// config.max_wait = Duration::from_secs(2);
/// let config = config
///     .repeat(|call| call.tool().is_some_and(|tool| tool.name == "send_report"))
///     .on_attempt(|attempt| println!("{}: {:?}", attempt.attempt, attempt.code));
/// # drop(config);
/// ```
#[derive(Clone)]
#[non_exhaustive]
#[must_use]
pub struct RetryConfig {
    /// Maximum number of retries of a call. Default: 3.
    pub max_retries: u32,
    /// The maximum wait before one retry. If the server requires a longer wait, the call is not retried. Default: 10 s.
    pub max_wait: Duration,
    /// The wait before the first retry, if the server sends no wait. Default: 500 ms.
    pub first_wait: Duration,
    /// The time after a call's first failure during which it can be retried. Default: 30 s.
    pub total_timeout: Duration,
    /// The limit on the share of retries among all calls.
    pub budget: RetryBudget,
    /// The circuit breaker of each server.
    pub circuit: CircuitConfig,
    /// The handling of the `fallback_tool` that a server proposes.
    pub fallback: FallbackPolicy,
    /// Selects the calls that have idempotency keys. If the server negotiated the extension `idempotency`, a call with
    /// a key is retried even if it may have run, unless its tool is dangerous and irreversible.
    pub keys: KeyPolicy,
    repeat: Option<Arc<Repeatable>>,
    observer: Option<Arc<Observer>>,
}

type Repeatable = dyn Fn(&Call) -> bool + Send + Sync;
type Observer = dyn Fn(&AttemptReport<'_>) + Send + Sync;

/// The treatment of the tool that a server proposes instead of a tool that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FallbackPolicy {
    /// The proposed tool is called once all attempts have failed, if the server lists it and it is not more dangerous.
    Listed,
    /// The fallback tool is never called.
    Never,
}

/// The tool calls that have an idempotency key when they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPolicy {
    /// The calls that their caller gave a key.
    Given,
    /// All calls: the layer adds a key to each call without a key, and asks the server to keep it for an hour. The
    /// server must keep its keys when it restarts, and it finishes a call with a key even if its caller leaves or
    /// cancels the call.
    Added,
}

/// A report about a finished attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptReport<'a> {
    /// The number of the attempt, from 1. A call of a fallback tool is the last attempt.
    pub attempt: u32,
    /// The code of the error or refusal; `None` if the call was answered, even if the tool reported a failure.
    pub code: Option<ErrorCode>,
    /// The time that was waited before the attempt.
    pub waited: Duration,
    /// The id of the server that was called, if it is known.
    pub server: Option<&'a ServerId>,
    /// The name of the called tool; `None` for other requests.
    pub tool: Option<&'a str>,
}

impl RetryConfig {
    /// Sets the function that selects the calls that can run twice without harm. The layer retries them even if it is
    /// unknown whether they have run.
    pub fn repeat(mut self, may: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        self.repeat = Some(Arc::new(may));
        self
    }

    /// Sets an observer that is called after every attempt, including the first; it must not block.
    pub fn on_attempt(
        mut self,
        observer: impl Fn(&AttemptReport<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

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
            max_retries: 3,
            max_wait: Duration::from_secs(10),
            first_wait: Duration::from_millis(500),
            total_timeout: Duration::from_secs(30),
            budget: RetryBudget::default(),
            circuit: CircuitConfig::default(),
            fallback: FallbackPolicy::Listed,
            keys: KeyPolicy::Given,
            repeat: None,
            observer: None,
        }
    }
}

mgp_types::opaque_debug!(RetryConfig {
    max_retries,
    max_wait,
    first_wait,
    total_timeout,
    budget,
    circuit,
    fallback,
    keys
});
