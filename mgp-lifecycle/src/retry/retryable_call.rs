//! A call with everything that is needed to send it again.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::ErrorCode;
use mgp_types::service::{Call, CallKey, RetryAttempt, WaitMark};

use super::attempt_key::AttemptKey;
use super::circuit::Evidence;
use super::config::AttemptReport;
use super::delivery::OutletMonitor;
use super::failure::{Failure, Outcome};
use super::layer::{RequestKind, RetryContext};
use super::server::{Probe, Server};
use super::tools::RepeatPolicy;

/// A running call, with everything that is needed to retry it.
pub(super) struct RetryableCall<S> {
    pub(super) call: Call,
    pub(super) inner: S,
    pub(super) context: Arc<RetryContext>,
    pub(super) server: Arc<Server>,
    pub(super) monitor: Option<Arc<OutletMonitor>>,
    /// The idempotency key of the attempts, if they have one.
    pub(super) key: Option<Arc<AttemptKey>>,
    pub(super) probe: Option<Probe>,
    pub(super) kind: RequestKind,
    /// For a request for a list of tools, the number of changes that the server had reported before the request.
    pub(super) changes: u64,
}

impl<S> RetryableCall<S> {
    /// Returns the call for the next attempt, with the same logical id and trace but a new `CallKey`.
    pub(super) fn attempt(&self, attempt: RetryAttempt) -> Call {
        let mut call = self.call.clone();
        let cx = call.cx_mut();
        cx.logical.get_or_insert_with(|| cx.key.to_text());
        cx.key = CallKey::next();
        if !attempt.delay.is_zero() {
            // Mark the call: decisions of outer layers, e.g. about access, may be out of date after the wait.
            WaitMark::mark(cx);
        }
        cx.extensions.insert(attempt);
        call
    }

    /// Returns the condition under which the call may run twice.
    pub(super) fn repeat_policy(&self) -> RepeatPolicy {
        let Some(tool) = self.call.tool().filter(|_| self.kind == RequestKind::Tool) else {
            return RepeatPolicy::Always;
        };
        if self.context.config.repeats(&self.call) {
            return RepeatPolicy::Always;
        }
        let known = self.context.known(&self.server, tool.name);
        known.map_or(RepeatPolicy::IfNotStarted, |known| known.repeat)
    }

    /// Records the outcome of an attempt; returns its failure, or `None` if the attempt succeeded.
    pub(super) fn record(
        &mut self,
        outcome: &Outcome,
        attempt: u32,
        waited: Duration,
    ) -> Option<Failure> {
        let failure = match outcome {
            Ok(_) if self.kind != RequestKind::Tool => None,
            outcome => Failure::of(outcome),
        };
        let evidence = match (outcome, &failure) {
            (Err(error), _) => Evidence::of(error),
            (Ok(_), Some(refusal)) => Evidence::of_code(refusal.code),
            (Ok(_), None) => Evidence::Answered,
        };
        self.server.record(evidence, self.probe.take(), &self.context.config.circuit);
        if let (RequestKind::List(page), Ok(reply)) = (self.kind, outcome)
            && self.context.learns()
        {
            self.context.learn(&self.server, reply, page, self.changes);
        }
        self.notify_observer(attempt, failure.as_ref().map(|failure| failure.code), waited);
        failure
    }

    fn notify_observer(&self, attempt: u32, code: Option<ErrorCode>, waited: Duration) {
        if let Some(observer) = self.context.config.observer() {
            let cx = self.call.cx();
            observer(&AttemptReport {
                attempt,
                code,
                waited,
                server: cx.server.as_ref().or(self.server.id()),
                tool: self.call.tool().map(|tool| tool.name),
            });
        }
    }
}
