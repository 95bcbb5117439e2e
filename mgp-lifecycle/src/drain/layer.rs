//! The layer: counts calls, refuses those that come too late, and cuts those that take too long.
//!
//! Applies to: inbound.

use std::fmt;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::method::LifecycleShutdown;
use mgp_types::service::{BoxFuture, Call, MgpService, Reply};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::handle::{Drain, Held};
use super::pace::lane_of;
use super::way::{Way, goes_on};
use crate::error::Refusal;

/// Lets a server end gracefully: it counts the calls in flight, and once its [`Drain`] began it answers new ones 2001.
///
/// What tells how things are (pings, health, tasks) and what helps running calls to their end (answers, cancellations)
/// passes at any time. What still runs when the time is over is answered 3003.
/// It answers `mgp/lifecycle/shutdown` too, as [`Drain::router`] does.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::{Drain, DrainLayer};
/// use mgp_types::mgp::ShutdownReason;
/// use mgp_types::service::{Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let slow = Stack::from_fn(|_| async {
///     tokio::time::sleep(Duration::from_secs(5)).await;
///     Ok(Reply::empty())
/// });
/// let drain = Drain::default();
/// let mut client = mock::client(Stack::new(DrainLayer::new(drain.clone()).layer(slow)));
///
/// let running = tokio::spawn(client.call("tools/call", r#"{"name":"a"}"#));
/// tokio::task::yield_now().await;
/// let remaining = drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(30));
/// assert_eq!(remaining.calls, 1);
///
/// let late = client.call("tools/call", r#"{"name":"a"}"#).await;
/// assert_eq!(late.unwrap_err().code().0, 2001);
/// drain.ended().await;
/// assert!(running.await.unwrap().is_ok());
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct DrainLayer(Drain);

impl DrainLayer {
    /// A layer whose calls belong to this drain.
    pub const fn new(drain: Drain) -> Self {
        Self(drain)
    }
}

impl<S> Layer<S> for DrainLayer {
    type Service = Draining<S>;

    fn layer(&self, inner: S) -> Draining<S> {
        Draining { inner, drain: self.0.clone() }
    }
}

/// Service of [`DrainLayer`].
#[derive(Clone)]
pub struct Draining<S> {
    inner: S,
    drain: Drain,
}

impl<S> fmt::Debug for Draining<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.drain.fmt(f)
    }
}

impl<S> Draining<S> {
    /// Lets a call in, counted where it has to be waited for.
    fn admit(&self, call: &Call) -> Result<Option<Counted>, Refusal> {
        // The rule, looked at once.
        if let Some(tool) = call.tool()
            && let Some(held) = self.drain.enter()
        {
            return Ok(Some(Counted { held, lane: lane_of(tool.name) }));
        }
        self.admit_other(call)
    }

    #[cold]
    fn admit_other(&self, call: &Call) -> Result<Option<Counted>, Refusal> {
        let held = match Way::of(call) {
            Way::Lasting if self.drain.is_draining() => None,
            Way::Passing | Way::Lasting => return Ok(None),
            Way::Counted => self.drain.enter().or_else(|| {
                let again = goes_on(call).then(|| self.drain.enter_again());
                again.flatten()
            }),
        };
        let held = held.ok_or_else(|| Refusal::Draining(self.drain.reason()))?;
        let name = call.tool().map_or_else(|| call.method().as_str(), |tool| tool.name);
        Ok(Some(Counted { held, lane: lane_of(name) }))
    }
}

impl<S: MgpService> Service<Call> for Draining<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        // In wire order, as all that changes the state of a server.
        if call.is::<LifecycleShutdown>() {
            let inner = Inner::Answered { answer: self.drain.answer(call) };
            return ResponseFuture { inner, slow: None, counted: None };
        }
        match self.admit(&call) {
            Ok(counted) => {
                let inner = self.inner.call(call);
                ResponseFuture { inner: Inner::Running { inner }, slow: None, counted }
            }
            Err(refusal) => {
                let inner = Inner::Refused { refusal: Some(refusal) };
                ResponseFuture { inner, slow: None, counted: None }
            }
        }
    }
}

/// A call that is waited for.
#[derive(Debug)]
struct Counted {
    held: Held,
    lane: u8,
}

impl Counted {
    /// Completes when the time is over; measures how long the call takes by being dropped with it.
    fn cut(&self) -> BoxFuture<'static, ()> {
        let drain = self.held.drain().clone();
        let slow = drain.slow(self.lane);
        Box::pin(async move {
            let _slow = slow;
            drain.cut().await;
        })
    }
}

pin_project! {
    #[project = InnerProj]
    enum Inner<F> {
        Running { #[pin] inner: F },
        Answered { answer: BoxFuture<'static, Result<Reply, RpcError>> },
        Refused { refusal: Option<Refusal> },
    }
}

pin_project! {
    /// Response future of [`Draining`]: the call counts as long as it lives.
    pub struct ResponseFuture<F> {
        #[pin]
        inner: Inner<F>,
        // Made when the call does not complete at once, which most do.
        slow: Option<BoxFuture<'static, ()>>,
        // The last to go: what the call held is given back before it counts as ended.
        counted: Option<Counted>,
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("counted", &self.counted).finish_non_exhaustive()
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let inner = match this.inner.project() {
            InnerProj::Running { inner } => inner,
            InnerProj::Answered { answer } => return answer.as_mut().poll(task),
            InnerProj::Refused { refusal } => {
                return match refusal.take() {
                    Some(refusal) => Poll::Ready(Err(refusal.into())),
                    None => Poll::Pending,
                };
            }
        };
        if let Poll::Ready(outcome) = inner.poll(task) {
            return Poll::Ready(outcome);
        }
        let Some(counted) = this.counted else { return Poll::Pending };
        let slow = this.slow.get_or_insert_with(|| counted.cut());
        slow.as_mut().poll(task).map(|()| Err(Refusal::DrainTimedOut.into()))
    }
}
