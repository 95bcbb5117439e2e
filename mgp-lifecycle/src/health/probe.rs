//! A probe: a health check, or the reading of a resource's value. Each probe runs in its own task, one run at a time,
//! and stores its latest result (MGP §11.3).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::HealthStatus;
use mgp_types::service::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::check_result::{CheckResult, IntoCheckResult as _};
use super::watch::spawn_watched;

/// The effect of a probe on the server's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeKind {
    /// If the check fails, the server is unhealthy.
    Check,
    /// If the check fails, the server is degraded.
    OptionalCheck,
    /// The probe reads a value that does not affect the status.
    Resource,
}

type Run = Box<dyn Fn() -> BoxFuture<'static, CheckResult> + Send + Sync>;

/// A check or resource with its latest result.
pub(super) struct Probe {
    pub(super) name: String,
    pub(super) kind: ProbeKind,
    run: Run,
    latest: watch::Sender<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    /// The latest result of the probe; `None` before its first run ended.
    result: Option<CheckResult>,
    /// The time when the latest run of the probe began.
    begun: Option<Instant>,
    is_running: bool,
}

impl Probe {
    pub(super) fn new(name: String, kind: ProbeKind, run: Run) -> Arc<Self> {
        Arc::new(Self { name, kind, run, latest: watch::Sender::default() })
    }

    /// Starts a run of the probe, unless it is running or the latest result is fresh. While a run hangs, no second run
    /// is started.
    pub(super) fn start(self: &Arc<Self>, within: Duration, fresh: Duration) {
        let mut starts = false;
        self.latest.send_if_modified(|latest| {
            let is_fresh = latest.begun.is_some_and(|begun| begun.elapsed() < fresh);
            starts = !latest.is_running && !is_fresh;
            if starts {
                (latest.is_running, latest.begun) = (true, Some(Instant::now()));
            }
            starts
        });
        if !starts {
            return;
        }
        let mut run = ProbeRun { probe: Arc::clone(self), result: None };
        drop(spawn_watched(async move {
            // The time limit ends a run that only waits. A run that blocks its thread continues, and no other run
            // starts until it ends.
            let outcome = timeout(within, (run.probe.run)()).await;
            run.end(outcome.unwrap_or_else(|_| {
                tracing::warn!(name = %run.probe.name, ?within, "health check timeout");
                false.into_check_result()
            }));
        }));
    }

    /// Waits for the current run, until its time limit or until `last`, whichever is earlier.
    pub(super) async fn wait(&self, within: Duration, last: Instant) {
        let mut latest = self.latest.subscribe();
        let begun = latest.borrow().begun;
        let until = begun.map_or(last, |begun| (begun + within).min(last));
        // Ignore a timeout: the caller reads the latest result whether or not the run has ended.
        let _ = timeout_at(until, latest.wait_for(|latest| !latest.is_running)).await;
    }

    /// Returns the latest result: a failure if the current run is overdue, `None` if the first run has not ended yet.
    pub(super) fn result(&self, within: Duration) -> Option<CheckResult> {
        let latest = self.latest.borrow();
        let is_late = latest.begun.is_some_and(|begun| begun.elapsed() >= within);
        if latest.is_running && is_late {
            Some(false.into_check_result())
        } else {
            latest.result.clone()
        }
    }

    /// Returns the status that the server would have if this were its only probe.
    pub(super) fn status(&self, within: Duration) -> HealthStatus {
        let status =
            self.result(within).map_or(HealthStatus::Healthy, |result| result.status().clone());
        match (self.kind, status) {
            (ProbeKind::Resource, _) | (_, HealthStatus::Healthy) => HealthStatus::Healthy,
            (ProbeKind::Check, HealthStatus::Unhealthy) => HealthStatus::Unhealthy,
            _ => HealthStatus::Degraded,
        }
    }
}

/// Guard of one run of a probe. When it is dropped, the next run can start.
struct ProbeRun {
    probe: Arc<Probe>,
    result: Option<CheckResult>,
}

impl ProbeRun {
    fn end(&mut self, result: CheckResult) {
        self.result = Some(result);
    }
}

impl Drop for ProbeRun {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| {
            tracing::error!(name = %self.probe.name, "health check panicked, or its runtime stopped");
            false.into_check_result()
        });
        self.probe.latest.send_modify(|latest| {
            (latest.result, latest.is_running) = (Some(result), false);
        });
    }
}
