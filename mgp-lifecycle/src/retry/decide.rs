//! Decides with a pure function whether a call is retried, and how long to wait before the retry (MGP §14.6).

use std::time::Duration;

use mgp_types::mgp::RiskLevel;
use mgp_types::{Recovery, RetryStrategy};

use super::config::RetryConfig;
use super::delivery::Delivered;
use super::failure::Failure;
use super::tools::{MAX_NAME_BYTES, RepeatPolicy, ToolRetryInfo};

/// A failed call, with everything on which the decision depends.
pub(super) struct Situation<'a> {
    pub(super) failure: &'a Failure,
    /// The number of retries of the call so far.
    pub(super) retries: u32,
    /// Time left until the call's deadline or the end of the retry period.
    pub(super) left: Duration,
    pub(super) repeat: RepeatPolicy,
    pub(super) delivered: Delivered,
    /// A random number between 0 and 1 that varies the delay.
    pub(super) jitter: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The call is to be retried after this wait.
    Retry(Duration),
    Stop(StopReason),
}

/// The reason why a call is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StopReason {
    #[error("the error is not marked as retryable")]
    NotRetryable,
    #[error("a chunk of its result was delivered")]
    Delivered,
    #[error("it may have run, and may not run twice")]
    MayHaveRun,
    #[error("it is dangerous and irreversible, and the caller did not allow a second run")]
    Irreversible,
    #[error("all attempts are used up")]
    Exhausted,
    #[error("the wait is longer than the time left")]
    TooLong,
    #[error("the retry budget is used up")]
    Budget,
    #[error("the circuit is open")]
    Circuit,
    #[error("the connection was closed")]
    Disconnected,
}

impl Situation<'_> {
    /// Decides within the limits of the caller; the budget and the circuit breaker are not considered here.
    pub(super) fn decide(&self, config: &RetryConfig) -> Decision {
        let hints = &self.failure.hints;
        if !hints.is_retryable() {
            return Decision::Stop(StopReason::NotRetryable);
        }
        if let Err(stop) = self.may_run_again() {
            return Decision::Stop(stop);
        }
        let max = hints.max_retries.unwrap_or(u32::MAX).min(config.max_retries);
        if self.retries >= max {
            return Decision::Stop(StopReason::Exhausted);
        }
        let wait = wait(hints, self.retries, config, self.jitter);
        if wait > config.max_wait || wait >= self.left {
            return Decision::Stop(StopReason::TooLong);
        }
        Decision::Retry(wait)
    }

    /// Checks that a second run would do no harm, or that the call has not run.
    fn may_run_again(&self) -> Result<(), StopReason> {
        let started = self.failure.may_have_run() || self.delivered > Delivered::Nothing;
        match self.repeat {
            _ if self.delivered == Delivered::Chunk => Err(StopReason::Delivered),
            RepeatPolicy::OnRequest => Err(StopReason::Irreversible),
            RepeatPolicy::IfNotStarted if started => Err(StopReason::MayHaveRun),
            RepeatPolicy::IfNotStarted | RepeatPolicy::Always => Ok(()),
        }
    }
}

/// Returns the wait before the next attempt; at least as long as the server requires.
fn wait(hints: &Recovery, retries: u32, config: &RetryConfig, jitter: f64) -> Duration {
    let servers = hints.retry_after_ms.map(Duration::from_millis);
    let least = servers.unwrap_or_default();
    // If the server names no strategy that is known here, all waits have the same length.
    let strategy = hints.retry_strategy.as_ref().map(RetryStrategy::effective);
    let wait = match strategy {
        Some(RetryStrategy::Immediate) => least,
        Some(RetryStrategy::ExponentialBackoff) => {
            let first = if least.is_zero() { config.first_wait } else { least };
            let wait = first.saturating_mul(1 << retries.min(16)).min(config.max_wait);
            // Jitter prevents calls that failed together from being retried together.
            wait.saturating_add(wait.mul_f64(jitter.clamp(0.0, 1.0) / 2.0))
        }
        _ => servers.unwrap_or(config.first_wait),
    };
    wait.min(config.max_wait).max(least)
}

/// The reason why a fallback tool is not called instead of the failed tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FallbackRefusal {
    #[error("its name is empty or too long")]
    Name,
    #[error("it is the tool that failed")]
    Same,
    #[error("the server does not list it")]
    Unlisted,
    #[error("it is more dangerous than the tool that failed")]
    Riskier,
    #[error("it is dangerous and irreversible, and the caller did not allow the call")]
    Irreversible,
}

/// Decides whether a fallback tool is allowed to be called instead of the failed tool.
///
/// If the definition of the original tool is unknown, that tool counts as safe here, so that no riskier tool replaces
/// it.
pub(super) fn may_replace(
    (tool, known): (&str, Option<&ToolRetryInfo>),
    (fallback, other): (&str, Option<&ToolRetryInfo>),
) -> Result<(), FallbackRefusal> {
    if fallback.is_empty() || fallback.len() > MAX_NAME_BYTES {
        return Err(FallbackRefusal::Name);
    }
    if tool == fallback {
        return Err(FallbackRefusal::Same);
    }
    let other = other.ok_or(FallbackRefusal::Unlisted)?;
    if other.repeat == RepeatPolicy::OnRequest {
        return Err(FallbackRefusal::Irreversible);
    }
    let risk = known.map_or(RiskLevel::Safe, ToolRetryInfo::max_fallback_risk);
    // An unknown level of risk counts as the highest level, for both tools.
    let others = other.risk.clone().min(RiskLevel::Dangerous);
    if others > risk { Err(FallbackRefusal::Riskier) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use mgp_types::ErrorCode;

    use super::*;
    use Decision::{Retry, Stop as No};

    struct Case {
        code: i32,
        hints: &'static str,
        retries: u32,
        left: Duration,
        repeat: RepeatPolicy,
        delivered: Delivered,
        jitter: f64,
    }

    const CASE: Case = Case {
        code: 3000,
        hints: r#"{"retryable":true}"#,
        retries: 0,
        left: Duration::from_secs(30),
        repeat: RepeatPolicy::IfNotStarted,
        delivered: Delivered::Nothing,
        jitter: 0.0,
    };

    #[track_caller]
    fn check(case: &Case, expected: Decision) {
        let failure = Failure {
            code: ErrorCode(case.code),
            hints: serde_json::from_str(case.hints).unwrap(),
        };
        let Case { retries, left, repeat, delivered, jitter, .. } = *case;
        let situation = Situation { failure: &failure, retries, left, repeat, delivered, jitter };
        let hints = case.hints;
        assert_eq!(situation.decide(&RetryConfig::default()), expected, "{} {hints}", case.code);
    }

    fn ms(ms: u64) -> Decision {
        Retry(Duration::from_millis(ms))
    }

    #[test]
    fn only_a_retryable_error_is_retried() {
        check(&CASE, ms(500));
        for hints in [r#"{"retryable":false}"#, "{}", r#"{"retry_after_ms":5,"max_retries":9}"#] {
            check(&Case { hints, ..CASE }, No(StopReason::NotRetryable));
            check(
                &Case { hints, repeat: RepeatPolicy::Always, ..CASE },
                No(StopReason::NotRetryable),
            );
        }
    }

    #[test]
    fn strategies_and_their_waits() {
        for (hints, waits) in [
            (r#"{"retryable":true,"retry_strategy":"immediate"}"#, [0, 0, 0]),
            (r#"{"retryable":true,"retry_strategy":"immediate","retry_after_ms":7}"#, [7, 7, 7]),
            (r#"{"retryable":true,"retry_strategy":"fixed_delay"}"#, [500, 500, 500]),
            (r#"{"retryable":true,"retry_strategy":"fixed_delay","retry_after_ms":9}"#, [9, 9, 9]),
            (r#"{"retryable":true,"retry_strategy":"moonlit","retry_after_ms":9}"#, [9, 9, 9]),
            (r#"{"retryable":true,"retry_after_ms":9}"#, [9, 9, 9]),
            (r#"{"retryable":true,"retry_strategy":"exponential_backoff"}"#, [500, 1000, 2000]),
            (r#"{"retryable":true,"retry_strategy":"exponential"}"#, [500, 1000, 2000]),
            (
                r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":100}"#,
                [100, 200, 400],
            ),
            (
                r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":0}"#,
                [500, 1000, 2000],
            ),
            // `max_wait` caps the exponential growth, but not the wait that the server requires.
            (
                r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":6000}"#,
                [6000, 10_000, 10_000],
            ),
            (
                r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":10000}"#,
                [10_000, 10_000, 10_000],
            ),
        ] {
            for (retries, wait) in (0..).zip(waits) {
                check(&Case { hints, retries, ..CASE }, ms(wait));
            }
        }
        let hints = r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":100}"#;
        check(&Case { hints, jitter: 1.0, ..CASE }, ms(150));
        check(&Case { hints, jitter: 0.5, retries: 1, ..CASE }, ms(250));
    }

    #[test]
    fn no_value_of_a_server_exceeds_the_callers_bounds() {
        for hints in [
            r#"{"retryable":true,"retry_after_ms":1000000000000}"#,
            r#"{"retryable":true,"retry_after_ms":18446744073709551615,"retry_strategy":"exponential"}"#,
            r#"{"retryable":true,"retry_after_ms":10001}"#,
        ] {
            check(&Case { hints, ..CASE }, No(StopReason::TooLong));
        }
        let hints = r#"{"retryable":true,"max_retries":1000000000}"#;
        check(&Case { hints, retries: 2, ..CASE }, ms(500));
        check(&Case { hints, retries: 3, ..CASE }, No(StopReason::Exhausted));
        let hints = r#"{"retryable":true,"max_retries":1}"#;
        check(&Case { hints, ..CASE }, ms(500));
        check(&Case { hints, retries: 1, ..CASE }, No(StopReason::Exhausted));
        check(
            &Case { hints: r#"{"retryable":true,"max_retries":0}"#, ..CASE },
            No(StopReason::Exhausted),
        );
        check(&Case { left: Duration::from_millis(500), ..CASE }, No(StopReason::TooLong));
        check(&Case { left: Duration::from_millis(501), ..CASE }, ms(500));
    }

    #[test]
    fn a_call_that_may_have_run_is_retried_only_if_that_does_no_harm() {
        const STARTED: &str = r#"{"retryable":true,"details":{"started":true}}"#;
        for code in [2000, 2001, 2002, 3000, 3001] {
            check(&Case { code, ..CASE }, ms(500));
            check(
                &Case { code, repeat: RepeatPolicy::OnRequest, ..CASE },
                No(StopReason::Irreversible),
            );
            check(&Case { code, hints: STARTED, ..CASE }, No(StopReason::MayHaveRun));
            check(&Case { code, hints: STARTED, repeat: RepeatPolicy::Always, ..CASE }, ms(500));
        }
        for code in [3003, 5000, 5001, 5002, -32603, 0, 9999] {
            check(&Case { code, ..CASE }, No(StopReason::MayHaveRun));
            check(
                &Case { code, repeat: RepeatPolicy::OnRequest, ..CASE },
                No(StopReason::Irreversible),
            );
            check(&Case { code, repeat: RepeatPolicy::Always, ..CASE }, ms(500));
        }
    }

    #[test]
    fn a_fallback_is_listed_and_no_more_dangerous() {
        let known = |risk: &str| ToolRetryInfo {
            repeat: RepeatPolicy::IfNotStarted,
            risk: risk.into(),
            is_declared: true,
        };
        let levels = ["safe", "moderate", "dangerous", "apocalyptic"];
        for (rank, risk) in levels.iter().enumerate() {
            for (other_rank, other) in levels.iter().enumerate() {
                let expected = if other_rank.min(2) > rank.min(2) {
                    Err(FallbackRefusal::Riskier)
                } else {
                    Ok(())
                };
                let found = may_replace(("a", Some(&known(risk))), ("b", Some(&known(other))));
                assert_eq!(found, expected, "{risk} {other}");
            }
        }
        let (safe, moderate) = (known("safe"), known("moderate"));
        assert_eq!(may_replace(("a", None), ("b", Some(&safe))), Ok(()));
        assert_eq!(may_replace(("a", None), ("b", Some(&moderate))), Err(FallbackRefusal::Riskier));
        assert_eq!(may_replace(("a", Some(&safe)), ("b", None)), Err(FallbackRefusal::Unlisted));
        assert_eq!(may_replace(("a", Some(&safe)), ("a", Some(&safe))), Err(FallbackRefusal::Same));
        // An irreversible tool is never called without consent. A tool that declares no risk can be replaced only by a
        // tool with at most moderate risk.
        let dangerous = known("dangerous");
        let wipe = ToolRetryInfo { repeat: RepeatPolicy::OnRequest, ..dangerous.clone() };
        let silent = ToolRetryInfo { is_declared: false, ..dangerous.clone() };
        assert_eq!(
            may_replace(("a", Some(&dangerous)), ("b", Some(&wipe))),
            Err(FallbackRefusal::Irreversible)
        );
        assert_eq!(
            may_replace(("a", Some(&silent)), ("b", Some(&dangerous))),
            Err(FallbackRefusal::Riskier)
        );
        assert_eq!(may_replace(("a", Some(&silent)), ("b", Some(&moderate))), Ok(()));
        for name in ["", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert_eq!(
                may_replace(("a", Some(&safe)), (name, Some(&safe))),
                Err(FallbackRefusal::Name)
            );
        }
    }
}
