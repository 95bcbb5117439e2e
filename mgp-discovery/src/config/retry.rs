//! `[servers.mgp.retry]`: the retries of failed calls (MGP §14.6). Also the restart policy of servers (MGP §11.5).

use std::time::Duration;

use mgp_types::mgp::RestartPolicy;

use super::table_reader::Reader;

/// The restart policy of a server (§11.5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartConfig {
    /// The kinds of exit after which the server is restarted.
    pub policy: RestartPolicy,
    /// The maximum number of restarts within `window`.
    pub max: u32,
    /// The period in which restarts are counted.
    pub window: Duration,
    /// The delay before the first restart.
    pub backoff_base: Duration,
    /// The maximum delay before a restart.
    pub backoff_max: Duration,
}

impl Default for RestartConfig {
    fn default() -> Self {
        Self {
            policy: RestartPolicy::OnFailure,
            max: 5,
            window: Duration::from_mins(5),
            backoff_base: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// The table `[servers.mgp.retry]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryCallsConfig {
    /// The maximum number of attempts of a call, including the first.
    pub attempts: u32,
    /// The maximum delay before an attempt.
    pub max_wait: Duration,
    /// The time since the start of a call after which no further attempt begins.
    pub total_timeout: Duration,
    /// The maximum number of retries per hundred calls of the last minute.
    pub budget_percent: u32,
    /// The number of failures in a row that open the circuit breaker; `0` disables it.
    pub circuit_failures: u32,
    /// The time that the circuit breaker stays open; meanwhile the server is not called.
    pub circuit_open: Duration,
    /// If set, the `fallback_tool` that an error names is called after the last attempt.
    pub fallback: bool,
    /// If set, calls without an idempotency key get a generated key, provided that the server supports keys.
    pub keys: bool,
}

impl Default for RetryCallsConfig {
    fn default() -> Self {
        Self {
            attempts: 4,
            max_wait: Duration::from_secs(10),
            total_timeout: Duration::from_secs(30),
            budget_percent: 10,
            circuit_failures: 5,
            circuit_open: Duration::from_secs(5),
            fallback: true,
            keys: false,
        }
    }
}

/// Reads `[servers.mgp.retry]`.
pub(super) fn retry(reader: &mut Reader<'_, '_, '_>) -> RetryCallsConfig {
    let default = RetryCallsConfig::default();
    RetryCallsConfig {
        attempts: reader.small_number("attempts").unwrap_or(default.attempts),
        max_wait: reader.duration("max_wait").unwrap_or(default.max_wait),
        total_timeout: reader.duration("total_timeout").unwrap_or(default.total_timeout),
        budget_percent: reader.small_number("budget_percent").unwrap_or(default.budget_percent),
        circuit_failures: reader
            .small_number("circuit_failures")
            .unwrap_or(default.circuit_failures),
        circuit_open: reader.duration("circuit_open").unwrap_or(default.circuit_open),
        fallback: reader.switch("fallback").unwrap_or(default.fallback),
        keys: reader.switch("keys").unwrap_or(default.keys),
    }
}
