//! One check or resource: run apart, one at a time, and remembered (MGP §11.3).
//!
//! Applies to: both.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::HealthStatus;
use mgp_types::service::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::found::{Found, IntoFound as _};
use super::watch::spawn_watched;

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Without it the server is unhealthy.
    Check,
    /// Without it the server is degraded.
    OptionalCheck,
    /// A figure; it says nothing about how well the server is.
    Resource,
}

type Run = Box<dyn Fn() -> BoxFuture<'static, Found> + Send + Sync>;

/// A check or resource, and what it found last.
pub(super) struct Probe {
    pub(super) name: String,
    pub(super) kind: Kind,
    run: Run,
    latest: watch::Sender<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    /// None before the first run ended.
    found: Option<Found>,
    /// When the last run began.
    begun: Option<Instant>,
    is_running: bool,
}

impl Probe {
    pub(super) fn new(name: String, kind: Kind, run: Run) -> Arc<Self> {
        Arc::new(Self { name, kind, run, latest: watch::Sender::default() })
    }

    /// Starts it, unless it runs or what it found is still good; a run that hangs is never joined by a second one.
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
        let mut run = Running { probe: Arc::clone(self), found: None };
        drop(spawn_watched(async move {
            // A run that only waits ends here; one that blocks its thread stays, and keeps the next from starting.
            let outcome = timeout(within, (run.probe.run)()).await;
            run.end(outcome.unwrap_or_else(|_| {
                tracing::warn!(name = %run.probe.name, ?within, "a health check did not answer");
                false.into_found()
            }));
        }));
    }

    /// Waits for the run that was started, as long as it may take.
    pub(super) async fn settle(&self, within: Duration, last: Instant) {
        let mut latest = self.latest.subscribe();
        let begun = latest.borrow().begun;
        let until = begun.map_or(last, |begun| (begun + within).min(last));
        // An error cannot be: this probe has the sender.
        let _ = timeout_at(until, latest.wait_for(|latest| !latest.is_running)).await;
    }

    /// What it found last; a run that is overdue has failed, and one that never ended has found nothing yet.
    pub(super) fn found(&self, within: Duration) -> Option<Found> {
        let latest = self.latest.borrow();
        let is_late = latest.begun.is_some_and(|begun| begun.elapsed() >= within);
        if latest.is_running && is_late { Some(false.into_found()) } else { latest.found.clone() }
    }

    /// What it makes of the server's status, by what it found last.
    pub(super) fn verdict(&self, within: Duration) -> HealthStatus {
        let status =
            self.found(within).map_or(HealthStatus::Healthy, |found| found.status().clone());
        match (self.kind, status) {
            (Kind::Resource, _) | (_, HealthStatus::Healthy) => HealthStatus::Healthy,
            (Kind::Check, HealthStatus::Unhealthy) => HealthStatus::Unhealthy,
            _ => HealthStatus::Degraded,
        }
    }
}

/// A run on its way; however it ends, the next may start.
struct Running {
    probe: Arc<Probe>,
    found: Option<Found>,
}

impl Running {
    fn end(&mut self, found: Found) {
        self.found = Some(found);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let found = self.found.take().unwrap_or_else(|| {
            tracing::error!(name = %self.probe.name, "a health check panicked, or its runtime ended");
            false.into_found()
        });
        self.probe.latest.send_modify(|latest| {
            (latest.found, latest.is_running) = (Some(found), false);
        });
    }
}
