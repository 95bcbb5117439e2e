//! A time-out for requests; progress extends it up to a maximum (MGP §14.3, code 3003; MCP time-outs).
//!
//! Applies to: outbound.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use mgp_lifecycle::LifecycleError;
use mgp_types::RpcError;
use mgp_types::method::{PromptsGet, ResourcesRead, SubscriptionsListen};
use mgp_types::service::{
    BoxFuture, Call, CallerAccess, ConsumerGone, Context, Deadline, Kind, MgpService, Outlet,
    OutletItem, OutletItemKind, Peer, Progress, Reply, Sink,
};
use mgp_types::sync::Mutex;
use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};
use tower_service::Service;

/// The time limits of a request. If a call has its own limits in its extensions, they replace the limits of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimits {
    /// The maximum time that a request may take without a sign of progress.
    pub(crate) timeout: Duration,
    /// The maximum time that a request may take in total.
    pub(crate) max: Duration,
}

/// A hook that receives the name of the tool and each progress step of its call.
pub(crate) type ProgressHook = Arc<dyn Fn(&str, &Progress) + Send + Sync>;

/// Layer that fails a request with code 3003 (timeout) if it takes too long, and notifies the server to cancel the
/// request.
///
/// Tool calls ask for progress: each step or chunk restarts [`TimeLimits::timeout`], but not [`TimeLimits::max`].
#[derive(Clone)]
pub(crate) struct RequestTimeoutLayer {
    time_limits: TimeLimits,
    progress: Option<ProgressHook>,
    /// `true` if the client itself answers questions of the server, so that they pause the time-out of any tool call.
    answers_questions: bool,
}

impl RequestTimeoutLayer {
    pub(crate) fn new(
        time_limits: TimeLimits,
        progress: Option<ProgressHook>,
        answers_questions: bool,
    ) -> Self {
        Self { time_limits, progress, answers_questions }
    }
}

mgp_types::layer_service! {
    /// Service of [`RequestTimeoutLayer`].
    pub(crate) RequestTimeout for RequestTimeoutLayer
}

impl<S: MgpService> Service<Call> for RequestTimeout<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let bounded = call.kind() == Kind::Request && !call.is::<SubscriptionsListen>();
        let own = call.cx().extensions.get::<TimeLimits>().copied();
        let time_limits = own.unwrap_or(self.layer.time_limits);
        let mut timer = Timer {
            timeout: time_limits.timeout,
            began: Instant::now(),
            deadline: Deadline::none(),
            cap: Deadline::none(),
            sink: None,
        };
        if bounded {
            timer.cap = Deadline::after(time_limits.max).earlier(call.cx().deadline);
            timer.deadline = Deadline::after(time_limits.timeout).earlier(timer.cap);
            call.cx_mut().deadline = timer.cap;
            timer.sink = self.sink(&mut call);
        }
        ResponseFuture { inner: self.inner.call(call), timer, sleep: None }
    }
}

impl<S> RequestTimeout<S> {
    /// Adds an outlet that observes the partial results of a request during which a server may ask questions, and
    /// returns that outlet; returns `None` for other requests.
    fn sink(&self, call: &mut Call) -> Option<Arc<ActivitySink>> {
        let tool = call.tool().map(|tool| tool.name.to_owned());
        if tool.is_none() && !call.is::<PromptsGet>() && !call.is::<ResourcesRead>() {
            return None;
        }
        let hook = self.layer.progress.clone();
        let inner = std::mem::take(&mut call.cx_mut().outlet);
        let (activity, dropped) = (Mutex::default(), Notify::new());
        let sink = Arc::new(ActivitySink { inner, activity, dropped, tool, hook });
        let can_be_asked = !matches!(call.cx().caller_access, CallerAccess::Unavailable);
        if can_be_asked || self.layer.answers_questions {
            call.cx_mut().extensions.insert_shared(Arc::clone(&sink));
        }
        call.cx_mut().outlet = Outlet::new(Arc::clone(&sink) as Arc<dyn Sink>);
        Some(sink)
    }
}

/// The delay of a timer above which the whole process counts as paused, e.g. by `SIGSTOP`. The call then gets the same
/// time in addition, so that its connection reads what has arrived during the pause.
const PAUSE: Duration = Duration::from_secs(1);

struct Timer {
    timeout: Duration,
    began: Instant,
    deadline: Deadline,
    cap: Deadline,
    sink: Option<Arc<ActivitySink>>,
}

impl Timer {
    /// Returns the deadline that follows from the last partial result, and from open questions to the caller.
    fn extended(&self, now: Instant) -> Option<Instant> {
        let activity = self.sink.as_ref()?.activity.lock();
        let (last, waited) = activity.questions.read(now, activity.last)?;
        let next = last.checked_add(self.timeout)?;
        Some(self.cap.instant().map_or(next, |cap| next.min(cap + waited)))
    }

    /// Returns whether a call that reached its deadline has reported progress recently. If so, the call exceeded its
    /// maximum time in total, not its time without progress.
    fn is_total(&self, now: Instant) -> bool {
        let last = self.sink.as_ref().and_then(|sink| sink.activity.lock().last);
        last.and_then(|last| last.checked_add(self.timeout)).is_some_and(|next| next > now)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(sink) = &self.sink {
            sink.activity.lock().is_dropped = true;
            sink.dropped.notify_waiters();
        }
    }
}

pin_project! {
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        inner: F,
        timer: Timer,
        // The timer is created only if the call does not complete immediately, because a timer costs more than a short
        // call.
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Poll::Ready(outcome) = this.inner.poll(task) {
            // The call has ended with an answer, so it must not count as dropped.
            if let Some(sink) = this.timer.sink.take() {
                sink.activity.lock().is_answered = true;
            }
            return Poll::Ready(outcome);
        }
        let Some(deadline) = this.timer.deadline.instant() else { return Poll::Pending };
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(sleep.as_mut().poll(task));
            let now = Instant::now();
            match this.timer.extended(now) {
                Some(later) if later > now => sleep.as_mut().reset(later),
                // After a pause, timers fire before sockets are read. The answer may have arrived during the pause, so
                // give the call more time.
                _ if now.saturating_duration_since(sleep.deadline()) > PAUSE => {
                    sleep.as_mut().reset(now + PAUSE);
                }
                _ => {
                    let waited = now.duration_since(this.timer.began);
                    let waited = Duration::from_millis(mgp_types::millis(waited));
                    let ended = if this.timer.is_total(now) {
                        LifecycleError::TotalTimedOut(waited)
                    } else {
                        LifecycleError::TimedOut(waited)
                    };
                    let error = RpcError::from(ended);
                    let tool = this.timer.sink.as_ref().and_then(|sink| sink.tool.as_deref());
                    return Poll::Ready(Err(match tool {
                        Some(tool) => error.of_tool(tool),
                        None => error,
                    }));
                }
            }
        }
    }
}

// === Observing progress ===

/// An outlet that passes partial results to the caller. Records the times of partial results, and the times at which
/// the server asks the caller a question.
pub(crate) struct ActivitySink {
    inner: Outlet,
    activity: Mutex<Activity>,
    /// Notified when the call is cancelled or exceeds its time limit.
    dropped: Notify,
    /// The name of the called tool; `None` for other calls. The client requests progress of each tool call, even if the
    /// caller does not want progress.
    tool: Option<String>,
    hook: Option<ProgressHook>,
}

#[derive(Default)]
struct Activity {
    last: Option<Instant>,
    step: Option<Progress>,
    questions: Questions,
    /// `true` if the call was cancelled or has exceeded its time limit.
    is_dropped: bool,
    /// `true` if the server has answered the call.
    is_answered: bool,
}

/// The open questions of the server to the caller of one call, or to the client itself. Waiting for answers does not
/// count as the server's time.
#[derive(Default)]
struct Questions {
    open: usize,
    /// The time since which at least one question is open; if none is open, the time of the last answer.
    since: Option<Instant>,
    /// The total time that the answered questions were open.
    waited: Duration,
}

impl Questions {
    /// Returns the time of the last activity, and the waiting time that does not count towards the time-out.
    fn read(&self, now: Instant, last: Option<Instant>) -> Option<(Instant, Duration)> {
        let Some(since) = self.since else { return last.map(|last| (last, self.waited)) };
        if self.open == 0 {
            return Some((last.map_or(since, |last| last.max(since)), self.waited));
        }
        let waiting = self.pause(since, now);
        Some((since + waiting, self.waited + waiting))
    }

    /// Returns the time for which the questions that are open since `since` have paused the time-out.
    fn pause(&self, since: Instant, now: Instant) -> Duration {
        let left = MAX_TOTAL_QUESTION_TIME.saturating_sub(self.waited);
        now.saturating_duration_since(since).min(MAX_QUESTION_TIME).min(left)
    }
}

/// The maximum time for which open questions pause the time-out of their call without interruption.
const MAX_QUESTION_TIME: Duration = Duration::from_hours(1);

/// The maximum time for which all questions together pause the time-out of their call.
const MAX_TOTAL_QUESTION_TIME: Duration = Duration::from_hours(24);

/// A guard of an open question. Dropping the guard closes the question.
pub(crate) struct OpenQuestion(Arc<ActivitySink>);

impl OpenQuestion {
    /// Pauses the time-out of the call to which a question belongs; `None` if questions do not pause that time-out.
    pub(crate) fn of(cx: &Context) -> Option<Self> {
        let sink = cx.extensions.get_shared::<ActivitySink>()?;
        let mut activity = sink.activity.lock();
        if activity.questions.open == 0 {
            activity.questions.since = Some(Instant::now());
        }
        activity.questions.open += 1;
        drop(activity);
        Some(Self(sink))
    }

    /// Waits until the call to which a question belongs is cancelled or exceeds its time limit; waits forever if `open`
    /// is `None`.
    pub(crate) async fn call_dropped(open: Option<&Self>) {
        let Some(Self(sink)) = open else { return std::future::pending().await };
        // `notify_waiters` wakes this future even if it was not polled yet, so a call that is dropped after the check
        // below is not missed.
        let dropped = sink.dropped.notified();
        if !sink.activity.lock().is_dropped {
            dropped.await;
        }
    }

    /// Returns whether the server has answered the call with this context.
    pub(crate) fn is_call_answered(cx: &Context) -> bool {
        let sink = cx.extensions.get_shared::<ActivitySink>();
        sink.is_some_and(|sink| sink.activity.lock().is_answered)
    }

    /// Pauses the time-outs of all calls in flight to which a question of this peer may belong.
    pub(crate) fn of_all(peer: &Peer) -> Vec<Self> {
        peer.all_in_flight().iter().filter_map(|call| Self::of(&call.cx)).collect()
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock();
        let questions = &mut activity.questions;
        questions.open -= 1;
        if questions.open == 0 {
            let now = Instant::now();
            let asked = questions.since.replace(now).unwrap_or(now);
            questions.waited += questions.pause(asked, now);
        }
    }
}

impl ActivitySink {
    /// Notes the time of an item; returns `false` if the item is a repetition of the last progress step.
    ///
    /// A peer that negotiated MGP sends each step twice, once in the form of MCP and once in the form of MGP (§12.6).
    fn record(&self, item: &OutletItem) -> bool {
        let mut activity = self.activity.lock();
        activity.last = Some(Instant::now());
        let OutletItem::Progress(step) = item else { return true };
        let is_new = !activity.step.as_ref().is_some_and(|before| is_repeated(before, step));
        activity.step = Some(step.clone());
        is_new
    }
}

fn is_repeated(before: &Progress, step: &Progress) -> bool {
    let share = |step: &Progress| (step.progress / step.total.unwrap_or(1.0)).clamp(0.0, 1.0);
    step.total == Some(1.0)
        && step.estimated_remaining_ms.is_none()
        && (share(before) - share(step)).abs() < 1e-9
        && before.message == step.message
}

impl Sink for ActivitySink {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        let is_new = self.record(&item);
        if let (true, OutletItem::Progress(step)) = (is_new, &item)
            && let (Some(tool), Some(hook)) = (&self.tool, &self.hook)
        {
            hook(tool, step);
        }
        if is_new && self.inner.wants(item.kind()) {
            Box::pin(self.inner.send(item))
        } else {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        (self.tool.is_some() && kind == OutletItemKind::Progress) || self.inner.wants(kind)
    }
}

impl fmt::Debug for RequestTimeoutLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.time_limits.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mgp_types::Payload;
    use mgp_types::service::{Rounds, Stack, mock};
    use tokio::time::sleep;
    use tower_layer::Layer as _;

    use super::*;

    const ALLOWANCE: TimeLimits =
        TimeLimits { timeout: Duration::from_secs(10), max: Duration::from_secs(35) };

    fn client(stack: Stack) -> mock::Client {
        mock::client(Stack::new(RequestTimeoutLayer::new(ALLOWANCE, None, false).layer(stack)))
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_is_bounded() {
        let mut client = client(Stack::from_fn(|_| std::future::pending()));
        for method in ["tools/call", "tools/list", "mgp/health/ping"] {
            let error = client.request(method, r#"{"name":"t"}"#).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "no answer within 10 s; it may have run: call again only if that does no harm (3003)"
            );
            let details = error.as_recovery().and_then(|hints| hints.details.as_ref()).unwrap();
            assert!(details.get("timeout_ms").is_some(), "{method}");
            let tool = (method == "tools/call").then_some(r#""t""#);
            assert_eq!(details.get("tool").map(Payload::as_str), tool, "{method}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_question_to_the_caller_does_not_count() {
        let asks = |question: Duration, then: Duration| {
            Stack::from_fn(move |call: Call| async move {
                let open = OpenQuestion::of(call.cx());
                sleep(question).await;
                drop(open);
                sleep(then).await;
                Ok(Reply::empty())
            })
        };
        let call = r#"{"name":"t"}"#;
        let minutes = Duration::from_mins;
        // Questions pause the time-out of a call only if its caller can be asked, so give the client a channel.
        let client = |stack| {
            let mut client = client(stack);
            client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::default()));
            client
        };
        let mut patient = client(asks(minutes(20), Duration::from_secs(9)));
        for (method, params) in [
            ("tools/call", call),
            ("prompts/get", r#"{"name":"p"}"#),
            ("resources/read", r#"{"uri":"test://r"}"#),
        ] {
            let answer = patient.request(method, params).await;
            assert!(answer.is_ok(), "{method}: {answer:?}");
        }
        let mut slow = client(asks(minutes(20), Duration::from_secs(11)));
        let error = slow.request("tools/call", call).await.unwrap_err();
        assert!(error.message().starts_with("no answer within 1210 s"), "{error}");
        let mut endless = client(asks(minutes(100), Duration::ZERO));
        let error = endless.request("tools/call", call).await.unwrap_err();
        assert!(error.message().starts_with("no answer within 3610 s"), "{error}");
        let mut asks_again = client(Stack::from_fn(|call: Call| async move {
            for _ in 0..100 {
                let _open = OpenQuestion::of(call.cx());
                sleep(Duration::from_mins(59)).await;
            }
            Ok(Reply::empty())
        }));
        let error = asks_again.request("tools/call", call).await.unwrap_err();
        assert!(error.message().starts_with("no answer within 86410 s"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_ends_when_its_call_is_cancelled() {
        let opened: Arc<Mutex<Option<OpenQuestion>>> = Arc::default();
        let noted = Arc::clone(&opened);
        let mut client = client(Stack::from_fn(move |call: Call| {
            *noted.lock() = OpenQuestion::of(call.cx());
            std::future::pending()
        }));
        client.cx.caller_access = CallerAccess::Channel(Arc::new(Rounds::default()));
        let mut calling = Box::pin(client.request("tools/call", r#"{"name":"t"}"#));
        assert!(calling.as_mut().now_or_never().is_none());
        let open = opened.lock().take();
        assert!(open.is_some());
        let mut dropped = Box::pin(OpenQuestion::call_dropped(open.as_ref()));
        assert!(dropped.as_mut().now_or_never().is_none());
        drop(calling);
        assert!(dropped.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_notifications_has_no_end() {
        let mut client = client(Stack::from_fn(|_| async {
            sleep(Duration::from_secs(100_000)).await;
            Ok(Reply::empty())
        }));
        assert!(client.request("subscriptions/listen", "{}").await.is_ok());
    }
}
