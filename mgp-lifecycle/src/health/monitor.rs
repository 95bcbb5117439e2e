//! The health of a server from its client's point of view: a state machine without input or output (MGP §11.3).

use std::fmt;
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::mgp::HealthStatus;
use tokio::time::Instant;

/// The intervals and thresholds of a health monitor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MonitorConfig {
    /// The interval between pings. Default: 15 s.
    pub interval: Duration,
    /// The maximum time for an answer to a ping (MGP §11.3 requires an answer within 5 s). Default: 5 s.
    pub timeout: Duration,
    /// Number of consecutive failures after which a server is unhealthy. Default: 3.
    pub misses: u32,
    /// Number of consecutive good answers after which a server is healthy again. Default: 2.
    pub recoveries: u32,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(5),
            misses: 3,
            recoveries: 2,
        }
    }
}

/// The maximum interval and time limit, so that the sum with the current time cannot overflow.
const MAX_TIME: Duration = Duration::from_hours(24 * 365 * 100);

/// An observation about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthSignal {
    /// An answer to an MGP ping, with a status.
    Reported(HealthStatus),
    /// An answer without a status, even an error: a server that refuses a ping is alive.
    Answered,
    /// The server's process or connection has ended.
    Ended,
}

/// The reason for a change of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HealthReason {
    /// The server did not answer in time, several times in a row.
    NoAnswer,
    /// The server itself reported this status.
    Reported,
    /// The server answers again after it had not answered.
    AnswersAgain,
    /// The server's process or connection has ended.
    Ended,
}

impl fmt::Display for HealthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAnswer => "it does not answer",
            Self::Reported => "it reports this status",
            Self::AnswersAgain => "it answers again",
            Self::Ended => "it ended",
        })
    }
}

/// A change of a server's health.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthChange {
    /// The health of the server before the change.
    pub from: HealthStatus,
    /// The health of the server after the change.
    pub to: HealthStatus,
    /// The reason for the change of health.
    pub reason: HealthReason,
    /// The time when the health changed.
    pub at: Timestamp,
}

/// The next step that the driver of a monitor must take.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MonitorStep {
    /// Nothing is due yet; wait until [`HealthMonitor::due`].
    Wait,
    /// Ping the server: with MGP, with MCP, or with any request that it must answer.
    Ping,
    /// Report this change of health, which the monitor made because the server did not answer in time.
    Changed(HealthChange),
}

/// State machine that evaluates the health of a server.
///
/// Its driver waits until [`due`](Self::due), takes the step that [`step`](Self::step) returns, and passes observations
/// to [`record`](Self::record). A server begins as healthy, because its handshake has just succeeded.
///
/// ```
/// use mgp_lifecycle::{HealthMonitor, HealthReason, MonitorConfig, HealthSignal, MonitorStep};
/// use mgp_types::mgp::HealthStatus;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let now = tokio::time::Instant::now();
/// let mut monitor = HealthMonitor::new(MonitorConfig::default(), now);
/// let asked = monitor.due().unwrap();
/// assert_eq!(monitor.step(asked), MonitorStep::Ping);
/// assert_eq!(monitor.record(HealthSignal::Answered), None);
///
/// let change = monitor.record(HealthSignal::Ended).unwrap();
/// assert_eq!((change.to, change.reason), (HealthStatus::Unhealthy, HealthReason::Ended));
/// assert_eq!(monitor.due(), None);
/// # });
/// ```
#[derive(Debug)]
#[must_use]
pub struct HealthMonitor {
    config: MonitorConfig,
    health: HealthStatus,
    /// The number of consecutive failures of the server.
    bad: u32,
    /// The number of consecutive good answers of the server.
    good: u32,
    /// The time when the next ping is due.
    next: Instant,
    /// The deadline for the answer to the latest ping; `None` if no answer is outstanding.
    answer_deadline: Option<Instant>,
    is_over: bool,
}

impl HealthMonitor {
    /// Creates the monitor of a server whose handshake has just succeeded.
    pub fn new(config: MonitorConfig, now: Instant) -> Self {
        Self {
            next: now + config.interval.min(MAX_TIME),
            config,
            health: HealthStatus::Healthy,
            bad: 0,
            good: 0,
            answer_deadline: None,
            is_over: false,
        }
    }

    /// Returns the number of consecutive failures. If it is above zero, the driver can also try pings of another kind.
    #[must_use]
    pub fn misses(&self) -> u32 {
        self.bad
    }

    /// Returns the time of the next step; `None` if the server has ended.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        (!self.is_over).then(|| self.answer_deadline.unwrap_or(self.next))
    }

    /// Returns the step that is due now.
    #[must_use]
    pub fn step(&mut self, now: Instant) -> MonitorStep {
        if self.due().is_none_or(|due| now < due) {
            return MonitorStep::Wait;
        }
        if self.answer_deadline.take().is_some() {
            let change = self.record_failure(HealthReason::NoAnswer);
            return change.map_or(MonitorStep::Wait, MonitorStep::Changed);
        }
        // The interval is counted from this ping, even if it was sent late.
        self.next = now + self.config.interval.clamp(Duration::from_millis(1), MAX_TIME);
        self.answer_deadline = Some(now + self.config.timeout.min(MAX_TIME));
        MonitorStep::Ping
    }

    /// Records an observation; returns the change of health that it causes, if any.
    pub fn record(&mut self, sign: HealthSignal) -> Option<HealthChange> {
        if self.is_over {
            return None;
        }
        match sign {
            HealthSignal::Ended => {
                self.is_over = true;
                self.change_to(HealthStatus::Unhealthy, HealthReason::Ended)
            }
            HealthSignal::Reported(status) => self.record_status(&status),
            HealthSignal::Answered => self.record_answer(None),
        }
    }

    fn record_status(&mut self, status: &HealthStatus) -> Option<HealthChange> {
        match status {
            HealthStatus::Healthy => self.record_answer(Some(HealthStatus::Healthy)),
            HealthStatus::Unhealthy => {
                self.answer_deadline = None;
                let unhealthy = self.record_failure(HealthReason::Reported);
                // The server still answers, so it is degraded at first, and unhealthy only after several such reports.
                unhealthy.or_else(|| match self.health {
                    HealthStatus::Healthy => {
                        self.change_to(HealthStatus::Degraded, HealthReason::Reported)
                    }
                    _ => None,
                })
            }
            // Unknown statuses are treated as degraded.
            _ => self.record_answer(Some(HealthStatus::Degraded)),
        }
    }

    fn record_failure(&mut self, reason: HealthReason) -> Option<HealthChange> {
        self.good = 0;
        self.bad = self.bad.saturating_add(1);
        if self.bad < self.config.misses {
            return None;
        }
        self.change_to(HealthStatus::Unhealthy, reason)
    }

    fn record_answer(&mut self, status: Option<HealthStatus>) -> Option<HealthChange> {
        self.bad = 0;
        // Count an answer only if a ping was not answered yet, so that a burst of answers counts once.
        self.good = self.good.saturating_add(u32::from(self.answer_deadline.take().is_some()));
        let has_recovered = self.good >= self.config.recoveries;
        match (&self.health, status) {
            (HealthStatus::Healthy, Some(HealthStatus::Degraded)) => {
                self.change_to(HealthStatus::Degraded, HealthReason::Reported)
            }
            // A server that answers without a status counts as healthy.
            (HealthStatus::Unhealthy, status) if has_recovered => {
                self.change_to(status.unwrap_or(HealthStatus::Healthy), HealthReason::AnswersAgain)
            }
            (HealthStatus::Degraded, Some(HealthStatus::Healthy)) if has_recovered => {
                self.change_to(HealthStatus::Healthy, HealthReason::Reported)
            }
            (HealthStatus::Degraded, Some(HealthStatus::Degraded)) => {
                self.good = 0;
                None
            }
            _ => None,
        }
    }

    fn change_to(&mut self, to: HealthStatus, reason: HealthReason) -> Option<HealthChange> {
        if self.health == to {
            return None;
        }
        self.good = 0;
        let from = std::mem::replace(&mut self.health, to.clone());
        Some(HealthChange { from, to, reason, at: Timestamp::now() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor() -> HealthMonitor {
        HealthMonitor::new(MonitorConfig::default(), Instant::now())
    }

    /// Advances the time to the next ping, and sends it.
    #[track_caller]
    fn ask(monitor: &mut HealthMonitor) {
        let due = monitor.due().unwrap();
        assert_eq!(monitor.step(due - Duration::from_millis(1)), MonitorStep::Wait);
        assert_eq!(monitor.step(due), MonitorStep::Ping);
    }

    /// Advances the time to the next ping and past its deadline, without an answer.
    #[track_caller]
    fn miss(monitor: &mut HealthMonitor) -> MonitorStep {
        ask(monitor);
        monitor.step(monitor.due().unwrap())
    }

    #[track_caller]
    fn report(monitor: &mut HealthMonitor, status: HealthStatus) -> Option<HealthStatus> {
        ask(monitor);
        monitor.record(HealthSignal::Reported(status)).map(|change| change.to)
    }

    #[tokio::test(start_paused = true)]
    async fn three_misses_in_a_row_make_it_unhealthy_and_two_answers_healthy_again() {
        let mut monitor = monitor();
        assert_eq!(
            (miss(&mut monitor), miss(&mut monitor)),
            (MonitorStep::Wait, MonitorStep::Wait)
        );
        ask(&mut monitor);
        assert_eq!(monitor.record(HealthSignal::Answered), None, "an answer resets the count");
        assert_eq!(
            (miss(&mut monitor), miss(&mut monitor)),
            (MonitorStep::Wait, MonitorStep::Wait)
        );
        let MonitorStep::Changed(change) = miss(&mut monitor) else { panic!("no change") };
        assert_eq!((change.from, change.to), (HealthStatus::Healthy, HealthStatus::Unhealthy));
        assert_eq!(change.reason, HealthReason::NoAnswer);
        assert_eq!(miss(&mut monitor), MonitorStep::Wait, "the change is reported once");
        ask(&mut monitor);
        assert_eq!(monitor.record(HealthSignal::Answered), None);
        assert_eq!(monitor.record(HealthSignal::Answered), None, "a burst of answers counts once");
        ask(&mut monitor);
        let change = monitor.record(HealthSignal::Answered).unwrap();
        assert_eq!((change.to, change.reason), (HealthStatus::Healthy, HealthReason::AnswersAgain));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_times_do_not_overflow() {
        let config = MonitorConfig {
            interval: Duration::MAX,
            timeout: Duration::MAX,
            ..MonitorConfig::default()
        };
        let mut monitor = HealthMonitor::new(config, Instant::now());
        ask(&mut monitor);
        assert!(monitor.due().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_pinged_at_each_interval_and_given_its_time() {
        let start = Instant::now();
        let mut monitor = monitor();
        for round in 1..5 {
            let due = monitor.due().unwrap();
            assert_eq!(due, start + Duration::from_secs(15 * round));
            assert_eq!(monitor.step(due), MonitorStep::Ping);
            assert_eq!(monitor.due(), Some(due + Duration::from_secs(5)));
            assert_eq!(monitor.record(HealthSignal::Answered), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_a_server_reports_counts() {
        let mut monitor = monitor();
        assert_eq!(report(&mut monitor, HealthStatus::Degraded), Some(HealthStatus::Degraded));
        assert_eq!(report(&mut monitor, HealthStatus::Healthy), None);
        assert_eq!(report(&mut monitor, HealthStatus::Healthy), Some(HealthStatus::Healthy));
        assert_eq!(report(&mut monitor, HealthStatus::Unhealthy), Some(HealthStatus::Degraded));
        assert_eq!(report(&mut monitor, HealthStatus::Unhealthy), None);
        assert_eq!(report(&mut monitor, HealthStatus::Unhealthy), Some(HealthStatus::Unhealthy));
        assert_eq!(report(&mut monitor, HealthStatus::from("limping")), None);
        assert_eq!(
            report(&mut monitor, HealthStatus::from("limping")),
            Some(HealthStatus::Degraded)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_ended_is_unhealthy_at_once_and_not_pinged_again() {
        let mut monitor = monitor();
        let change = monitor.record(HealthSignal::Ended).unwrap();
        assert_eq!((change.to, change.reason), (HealthStatus::Unhealthy, HealthReason::Ended));
        assert_eq!((monitor.due(), monitor.record(HealthSignal::Answered)), (None, None));
        assert_eq!(monitor.step(Instant::now() + Duration::from_hours(1)), MonitorStep::Wait);
    }
}
