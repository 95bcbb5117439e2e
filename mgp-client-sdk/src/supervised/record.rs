//! Writes audit records of failed starts, and of servers that failed too often (MGP §6.4, §11.5).

use std::sync::Arc;

use mgp_lifecycle::StateReport;
use mgp_security::Event;
use mgp_types::service::{AuditSink, ServerId};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

#[derive(Clone)]
pub(crate) struct Recorder {
    sink: Arc<dyn AuditSink>,
    server: ServerId,
}

impl Recorder {
    pub(crate) fn new(sink: Arc<dyn AuditSink>, server: ServerId) -> Self {
        Self { sink, server }
    }

    fn record(&self, event: Event) {
        // Do not wait until the record is written: the sink writes it anyway, and no call depends on it.
        drop(self.sink.record(event.build()));
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

/// A start of a server. Dropping it records a failure, unless [`succeeded`](Self::succeeded) was called.
pub(crate) struct StartAttempt(Option<Recorder>);

impl StartAttempt {
    pub(crate) fn new(recorder: Option<&Recorder>) -> Self {
        Self(recorder.cloned())
    }

    pub(crate) fn succeeded(mut self) {
        self.0 = None;
    }

    /// Records a failure. `cause` is written to the audit log, so it must not contain text from the server.
    pub(crate) fn failed(mut self, cause: &str) {
        self.record_failure(cause);
    }

    fn record_failure(&mut self, cause: &str) {
        if let Some(recorder) = self.0.take() {
            recorder.record(Event::server_unreachable(&recorder.server, cause));
        }
    }
}

impl Drop for StartAttempt {
    fn drop(&mut self) {
        self.record_failure("the start was given up");
    }
}
