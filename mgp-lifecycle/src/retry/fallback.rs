//! The call of the tool that a server proposes after the last retry of a call has failed.

use std::time::Duration;

use mgp_types::service::{Deadline, MgpService, Reply, RetryAttempt, Target, is_tool_error};

use super::attempt_key::AttemptKey;
use super::config::FallbackPolicy;
use super::decide::may_replace;
use super::failure::Failure;
use super::retries::time_left;
use super::retryable_call::RetryableCall;

impl<S: MgpService> RetryableCall<S> {
    /// Calls the tool that the server proposes instead of the tool that failed. Returns `None` if that is not allowed,
    /// if the time, the retry budget or the circuit prevents it, or if the proposed tool fails as well.
    pub(super) async fn fallback(
        &mut self,
        failure: &Failure,
        retries: u32,
        end: Deadline,
    ) -> Option<Reply> {
        let proposed = failure.hints.fallback_tool.as_deref()?;
        let tool = self.call.tool()?.name.to_owned();
        if self.context.config.fallback == FallbackPolicy::Never {
            return None;
        }
        if self.context.known(&self.server, proposed).is_none() {
            self.learn_tools(end).await;
        }
        let known = |name: &str| self.context.known(&self.server, name);
        let (own, other) = (known(&tool), known(proposed));
        if let Err(reason) = may_replace((&tool, own.as_ref()), (proposed, other.as_ref())) {
            // The proposed name is not logged, because the server can choose any text.
            tracing::debug!(tool, %reason, "fallback tool refused");
            return None;
        }
        if time_left(end).is_zero() {
            return None;
        }
        let reserved = self.server.reserve_retry(self.context.config.budget)?;
        self.probe = self.server.admit(&self.context.config.circuit).ok()?;
        reserved.spend();
        let attempt =
            RetryAttempt::new(retries + 1, failure.code, Duration::ZERO).instead_of(&tool);
        let mut call = self.attempt(attempt);
        if self.key.is_some() {
            // Remove the idempotency key, because it belongs to the call of the original tool.
            call.cx_mut().extensions.insert(AttemptKey::default());
        }
        call.params_mut().set_target(Target::Tool(proposed.into()));
        // Remove the caller's answers, because the original tool asked the questions.
        let hop = call.hop_mut();
        (hop.input_responses, hop.request_state) = (None, None);
        // Also set the name in the stored call, so that the report about the attempt names the tool that was called.
        self.call.params_mut().set_target(Target::Tool(proposed.into()));
        let outcome = self.inner.call(call).await;
        self.record(&outcome, retries + 2, Duration::ZERO);
        match outcome {
            Ok(Reply::Complete(body)) if !is_tool_error(&body) => Some(Reply::Complete(body)),
            Ok(Reply::Task(task)) => Some(Reply::Task(task)),
            Err(error) => {
                tracing::debug!(tool, fallback = proposed, %error, "fallback tool failed");
                None
            }
            Ok(_) => {
                tracing::debug!(tool, fallback = proposed, "fallback tool failed");
                None
            }
        }
    }
}
