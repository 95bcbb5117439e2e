//! The retries of a call whose first attempt failed.

use std::time::Duration;

use mgp_types::service::{Call, CallKey, Deadline, MgpService, RetryAttempt, WaitMark};
use tokio::time::sleep;

use super::decide::{Decision, Situation, StopReason};
use super::delivery::Delivered;
use super::failure::{Failure, Outcome};
use super::future::RetryableCall;
use super::layer::RequestKind;
use super::tools::RepeatPolicy;

/// Retries a call until it succeeds or must not be retried; returns the last outcome.
pub(super) async fn retry<S: MgpService>(
    mut kept: RetryableCall<S>,
    mut outcome: Outcome,
    mut failure: Failure,
) -> Outcome {
    let end = Deadline::after(kept.context.config.total_timeout).earlier(kept.call.cx().deadline);
    let mut made = 0;
    let stop = loop {
        let wait = match kept.next_wait(&failure, made, end).await {
            Ok(wait) => wait,
            Err(stop) => break stop,
        };
        tracing::debug!(
            tool = kept.call.tool().map(|tool| tool.name),
            code = failure.code.0,
            retry = made + 1,
            ?wait,
            "retrying call"
        );
        if !wait.is_zero() {
            sleep(wait).await;
        }
        if kept.call.cx().scope.is_ended() {
            break StopReason::Disconnected;
        }
        let Ok(probe) = kept.server.admit(&kept.context.config.circuit) else {
            break StopReason::Circuit;
        };
        kept.probe = probe;
        made += 1;
        let call = kept.attempt(RetryAttempt::new(made, failure.code, wait));
        let last = kept.inner.call(call).await;
        match kept.record(&last, made + 1, wait) {
            None => return last,
            Some(again) => (outcome, failure) = (last, again),
        }
    };
    tracing::debug!(
        tool = kept.call.tool().map(|tool| tool.name),
        code = failure.code.0,
        retries = made,
        reason = %stop,
        "giving up on call"
    );
    if stop == StopReason::Exhausted
        && let Some(reply) = kept.fallback(&failure, made, end).await
    {
        return Ok(reply);
    }
    outcome
}

impl<S: MgpService> RetryableCall<S> {
    /// Returns the wait before the next attempt, and takes that attempt from the budget.
    async fn next_wait(
        &mut self,
        failure: &Failure,
        made: u32,
        end: Deadline,
    ) -> Result<Duration, StopReason> {
        if self.call.cx().scope.is_ended() {
            return Err(StopReason::Disconnected);
        }
        let mut decision = self.decide(failure, made, end, self.repeat());
        // The tool's definition might permit a second run. Request the definition from the server only if it could
        // change the decision.
        if decision == Decision::Stop(StopReason::MayHaveRun)
            && matches!(self.decide(failure, made, end, RepeatPolicy::Always), Decision::Retry(_))
        {
            self.learn_tools(end).await;
            decision = self.decide(failure, made, end, self.repeat());
            // A server that has the key of the call does not run it twice.
            if decision == Decision::Stop(StopReason::MayHaveRun)
                && let Some(key) = self.key.as_ref().filter(|key| key.is_kept())
            {
                key.require();
                decision = self.decide(failure, made, end, RepeatPolicy::Always);
            }
        }
        let wait = match decision {
            Decision::Retry(wait) => wait,
            Decision::Stop(stop) => return Err(stop),
        };
        // Wait at least until the circuit breaker would let the attempt pass.
        let wait = wait.max(self.server.refuses_for());
        let config = &self.context.config;
        if wait > config.max_wait || wait >= left(end) {
            return Err(StopReason::Circuit);
        }
        if self.server.take_retry(config.budget) { Ok(wait) } else { Err(StopReason::Budget) }
    }

    fn decide(
        &self,
        failure: &Failure,
        made: u32,
        end: Deadline,
        repeat: RepeatPolicy,
    ) -> Decision {
        let delivered =
            self.monitor.as_ref().map_or(Delivered::Nothing, |monitor| monitor.delivered());
        let (left, jitter) = (left(end), fastrand::f64());
        let situation = Situation { failure, made, left, repeat, delivered, jitter };
        situation.decide(&self.context.config)
    }

    /// Returns when the call may run twice.
    fn repeat(&self) -> RepeatPolicy {
        let Some(tool) = self.call.tool().filter(|_| self.kind == RequestKind::Tool) else {
            return RepeatPolicy::Always;
        };
        if self.context.config.repeats(&self.call) {
            return RepeatPolicy::Always;
        }
        let known = self.context.known(&self.server, tool.name);
        known.map_or(RepeatPolicy::IfNotStarted, |known| known.repeat)
    }

    /// Returns the call for the next attempt, with the same logical id and trace but a new key.
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
}

/// Returns the time left until the end of the retry period.
pub(super) fn left(end: Deadline) -> Duration {
    end.remaining().unwrap_or(Duration::MAX)
}
