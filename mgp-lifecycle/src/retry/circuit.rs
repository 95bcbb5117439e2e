//! When a server is left alone: the three states of a circuit breaker.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_types::ErrorCode;
use mgp_types::RpcError;
use mgp_types::service::HttpFault;
use tokio::time::Instant;

/// When a server is left alone, and for how long.
///
/// Calls are then refused with 5002 at once. Afterwards one call goes through, and decides for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitConfig {
    /// How many calls in a row must find the server or what is behind it out of reach (2000, 5001, 5002, a connection
    /// that broke); 0 leaves no server alone. 5.
    pub failures: u32,
    /// Within which time they must come. 30 s.
    pub within: Duration,
    /// How long the server is left alone. 5 s.
    pub open_for: Duration,
}

impl Default for CircuitConfig {
    fn default() -> Self {
        Self { failures: 5, within: Duration::from_secs(30), open_for: Duration::from_secs(5) }
    }
}

/// What an attempt says about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It answers.
    Answers,
    /// It, or what is behind it, is out of reach.
    Away,
    /// Nothing: a gate of ours may have said it.
    Nothing,
}

impl Sign {
    /// What an error says.
    pub(super) fn of(error: &RpcError) -> Self {
        let broke = || matches!(HttpFault::of(error), Some(HttpFault::Unreached | HttpFault::Cut));
        if says_away(error.code()) || broke() { Self::Away } else { Self::Nothing }
    }

    /// What a refusal says that came as a result.
    pub(super) fn of_code(code: ErrorCode) -> Self {
        if says_away(code) { Self::Away } else { Self::Answers }
    }
}

fn says_away(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SERVER_NOT_READY | ErrorCode::UPSTREAM_TIMEOUT | ErrorCode::UPSTREAM_UNAVAILABLE
    )
}

/// The state of one server.
#[derive(Debug, Default)]
pub(super) enum Circuit {
    /// Nothing is wrong.
    #[default]
    Closed,
    /// So many calls in a row found it out of reach, the first of them then.
    Failing { failures: u32, since: Instant },
    /// It is left alone until then.
    Open { until: Instant },
    /// One call is on its way; what it meets counts for all.
    Probing,
}

/// Whether a call may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Pass,
    /// It is the one that finds out.
    Probe,
    /// Not before this time has passed.
    Refused(Duration),
}

/// How long others wait for the one that finds out.
const WHILE_PROBING: Duration = Duration::from_secs(1);

impl Circuit {
    /// Decides about a call.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        match self {
            Self::Closed | Self::Failing { .. } => Admission::Pass,
            Self::Open { until } if *until > now => {
                Admission::Refused(until.saturating_duration_since(now))
            }
            Self::Open { .. } => {
                *self = Self::Probing;
                Admission::Probe
            }
            Self::Probing => Admission::Refused(WHILE_PROBING),
        }
    }

    /// How long calls would be refused.
    pub(super) fn refuses_for(&self, now: Instant) -> Duration {
        match self {
            Self::Open { until } => until.saturating_duration_since(now),
            Self::Probing => WHILE_PROBING,
            _ => Duration::ZERO,
        }
    }

    /// Notes what an attempt met; `true` when the server is left alone from now on.
    pub(super) fn note(
        &mut self,
        now: Instant,
        sign: Sign,
        by: Admission,
        config: &CircuitConfig,
    ) -> bool {
        let open = || Self::Open { until: now.checked_add(config.open_for).unwrap_or(now) };
        let next = match (&*self, sign) {
            (_, Sign::Answers) => Self::Closed,
            // The one that was to find out found nothing: the next one is to.
            (Self::Probing, Sign::Nothing) if by == Admission::Probe => Self::Open { until: now },
            (Self::Probing, Sign::Away) if by == Admission::Probe => open(),
            (Self::Closed, Sign::Away) => Self::failing(1, now, config).unwrap_or_else(open),
            (Self::Failing { failures, since }, Sign::Away) => {
                let old = now.saturating_duration_since(*since) > config.within;
                let (failures, since) = if old { (0, now) } else { (*failures, *since) };
                Self::failing(failures.saturating_add(1), since, config).unwrap_or_else(open)
            }
            // What was sent before says nothing new.
            _ => return false,
        };
        *self = next;
        matches!(self, Self::Open { until } if *until > now)
    }

    /// A server that failed so often; none once that is too often.
    fn failing(failures: u32, since: Instant, config: &CircuitConfig) -> Option<Self> {
        let most = if config.failures == 0 { u32::MAX } else { config.failures };
        (failures < most).then_some(Self::Failing { failures, since })
    }

    /// Whether nothing needs to be looked at.
    pub(super) fn is_calm(&self) -> bool {
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

    /// Notes the same sign so many times.
    fn note(circuit: &mut Circuit, now: Instant, sign: Sign, times: u32) -> bool {
        (0..times).fold(false, |_, _| circuit.note(now, sign, Admission::Pass, &config()))
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_call_find_out() {
        let (mut now, mut circuit) = (Instant::now(), Circuit::default());
        assert!(!note(&mut circuit, now, Sign::Away, 2));
        assert!(!note(&mut circuit, now, Sign::Nothing, 5));
        assert_eq!(circuit.admit(now), Admission::Pass);
        assert!(note(&mut circuit, now, Sign::Away, 1));
        now += SECOND;
        assert_eq!(circuit.admit(now), Admission::Refused(4 * SECOND));
        now += 4 * SECOND;
        assert_eq!(circuit.admit(now), Admission::Probe);
        assert_eq!(circuit.admit(now), Admission::Refused(SECOND));
        // An old call that fails now does not decide.
        assert!(!circuit.note(now, Sign::Away, Admission::Pass, &config()));
        assert!(matches!(circuit, Circuit::Probing));
        assert!(circuit.note(now, Sign::Away, Admission::Probe, &config()));
        now += 5 * SECOND;
        assert_eq!(circuit.admit(now), Admission::Probe);
        assert!(!circuit.note(now, Sign::Nothing, Admission::Probe, &config()));
        assert_eq!(circuit.admit(now), Admission::Probe);
        assert!(!circuit.note(now, Sign::Answers, Admission::Probe, &config()));
        assert!(circuit.is_calm());
    }

    #[test]
    fn an_answer_and_time_begin_anew() {
        let (mut now, mut circuit) = (Instant::now(), Circuit::default());
        note(&mut circuit, now, Sign::Away, 2);
        note(&mut circuit, now, Sign::Answers, 1);
        assert!(!note(&mut circuit, now, Sign::Away, 2));
        now += 11 * SECOND;
        assert!(!note(&mut circuit, now, Sign::Away, 2));
        assert!(note(&mut circuit, now, Sign::Away, 1));
    }

    #[test]
    fn none_is_left_alone_where_nobody_wants_that() {
        let (now, mut circuit) = (Instant::now(), Circuit::default());
        let never = CircuitConfig { failures: 0, ..config() };
        for _ in 0..100 {
            assert!(!circuit.note(now, Sign::Away, Admission::Pass, &never));
            assert_eq!(circuit.admit(now), Admission::Pass);
        }
    }

    #[track_caller]
    fn check(code: ErrorCode, expected: Sign) {
        assert_eq!(Sign::of(&RpcError::new(code, "no")), expected, "{code}");
    }

    #[test]
    fn only_what_is_out_of_reach_counts() {
        for code in ErrorCode::KNOWN {
            let away = matches!(code.0, 2000 | 5001 | 5002);
            check(*code, if away { Sign::Away } else { Sign::Nothing });
        }
        let cut = RpcError::new(ErrorCode::UPSTREAM_ERROR, "cut").because(HttpFault::Cut);
        assert_eq!(Sign::of(&cut), Sign::Away);
    }
}
