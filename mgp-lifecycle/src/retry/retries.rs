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
    mut retryable: RetryableCall<S>,
    mut outcome: Outcome,
    mut failure: Failure,
) -> Outcome {
    let end = Deadline::after(retryable.context.config.total_timeout)
        .earlier(retryable.call.cx().deadline);
    let mut retries = 0;
    let stop = loop {
        let wait = match retryable.next_wait(&failure, retries, end).await {
            Ok(wait) => wait,
            Err(stop) => break stop,
        };
        tracing::debug!(
            tool = retryable.call.tool().map(|tool| tool.name),
            code = failure.code.0,
            retry = retries + 1,
            ?wait,
            "retrying call"
        );
        if !wait.is_zero() {
            sleep(wait).await;
        }
        if retryable.call.cx().scope.is_ended() {
            break StopReason::Disconnected;
        }
        let Ok(probe) = retryable.server.admit(&retryable.context.config.circuit) else {
            break StopReason::Circuit;
        };
        retryable.probe = probe;
        retries += 1;
        let call = retryable.attempt(RetryAttempt::new(retries, failure.code, wait));
        let new_outcome = retryable.inner.call(call).await;
        match retryable.record(&new_outcome, retries + 1, wait) {
            None => return new_outcome,
            Some(new_failure) => (outcome, failure) = (new_outcome, new_failure),
        }
    };
    tracing::debug!(
        tool = retryable.call.tool().map(|tool| tool.name),
        code = failure.code.0,
        retries,
        reason = %stop,
        "giving up on call"
    );
    if stop == StopReason::Exhausted
        && let Some(reply) = retryable.fallback(&failure, retries, end).await
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
        retries: u32,
        end: Deadline,
    ) -> Result<Duration, StopReason> {
        if self.call.cx().scope.is_ended() {
            return Err(StopReason::Disconnected);
        }
        // All decisions about one failure use the same random number, so that they differ only in their policy.
        let jitter = fastrand::f64();
        let mut decision = self.decide(failure, retries, end, jitter, self.repeat());
        // The tool's definition might permit a second run. Request the definition from the server only if it could
        // change the decision.
        if decision == Decision::Stop(StopReason::MayHaveRun)
            && let Decision::Retry(_) =
                self.decide(failure, retries, end, jitter, RepeatPolicy::Always)
        {
            self.learn_tools(end).await;
            decision = self.decide(failure, retries, end, jitter, self.repeat());
            // A server that has the key of the call does not run it twice.
            if decision == Decision::Stop(StopReason::MayHaveRun)
                && let Some(key) = self.key.as_ref().filter(|key| key.is_kept())
            {
                key.require();
                decision = self.decide(failure, retries, end, jitter, RepeatPolicy::Always);
            }
        }
        let wait = match decision {
            Decision::Retry(wait) => wait,
            Decision::Stop(stop) => return Err(stop),
        };
        // Wait at least until the circuit breaker would let the attempt pass.
        let wait = wait.max(self.server.refuses_for());
        let config = &self.context.config;
        if wait > config.max_wait || wait >= time_left(end) {
            return Err(StopReason::Circuit);
        }
        if self.server.take_retry(config.budget) { Ok(wait) } else { Err(StopReason::Budget) }
    }

    fn decide(
        &self,
        failure: &Failure,
        retries: u32,
        end: Deadline,
        jitter: f64,
        repeat: RepeatPolicy,
    ) -> Decision {
        let delivered =
            self.monitor.as_ref().map_or(Delivered::Nothing, |monitor| monitor.delivered());
        let left = time_left(end);
        let situation = Situation { failure, retries, left, repeat, delivered, jitter };
        situation.decide(&self.context.config)
    }

    /// Returns the condition under which the call may run twice.
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
pub(super) fn time_left(end: Deadline) -> Duration {
    end.remaining().unwrap_or(Duration::MAX)
}
