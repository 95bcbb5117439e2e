//! Whether a call is made again and after which wait: a pure function (MGP §14.6).
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_types::mgp::RiskLevel;
use mgp_types::{Recovery, RetryStrategy};

use super::config::RetryConfig;
use super::failure::Failure;
use super::heard::Heard;
use super::known::{KnownTool, NAME_MAX, Repeat};

/// A call that failed.
pub(super) struct Situation<'a> {
    pub(super) failure: &'a Failure,
    /// How often it was made again so far.
    pub(super) made: u32,
    /// How much time is left.
    pub(super) left: Duration,
    pub(super) repeat: Repeat,
    pub(super) heard: Heard,
    /// Between 0 and 1.
    pub(super) jitter: f64,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is made again after this wait.
    Again(Duration),
    Stop(Stop),
}

/// Why a call is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stop {
    #[error("the error does not say that trying again helps")]
    NotRetryable,
    #[error("a piece of its result was handed on")]
    Heard,
    #[error("it may have run, and nothing says that it may run twice")]
    MayHaveRun,
    #[error(
        "it is dangerous and cannot be undone, and the caller did not say that it may run twice"
    )]
    NotAsked,
    #[error("all attempts are used up")]
    Exhausted,
    #[error("the wait is longer than what is left")]
    TooLong,
    #[error("the budget of attempts is used up")]
    Budget,
    #[error("the server is left alone")]
    Circuit,
    #[error("its connection is gone")]
    Gone,
}

impl Situation<'_> {
    /// Decides with the caller's bounds; the budget and the circuit are asked by whoever makes the call.
    pub(super) fn decide(&self, config: &RetryConfig) -> Decision {
        let hints = &self.failure.hints;
        if !hints.is_retryable() {
            return Decision::Stop(Stop::NotRetryable);
        }
        if let Err(stop) = self.may_run_again() {
            return Decision::Stop(stop);
        }
        let most = hints.max_retries.unwrap_or(u32::MAX).min(config.retries);
        if self.made >= most {
            return Decision::Stop(Stop::Exhausted);
        }
        let wait = wait(hints, self.made, config, self.jitter);
        if wait > config.longest_wait || wait >= self.left {
            return Decision::Stop(Stop::TooLong);
        }
        Decision::Again(wait)
    }

    /// Whether a second run does no harm, or there was no first one.
    fn may_run_again(&self) -> Result<(), Stop> {
        let started = self.failure.may_have_run() || self.heard > Heard::Nothing;
        match self.repeat {
            _ if self.heard == Heard::Chunk => Err(Stop::Heard),
            Repeat::Asked => Err(Stop::NotAsked),
            Repeat::Unstarted if started => Err(Stop::MayHaveRun),
            Repeat::Unstarted | Repeat::Freely => Ok(()),
        }
    }
}

/// The wait before the next attempt: never less than the server wants.
fn wait(hints: &Recovery, made: u32, config: &RetryConfig, jitter: f64) -> Duration {
    let said = hints.retry_after_ms.map(Duration::from_millis);
    let least = said.unwrap_or_default();
    // Without a word on it, or with one that is not known, the same time again.
    let strategy = hints.retry_strategy.as_ref().map(RetryStrategy::effective);
    let wait = match strategy {
        Some(RetryStrategy::Immediate) => least,
        Some(RetryStrategy::ExponentialBackoff) => {
            let first = if least.is_zero() { config.first_wait } else { least };
            let wait = first.saturating_mul(1 << made.min(16)).min(config.longest_wait);
            // Those that failed together must not come back together.
            wait.saturating_add(wait.mul_f64(jitter.clamp(0.0, 1.0) / 2.0))
        }
        _ => said.unwrap_or(config.first_wait),
    };
    wait.min(config.longest_wait).max(least)
}

/// Why a tool is not called in place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoFallback {
    #[error("its name is empty or too long")]
    Name,
    #[error("it is the tool that failed")]
    Same,
    #[error("the server does not list it")]
    Unlisted,
    #[error("it is more dangerous than the tool that failed")]
    Riskier,
    #[error(
        "it is dangerous and cannot be undone, and the caller did not say that it may be called"
    )]
    NotAsked,
}

/// Whether a tool may be called in place of another.
///
/// Of a tool that nobody knows the best is assumed where it would be replaced, so that it vouches for nothing.
pub(super) fn may_replace(
    (tool, known): (&str, Option<&KnownTool>),
    (fallback, other): (&str, Option<&KnownTool>),
) -> Result<(), NoFallback> {
    if fallback.is_empty() || fallback.len() > NAME_MAX {
        return Err(NoFallback::Name);
    }
    if tool == fallback {
        return Err(NoFallback::Same);
    }
    let other = other.ok_or(NoFallback::Unlisted)?;
    if other.repeat == Repeat::Asked {
        return Err(NoFallback::NotAsked);
    }
    let risk = known.map_or(RiskLevel::Safe, KnownTool::vouches_for);
    // An unknown word is as bad as the worst, on both sides.
    let others = other.risk.clone().min(RiskLevel::Dangerous);
    if others > risk { Err(NoFallback::Riskier) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use mgp_types::ErrorCode;

    use super::*;
    use Decision::{Again, Stop as No};

    struct Case {
        code: i32,
        hints: &'static str,
        made: u32,
        left: Duration,
        repeat: Repeat,
        heard: Heard,
        jitter: f64,
    }

    const CASE: Case = Case {
        code: 3000,
        hints: r#"{"retryable":true}"#,
        made: 0,
        left: Duration::from_secs(30),
        repeat: Repeat::Unstarted,
        heard: Heard::Nothing,
        jitter: 0.0,
    };

    #[track_caller]
    fn check(case: &Case, expected: Decision) {
        let failure = Failure {
            code: ErrorCode(case.code),
            hints: serde_json::from_str(case.hints).unwrap(),
        };
        let Case { made, left, repeat, heard, jitter, .. } = *case;
        let situation = Situation { failure: &failure, made, left, repeat, heard, jitter };
        let hints = case.hints;
        assert_eq!(situation.decide(&RetryConfig::default()), expected, "{} {hints}", case.code);
    }

    fn ms(ms: u64) -> Decision {
        Again(Duration::from_millis(ms))
    }

    #[test]
    fn only_who_says_so_is_asked_again() {
        check(&CASE, ms(500));
        for hints in [r#"{"retryable":false}"#, "{}", r#"{"retry_after_ms":5,"max_retries":9}"#] {
            check(&Case { hints, ..CASE }, No(Stop::NotRetryable));
            check(&Case { hints, repeat: Repeat::Freely, ..CASE }, No(Stop::NotRetryable));
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
            // The longest wait caps what grows, and not what the server wants.
            (
                r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":6000}"#,
                [6000, 10_000, 10_000],
            ),
            (
                r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":10000}"#,
                [10_000, 10_000, 10_000],
            ),
        ] {
            for (made, wait) in (0..).zip(waits) {
                check(&Case { hints, made, ..CASE }, ms(wait));
            }
        }
        let hints = r#"{"retryable":true,"retry_strategy":"exponential","retry_after_ms":100}"#;
        check(&Case { hints, jitter: 1.0, ..CASE }, ms(150));
        check(&Case { hints, jitter: 0.5, made: 1, ..CASE }, ms(250));
    }

    #[test]
    fn no_figure_of_a_server_reaches_beyond_the_callers() {
        for hints in [
            r#"{"retryable":true,"retry_after_ms":1000000000000}"#,
            r#"{"retryable":true,"retry_after_ms":18446744073709551615,"retry_strategy":"exponential"}"#,
            r#"{"retryable":true,"retry_after_ms":10001}"#,
        ] {
            check(&Case { hints, ..CASE }, No(Stop::TooLong));
        }
        let hints = r#"{"retryable":true,"max_retries":1000000000}"#;
        check(&Case { hints, made: 2, ..CASE }, ms(500));
        check(&Case { hints, made: 3, ..CASE }, No(Stop::Exhausted));
        let hints = r#"{"retryable":true,"max_retries":1}"#;
        check(&Case { hints, ..CASE }, ms(500));
        check(&Case { hints, made: 1, ..CASE }, No(Stop::Exhausted));
        check(
            &Case { hints: r#"{"retryable":true,"max_retries":0}"#, ..CASE },
            No(Stop::Exhausted),
        );
        check(&Case { left: Duration::from_millis(500), ..CASE }, No(Stop::TooLong));
        check(&Case { left: Duration::from_millis(501), ..CASE }, ms(500));
    }

    #[test]
    fn what_may_have_run_runs_again_only_where_that_does_no_harm() {
        const STARTED: &str = r#"{"retryable":true,"details":{"started":true}}"#;
        for code in [2000, 2001, 2002, 3000, 3001] {
            check(&Case { code, ..CASE }, ms(500));
            check(&Case { code, repeat: Repeat::Asked, ..CASE }, No(Stop::NotAsked));
            check(&Case { code, hints: STARTED, ..CASE }, No(Stop::MayHaveRun));
            check(&Case { code, hints: STARTED, repeat: Repeat::Freely, ..CASE }, ms(500));
        }
        for code in [3003, 5000, 5001, 5002, -32603, 0, 9999] {
            check(&Case { code, ..CASE }, No(Stop::MayHaveRun));
            check(&Case { code, repeat: Repeat::Asked, ..CASE }, No(Stop::NotAsked));
            check(&Case { code, repeat: Repeat::Freely, ..CASE }, ms(500));
        }
    }

    #[test]
    fn what_was_heard_is_not_told_twice() {
        let heard = Heard::Something;
        check(&Case { heard, ..CASE }, No(Stop::MayHaveRun));
        check(&Case { heard, repeat: Repeat::Freely, ..CASE }, ms(500));
        check(&Case { heard: Heard::Chunk, repeat: Repeat::Freely, ..CASE }, No(Stop::Heard));
    }

    #[test]
    fn a_fallback_is_listed_and_no_more_dangerous() {
        let known = |risk: &str| KnownTool {
            repeat: Repeat::Unstarted,
            risk: risk.into(),
            is_declared: true,
        };
        let levels = ["safe", "moderate", "dangerous", "apocalyptic"];
        for (rank, risk) in levels.iter().enumerate() {
            for (other_rank, other) in levels.iter().enumerate() {
                let expected =
                    if other_rank.min(2) > rank.min(2) { Err(NoFallback::Riskier) } else { Ok(()) };
                let found = may_replace(("a", Some(&known(risk))), ("b", Some(&known(other))));
                assert_eq!(found, expected, "{risk} {other}");
            }
        }
        let (safe, moderate) = (known("safe"), known("moderate"));
        assert_eq!(may_replace(("a", None), ("b", Some(&safe))), Ok(()));
        assert_eq!(may_replace(("a", None), ("b", Some(&moderate))), Err(NoFallback::Riskier));
        assert_eq!(may_replace(("a", Some(&safe)), ("b", None)), Err(NoFallback::Unlisted));
        assert_eq!(may_replace(("a", Some(&safe)), ("a", Some(&safe))), Err(NoFallback::Same));
        // One that cannot be undone is never called unasked, and one that says nothing vouches for little.
        let dangerous = known("dangerous");
        let wipe = KnownTool { repeat: Repeat::Asked, ..dangerous.clone() };
        let silent = KnownTool { is_declared: false, ..dangerous.clone() };
        assert_eq!(
            may_replace(("a", Some(&dangerous)), ("b", Some(&wipe))),
            Err(NoFallback::NotAsked)
        );
        assert_eq!(
            may_replace(("a", Some(&silent)), ("b", Some(&dangerous))),
            Err(NoFallback::Riskier)
        );
        assert_eq!(may_replace(("a", Some(&silent)), ("b", Some(&moderate))), Ok(()));
        for name in ["", &"x".repeat(NAME_MAX + 1)] {
            assert_eq!(may_replace(("a", Some(&safe)), (name, Some(&safe))), Err(NoFallback::Name));
        }
    }
}
