//! A circuit breaker per server.

use std::time::Duration;

use mgp_types::ErrorCode;
use mgp_types::RpcError;
use mgp_types::service::HttpFailure;
use tokio::time::Instant;

/// Settings of a circuit breaker: how many failures open it, and how long it stays open.
///
/// While it is open, calls are refused immediately with code 5002 (upstream unavailable). Afterwards one call passes as
/// a probe. If the probe succeeds, the breaker closes, otherwise it opens again. If the probe has not ended after
/// [`open_for`](Self::open_for), e.g. because it waits for a person's approval, another call passes as a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitConfig {
    /// The number of consecutive failures after which the breaker opens; 0 disables it. Only calls that find the
    /// server, or an upstream of it, unreachable count as failures (codes 2000, 5001 and 5002, a broken connection).
    /// Default: 5.
    pub failures: u32,
    /// The time window of the failures. Default: 30 s.
    pub within: Duration,
    /// Time that the breaker stays open before the server is tried again. Default: 5 s.
    pub open_for: Duration,
}

impl Default for CircuitConfig {
    fn default() -> Self {
        Self { failures: 5, within: Duration::from_secs(30), open_for: Duration::from_secs(5) }
    }
}

/// The conclusion from the outcome of an attempt about whether the server is reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The server answered the call.
    Answered,
    /// The server, or an upstream server of it, is unreachable.
    Unreachable,
    /// The error might come from a layer on this side, e.g. an access check, so the client does not learn whether the
    /// server is reachable.
    Unknown,
}

impl Evidence {
    pub(super) fn of(error: &RpcError) -> Self {
        let broke = || {
            matches!(
                HttpFailure::from_error(error),
                Some(HttpFailure::Unreachable | HttpFailure::ConnectionLost)
            )
        };
        if is_unreachable(error.code()) || broke() { Self::Unreachable } else { Self::Unknown }
    }

    /// Returns the conclusion from the code of a refusal that was sent as a result.
    pub(super) fn of_code(code: ErrorCode) -> Self {
        if is_unreachable(code) { Self::Unreachable } else { Self::Answered }
    }
}

fn is_unreachable(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SERVER_NOT_READY | ErrorCode::UPSTREAM_TIMEOUT | ErrorCode::UPSTREAM_UNAVAILABLE
    )
}

/// The state of the circuit breaker of one server.
#[derive(Debug, Default)]
pub(super) enum Circuit {
    /// Calls are sent, and no failures have been counted.
    #[default]
    Closed,
    /// Consecutive calls have failed because the server is unreachable, the first of them at `since`.
    Failing { failures: u32, since: Instant },
    /// Calls are refused until this time.
    Open { until: Instant },
    /// One call, the probe, is running, and other calls are refused until this time. The probe's outcome determines the
    /// next state.
    Probing { until: Instant },
}

/// The decision whether a call is sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Pass,
    /// The call is sent as a probe, to find out whether the server is back.
    Probe,
    /// Calls to the server are refused for this time.
    Refused(Duration),
}

/// The delay before the retry of a call that was refused because of a running probe.
const PROBE_RETRY_DELAY: Duration = Duration::from_secs(1);

impl Circuit {
    /// Decides whether a call is sent to the server.
    pub(super) fn admit(&mut self, now: Instant, config: &CircuitConfig) -> Admission {
        if matches!(self, Self::Closed | Self::Failing { .. }) {
            return Admission::Pass;
        }
        let wait = self.refuses_for(now);
        if !wait.is_zero() {
            return Admission::Refused(wait);
        }
        *self = Self::Probing { until: now.checked_add(config.open_for).unwrap_or(now) };
        Admission::Probe
    }

    /// Returns for how long calls would be refused.
    pub(super) fn refuses_for(&self, now: Instant) -> Duration {
        match self {
            Self::Open { until } => until.saturating_duration_since(now),
            Self::Probing { until } => until.saturating_duration_since(now).min(PROBE_RETRY_DELAY),
            _ => Duration::ZERO,
        }
    }

    /// Records the outcome of an attempt; returns `true` if it opens the circuit.
    pub(super) fn record(
        &mut self,
        now: Instant,
        evidence: Evidence,
        by: Admission,
        config: &CircuitConfig,
    ) -> bool {
        let open = || Self::Open { until: now.checked_add(config.open_for).unwrap_or(now) };
        let next = match (&*self, evidence) {
            (_, Evidence::Answered) => Self::Closed,
            // The probe gave no evidence, so the next call becomes a probe.
            (Self::Probing { .. }, Evidence::Unknown) if by == Admission::Probe => {
                Self::Open { until: now }
            }
            (Self::Probing { .. }, Evidence::Unreachable) if by == Admission::Probe => open(),
            (Self::Closed, Evidence::Unreachable) => {
                Self::failing(1, now, config).unwrap_or_else(open)
            }
            (Self::Failing { failures, since }, Evidence::Unreachable) => {
                let old = now.saturating_duration_since(*since) > config.within;
                let (failures, since) = if old { (0, now) } else { (*failures, *since) };
                Self::failing(failures.saturating_add(1), since, config).unwrap_or_else(open)
            }
            // In all other cases, the attempt gave no evidence, or the evidence is old because the call was sent before
            // the circuit opened.
            _ => return false,
        };
        *self = next;
        matches!(self, Self::Open { until } if *until > now)
    }

    /// Returns the state after this number of consecutive failures; `None` if the number is high enough to open the
    /// circuit.
    fn failing(failures: u32, since: Instant, config: &CircuitConfig) -> Option<Self> {
        let max = if config.failures == 0 { u32::MAX } else { config.failures };
        (failures < max).then_some(Self::Failing { failures, since })
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn config() -> CircuitConfig {
        CircuitConfig { failures: 3, within: 10 * SECOND, open_for: 5 * SECOND }
    }

    fn record(circuit: &mut Circuit, now: Instant, evidence: Evidence, times: u32) -> bool {
        (0..times).fold(false, |_, _| circuit.record(now, evidence, Admission::Pass, &config()))
    }

    #[test]
    fn it_opens_after_consecutive_failures_and_lets_one_call_probe() {
        let (mut now, mut circuit) = (Instant::now(), Circuit::default());
        assert!(!record(&mut circuit, now, Evidence::Unreachable, 2));
        assert!(!record(&mut circuit, now, Evidence::Unknown, 5));
        assert_eq!(circuit.admit(now, &config()), Admission::Pass);
        assert!(record(&mut circuit, now, Evidence::Unreachable, 1));
        now += SECOND;
        assert_eq!(circuit.admit(now, &config()), Admission::Refused(4 * SECOND));
        now += 4 * SECOND;
        assert_eq!(circuit.admit(now, &config()), Admission::Probe);
        assert_eq!(circuit.admit(now, &config()), Admission::Refused(SECOND));
        // A call that was sent earlier and fails now does not change the state.
        assert!(!circuit.record(now, Evidence::Unreachable, Admission::Pass, &config()));
        assert!(matches!(circuit, Circuit::Probing { .. }));
        assert!(circuit.record(now, Evidence::Unreachable, Admission::Probe, &config()));
        now += 5 * SECOND;
        assert_eq!(circuit.admit(now, &config()), Admission::Probe);
        assert!(!circuit.record(now, Evidence::Unknown, Admission::Probe, &config()));
        assert_eq!(circuit.admit(now, &config()), Admission::Probe);
        assert!(!circuit.record(now, Evidence::Answered, Admission::Probe, &config()));
        assert!(circuit.is_closed());
    }

    #[test]
    fn an_answer_and_time_reset_the_count() {
        let (mut now, mut circuit) = (Instant::now(), Circuit::default());
        record(&mut circuit, now, Evidence::Unreachable, 2);
        record(&mut circuit, now, Evidence::Answered, 1);
        assert!(!record(&mut circuit, now, Evidence::Unreachable, 2));
        now += 11 * SECOND;
        assert!(!record(&mut circuit, now, Evidence::Unreachable, 2));
        assert!(record(&mut circuit, now, Evidence::Unreachable, 1));
    }

    #[test]
    fn a_disabled_circuit_never_opens() {
        let (now, mut circuit) = (Instant::now(), Circuit::default());
        let never = CircuitConfig { failures: 0, ..config() };
        for _ in 0..100 {
            assert!(!circuit.record(now, Evidence::Unreachable, Admission::Pass, &never));
            assert_eq!(circuit.admit(now, &never), Admission::Pass);
        }
    }

    #[track_caller]
    fn check(code: ErrorCode, expected: Evidence) {
        assert_eq!(Evidence::of(&RpcError::new(code, "no")), expected, "{code}");
    }

    #[test]
    fn only_an_unreachable_server_counts() {
        for code in ErrorCode::KNOWN {
            let away = matches!(code.0, 2000 | 5001 | 5002);
            check(*code, if away { Evidence::Unreachable } else { Evidence::Unknown });
        }
        let cut =
            RpcError::new(ErrorCode::UPSTREAM_ERROR, "cut").because(HttpFailure::ConnectionLost);
        assert_eq!(Evidence::of(&cut), Evidence::Unreachable);
    }
}
