//! A bound on how long a tool call runs (MGP §14.3: 3003).
//!
//! Applies to: both.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::service::{Call, Deadline, MgpService, Reply};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower_layer::Layer;
use tower_service::Service;

use crate::error::Refusal;
use crate::tasks::TaskTicket;

/// Ends tool calls that take too long with 3003; other methods pass.
///
/// Calls that may become tasks pass as well: they are bounded by the task's time to live.
/// The earlier of its own bound and the caller's deadline holds, and calls further in see that deadline.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::TimeoutLayer;
/// use mgp_types::service::{Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let hangs = Stack::from_fn(|_| std::future::pending());
/// let mut client = mock::client(Stack::new(TimeoutLayer::new(Duration::from_secs(30)).layer(hangs)));
/// let error = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
/// assert_eq!(error.to_string(), "no answer within 30s (3003)");
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct TimeoutLayer {
    after: Duration,
    own: Option<Own>,
}

/// Finds the bound of its own that a call has.
type Own = Arc<dyn Fn(&Call) -> Option<Duration> + Send + Sync>;

impl TimeoutLayer {
    /// A layer with one bound for all tools.
    pub const fn new(after: Duration) -> Self {
        Self { after, own: None }
    }

    /// Asks for a call's own bound first; where it has none, the one bound for all holds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mgp_lifecycle::TimeoutLayer;
    /// use mgp_types::service::{Stack, mock};
    /// use tower_layer::Layer;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let slow = |name: &str| (name == "slow").then_some(Duration::from_secs(300));
    /// let layer = TimeoutLayer::default().per_call(move |call| call.tool().and_then(|tool| slow(tool.name)));
    /// let mut client = mock::client(Stack::new(layer.layer(Stack::from_fn(|_| std::future::pending()))));
    /// let error = client.request("tools/call", r#"{"name":"slow"}"#).await.unwrap_err();
    /// assert_eq!(error.to_string(), "no answer within 300s (3003)");
    /// # });
    /// ```
    pub fn per_call(
        mut self,
        own: impl Fn(&Call) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.own = Some(Arc::new(own));
        self
    }
}

impl fmt::Debug for TimeoutLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutLayer").field("after", &self.after).finish_non_exhaustive()
    }
}

impl Default for TimeoutLayer {
    fn default() -> Self {
        Self::new(Duration::from_secs(30))
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout { inner, after: self.after, own: self.own.clone() }
    }
}

/// Service of [`TimeoutLayer`].
#[derive(Clone)]
pub struct Timeout<S> {
    inner: S,
    after: Duration,
    own: Option<Own>,
}

impl<S> fmt::Debug for Timeout<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeout({:?})", self.after)
    }
}

impl<S: MgpService> Service<Call> for Timeout<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        // A call that may become a task is bounded by the task's time to live instead.
        if call.tool().is_none() || TaskTicket::of(call.cx()).is_some() {
            return ResponseFuture {
                future: self.inner.call(call),
                deadline: None,
                after: self.after,
                sleep: None,
            };
        }
        let after = self.own.as_ref().and_then(|own| own(&call)).unwrap_or(self.after);
        let deadline = Deadline::after(after).earlier(call.cx().deadline);
        call.cx_mut().deadline = deadline;
        ResponseFuture {
            future: self.inner.call(call),
            deadline: deadline.instant(),
            after,
            sleep: None,
        }
    }
}

pin_project! {
    /// Response future of [`Timeout`].
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        future: F,
        deadline: Option<Instant>,
        after: Duration,
        // Made when the call does not complete at once: a timer costs more than a short call.
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Poll::Ready(outcome) = this.future.poll(task) {
            return Poll::Ready(outcome);
        }
        let Some(deadline) = *this.deadline else { return Poll::Pending };
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        sleep.as_mut().poll(task).map(|()| Err(Refusal::TimedOut(*this.after).into()))
    }
}
