//! What becomes of a call whose first attempt failed: further attempts, then the fallback tool.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_types::Payload;
use mgp_types::method::{Request, ToolsList};
use mgp_types::service::{
    Attempt, Call, CallKey, Deadline, Extensions, Method, MgpService, Outlet, Params, Reply,
    Target, Waited,
};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::config::FollowFallback;
use super::decide::{Decision, Situation, Stop, may_replace};
use super::failure::{Failure, Outcome, says_error};
use super::future::Kept;
use super::heard::Heard;
use super::known::{Page, Repeat};
use super::layer::What;

/// How long a server may take to list its tools before the error is answered without them.
const LIST: Duration = Duration::from_secs(2);
/// How many pages of that list are read.
const PAGES: usize = 64;

/// Makes a call again until it succeeds or must not be made again; answers with the last outcome then.
pub(super) async fn again<S: MgpService>(
    mut kept: Kept<S>,
    mut outcome: Outcome,
    mut failure: Failure,
) -> Outcome {
    let end = Deadline::after(kept.place.config.total).earlier(kept.call.cx().deadline);
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
            "the call is made again"
        );
        if !wait.is_zero() {
            sleep(wait).await;
        }
        if kept.call.cx().scope.is_ended() {
            break Stop::Gone;
        }
        let Ok(probe) = kept.server.admit() else { break Stop::Circuit };
        kept.probe = probe;
        made += 1;
        let call = kept.attempt(Attempt::new(made, failure.code, wait));
        let last = kept.inner.call(call).await;
        match kept.met(&last, made + 1, wait) {
            None => return last,
            Some(again) => (outcome, failure) = (last, again),
        }
    };
    tracing::debug!(
        tool = kept.call.tool().map(|tool| tool.name),
        code = failure.code.0,
        retries = made,
        reason = %stop,
        "the call is not made again"
    );
    if stop == Stop::Exhausted
        && let Some(reply) = kept.fallback(&failure, made, end).await
    {
        return Ok(reply);
    }
    outcome
}

impl<S: MgpService> Kept<S> {
    /// How long to wait before the next attempt, which is paid for.
    async fn next_wait(
        &mut self,
        failure: &Failure,
        made: u32,
        end: Deadline,
    ) -> Result<Duration, Stop> {
        if self.call.cx().scope.is_ended() {
            return Err(Stop::Gone);
        }
        let mut decision = self.decide(failure, made, end, self.repeat());
        // Perhaps its definition says that it may run twice; nobody asks where nothing would come of that.
        if decision == Decision::Stop(Stop::MayHaveRun)
            && matches!(self.decide(failure, made, end, Repeat::Freely), Decision::Again(_))
            && self.learn(end).await
        {
            decision = self.decide(failure, made, end, self.repeat());
        }
        let wait = match decision {
            Decision::Again(wait) => wait,
            Decision::Stop(stop) => return Err(stop),
        };
        // An attempt that would be refused here is not waited for.
        let wait = wait.max(self.server.refuses_for());
        let config = &self.place.config;
        if wait > config.longest_wait || wait >= left(end) {
            return Err(Stop::Circuit);
        }
        if self.server.pay(config.budget) { Ok(wait) } else { Err(Stop::Budget) }
    }

    fn decide(&self, failure: &Failure, made: u32, end: Deadline, repeat: Repeat) -> Decision {
        let heard = self.ear.as_ref().map_or(Heard::Nothing, |ear| ear.heard());
        let (left, jitter) = (left(end), fastrand::f64());
        let situation = Situation { failure, made, left, repeat, heard, jitter };
        situation.decide(&self.place.config)
    }

    /// Whether the call may run twice.
    fn repeat(&self) -> Repeat {
        let Some(tool) = self.call.tool().filter(|_| self.what == What::Tool) else {
            return Repeat::Freely;
        };
        if self.place.config.repeats(&self.call) {
            return Repeat::Freely;
        }
        let known = self.place.known(&self.server, tool.name);
        known.map_or(Repeat::Unstarted, |known| known.repeat)
    }

    /// The call as it is made again: of the same logical call and trace, under a key of its own.
    fn attempt(&self, attempt: Attempt) -> Call {
        let mut call = self.call.clone();
        let cx = call.cx_mut();
        cx.logical.get_or_insert_with(|| cx.key.to_text());
        cx.key = CallKey::next();
        if !attempt.waited.is_zero() {
            // What was decided further out may no longer hold.
            Waited::mark(cx);
        }
        cx.extensions.insert(attempt);
        call
    }

    // === The fallback ===

    /// Calls the tool that the server proposes; none where it may not, and where that fails as well.
    async fn fallback(&mut self, failure: &Failure, made: u32, end: Deadline) -> Option<Reply> {
        let proposed = failure.hints.fallback_tool.as_deref()?;
        let tool = self.call.tool()?.name.to_owned();
        if self.place.config.fallback == FollowFallback::Never {
            return None;
        }
        if self.place.known(&self.server, proposed).is_none() {
            self.learn(end).await;
        }
        let (own, other) = (self.known(&tool), self.known(proposed));
        if let Err(why) = may_replace((&tool, own.as_ref()), (proposed, other.as_ref())) {
            // A server chooses the name, so it is not written to the log.
            tracing::debug!(tool, reason = %why, "the fallback tool is not called");
            return None;
        }
        if left(end).is_zero() || !self.server.pay(self.place.config.budget) {
            return None;
        }
        self.probe = self.server.admit().ok()?;
        let attempt = Attempt::new(made + 1, failure.code, Duration::ZERO).instead_of(&tool);
        let mut call = self.attempt(attempt);
        call.params_mut().retarget(Target::Tool(proposed.into()));
        // Answers to questions belong to the tool that asked them.
        let hop = call.hop_mut();
        (hop.input_responses, hop.request_state) = (None, None);
        self.call.params_mut().retarget(Target::Tool(proposed.into()));
        let outcome = self.inner.call(call).await;
        self.met(&outcome, made + 2, Duration::ZERO);
        match outcome {
            Ok(Reply::Complete(body)) if !says_error(&body) => Some(Reply::Complete(body)),
            Ok(Reply::Task(task)) => Some(Reply::Task(task)),
            Err(error) => {
                tracing::debug!(tool, fallback = proposed, %error, "the fallback tool failed as well");
                None
            }
            Ok(_) => {
                tracing::debug!(tool, fallback = proposed, "the fallback tool failed as well");
                None
            }
        }
    }

    fn known(&self, tool: &str) -> Option<super::KnownTool> {
        self.place.known(&self.server, tool)
    }

    // === What tools are ===

    /// Asks the server for its tools, unless that is known or was asked a moment ago; whether more is known now.
    async fn learn(&mut self, end: Deadline) -> bool {
        if !self.place.learns()
            || !self.server.refuses_for().is_zero()
            || !self.server.tools().wants_list(Instant::now())
        {
            return false;
        }
        let end = Deadline::after(LIST).earlier(end);
        let mut cursor = None;
        for number in 0..PAGES {
            let page = if number == 0 { Page::First } else { Page::Further };
            let asking = self.inner.call(list(&self.call, cursor.take(), end));
            let asking = std::pin::pin!(asking);
            let reply = match end.instant() {
                Some(at) => timeout_at(at, asking).await.ok(),
                None => Some(asking.await),
            };
            let Some(Ok(reply)) = reply else {
                tracing::debug!("the tools could not be listed, so nothing is known of them");
                return number > 0;
            };
            self.place.learn(&self.server, &reply, page);
            match next(&reply) {
                Some(next) => cursor = Some(next),
                None => return true,
            }
        }
        true
    }
}

/// How much time is left.
fn left(end: Deadline) -> Duration {
    end.remaining().unwrap_or(Duration::MAX)
}

/// A request for a page of the tools, made on behalf of a call.
fn list(call: &Call, cursor: Option<Payload>, end: Deadline) -> Call {
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
    *list.hop_mut() = call.hop().speaker();
    list
}

/// Where a list goes on.
fn next(reply: &Reply) -> Option<Payload> {
    #[derive(Deserialize)]
    struct Listed {
        #[serde(rename = "nextCursor")]
        next: Option<Payload>,
    }
    reply.get::<Listed>().ok()?.next
}
