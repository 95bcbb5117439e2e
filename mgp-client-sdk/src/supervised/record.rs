//! Writes audit records of failed starts, and of servers that failed too often (MGP §6.4, §11.5).

use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::StateReport;
use mgp_security::Event;
use mgp_types::service::{AuditSink, ServerId};
use mgp_types::sync::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

/// The time after which a failure with the same cause is recorded again.
const REPEAT_INTERVAL: Duration = Duration::from_hours(1);

#[derive(Clone)]
pub(crate) struct Recorder {
    sink: Arc<dyn AuditSink>,
    server: ServerId,
    /// The cause of the last failure that was recorded, and the time when it was recorded; `None` if there was none
    /// since the last successful start.
    last_failure: Arc<Mutex<Option<(String, Instant)>>>,
}

impl Recorder {
    pub(crate) fn new(sink: Arc<dyn AuditSink>, server: ServerId) -> Self {
        Self { sink, server, last_failure: Arc::default() }
    }

    fn record(&self, event: Event) {
        // Do not wait until the record is written: the sink writes it without this wait, and no call depends on it.
        drop(self.sink.record(event.build()));
    }

    /// Returns whether a failure must be recorded, because its cause is new or was last recorded an hour ago. If so,
    /// stores the cause.
    fn is_due(&self, cause: &str) -> bool {
        let mut last = self.last_failure.lock();
        let is_known = last
            .as_ref()
            .is_some_and(|(known, at)| known == cause && at.elapsed() < REPEAT_INTERVAL);
        if !is_known {
            *last = Some((cause.to_owned(), Instant::now()));
        }
        !is_known
    }

    /// Reads the supervisor's reports, and records when the server is no longer restarted because it failed too often.
    pub(crate) async fn follow(self, mut reports: broadcast::Receiver<StateReport>) {
        loop {
            match reports.recv().await {
                Ok(StateReport { limit: Some(limit), reason, .. }) => {
                    let event = Event::server_lost(&self.server, &reason);
                    self.record(event.restart_limit_exceeded(limit.restarts, limit.window));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// An attempt to start a server. Dropping the attempt records a failure, unless it succeeded or was discarded.
pub(crate) struct StartAttempt {
    recorder: Option<Recorder>,
    /// `true` if consecutive failures with the same cause are recorded at most once an hour.
    limits_records: bool,
}

impl StartAttempt {
    pub(crate) fn new(recorder: Option<&Recorder>) -> Self {
        Self { recorder: recorder.cloned(), limits_records: false }
    }

    /// Limits the records of failures, because a start without a program, e.g. of a server at a URL, may be repeated
    /// without end.
    pub(crate) fn limit_records(mut self) -> Self {
        self.limits_records = true;
        self
    }

    pub(crate) fn succeeded(mut self) {
        if let Some(recorder) = self.recorder.take() {
            *recorder.last_failure.lock() = None;
        }
    }

    /// Ends the attempt without a record, because another attempt follows in its place.
    pub(crate) fn discard(mut self) {
        self.recorder = None;
    }

    /// Records a failure. `cause` is written to the audit log, so it must not contain text from the server.
    pub(crate) fn failed(mut self, cause: &str) {
        self.record_failure(cause);
    }

    fn record_failure(&mut self, cause: &str) {
        if let Some(recorder) = self.recorder.take()
            && (recorder.is_due(cause) || !self.limits_records)
        {
            recorder.record(Event::server_unreachable(&recorder.server, cause));
        }
    }
}

impl Drop for StartAttempt {
    fn drop(&mut self) {
        self.record_failure("the start was given up");
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::MemoryAudit;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_unreachable_is_recorded_once_until_its_cause_changes() {
        let sink = Arc::new(MemoryAudit::new());
        let recorder = Recorder::new(Arc::clone(&sink) as Arc<dyn AuditSink>, "far".into());
        let attempt = || StartAttempt::new(Some(&recorder)).limit_records();
        let records = |expected: usize| assert_eq!(sink.events().len(), expected);
        for _ in 0..20 {
            attempt().failed("connection refused");
        }
        records(1);
        attempt().failed("no such host");
        attempt().failed("connection refused");
        records(3);
        tokio::time::advance(REPEAT_INTERVAL).await;
        attempt().failed("connection refused");
        records(4);
        attempt().succeeded();
        attempt().failed("connection refused");
        records(5);
        // Each failed attempt to start a program is recorded, because a program is started only a limited number of
        // times.
        StartAttempt::new(Some(&recorder)).failed("connection refused");
        records(6);
    }
}
