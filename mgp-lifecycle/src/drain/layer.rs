//! The layer that counts calls, refuses calls that arrive during a drain, and cuts off calls that outlast the drain.
//!
//! Applies to: inbound.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::method::LifecycleShutdown;
use mgp_types::service::{BoxFuture, Call, MgpService, Reply};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::admission::{Admission, continues_round};
use super::durations::bucket_of;
use super::handle::{Drain, DrainHold};
use crate::error::LifecycleError;

/// Layer that shuts a server down gracefully: it counts the running calls, and refuses new calls with code 2001 (server
/// draining) once the [`Drain`] has begun.
///
/// Status requests (pings, health, tasks) and messages that help running calls to complete (answers, cancellations) are
/// always passed on. Calls that are still running at the deadline are answered with code 3003 (timeout). The layer also
/// answers `mgp/lifecycle/shutdown`, like [`Drain::router`].
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
/// drain.wait_ended().await;
/// assert!(running.await.unwrap().is_ok());
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct DrainLayer(Drain);

impl DrainLayer {
    /// Creates a layer for a drain.
    pub const fn new(drain: Drain) -> Self {
        Self(drain)
    }
}

mgp_types::layer_service! {
    /// The service that [`DrainLayer`] creates.
    pub DrainService for DrainLayer
}

impl<S> DrainService<S> {
    /// Admits or refuses a call. Returns a guard that counts the admitted call, or `None` if the drain does not wait
    /// for it.
    fn admit(&self, call: &Call) -> Result<Option<Counted>, LifecycleError> {
        // Check tool calls first, because they are the common case.
        if let Some(tool) = call.tool()
            && let Some(hold) = self.layer.0.enter()
        {
            return Ok(Some(Counted { hold, bucket: bucket_of(tool.name) }));
        }
        self.admit_other(call)
    }

    #[cold]
    fn admit_other(&self, call: &Call) -> Result<Option<Counted>, LifecycleError> {
        let drain = &self.layer.0;
        let hold = match Admission::of(call) {
            Admission::LongLived if drain.is_draining() => None,
            Admission::Always | Admission::LongLived => return Ok(None),
            Admission::Counted => drain
                .enter()
                .or_else(|| continues_round(call).then(|| drain.enter_related()).flatten()),
        };
        let hold = hold.ok_or_else(|| LifecycleError::Draining(drain.reason()))?;
        let name = call.tool().map_or_else(|| call.method().as_str(), |tool| tool.name);
        Ok(Some(Counted { hold, bucket: bucket_of(name) }))
    }
}

impl<S: MgpService> Service<Call> for DrainService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        // Handle the shutdown when it arrives and not when its future is polled, so that it affects all calls that
        // follow.
        if call.is::<LifecycleShutdown>() {
            let inner = ResponseState::Answered { answer: self.layer.0.answer(call) };
            return ResponseFuture { inner, cut: None, counted: None };
        }
        match self.admit(&call) {
            Ok(counted) => {
                let inner = self.inner.call(call);
                ResponseFuture { inner: ResponseState::Running { inner }, cut: None, counted }
            }
            Err(refusal) => {
                let inner = ResponseState::Refused { refusal: Some(refusal) };
                ResponseFuture { inner, cut: None, counted: None }
            }
        }
    }
}

/// A call that the drain waits for.
#[derive(Debug)]
struct Counted {
    hold: DrainHold,
    bucket: u8,
}

impl Counted {
    /// Returns a future that completes when the call is cut off. The duration of the call is measured until this future
    /// is dropped.
    fn cut(&self) -> BoxFuture<'static, ()> {
        let drain = self.hold.drain().clone();
        let timer = drain.measure(self.bucket);
        Box::pin(async move {
            let _timer = timer;
            drain.cut().await;
        })
    }
}

pin_project! {
    #[project = ResponseStateProj]
    enum ResponseState<F> {
        Running { #[pin] inner: F },
        Answered { answer: BoxFuture<'static, Result<Reply, RpcError>> },
        Refused { refusal: Option<LifecycleError> },
    }
}

pin_project! {
    /// Response future of [`DrainService`]; the call is counted until this future is dropped.
    pub struct ResponseFuture<F> {
        #[pin]
        inner: ResponseState<F>,
        // Created only if the call is still pending after its first poll, because most calls complete at that poll.
        cut: Option<BoxFuture<'static, ()>>,
        // This must be the last field, so that the guards in `inner` are dropped before the call counts as ended.
        counted: Option<Counted>,
    }
}

mgp_types::opaque_debug!(ResponseFuture<F> { counted });

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let inner = match this.inner.project() {
            ResponseStateProj::Running { inner } => inner,
            ResponseStateProj::Answered { answer } => return answer.as_mut().poll(task),
            ResponseStateProj::Refused { refusal } => {
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
        let cut = this.cut.get_or_insert_with(|| counted.cut());
        cut.as_mut().poll(task).map(|()| Err(LifecycleError::DrainTimedOut.into()))
    }
}
