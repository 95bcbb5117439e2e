//! The retries of a call whose first attempt failed, and the call of the fallback tool after them.

use std::time::Duration;

use mgp_types::Payload;
use mgp_types::method::{Request, ToolsList};
use mgp_types::service::{
    Call, CallKey, Deadline, Extensions, Method, MgpService, Outlet, Params, Reply, RetryAttempt,
    Target, WaitMark, is_tool_error,
};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::attempt_key::AttemptKey;
use super::config::FallbackPolicy;
use super::decide::{Decision, Situation, StopReason, may_replace};
use super::delivery::Delivered;
use super::failure::{Failure, Outcome};
use super::future::RetryableCall;
use super::layer::RequestKind;
use super::tools::{ListPage, RepeatPolicy};

/// The time limit for listing a server's tools. After it, the decision about a retry is made without the definitions
/// that are still missing.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of pages of a tool list that are read.
const MAX_LIST_PAGES: usize = 64;

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
            self.learn(end).await;
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
        if self.server.pay(config.budget) { Ok(wait) } else { Err(StopReason::Budget) }
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

    /// Returns the conditions under which the call is allowed to run twice.
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
    fn attempt(&self, attempt: RetryAttempt) -> Call {
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

    // === The fallback ===

    /// Calls the tool that the server proposes instead of the failed one. Returns `None` if that is not allowed, or if
    /// the proposed tool fails as well.
    async fn fallback(&mut self, failure: &Failure, made: u32, end: Deadline) -> Option<Reply> {
        let proposed = failure.hints.fallback_tool.as_deref()?;
        let tool = self.call.tool()?.name.to_owned();
        if self.context.config.fallback == FallbackPolicy::Never {
            return None;
        }
        if self.context.known(&self.server, proposed).is_none() {
            self.learn(end).await;
        }
        let known = |name: &str| self.context.known(&self.server, name);
        let (own, other) = (known(&tool), known(proposed));
        if let Err(reason) = may_replace((&tool, own.as_ref()), (proposed, other.as_ref())) {
            // The proposed name is not logged, because the server can choose any text.
            tracing::debug!(tool, %reason, "fallback tool refused");
            return None;
        }
        if left(end).is_zero() || !self.server.pay(self.context.config.budget) {
            return None;
        }
        self.probe = self.server.admit(&self.context.config.circuit).ok()?;
        let attempt = RetryAttempt::new(made + 1, failure.code, Duration::ZERO).instead_of(&tool);
        let mut call = self.attempt(attempt);
        if self.key.is_some() {
            // The key belongs to the call of the original tool.
            call.cx_mut().extensions.insert(AttemptKey::default());
        }
        call.params_mut().set_target(Target::Tool(proposed.into()));
        // Remove the caller's answers, because the original tool asked the questions.
        let hop = call.hop_mut();
        (hop.input_responses, hop.request_state) = (None, None);
        self.call.params_mut().set_target(Target::Tool(proposed.into()));
        let outcome = self.inner.call(call).await;
        self.record(&outcome, made + 2, Duration::ZERO);
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

    // === Tool definitions ===

    /// Requests the server's list of tools, unless it is known or was requested recently.
    async fn learn(&mut self, end: Deadline) {
        if !self.context.learns()
            || !self.server.refuses_for().is_zero()
            || !self.server.tools.lock().wants_list(Instant::now())
        {
            return;
        }
        let end = Deadline::after(LIST_TIMEOUT).earlier(end);
        let mut cursor = None;
        for number in 0..MAX_LIST_PAGES {
            let page = if number == 0 { ListPage::First } else { ListPage::Next };
            let listing = self.inner.call(list_request(&self.call, cursor.take(), end));
            let listing = std::pin::pin!(listing);
            let reply = match end.instant() {
                Some(at) => timeout_at(at, listing).await.ok(),
                None => Some(listing.await),
            };
            let Some(Ok(reply)) = reply else {
                tracing::debug!("failed to list tools");
                return;
            };
            self.context.learn(&self.server, &reply, page);
            cursor = next_cursor(&reply);
            if cursor.is_none() {
                return;
            }
        }
    }
}

fn left(end: Deadline) -> Duration {
    end.remaining().unwrap_or(Duration::MAX)
}

/// Returns a request for a page of the server's tool list, made on behalf of a call.
fn list_request(call: &Call, cursor: Option<Payload>, end: Deadline) -> Call {
    let mut cx = call.cx().clone();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    cx.deadline = end.earlier(cx.deadline);
    let params = cursor.map(|cursor| format!(r#"{{"cursor":{}}}"#, cursor.as_str()));
    let params = params.and_then(|text| Params::split(ToolsList::METHOD, text.into()).ok());
    let method = Method::from_static(ToolsList::METHOD);
    let mut list = Call::request(method, params.unwrap_or_default(), cx);
    *list.hop_mut() = call.hop().sender_members();
    list
}

fn next_cursor(reply: &Reply) -> Option<Payload> {
    #[derive(Deserialize)]
    struct Cursor {
        #[serde(rename = "nextCursor")]
        next: Option<Payload>,
    }
    reply.get::<Cursor>().ok()?.next
}
