//! Whether a server is well, as its client sees it: signs in, decisions out, no input or output of its own (MGP §11.3).
//!
//! Applies to: outbound.

use std::fmt;
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::mgp::HealthStatus;
use tokio::time::Instant;

/// When a server is asked, and how much it takes to change one's mind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MonitorConfig {
    /// How often it is asked. 15 s.
    pub interval: Duration,
    /// How long an answer may take (MGP §11.3 gives a server 5 s). 5 s.
    pub timeout: Duration,
    /// So many bad signs in a row make it unhealthy. 3.
    pub misses: u32,
    /// So many good answers in a row make it well again. 2.
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

/// What was seen of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sign {
    /// It answered a ping of MGP and said how it is.
    Told(HealthStatus),
    /// It answered something, be it an error: whoever refuses a ping is alive.
    Answered,
    /// Its process or its connection ended.
    Ended,
}

/// Why a server is taken for what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HealthReason {
    /// It did not answer in time, several times in a row.
    NoAnswer,
    /// It says so.
    Told,
    /// It answers again.
    Answers,
    /// Its process or its connection ended.
    Ended,
}

impl fmt::Display for HealthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAnswer => "it does not answer",
            Self::Told => "it says so",
            Self::Answers => "it answers again",
            Self::Ended => "it ended",
        })
    }
}

/// A change of mind about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthChange {
    /// What it was taken for.
    pub from: HealthStatus,
    /// What it is taken for.
    pub to: HealthStatus,
    /// Why.
    pub reason: HealthReason,
    /// When.
    pub at: Timestamp,
}

/// What is to be done when the time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Turn {
    /// Nothing yet.
    Wait,
    /// The server is asked: by a ping of MGP, one of MCP, or any request it must answer.
    Ask,
    /// It did not answer, and that changes what it is taken for.
    Changed(HealthChange),
}

/// Decides from signs whether a server is well.
///
/// Whoever drives it waits until [`due`](Self::due), does what [`turn`](Self::turn) says, and tells what is
/// [`seen`](Self::seen).
/// A server is well to begin with: it has just shaken hands.
///
/// ```
/// use mgp_lifecycle::{HealthMonitor, HealthReason, MonitorConfig, Sign, Turn};
/// use mgp_types::mgp::HealthStatus;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let now = tokio::time::Instant::now();
/// let mut monitor = HealthMonitor::new(MonitorConfig::default(), now);
/// let asked = monitor.due().unwrap();
/// assert_eq!(monitor.turn(asked), Turn::Ask);
/// assert_eq!(monitor.seen(Sign::Answered), None);
///
/// let change = monitor.seen(Sign::Ended).unwrap();
/// assert_eq!((change.to, change.reason), (HealthStatus::Unhealthy, HealthReason::Ended));
/// assert_eq!(monitor.due(), None);
/// # });
/// ```
#[derive(Debug)]
#[must_use]
pub struct HealthMonitor {
    config: MonitorConfig,
    health: HealthStatus,
    /// Bad signs in a row.
    bad: u32,
    /// Good answers in a row.
    good: u32,
    /// When it is asked next.
    next: Instant,
    /// Until when an answer is waited for.
    until: Option<Instant>,
    is_over: bool,
}

impl HealthMonitor {
    /// A monitor of a server that has just shaken hands.
    pub fn new(config: MonitorConfig, now: Instant) -> Self {
        Self {
            next: now + config.interval,
            config,
            health: HealthStatus::Healthy,
            bad: 0,
            good: 0,
            until: None,
            is_over: false,
        }
    }

    /// What the server is taken for.
    #[must_use]
    pub fn health(&self) -> &HealthStatus {
        &self.health
    }

    /// Whether an answer is waited for.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.until.is_some()
    }

    /// Bad signs in a row: above none it is worth asking in more than one way.
    #[must_use]
    pub fn misses(&self) -> u32 {
        self.bad
    }

    /// When there is something to do; never again once the server ended.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        (!self.is_over).then(|| self.until.unwrap_or(self.next))
    }

    /// Says what is to be done now.
    #[must_use]
    pub fn turn(&mut self, now: Instant) -> Turn {
        if self.due().is_none_or(|due| now < due) {
            return Turn::Wait;
        }
        if self.until.take().is_some() {
            let change = self.bad_sign(HealthReason::NoAnswer);
            return change.map_or(Turn::Wait, Turn::Changed);
        }
        // One that was asked late is asked no sooner again.
        self.next = now + self.config.interval.max(Duration::from_millis(1));
        self.until = Some(now + self.config.timeout);
        Turn::Ask
    }

    /// Takes a sign into account.
    pub fn seen(&mut self, sign: Sign) -> Option<HealthChange> {
        if self.is_over {
            return None;
        }
        match sign {
            Sign::Ended => {
                self.is_over = true;
                self.turn_into(HealthStatus::Unhealthy, HealthReason::Ended)
            }
            Sign::Told(HealthStatus::Unhealthy) => {
                self.until = None;
                let unhealthy = self.bad_sign(HealthReason::Told);
                // It still answers, so it is not given up at once.
                unhealthy.or_else(|| match self.health {
                    HealthStatus::Healthy => {
                        self.turn_into(HealthStatus::Degraded, HealthReason::Told)
                    }
                    _ => None,
                })
            }
            Sign::Told(HealthStatus::Healthy) => self.good_sign(Some(HealthStatus::Healthy)),
            Sign::Told(_) => self.good_sign(Some(HealthStatus::Degraded)),
            Sign::Answered => self.good_sign(None),
        }
    }

    fn bad_sign(&mut self, reason: HealthReason) -> Option<HealthChange> {
        self.good = 0;
        self.bad = self.bad.saturating_add(1);
        if self.bad < self.config.misses {
            return None;
        }
        self.turn_into(HealthStatus::Unhealthy, reason)
    }

    /// It answered, and may have said how it is.
    fn good_sign(&mut self, told: Option<HealthStatus>) -> Option<HealthChange> {
        self.bad = 0;
        // Only what was asked for counts: a burst of answers is one sign, not many.
        self.good = self.good.saturating_add(u32::from(self.until.take().is_some()));
        let has_recovered = self.good >= self.config.recoveries;
        match (&self.health, told) {
            (HealthStatus::Healthy, Some(HealthStatus::Degraded)) => {
                self.turn_into(HealthStatus::Degraded, HealthReason::Told)
            }
            // Whoever says nothing of itself is as well as it answers.
            (HealthStatus::Unhealthy, told) if has_recovered => {
                self.turn_into(told.unwrap_or(HealthStatus::Healthy), HealthReason::Answers)
            }
            (HealthStatus::Degraded, Some(HealthStatus::Healthy)) if has_recovered => {
                self.turn_into(HealthStatus::Healthy, HealthReason::Told)
            }
            (HealthStatus::Degraded, Some(HealthStatus::Degraded)) => {
                self.good = 0;
                None
            }
            _ => None,
        }
    }

    fn turn_into(&mut self, to: HealthStatus, reason: HealthReason) -> Option<HealthChange> {
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

    /// Lets the time come at which it is asked.
    #[track_caller]
    fn ask(monitor: &mut HealthMonitor) {
        let due = monitor.due().unwrap();
        assert_eq!(monitor.turn(due - Duration::from_millis(1)), Turn::Wait);
        assert_eq!(monitor.turn(due), Turn::Ask);
    }

    /// Asks and lets the time for the answer pass.
    #[track_caller]
    fn miss(monitor: &mut HealthMonitor) -> Turn {
        ask(monitor);
        monitor.turn(monitor.due().unwrap())
    }

    #[track_caller]
    fn told(monitor: &mut HealthMonitor, status: HealthStatus) -> Option<HealthStatus> {
        ask(monitor);
        monitor.seen(Sign::Told(status)).map(|change| change.to)
    }

    #[tokio::test(start_paused = true)]
    async fn three_misses_in_a_row_make_it_unhealthy_and_two_answers_well_again() {
        let mut monitor = monitor();
        assert_eq!((miss(&mut monitor), miss(&mut monitor)), (Turn::Wait, Turn::Wait));
        ask(&mut monitor);
        assert_eq!(monitor.seen(Sign::Answered), None, "an answer begins the count anew");
        assert_eq!((miss(&mut monitor), miss(&mut monitor)), (Turn::Wait, Turn::Wait));
        let Turn::Changed(change) = miss(&mut monitor) else { panic!("no change") };
        assert_eq!((change.from, change.to), (HealthStatus::Healthy, HealthStatus::Unhealthy));
        assert_eq!(change.reason, HealthReason::NoAnswer);
        assert_eq!(miss(&mut monitor), Turn::Wait, "it is told once");
        ask(&mut monitor);
        assert_eq!(monitor.seen(Sign::Answered), None);
        assert_eq!(monitor.seen(Sign::Answered), None, "a burst of answers is one sign");
        ask(&mut monitor);
        let change = monitor.seen(Sign::Answered).unwrap();
        assert_eq!((change.to, change.reason), (HealthStatus::Healthy, HealthReason::Answers));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_at_each_interval_and_given_its_time() {
        let start = Instant::now();
        let mut monitor = monitor();
        for round in 1..5 {
            let due = monitor.due().unwrap();
            assert_eq!(due, start + Duration::from_secs(15 * round));
            assert_eq!(monitor.turn(due), Turn::Ask);
            assert_eq!(monitor.due(), Some(due + Duration::from_secs(5)));
            assert_eq!(monitor.seen(Sign::Answered), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_says_of_itself_counts() {
        let mut monitor = monitor();
        assert_eq!(told(&mut monitor, HealthStatus::Degraded), Some(HealthStatus::Degraded));
        assert_eq!(told(&mut monitor, HealthStatus::Healthy), None);
        assert_eq!(told(&mut monitor, HealthStatus::Healthy), Some(HealthStatus::Healthy));
        assert_eq!(told(&mut monitor, HealthStatus::Unhealthy), Some(HealthStatus::Degraded));
        assert_eq!(told(&mut monitor, HealthStatus::Unhealthy), None);
        assert_eq!(told(&mut monitor, HealthStatus::Unhealthy), Some(HealthStatus::Unhealthy));
        assert_eq!(told(&mut monitor, HealthStatus::from("limping")), None);
        assert_eq!(told(&mut monitor, HealthStatus::from("limping")), Some(HealthStatus::Degraded));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_ended_is_unhealthy_at_once_and_asked_no_more() {
        let mut monitor = monitor();
        let change = monitor.seen(Sign::Ended).unwrap();
        assert_eq!((change.to, change.reason), (HealthStatus::Unhealthy, HealthReason::Ended));
        assert_eq!((monitor.due(), monitor.seen(Sign::Answered)), (None, None));
        assert_eq!(monitor.turn(Instant::now() + Duration::from_hours(1)), Turn::Wait);
    }
}
