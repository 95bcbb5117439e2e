//! The retries of a call whose first attempt failed.

use std::time::Duration;

use mgp_types::service::{Deadline, MgpService, RetryAttempt};
use tokio::time::sleep;

use super::decide::{Decision, Situation, StopReason};
use super::delivery::Delivered;
use super::failure::{Failure, Outcome};
use super::retryable_call::RetryableCall;
use super::server::ReservedRetry;
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
        let (wait, reserved) = match retryable.reserve_retry(&failure, retries, end).await {
            Ok(reserved) => reserved,
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
        reserved.spend();
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
    /// Decides whether the call is retried, and reserves the retry. Returns the wait before it.
    async fn reserve_retry(
        &mut self,
        failure: &Failure,
        retries: u32,
        end: Deadline,
    ) -> Result<(Duration, ReservedRetry), StopReason> {
        if self.call.cx().scope.is_ended() {
            return Err(StopReason::Disconnected);
        }
        let wait = match self.decide(failure, retries, end).await {
            Decision::Retry(wait) => wait,
            Decision::Stop(stop) => return Err(stop),
        };
        // Wait at least until the circuit breaker would let the attempt pass.
        let wait = wait.max(self.server.refuses_for());
        let config = &self.context.config;
        if wait > config.max_wait || wait >= time_left(end) {
            return Err(StopReason::Circuit);
        }
        let reserved = self.server.reserve_retry(config.budget).ok_or(StopReason::Budget)?;
        Ok((wait, reserved))
    }

    /// Decides whether the call is retried, if the budget and the circuit breaker allow it. For this, the tools of the
    /// server may have to be requested.
    async fn decide(&mut self, failure: &Failure, retries: u32, end: Deadline) -> Decision {
        // All decisions about one failure use the same random number, so that they differ only in their policy.
        let jitter = fastrand::f64();
        let mut decision = self.decision_if(self.repeat_policy(), failure, retries, end, jitter);
        // The tool's definition might permit a second run. Request the definition from the server only if it could
        // change the decision.
        if decision == Decision::Stop(StopReason::MayHaveRun)
            && let Decision::Retry(_) =
                self.decision_if(RepeatPolicy::Always, failure, retries, end, jitter)
        {
            self.learn_tools(end).await;
            decision = self.decision_if(self.repeat_policy(), failure, retries, end, jitter);
            // A server that has the key of the call does not run it twice, so the call may be sent again.
            if decision == Decision::Stop(StopReason::MayHaveRun)
                && let Some(key) = self.key.as_ref().filter(|key| key.is_kept())
            {
                key.require();
                decision = self.decision_if(RepeatPolicy::Always, failure, retries, end, jitter);
            }
        }
        decision
    }

    /// Returns the decision about a failure, on the assumption that the call may run twice under this condition.
    fn decision_if(
        &self,
        repeat: RepeatPolicy,
        failure: &Failure,
        retries: u32,
        end: Deadline,
        jitter: f64,
    ) -> Decision {
        let delivered =
            self.monitor.as_ref().map_or(Delivered::Nothing, |monitor| monitor.delivered());
        let left = time_left(end);
        let situation = Situation { failure, retries, left, repeat, delivered, jitter };
        situation.decide(&self.context.config)
    }
}

/// Returns the time left until the end of the retry period.
pub(super) fn time_left(end: Deadline) -> Duration {
    end.remaining().unwrap_or(Duration::MAX)
}
