//! Records starts that failed, and that a server is not started again (MGP §6.4, §11.5).
//!
//! Applies to: outbound.

use std::sync::Arc;

use mgp_lifecycle::Report;
use mgp_security::Event;
use mgp_types::service::{AuditSink, ServerId};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Where a server's comings and goings are recorded.
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
        // The sink has it once it was handed over; nobody is left who could be refused for want of a record.
        drop(self.sink.record(event.build()));
    }

    /// Records that the server failed too often, once it has.
    pub(crate) async fn follow(self, mut reports: broadcast::Receiver<Report>) {
        loop {
            match reports.recv().await {
                Ok(Report { limit: Some(limit), reason, .. }) => {
                    let event = Event::server_lost(&self.server, &reason);
                    self.record(event.restart_limit_exceeded(limit.restarts, limit.window));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// A start that failed, unless it says otherwise before it is dropped.
pub(crate) struct Attempt(Option<Recorder>);

impl Attempt {
    pub(crate) fn new(recorder: Option<&Recorder>) -> Self {
        Self(recorder.cloned())
    }

    pub(crate) fn succeeded(mut self) {
        self.0 = None;
    }

    /// The cause goes to the log, so it is in words of ours.
    pub(crate) fn failed(mut self, cause: &str) {
        self.tell(cause);
    }

    fn tell(&mut self, cause: &str) {
        if let Some(recorder) = self.0.take() {
            recorder.record(Event::server_unreachable(&recorder.server, cause));
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.tell("the start was given up");
    }
}
